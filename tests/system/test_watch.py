"""`grader watch` as a student meets it, in a pseudo-terminal and without one.

It takes seconds to get warm, so one watch serves many tests; what ends it has one of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader import hints
from grader.check import Check
from grader.children import FORKS, Warm
from grader.course import ROOT, Course
from grader.model import Outcome
from grader.saves import Saves
from release import stubs

posix = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")

PATIENCE_S = 90.0
KEYS = "q  quit"  # the end of all that is shown
RAISES = 'raise NotImplementedError("attention.stable_softmax")'
RIGHT = """shifted = (scores - scores.amax(dim, keepdim=True)).exp()
    return shifted / shifted.sum(dim, keepdim=True)"""


class Terminal:
    """A watch in a pseudo-terminal of 100 columns."""

    def __init__(self, folder: Path, *options: str, lang: str = "en"):
        import pty
        import termios

        self.folder = folder
        ours, theirs = pty.openpty()
        self._end, self._kept = ours, theirs
        termios.tcsetwinsize(theirs, (50, 100)) if hasattr(termios, "tcsetwinsize") else None
        self.settings = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grader", "watch", "--path", folder, "--lang", lang, *options],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "NO_COLOR": "1"},
            preexec_fn=_own_terminal,
        )

    def now(self) -> object:
        """The terminal's settings."""
        import termios

        return termios.tcgetattr(self._kept)

    def until(self, words: str = KEYS) -> str:
        """All that is shown up to these words."""
        shown = b""
        deadline = time.monotonic() + PATIENCE_S
        while words not in _plain(shown):
            ready, _, _ = select.select([self._end], [], [], 1.0)
            with contextlib.suppress(OSError):  # Linux's way to say that nobody is there any more
                shown += os.read(self._end, 65536) if ready else b""
            assert time.monotonic() < deadline, f"no {words!r} in: {_plain(shown)}"
        return _plain(shown)

    def press(self, key: str) -> None:
        os.write(self._end, key.encode())

    def save(self, unit: str, text: str) -> str:
        """What is shown after a module was written."""
        (self.folder / f"{unit}.py").write_text(text, encoding="utf-8")
        return self.until()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)
        os.close(self._kept)


def _own_terminal() -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _plain(shown: bytes) -> str:
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
    return text.replace("\r\n", "\n")


def family(root: int) -> set[int]:
    """A process and all below it that still run."""
    command = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "stat="]  # so that BSD's takes it
    rows = [line.split() for line in subprocess.check_output(command, text=True).splitlines()]
    parents = {int(pid): int(parent) for pid, parent, stat in rows if stat[0] != "Z"}
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found & parents.keys()


def gone(pids: set[int]) -> bool:
    deadline = time.monotonic() + 15.0
    while time.monotonic() < deadline:
        if not any(pid in family(pid) for pid in pids):
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def given(course: Course) -> dict[str, str]:
    """The stubs, by unit."""
    return {name.removesuffix(".py"): text for name, text in stubs.stubs(course).items()}


@pytest.fixture
def folder(tmp_path: Path, given: dict[str, str]) -> Path:
    return fill(tmp_path / "我的 作业", given)


def fill(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir()
    for unit, text in texts.items():
        (folder / f"{unit}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def watched(tmp_path_factory, given: dict[str, str]) -> Iterator[Terminal]:
    folder = fill(tmp_path_factory.mktemp("student") / "我的 作业", given)
    watched = Terminal(folder, "attention", "masks", "--limit=2")
    assert "attention.stable_softmax" in watched.until()
    yield watched
    watched.close()


# What is shown after a save.

SAVES = {
    "a right answer": (RIGHT, ["✓ 1 Each weight is exp(score)"]),
    "a wrong one": (
        "return scores.exp() / scores.exp().sum()",
        ["1 / 8", "✗ 2", "Mend `stable_softmax` in", "and save."]),
    "a syntax error": (
        "return (scores",
        ["Python cannot read this file: '(' was never closed", "return (scores"]),
    "an endless loop": (
        "while True:\n        scores = scores + 1",
        ["It was still running after 2 seconds", "in stable_softmax",
         "Not tried: the check before it never ended."]),
    "a crash": ("import os; os._exit(0)", ["The process ended in the middle of this check"]),
    "an input": ("return scores * float(input())", ["Nobody is there to answer `input()`"]),
}  # fmt: skip


@posix
@pytest.mark.parametrize("name", SAVES)
def test_a_save_is_answered(watched: Terminal, given: dict[str, str], name: str) -> None:
    code, words = SAVES[name]
    shown = watched.save("attention", given["attention"].replace(RAISES, code))
    assert "attention.stable_softmax" in shown
    for word in words:
        assert word in shown
    assert "Traceback" not in shown


@posix
def test_an_emptied_file_and_one_that_is_gone(watched: Terminal, given: dict[str, str]) -> None:
    shown = " ".join(watched.save("attention", "").split())
    assert "There is no `stable_softmax` in attention.py." in shown
    assert "`make reset ONLY=attention.stable_softmax`" in shown
    (watched.folder / "attention.py").unlink()
    assert "There is no file attention.py." in watched.until()
    assert "still stands in it" in watched.save("attention", given["attention"])


@posix
def test_the_exercise_whose_text_has_changed_is_shown(watched, given: dict[str, str]) -> None:
    name = "masks.create_padding_mask"
    raises = f'raise NotImplementedError("{name}")'
    assert name in watched.save("masks", given["masks"].replace(raises, "return token_ids"))
    shown = watched.save("masks", given["masks"].replace(raises, "return token_ids == 0"))
    assert "masks.create_padding_mask" in shown
    shown = watched.save("attention", given["attention"].replace(RAISES, "return scores"))
    assert "attention.stable_softmax" in shown
    # a helper beside it: still this exercise
    shown = watched.save(
        "attention", given["attention"].replace(RAISES, "return scores") + "\nX = 1\n"
    )
    assert "attention.stable_softmax" in shown


@posix
def test_a_save_in_the_middle_of_a_run_starts_over(watched, given: dict[str, str]) -> None:
    loop = given["attention"].replace(RAISES, "while True: pass")
    (watched.folder / "attention.py").write_text(loop, encoding="utf-8")
    time.sleep(1.0)
    shown = watched.save("attention", given["attention"].replace(RAISES, RIGHT))
    assert "still running after" not in shown
    assert "✓ 1" in shown


@posix
def test_keys(watched: Terminal, given: dict[str, str]) -> None:
    shown = watched.save(
        "attention", given["attention"].replace(RAISES, f"print('here')\n    {RIGHT}")
    )
    assert "attention.stable_softmax" in shown
    watched.press("n")
    assert "attention.scaled_dot_product_attention" in watched.until()
    for number in (1, 2):
        watched.press("h")
        assert f"{number} of 3: " in watched.until()
    watched.press("a")
    shown = watched.until()
    assert "of 7 exercises passed" in shown
    assert "masks.combine_masks" in shown


@posix
def test_what_has_passed_is_compared(watched: Terminal, course: Course) -> None:
    text = (ROOT / "solutions" / "masks.py").read_text(encoding="utf-8")
    shown = watched.save("masks", text)
    assert "has passed." in shown
    assert "c  compare" in shown
    assert "h  hint" not in shown
    watched.press("c")
    id = next(id for id in course.select(["masks"]) if f"`{id.split('.')[1]}` has passed." in shown)
    told = "".join(watched.until().split())
    assert "".join(hints.load(course, "masks")[id].compare.split()) in told


# How it ends.


def quit_by_key(watched: Terminal) -> None:
    watched.press("q")


def interrupt(watched: Terminal) -> None:
    watched.press("\x03")


def interrupt_twice(watched: Terminal) -> None:
    watched.press("\x03")
    time.sleep(0.05)
    watched.press("\x03")


def terminate(watched: Terminal) -> None:
    watched.process.send_signal(signal.SIGTERM)


End = Callable[[Terminal], None]


@posix
@pytest.mark.parametrize("end", [quit_by_key, interrupt_twice, terminate])
def test_it_leaves_the_terminal_as_it_was_and_no_process(folder: Path, given, end: End) -> None:
    watched = Terminal(folder, "attention")
    try:
        watched.until()
        assert watched.now() != watched.settings  # so that the test can fail
        loop = given["attention"].replace(RAISES, "while True: pass")
        (folder / "attention.py").write_text(loop, encoding="utf-8")
        time.sleep(1.0)
        processes = family(watched.process.pid)
        assert len(processes) >= (3 if FORKS else 2)
        end(watched)
        code = watched.process.wait(20)
        assert code == (143 if end is terminate else 0)
        assert watched.now() == watched.settings
        assert gone(processes)
    finally:
        watched.close()


@posix
def test_an_interrupt_before_it_is_warm(folder: Path) -> None:
    watched = Terminal(folder)
    try:
        watched.until("Getting ready")
        processes = family(watched.process.pid)
        interrupt(watched)
        assert watched.process.wait(20) == 0
        assert watched.now() == watched.settings
        assert gone(processes)
    finally:
        watched.close()


@posix
def test_who_is_killed_leaves_no_process_either(folder: Path, given) -> None:
    loop = given["attention"].replace(RAISES, "while True: pass")
    (folder / "attention.py").write_text(loop, encoding="utf-8")
    watched = Terminal(folder, "attention", "--limit=60")
    try:
        watched.until("is still running")
        processes = family(watched.process.pid)
        watched.process.kill()
        assert gone(processes)
    finally:
        watched.close()


@posix
def test_without_a_terminal_it_prints_plain_lines(folder: Path, given) -> None:
    command = [sys.executable, "-m", "grader", "watch", "attention", "--path", str(folder)]
    settings = {"LANGUAGE": "en", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | settings, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Write `stable_softmax`"):
                (folder / "attention.py").write_text(given["attention"].replace(RAISES, "return 3"))
            if line.startswith("Mend `stable_softmax`"):
                process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    shown = "".join(lines)
    assert "\x1b" not in shown
    assert "quit" not in shown
    assert "it returned" in shown


def test_a_folder_that_is_not_there() -> None:
    command = [sys.executable, "-m", "grader", "watch", "--path", "no such folder"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("There is no folder 'no such folder'.")


# What it is made of.


def test_without_forks_a_spare_takes_the_next_run(course: Course) -> None:
    """As on macOS and Windows."""
    warm = Warm(forks=False)
    try:
        for _ in range(2):
            ids = ["masks.combine_masks"]
            results = Check(course, ROOT / "solutions", ids, start=warm.start).results()
            assert {result.outcome for result in results} == {Outcome.PASSED}
            assert len(results) > 5
    finally:
        warm.close()


@pytest.mark.parametrize("how", ["events", "no events", "no watchfiles"])
def test_saves_are_noticed(tmp_path: Path, monkeypatch, how: str) -> None:
    if how == "no watchfiles":
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    told: list[float] = []
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    saves = Saves(paths, lambda: told.append(time.monotonic()), events=how != "no events")

    def noticed(do: Callable[[], object]) -> bool:
        before = len(told)
        do()
        deadline = time.monotonic() + 10
        while len(told) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        return len(told) == before + 1

    try:
        time.sleep(0.3)
        assert noticed(lambda: paths[0].write_text("x"))
        assert noticed(lambda: paths[0].write_text("y, longer"))
        assert noticed(
            lambda: (tmp_path / "new").write_text("z") and (tmp_path / "new").replace(paths[1])
        )
        assert noticed(paths[1].unlink)
        (tmp_path / "c.py").write_text("of no interest")
        time.sleep(1.2)
        assert len(told) == 4
    finally:
        saves.close()


def test_a_change_that_no_event_tells_is_found(tmp_path: Path, monkeypatch) -> None:
    """Such as in a folder that a virtual machine shares."""
    watchfiles = pytest.importorskip("watchfiles")

    def deaf(*paths: Path, stop_event, **_: object) -> Iterator[set[object]]:
        while not stop_event.wait(0.05):
            yield set()

    monkeypatch.setattr(watchfiles, "watch", deaf)
    told: list[float] = []
    path = tmp_path / "a.py"
    saves = Saves([path], lambda: told.append(time.monotonic()))
    try:
        time.sleep(0.3)
        for number in range(3):
            path.write_text("x" * (number + 1))
            written = time.monotonic()
            while len(told) == number:
                assert time.monotonic() < written + 10
                time.sleep(0.005)
        assert told[2] - written < 0.5  # it has learned to look often
    finally:
        saves.close()
