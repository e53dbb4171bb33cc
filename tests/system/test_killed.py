"""A run that is killed at any moment loses nothing: 50 of them, and each time another one goes on.

Importing torch takes seconds, in which nothing can be lost. So most runs are forks of this process,
which has imported it, and share one warm parent, as the jobs of a run do; some are the real thing.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.course import ROOT, Course
from grader.judge import bank

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux"),
    pytest.mark.slow,
]

if sys.platform == "linux":
    import grader.grade  # noqa: F401  # before any fork, not in each
    from grader import classroom
    from grader.report.language import Language
    from grader.subject.sandbox import Sandbox

ONLY = "masks.create_look_ahead_mask"
FORKED, REAL = 45, 5

Start = Callable[[], int]  # a run, in a process group of its own; its pid


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: Any, course: Course) -> Path:
    """Five that differ; two of them have a known mistake, so a diagnosis is made and kept too."""
    folder: Path = tmp_path_factory.mktemp("class")
    text = bank.solution(course).modules["masks"].text
    mistakes = [m for m in bank.mistakes(course) if m.exercise == ONLY][:2]
    for number in range(5):
        made = mistakes[number].apply(text) if number < len(mistakes) else text
        (folder / f"s{number}").mkdir()
        (folder / f"s{number}" / "masks.py").write_text(f"{made}# {number}\n", encoding="utf-8")
    return folder


class Shared:
    """A warm parent that is there already, as `classroom` finds it in a fork."""

    def __init__(self, sandbox: Sandbox):
        self._sandbox = sandbox

    def __call__(self, **options: Any) -> Shared:
        return self

    def begin(self) -> None:
        self._sandbox.share()

    def wait(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)


@pytest.fixture
def forked(submissions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    with Sandbox(secret=[submissions, tmp_path]) as sandbox:
        monkeypatch.setenv("GRADER_SECRET", "of the tests")
        monkeypatch.setattr(classroom, "Sandbox", Shared(sandbox))
        monkeypatch.setattr(classroom, "_protections", lambda *options: ["as tried"])

        def start() -> int:
            pid = os.fork()
            if pid:
                return pid
            try:
                os.setsid()
                nowhere = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(nowhere, descriptor)
                code = classroom.run(submissions, tmp_path / "out", [ONLY], 2, 20.0, "cpu", False,
                                     Language("en"))  # fmt: skip
                os._exit(code)
            finally:
                os._exit(99)

        yield start
        with sandbox.fork() as fork:
            assert fork.exit_status(0) is None, "it lives, and bears"


@pytest.fixture
def real(submissions: Path, tmp_path: Path) -> Start:
    command = [sys.executable, "-m", "grader", "grade", str(submissions), "--only", ONLY]
    command += ["--out", str(tmp_path / "out"), "--jobs", "2", "--lang", "en"]

    def start() -> int:
        running = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"GRADER_SECRET": "of the tests"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        running.returncode = 0  # it is waited for below, by its pid
        return running.pid

    return start


def ended(pid: int, seconds: float) -> int | None:
    """The exit code of a run, if it comes to its end by then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def whole(out: Path) -> dict[str, bytes]:
    files = [out / "grades.csv", *out.glob("*/result.json"), *out.glob("*/report.html")]
    return {str(path.relative_to(out)): path.read_bytes() for path in files if path.exists()}


def finished(out: Path) -> list[str]:
    """The keys of the results in the journal; the last line may be torn."""
    path, keys = out / "journal.jsonl", []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            keys.append(json.loads(line)["key"])
        except ValueError:
            continue
    return keys


@pytest.mark.parametrize(("how", "kills"), [("forked", FORKED), ("real", REAL)])
def test_killed_at_any_moment_it_goes_on(
    how: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    start: Start = request.getfixturevalue(how)
    out, chance = tmp_path / "out", random.Random(how)
    began = time.monotonic()
    assert ended(start(), 120) == 0
    takes = time.monotonic() - began
    expected, keys = whole(out), sorted(finished(out))
    assert len(expected) == 11
    assert len(keys) == 5
    shutil.rmtree(out)
    ends: Counter[str] = Counter()
    while ends["killed"] < kills or ends["now"]:
        ends["now"] = 0
        last = ends["killed"] == kills
        running, before = start(), finished(out)
        code = ended(running, 120 if last else chance.uniform(0, takes))
        if code is None:
            os.killpg(running, signal.SIGKILL) if getpgid(running) else os.kill(running, 9)
            os.waitpid(running, 0)
            ends.update(["killed", "now"])
        done = finished(out)
        assert done[: len(before)] == before, "the journal only grows"
        assert max(Counter(done).values(), default=0) <= 1, "what was done is not done again"
        for name, blob in whole(out).items():
            assert blob == expected[name], "a file is there whole or not at all"
        if code is not None:
            assert code == 0
            assert whole(out) == expected
            assert sorted(done) == keys
            ends["finished"] += 1
            ends["in the middle"] += bool(before)
            shutil.rmtree(out)
    print(dict(ends), f"each takes {takes:.1f} s")
    assert ends["finished"] > 0


def getpgid(pid: int) -> bool:
    """Whether it leads a group of its own yet."""
    return os.getpgid(pid) == pid
