"""How long it takes from a save until the verdict stands in the terminal, to its last character.

A real `grader watch` in a pseudo-terminal, on a copy of the reference. Saves break an exercise of
the core units and mend it, in turn: the report of a failure counts as much as that of a pass.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from grader import course as courses
from grader.course import ROOT
from grader.judge import bank

SAVES = 20
_BUDGET_MS = 150.0
_LAST = b"q \x1b[0m quit"  # of the line of keys, which ends everything that is shown
_QUIET_S = 0.2  # after which nothing more will come
_CORE = ("attention", "masks", "multihead", "positional", "encoder")


def run() -> bool:
    """Print the median; True if it is within the budget."""
    if os.name == "nt":
        print("grader watch is measured where there are pseudo-terminals: not on Windows")
        return True
    course = courses.load()
    broken = {m.exercise: m for m in reversed(bank.mistakes(course)) if m.unit in _CORE}
    with tempfile.TemporaryDirectory(prefix="watch bench ") as name:
        folder = Path(name, "exercises")
        folder.mkdir()
        for unit in course.units:
            shutil.copy(ROOT / "solutions" / f"{unit.name}.py", folder)
        with Watched(folder) as watched:
            watched.first()
            times = []
            for number in range(SAVES):
                mistake = list(broken.values())[number // 2 % len(broken)]
                path = folder / f"{mistake.unit}.py"
                text = (ROOT / "solutions" / path.name).read_text(encoding="utf-8")
                wrong = number % 2 == 0
                times.append(watched.save(path, mistake.apply(text) if wrong else text))
    median = 1000 * statistics.median(times)
    print(
        f"from a save to its verdict {median:6.0f} ms  (median of {SAVES}; budget: {_BUDGET_MS:g})"
    )
    print(f"  the slowest              {1000 * max(times):6.0f} ms")
    return median <= _BUDGET_MS


class Watched:
    """A `grader watch` in a pseudo-terminal."""

    def __init__(self, folder: Path, *options: str):
        import pty

        self._pid, self._end = pty.fork()
        if self._pid == 0:
            os.chdir(ROOT)
            command = [sys.executable, "-m", "grader", "watch", "--path", str(folder), *options]
            settings = {"LANGUAGE": "en", "TERM": "xterm-256color", "COLUMNS": "88"}
            os.execve(sys.executable, command, os.environ | settings)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *reason: object) -> None:
        os.kill(self._pid, signal.SIGTERM)
        os.waitpid(self._pid, 0)
        os.close(self._end)

    def first(self) -> None:
        """Wait until it is warm."""
        self._until_shown(300.0)

    def save(self, path: Path, text: str) -> float:
        """Write a file; seconds until its verdict was there."""
        started = time.perf_counter()
        path.write_text(text, encoding="utf-8")
        return self._until_shown(30.0) - started

    def _until_shown(self, patience: float) -> float:
        """When the last character came."""
        shown, last = b"", time.perf_counter()
        deadline = last + patience
        while True:
            over = shown.rstrip().endswith(_LAST)
            ready, _, _ = select.select([self._end], [], [], _QUIET_S if over else patience)
            if ready:
                shown += os.read(self._end, 65536)
                last = time.perf_counter()
            elif over:
                return last
            if time.perf_counter() > deadline:
                raise TimeoutError(f"no verdict; it shows: {shown.decode(errors='replace')}")
