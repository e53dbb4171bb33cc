"""`grader check`: one folder against the public suite.

This process never imports torch. It starts the one that does, reads its events, and ends it when it
hangs; what was not yet checked goes to a fresh one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.course import ROOT, Course
from grader.model import CheckResult, Message, Outcome
from grader.subject import endings

LIMIT_S = 10.0  # for one check
_START_LIMIT_S = 300.0  # for importing torch, the first time, on a slow disk
_PATIENCE_S = 3.0  # before a word is said
_GRACE_S = 3.0  # the child ends itself first, and says where it was
_ENDS_MOST = 2  # hangs or crashes of one exercise, before the rest of it is left


class SessionError(Exception):
    """The child process failed, and it was not the student's doing."""


class Child:
    """A process that checks: it takes requests, and answers each in events.

    It imports torch before it takes the first, so one that was made early answers at once.
    """

    def __init__(self) -> None:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            # Read when torch is imported: small tensors gain nothing from threads that wait.
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grader.judge.session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,  # or a torch.py that lies where the student is would be taken for torch
            env=environment,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for whoever asked, who ends it
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as out:
            for line in out:
                self._lines.put(line)
        self._lines.put("")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):  # it has gone: the empty line says so
            print(json.dumps(request), file=self._process.stdin, flush=True)

    def line(self, limit_s: float) -> str:
        """The next event, empty when the process has ended. Raises `queue.Empty`."""
        return self._lines.get(timeout=limit_s)

    def last_words(self) -> str:
        self._process.wait()
        return self._process.stderr.read() if self._process.stderr else ""

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stderr):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()


class Check:
    """One run over some exercises.

    Args:
        course: the table.
        path: the student's folder.
        exercises: ids, what they stand on included.
        limit_s: seconds that one check may take.
        modules: unit -> its text, where it is not the folder's: what stands in a notebook's kernel.
        child: a process to begin with; it lives on if all goes well. By default one is made.
    """

    def __init__(
        self,
        course: Course,
        path: Path,
        exercises: Sequence[str],
        limit_s: float = LIMIT_S,
        modules: Mapping[str, str] | None = None,
        child: Child | None = None,
    ):
        self._course = course
        self._path = path
        self._exercises = list(exercises)
        self._limit_s = limit_s
        self._plan: dict[str, list[Any]] = {}
        self._results: dict[str, CheckResult] = {}
        self._hung: dict[str, list[str]] = {}
        self._modules = dict(modules or {})
        self._lent = child
        self._child = child or Child()
        self._ask()

    def results(self, waiting: Callable[[str], None] = lambda exercise: None) -> list[CheckResult]:
        """Run to the end.

        Args:
            waiting: told the exercise of a check that takes long.

        Raises:
            SessionError: the child could not do its work.
        """
        done = False
        try:
            while not self._round(waiting):
                self._child.kill()
                self._child = Child()
                self._ask()
            done = self._child is self._lent
        finally:
            if not done:
                self._child.kill()
        return [self._results[id] for id in self._plan]

    def _ask(self) -> None:
        self._child.ask(
            {
                "path": str(self._path.resolve()),
                "modules": self._modules,
                "exercises": self._exercises,
                "skip": list(self._results),
                "hung": self._hung,
                "limit_s": self._limit_s,
            }
        )

    def _round(self, waiting: Callable[[str], None]) -> bool:
        """Follow one child; True when nothing is left to do."""
        current = importing = ""
        for event in self._events():
            kind = event["event"]
            if kind == "plan":
                self._plan = {check[0]: check for check in event["checks"]}
            elif kind == "start":
                current, importing = event["check"], ""
            elif kind == "importing":
                importing = event["unit"]
            elif kind == "result":
                self._keep(CheckResult.from_json(event["result"]))
                current = importing = ""
            elif kind == "waiting":
                if current:
                    waiting(self._plan[current][1])
            elif kind == "hung":
                self._hang(current, importing, event["frames"], event["printed"])
                return len(self._results) == len(self._plan)
            elif kind == "end":
                return True
            elif kind == "error":
                raise SessionError(
                    event["text"] if event["kind"] == "CourseError" else event["trace"]
                )
            elif kind == "died":
                if not current:
                    raise SessionError(event["text"] or "the checking process ended without a word")
                text = endings.VANISHED
                self._ended(current, Outcome.CRASHED, text, [])
                return len(self._results) == len(self._plan)
        raise AssertionError("a child ends in `end`, `hung`, `error` or `died`")

    def _events(self) -> Iterator[dict[str, Any]]:
        child = self._child
        limit = _START_LIMIT_S
        while True:
            try:
                line = child.line(min(_PATIENCE_S, limit))
            except queue.Empty:
                yield {"event": "waiting"}
                try:
                    line = child.line(limit)
                except queue.Empty:  # held so fast that it could not say so itself
                    child.kill()
                    yield {"event": "hung", "frames": [], "printed": ""}
                    return
            if not line:
                yield {"event": "died", "text": child.last_words()}
                return
            yield json.loads(line)
            limit = self._limit_s + _GRACE_S

    def _hang(self, current: str, importing: str, frames: list[str], printed: str) -> None:
        if not current:
            raise SessionError("importing torch took more than five minutes")
        text = endings.ran_on(self._limit_s)
        if importing:
            self._hung[importing] = frames  # the next child will not import it again
            text = endings.import_ran_on(importing)
        self._ended(current, Outcome.TIMEOUT, text, frames, printed)

    def _ended(
        self, id: str, outcome: Outcome, text: Message, frames: list[str], printed: str = ""
    ) -> None:
        """A check has taken its process with it. After two such, leave what would do the same."""
        self._finish(id, outcome, text, frames, printed)
        exercise = self._plan[id][1]
        ends = [
            result
            for result in self._results.values()
            if result.exercise == exercise and result.outcome is outcome
        ]
        if len(ends) >= _ENDS_MOST:
            for other, (_, stands, *_rest) in self._plan.items():
                if exercise in self._course.closure([stands]) and other not in self._results:
                    self._finish(other, outcome, endings.NOT_AGAIN, [])

    def _finish(
        self, id: str, outcome: Outcome, text: Message, frames: list[str], printed: str = ""
    ) -> None:
        _, exercise, clause, title = self._plan[id]
        self._keep(
            CheckResult(
                id, exercise, clause, title, outcome, (text,), tuple(frames), printed=printed
            )
        )

    def _keep(self, result: CheckResult) -> None:
        self._results[result.id] = result
