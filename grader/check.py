"""`grader check`: one folder against the public suite.

This process never imports torch. It starts the one that does, reads its events, and ends it when it
hangs; what was not yet checked goes to a fresh one.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.children import Child, Fresh, Request
from grader.course import Course
from grader.model import CheckResult, Message, Outcome, say
from grader.subject import endings

LIMIT_S = 10.0  # for one check
_START_LIMIT_S = 300.0  # for importing torch, the first time, on a slow disk
_PATIENCE_S = 3.0  # before a word is said
_GRACE_S = 3.0  # the child ends itself first, and says where it was


class SessionError(Exception):
    """The child process failed, and it was not the student's doing."""


class Stopped(Exception):
    """Somebody has called `Check.stop`."""


class Check:
    """One run over some exercises.

    Args:
        course: the table.
        path: the student's folder.
        exercises: ids, what they stand on included.
        limit_s: seconds that one check may take.
        start: starts the process in which the student's code runs.
        modules: unit -> its text, where it is not the folder's: what stands in a notebook's kernel.
        ends_most: hangs or crashes of one exercise, before the rest of it is left: 1 or 2.
    """

    def __init__(
        self,
        course: Course,
        path: Path,
        exercises: Sequence[str],
        limit_s: float = LIMIT_S,
        start: Callable[[Request], Child] = Fresh,
        ends_most: int = 2,
        modules: Mapping[str, str] | None = None,
    ):
        self._modules = dict(modules or {})
        self._begin = start
        self._ends_most = ends_most
        self._stopped = False
        self._course = course
        self._path = path
        self._exercises = list(exercises)
        self._limit_s = limit_s
        self._plan: dict[str, list[Any]] = {}
        self._results: dict[str, CheckResult] = {}
        self._hung: dict[str, list[str]] = {}
        self._child = self._start()

    def results(self, waiting: Callable[[str], None] = lambda exercise: None) -> list[CheckResult]:
        """Run to the end.

        Args:
            waiting: told the exercise of a check that takes long.

        Raises:
            SessionError: the child could not do its work.
            Stopped: as asked.
        """
        try:
            while not self._round(waiting):
                self._child.end()
                if self._stopped:
                    raise Stopped
                self._child = self._start()
        finally:
            self._child.end()
        return [self._results[id] for id in self._plan]

    def stop(self) -> None:
        """End the run from another thread, which is told nothing more."""
        self._stopped = True
        self._child.lines.put("")  # whoever waits for a line shall look up

    def _start(self) -> Child:
        return self._begin(
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
                    silent = say("The checking process ended without a word.")
                    raise SessionError(event["text"] or silent)
                text = endings.VANISHED
                self._ended(current, Outcome.CRASHED, text, [])
                return len(self._results) == len(self._plan)
        raise AssertionError("a child ends in `end`, `hung`, `error` or `died`")

    def _events(self) -> Iterator[dict[str, Any]]:
        child = self._child
        limit = _START_LIMIT_S
        while True:
            try:
                line = child.lines.get(timeout=min(_PATIENCE_S, limit))
            except queue.Empty:
                yield {"event": "waiting"}
                try:
                    line = child.lines.get(timeout=limit)
                except queue.Empty:  # held so fast that it could not say so itself
                    child.end()
                    yield {"event": "hung", "frames": [], "printed": ""}
                    return
            if self._stopped:
                raise Stopped
            if not line:
                yield {"event": "died", "text": child.last_words()}
                return
            yield json.loads(line)
            limit = self._limit_s + _GRACE_S

    def _hang(self, current: str, importing: str, frames: list[str], printed: str) -> None:
        if not current:
            raise SessionError(say("Importing torch took more than five minutes."))
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
        if len(ends) >= self._ends_most:
            for other, (_, stands, *_rest) in self._plan.items():
                if exercise in self._course.closure([stands]) and other not in self._results:
                    words = endings.not_tried(outcome, self._ends_most)
                    self._finish(other, outcome, words, [])

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
