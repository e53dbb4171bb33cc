"""Checks are pytest tests: collected once, then run against any number of subjects.

A check names its clause, ``@clause("attention.stable_softmax", 2)``, and asks for what it needs by
fixture: ``subject``, ``reference``, ``draw``. Its docstring is the line that the student sees.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

from grader.course import CourseError
from grader.judge import diagnose
from grader.judge.diagnose import Signature
from grader.judge.draw import Draw
from grader.judge.expect import begin, steps
from grader.judge.reference import Reference
from grader.model import CheckResult, Message, Outcome, say
from grader.subject.faults import Failure
from grader.subject.proxy import Subject

_INI = Path(__file__).with_name("pytest.ini")
# What pytest can do that a suite does not need; each costs time at start or for every check.
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
    item: pytest.Function

    @classmethod
    def of(cls, item: pytest.Function) -> Check:
        mark = item.get_closest_marker("clause")
        title = (item.function.__doc__ or "").strip().split("\n")[0]
        if mark is None or not title:
            missing = "docstring, the line that students see" if mark else "@clause"
            raise CourseError(f"{item.nodeid} has no {missing}")
        exercise, number = mark.args
        hidden = item.path.parent.name == "hidden"
        return cls(f"{exercise}/{number}/{item.name}", exercise, number, title, hidden, item)


class Answers(Protocol):
    """Where right answers and known mistakes come from."""

    def begin(self, check: str) -> None: ...

    def __call__(self, request: dict[str, Any]) -> Any: ...


class Suite:
    """The collected checks, in the order of the course."""

    def __init__(self, items: Iterable[pytest.Function], secret: str = ""):
        self.checks = [Check.of(item) for item in items]
        self.secret = secret
        self._by_item = {check.item: check for check in self.checks}
        self.subject: Subject  # of the check that is running
        self.reference: Reference
        self._errors: list[BaseException] = []

    def draw(self, item: pytest.Function) -> Draw:
        return Draw(self._by_item[item].id, self.secret)

    def note(self, error: BaseException | None) -> None:
        """Called by the plugin when a phase of a test ends in an exception."""
        if error is not None:
            self._errors.append(error)

    def attempt(
        self, check: Check, subject: Subject, answers: Answers
    ) -> tuple[BaseException | None, Signature | None]:
        """Run one check.

        Returns:
            What it raised, and the signature of its failure if a tensor was judged.
        """
        self.subject, self.reference = subject, Reference(answers)
        self._errors.clear()
        begin()
        answers.begin(check.id)
        subject.begin(self.draw(check.item).seed)
        check.item.ihook.pytest_runtest_protocol(item=check.item, nextitem=None)
        error = self._errors[0] if self._errors else None
        if isinstance(error, Failure) and error.found is not None:
            return error, Signature(steps(), error.outcome.value, error.found)
        return error, None

    def run(
        self, check: Check, subject: Subject, answers: Answers
    ) -> tuple[CheckResult, Signature | None]:
        """Run one check and say what became of it, and on what it failed."""
        error, signature = self.attempt(check, subject, answers)
        outcome, message, frames = verdict(check, error)
        result = CheckResult(
            check.id, check.exercise, check.clause, check.title, outcome, message, frames
        )
        return result, signature


def suspected(
    result: CheckResult,
    signature: Signature | None,
    known: Mapping[str, Sequence[tuple[str, Signature]]],
    titles: Mapping[str, tuple[str, str]],
) -> CheckResult:
    """The result with the known mistakes that give just what was found.

    Args:
        result: of one check.
        signature: of its failure, if a tensor was judged.
        known: check -> what each known mistake of the exercise gives there.
        titles: title and hint of each known mistake.
    """
    names = diagnose.suspects(signature, known.get(result.id, ())) if signature else []
    found_in = {
        name: [check for check, given in known.items() if name in dict(given)]
        for name in (names if len(names) > 1 else ())
    }
    return replace(result, suspects={name: titles[name] for name in names}, found_in=found_in)


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


class _Plugin:
    """What pytest is told: the fixtures, and that the loop is ours."""

    def __init__(self, body: Callable[[Suite], Any], secret: str):
        self._body = body
        self._secret = secret
        self._broken: list[str] = []
        self.suite: Suite
        self.result: Any = None
        self.error: BaseException | None = None

    @pytest.fixture
    def subject(self) -> Subject:
        return self.suite.subject

    @pytest.fixture
    def reference(self) -> Reference:
        return self.suite.reference

    @pytest.fixture
    def draw(self, request: pytest.FixtureRequest) -> Draw:
        return self.suite.draw(request.node)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(f"{report.nodeid}: {report.longrepr}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        try:  # pytest would turn an exception into text
            if self._broken:
                raise CourseError("A suite cannot be read.\n" + "\n".join(self._broken))
            items = [item for item in session.items if isinstance(item, pytest.Function)]
            self.suite = Suite(items, self._secret)
            self.result = self._body(self.suite)
        except BaseException as error:
            self.error = error
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> pytest.TestReport:
        error = call.excinfo.value if call.excinfo else None
        self.suite.note(error)
        outcome: Literal["failed", "passed"] = "failed" if error else "passed"
        when: Any = call.when
        return pytest.TestReport(item.nodeid, item.location, {}, outcome, None, when)


def with_suite(paths: Iterable[Path], body: Callable[[Suite], Any], secret: str = "") -> Any:
    """Collect the checks of these files and hand them to ``body``, whose result is given back.

    Raises:
        CourseError: a file cannot be collected, or a test names no clause.
    """
    plugin = _Plugin(body, secret)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):  # meant for somebody's own tests
        os.environ.pop(name, None)
    options = [f"--config-file={_INI}", f"--rootdir={_INI.parent}", "--noconftest"]
    options += ["--assert=plain", "--import-mode=importlib"]
    options += [word for name in _OFF for word in ("-p", f"no:{name}")]
    pytest.main([*options, *map(str, paths)], plugins=[plugin])
    if plugin.error:
        raise plugin.error
    return plugin.result
