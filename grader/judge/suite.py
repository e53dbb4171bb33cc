"""Checks are pytest tests: collected once, then run against any number of subjects.

A check names its clause, ``@clause("attention.stable_softmax", 2)``, and asks by name for what it
needs: ``subject``, ``reference``, ``draw``. Its docstring is the line that the student sees.

pytest collects, with its marks and parameters. Running a check is a call: pytest's own protocol of
set-up, call, tear-down and report costs 0.7 ms a check, which is more than most checks do.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from grader.course import ROOT, CourseError
from grader.judge.diagnose import Signature
from grader.judge.draw import Draw
from grader.judge.expect import begin, steps
from grader.judge.reference import Reference
from grader.model import CheckResult, Message, Outcome, say
from grader.subject.faults import Failure
from grader.subject.proxy import Subject

PUBLIC, HIDDEN = ROOT / "tests" / "public", ROOT / "tests" / "hidden"
_INI = Path(__file__).with_name("pytest.ini")
_GIVEN = {"subject", "draw", "reference"}  # what a check can ask for by name

# What pytest can do that collecting does not need; each costs time at the start.
_OFF = [
    "cacheprovider",
    "capture",
    "debugging",
    "doctest",
    "faulthandler",
    "junitxml",
    "legacypath",
    "logging",
    "monkeypatch",
    "pastebin",
    "recwarn",
    "setuponly",
    "setupplan",
    "stepwise",
    "terminal",
    "threadexception",
    "tmpdir",
    "unittest",
    "unraisableexception",
    "warnings",
]


def clause(exercise: str, number: int) -> pytest.MarkDecorator:
    """Mark a test as the check of one clause of an exercise's contract."""
    return pytest.mark.clause(exercise, number)


@dataclass(frozen=True)
class Check:
    """One test, and the clause that it checks."""

    id: str
    exercise: str
    clause: int
    title: str
    hidden: bool
    function: Callable[..., None]
    asks_for: Sequence[str]  # of `_GIVEN`
    parameters: Mapping[str, Any]  # of pytest's parametrize

    @classmethod
    def of(cls, item: pytest.Function) -> Check:
        """The check that a collected test is.

        Raises:
            CourseError: it names no clause, has no docstring, or asks for what there is not.
        """
        mark = item.get_closest_marker("clause")
        title = (item.function.__doc__ or "").strip().split("\n")[0]
        if mark is None or not title:
            missing = "docstring, the line that students see" if mark else "@clause"
            raise CourseError(f"{item.nodeid} has no {missing}")
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        names = set(inspect.signature(item.function).parameters) - set(parameters)
        unknown = names - _GIVEN
        if unknown:
            raise CourseError(
                f"{item.nodeid} asks for {sorted(unknown)}; there is {sorted(_GIVEN)}"
            )
        exercise, number = mark.args
        id = f"{exercise}/{number}/{item.name}"
        hidden = item.path.parent.name == "hidden"
        asks_for = sorted(names)
        return cls(id, exercise, number, title, hidden, item.function, asks_for, parameters)


class Answers(Protocol):
    """Where right answers and known mistakes come from."""

    def begin(self, check: str) -> None: ...

    def __call__(self, request: dict[str, Any]) -> Any: ...


class Suite:
    """The collected checks."""

    def __init__(self, checks: Sequence[Check], secret: str = ""):
        self.checks = list(checks)
        self.secret = secret

    def attempt(
        self, check: Check, subject: Subject, answers: Answers
    ) -> tuple[BaseException | None, Signature | None]:
        """Run one check.

        Returns:
            What it raised, and the signature of its failure, if it was the student's.
        """
        draw = Draw(check.id, self.secret)
        given = {"subject": subject, "draw": draw, "reference": Reference(answers)}
        begin()
        try:
            answers.begin(check.id)
            subject.begin(draw.seed)
            check.function(**{name: given[name] for name in check.asks_for}, **check.parameters)
            subject.settle()
        except Failure as error:
            return error, Signature(steps(), error.outcome.value, error.found)
        except Exception as error:  # our own fault, to be told
            return error, None
        return None, None

    def run(
        self, check: Check, subject: Subject, answers: Answers
    ) -> tuple[CheckResult, Signature | None]:
        """Run one check and say what became of it, and on what it failed."""
        error, signature = self.attempt(check, subject, answers)
        return ended(check, error), signature


def ended(check: Check, error: BaseException | None) -> CheckResult:
    """The result of a check that ended in ``error``; a hidden one has no picture."""
    outcome, message, frames = verdict(check, error)
    drawn = error.picture() if isinstance(error, Failure) and not check.hidden else None
    return CheckResult(
        check.id, check.exercise, check.clause, check.title, outcome, message, frames, picture=drawn
    )


def verdict(
    check: Check, error: BaseException | None
) -> tuple[Outcome, tuple[Message, ...], tuple[str, ...]]:
    """The outcome of a check that ended in ``error``."""
    if error is None:
        return Outcome.PASSED, (), ()
    if not isinstance(error, Failure):
        place = traceback.extract_tb(error.__traceback__)[-1]
        words = say(
            "The grader failed here, not you: {error} ({file}, line {line})",
            error=f"{type(error).__name__}: {error}",
            file=Path(place.filename).name,
            line=place.lineno,
        )
        return Outcome.GRADER_ERROR, (words,), ()
    if error.outcome is Outcome.NOT_ATTEMPTED and error.standin not in ("", check.exercise):
        words = say("It calls {exercise}, which is not attempted yet.", exercise=error.standin)
        return Outcome.BLOCKED, (words,), ()
    return error.outcome, tuple(error.message), error.frames


class _Collector:
    """Takes the tests that pytest has found; nothing is run by it."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []
        self.broken: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid}: {report.longrepr}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


def suite_files(units: Collection[str] = ("*",)) -> list[Path]:
    """Where the checks of some units, or of all, are written."""
    folders = PUBLIC, HIDDEN
    return sorted(
        path for folder in folders for unit in units for path in folder.glob(f"test_{unit}.py")
    )


def collect(paths: Iterable[Path], secret: str = "") -> Suite:
    """Let pytest collect the checks of these files.

    Raises:
        CourseError: a file cannot be read, or a test is no check.
    """
    collector = _Collector()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):  # meant for somebody's own tests
        os.environ.pop(name, None)
    options = [f"--config-file={_INI}", f"--rootdir={_INI.parent}", "--noconftest"]
    options += ["--collect-only", "--assert=plain", "--import-mode=importlib"]
    options += [word for name in _OFF for word in ("-p", f"no:{name}")]
    code = pytest.main([*options, *map(str, paths)], plugins=[collector])
    if collector.broken:
        raise CourseError("A suite cannot be read.\n" + "\n".join(collector.broken))
    if code == pytest.ExitCode.INTERRUPTED:  # by Ctrl-C, which pytest keeps to itself
        raise KeyboardInterrupt
    if code != pytest.ExitCode.OK:
        raise CourseError(f"A suite cannot be read.\npytest ended with {int(code)}")
    return Suite([Check.of(i) for i in collector.items if isinstance(i, pytest.Function)], secret)
