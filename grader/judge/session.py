"""The child process of `grader check`: imports torch and the student's code, runs public checks.

Reads JSON requests on standard input, a line each, and answers each by JSON events on standard
output: ``plan``, ``importing``, ``start``, ``result``, ``hung``, ``end``, or ``error``. What the
student's code prints goes elsewhere, so that nothing can spoil the lines. It imports torch before
it reads, so that a check in a notebook finds it ready.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import sys
import threading
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader.judge.reference import Recorded
    from grader.judge.suite import Suite

_PRINTED_MOST = 2000  # characters of one check's output that are shown


class Events:
    """Writes events to what was standard output."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        with self._lock:
            print(json.dumps({"event": event, **fields}), file=self._out, flush=True)


class Printed(io.TextIOBase):
    """Takes what the student prints; keeps the beginning."""

    def __init__(self) -> None:
        self._kept = ""

    def write(self, text: str) -> int:
        self._kept += text[: _PRINTED_MOST - len(self._kept)]
        return len(text)

    def writable(self) -> bool:
        return True

    def take(self) -> str:
        kept, self._kept = self._kept, ""
        return kept


class Watchdog:
    """Ends the process when one check takes too long, and says where it was."""

    def __init__(self, events: Events, limit_s: float, paths: set[str], printed: Printed):
        self._printed = printed
        self._events = events
        self._limit_s = limit_s
        self._paths = paths
        self._main = threading.get_ident()
        self._fed = threading.Event()
        self._over = False

    def feed(self) -> None:
        self._fed.set()

    def stop(self) -> None:
        self._over = True
        self._fed.set()

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._over:
            self._fed.clear()
            if not self._fed.wait(self._limit_s) and not self._over:
                from grader.subject.host import frame_texts

                stack = traceback.extract_stack(sys._current_frames()[self._main])
                own = frame_texts(frame for frame in stack if frame.filename in self._paths)
                self._events("hung", frames=own, printed=self._printed.take())
                os._exit(3)


def main() -> None:
    """Serve requests until there are no more; whatever happens is an event."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    events = Events()
    warnings.filterwarnings("ignore")
    with contextlib.suppress(Exception):  # each request meets it again, and says so
        _warm()
    for line in requests:
        try:
            _run(json.loads(line), events)
        except BaseException as error:
            trace = traceback.format_exc()
            events("error", text=str(error), trace=trace, kind=type(error).__name__)
    os._exit(0)  # torch takes its time to leave


def _warm() -> None:
    import torch

    from grader.judge import suite  # noqa: F401
    from grader.subject import host  # noqa: F401

    torch.set_num_threads(1)


@functools.cache
def _suite(*files: Path) -> Suite:
    from grader.judge.suite import collect

    return collect(files)


@functools.cache
def _recorded(folder: Path) -> Recorded:
    from grader.judge.reference import Recorded

    return Recorded(folder)


def _run(request: dict[str, Any], events: Events) -> None:
    from grader import course as courses
    from grader import intake
    from grader.judge.suite import ended
    from grader.judge.untouched import untouched
    from grader.model import Module, Outcome
    from grader.subject.faults import Failure, Fault
    from grader.subject.host import Host
    from grader.subject.proxy import Subject

    course = courses.load()
    units = [unit.name for unit in course.units]
    submission = intake.read_folder(Path(request["path"]), course.definitions)
    in_kernel = {
        unit: Module(unit, text, f"{unit}.ipynb") for unit, text in request["modules"].items()
    }
    submission = replace(submission, modules={**submission.modules, **in_kernel})
    paths = {module.path for module in submission.modules.values()}
    printed = Printed()
    sys.stdout = sys.stderr = printed
    hung = dict(request["hung"])
    dog = Watchdog(events, request["limit_s"], paths, printed)

    def importing(unit: str) -> None:
        if unit in hung:
            raise Fault("hung", {"unit": unit}, hung[unit])
        events("importing", unit=unit)

    host = Host(submission, units, importing)
    answers = _recorded(courses.ROOT / "tests" / "public" / "answers")
    wanted = set(request["exercises"])
    given: dict[str, str] = {}
    for unit in {id.split(".")[0] for id in wanted}:
        given |= answers.of(unit).given
    as_given = untouched(submission, given)
    subject = Subject(course, host.perform, submission)
    skip = set(request["skip"])

    files = sorted({f"test_{id.split('.')[0]}.py" for id in wanted})
    folder = courses.ROOT / "tests" / "public"
    suite = _suite(*(folder / file for file in files))
    order = list(course.exercises)
    checks = [check for check in suite.checks if check.exercise in wanted]
    checks.sort(key=lambda check: (order.index(check.exercise), check.clause))
    plan = [(c.id, c.exercise, c.clause, c.title) for c in checks]
    events("plan", checks=plan)
    dog.start()
    try:
        for check in checks:
            if check.id in skip:
                continue
            events("start", check=check.id)
            dog.feed()
            if check.exercise in as_given:
                result = ended(check, Failure(Outcome.NOT_ATTEMPTED))
            else:
                result, signature = suite.run(check, subject, answers)
                result = answers.of(check.id).known.compared(result, signature)
            data = result.to_json() | {"printed": printed.take()}
            events("result", result=data)
    finally:
        dog.stop()
    events("end")


if __name__ == "__main__":
    main()
