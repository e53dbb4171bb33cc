"""The child process of `grader check`: imports torch and the student's code, runs public checks.

Reads one JSON request on standard input, writes one JSON event a line on standard output:
``plan``, ``importing``, ``start``, ``result``, ``hung``, ``end``, or ``error``. What the student's
code prints goes elsewhere, so that nothing can spoil the lines.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from grader.model import PRINTED_MOST

if TYPE_CHECKING:
    from grader.judge.suite import Check
    from grader.model import CheckResult, Submission
    from grader.subject.proxy import Subject
    from grader.subject.shared import Shared


class Events:
    """Writes events to what was standard output."""

    def __init__(self) -> None:
        self.run = 0  # of a warm process's many runs, the one whose events these are
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        with self._lock:
            line = json.dumps({"event": event, "run": self.run} | fields)
            print(line, file=self._out, flush=True)

    def fork(self) -> int:
        """`os.fork`, at a moment when nobody is writing: the lock would never open in the fork."""
        with self._lock:
            return os.fork()

    def break_line(self) -> None:
        """Whoever was ended in the middle of a line has spoiled no more than that."""
        with self._lock:
            print(file=self._out, flush=True)


class Printed(io.TextIOBase):
    """Takes what the student prints; keeps the beginning."""

    def __init__(self) -> None:
        self._kept = ""

    def write(self, text: str) -> int:
        self._kept += text[: PRINTED_MOST - len(self._kept)]
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
        self._feeds = 0

    def feed(self) -> None:
        self._feeds += 1
        self._fed.set()

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._fed.clear()
            if not self._fed.wait(self._limit_s):
                from grader.subject.host import frame_texts

                stack = traceback.extract_stack(sys._current_frames()[self._main])
                own = frame_texts(frame for frame in stack if frame.filename in self._paths)
                self._events("hung", frames=own, printed=self._printed.take())
                os._exit(3)


def main() -> None:
    """Serve one request."""
    request = json.load(sys.stdin)
    events = Events()
    units = sorted({id.split(".")[0] for id in request["exercises"]})
    answer(lambda: Session(units).serve(request, events), events)


def answer(work: Callable[[], None], events: Events) -> NoReturn:
    """Do the work, then end; whatever happens is an event."""
    try:
        work()
    except BaseException as error:
        events("error", text=str(error), trace=traceback.format_exc(), kind=type(error).__name__)
    os._exit(0)  # torch takes its time to leave


class Session:
    """All that is there before a student's code is: torch, the public checks, their answers.

    Args:
        units: those whose checks are collected.
    """

    def __init__(self, units: Sequence[str]) -> None:
        warnings.filterwarnings("ignore")
        import torch

        from grader import course as courses
        from grader.judge.reference import Recorded
        from grader.judge.suite import collect

        torch.set_num_threads(1)
        self._course = courses.load()
        public = courses.ROOT / "tests" / "public"
        self._answers = Recorded(public / "answers")
        self._suite = collect([public / f"test_{unit}.py" for unit in units])

    def rehearse(self, called: Callable[[], bool] = lambda: False) -> None:
        """Go through all that can be done without a student's code: its first time takes longer.

        Args:
            called: whether to break off, since there is work to do.
        """
        from grader.model import Submission
        from grader.subject.host import Host
        from grader.subject.proxy import Subject

        units = [unit.name for unit in self._course.units]
        nothing = Submission("", {})
        subject = Subject(self._course, Host(nothing, units).perform, nothing)
        for check in self._suite.checks:
            if called():
                return
            result, signature = self._suite.run(check, subject, self._answers)
            self._answers.of(check.id).known.compared(result, signature)

    def read(self, path: str) -> Submission:
        """Read the student's folder; what is in it runs only when a check needs it."""
        from grader import intake

        return intake.read_folder(Path(path), self._course.definitions)

    def serve(self, request: dict[str, Any], events: Events) -> None:
        """Run the checks that are asked for, each result an event."""
        from grader.judge.suite import ended
        from grader.judge.untouched import untouched
        from grader.model import Module, Outcome
        from grader.subject.faults import Failure, Fault
        from grader.subject.host import Host
        from grader.subject.proxy import Subject
        from grader.subject.shared import Shared

        units = [unit.name for unit in self._course.units]
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who has asked, and ends us
        submission = self.read(request["path"])
        theirs = request["modules"].items()
        in_kernel = {unit: Module(unit, text, f"{unit}.ipynb") for unit, text in theirs}
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

        shared = Shared()
        host = Host(submission, units, importing, around=shared.importing)
        answers = self._answers
        wanted = set(request["exercises"])
        given: dict[str, str] = {}
        for unit in {id.split(".")[0] for id in wanted}:
            given |= answers.of(unit).given
        as_given = untouched(submission, given)
        subject = Subject(self._course, host.perform, submission)
        skip = set(request["skip"])

        order = list(self._course.exercises)
        checks = [check for check in self._suite.checks if check.exercise in wanted]
        checks.sort(key=lambda check: (order.index(check.exercise), check.clause))
        plan = [(c.id, c.exercise, c.clause, c.title) for c in checks]
        events("plan", checks=plan)
        dog.start()
        for check in checks:
            if check.id in skip:
                continue
            events("start", check=check.id)
            dog.feed()
            if check.exercise in as_given:
                result = ended(check, Failure(Outcome.NOT_ATTEMPTED))
            else:
                result = self._judged(check, subject, shared)
            data = result.to_json() | {"printed": printed.take()}
            events("result", result=data)
        events("end")

    def _judged(self, check: Check, subject: Subject, shared: Shared) -> CheckResult:
        """Run one check. Where it fails, and the student has changed what the judge uses, that
        is told, whatever else there would be to say.
        """
        from grader.judge.suite import ended
        from grader.model import Outcome
        from grader.subject import verdicts
        from grader.subject.faults import Fault

        failed: Exception | None = None
        try:
            result, signature = self._suite.run(check, subject, self._answers)
            result = self._answers.of(check.id).known.compared(result, signature)
        except Exception as error:  # even telling what went wrong needs what was taken away
            failed = error
        changed = shared.put_back()
        if changed and (failed or result.outcome is not Outcome.PASSED):
            return ended(check, verdicts.of(Fault("shared", {"unit": "", "name": changed[0]})))
        if failed:
            raise failed
        return result


if __name__ == "__main__":
    main()
