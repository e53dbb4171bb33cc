"""Put submissions through a suite whose right answers come from the reference, in one process.

For the course's own material only: it stands on `validate`, and the recorded answers of the public
suite come from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from grader.course import Course
from grader.judge import bank
from grader.judge.bank import Mistake
from grader.judge.diagnose import Signature
from grader.judge.reference import Live, Recorder, Recording, Remembered
from grader.judge.suite import Answers, Check, Suite, verdict
from grader.model import CheckResult, Outcome, Submission
from grader.subject.host import Host
from grader.subject.proxy import Subject


@dataclass(frozen=True)
class Attempt:
    """How one check ended on one submission."""

    check: Check
    outcome: Outcome
    signature: Signature | None
    error: BaseException | None

    @property
    def result(self) -> CheckResult:
        """What a report would start from."""
        check = self.check
        return CheckResult(check.id, check.exercise, check.clause, check.title, self.outcome)


def alike(one: Attempt, other: Attempt) -> bool:
    """A check ended alike on two submissions: on equal values, or else with equal words."""
    if one.signature and other.signature and one.signature.found is not None:
        return one.signature.fits(other.signature)
    return str(one.error) == str(other.error)


class Bench:
    """Runs submissions against checks.

    Args:
        course: the table.
        suite: the collected checks.
        device: where submissions run; the reference answers on the CPU.
    """

    def __init__(self, course: Course, suite: Suite, device: str = "cpu"):
        self.course = course
        self.suite = suite
        self.device = device
        self.solution = bank.solution(course)
        self._units = [unit.name for unit in course.units]
        self.live = Live(Host(self.solution, self._units))
        self.answers: Answers = Remembered(self.live)

    def checks(self, exercises: Iterable[str], hidden: bool = True) -> list[Check]:
        """The checks of these exercises; without ``hidden``, the public ones."""
        wanted = set(exercises)
        return [c for c in self.suite.checks if c.exercise in wanted and (hidden or not c.hidden)]

    def attempts(self, submission: Submission, checks: Iterable[Check]) -> Iterator[Attempt]:
        """Run checks on a submission, one by one."""
        host = Host(submission, self._units, device=self.device)

        def perform(*args: Any, **kwargs: Any) -> Any:
            value = host.perform(*args, **kwargs)
            return value if self.device == "cpu" else _home(value)  # as a wire does by itself

        subject = Subject(self.course, perform, submission)
        for check in checks:
            error, signature = self.suite.attempt(check, subject, self.answers)
            yield Attempt(check, verdict(check, error)[0], signature, error)

    def mistaken(self, mistake: Mistake) -> Submission:
        """The reference with a mistake in it."""
        text = mistake.apply(self.solution.modules[mistake.unit].text)
        return bank.edited(self.solution, mistake.unit, text, mistake.id)


def _home(value: Any) -> Any:
    """The same, with its tensors on the CPU."""
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {name: _home(item) for name, item in value.items()}
    return type(value)(map(_home, value)) if isinstance(value, (list, tuple)) else value


def record(bench: Bench, mistakes: Sequence[Mistake]) -> dict[str, Recording]:
    """The recorded answers of the public suite, by unit.

    Raises:
        AssertionError: the reference fails a check.
    """
    recordings: dict[str, Recording] = {}
    given = bank.given(bench.course, mistakes)
    bench.answers = recorder = Recorder(bench.live)
    for unit in bench.course.units:
        exercises = [exercise.id for exercise in unit.exercises]
        checks = bench.checks(exercises, hidden=False)
        recorder.kept.clear()
        failed = [a for a in bench.attempts(bench.solution, checks) if a.error is not None]
        assert not failed, f"the reference fails {failed[0].check.id}: {failed[0].error}"
        answers = {check: list(kept) for check, kept in recorder.kept.items()}
        own = [mistake for mistake in mistakes if mistake.unit == unit.name]
        found = signatures(tried(bench, own, hidden=False))
        shown = {mistake for kept in found.values() for mistake, _ in kept}
        titles = bank.titles(m for m in own if m.id in shown)
        own_given = {id: text for id, text in given.items() if id in exercises}
        recordings[unit.name] = Recording(answers, found, titles, own_given)
    return recordings


def tried(
    bench: Bench, mistakes: Iterable[Mistake], hidden: bool = True
) -> dict[str, list[Attempt]]:
    """Mistake -> how it fares in the checks of its exercise."""
    return {
        mistake.id: list(
            bench.attempts(bench.mistaken(mistake), bench.checks([mistake.exercise], hidden))
        )
        for mistake in mistakes
    }


def signatures(attempts: Mapping[str, Iterable[Attempt]]) -> dict[str, list[tuple[str, Signature]]]:
    """Check -> how each mistake fails it, where it does."""
    found: dict[str, list[tuple[str, Signature]]] = {}
    for mistake, tries in attempts.items():
        for attempt in tries:
            if attempt.signature is not None:
                found.setdefault(attempt.check.id, []).append((mistake, attempt.signature))
    return found


_RUBBISH = {
    "None": "lambda *args, **kwargs: None",
    "a string": "lambda *args, **kwargs: 'rubbish'",
    "a 0-dim tensor": "lambda *args, **kwargs: __import__('torch').tensor(1.0)",
    "a wrong rank": "lambda *args, **kwargs: __import__('torch').zeros(1, 1, 1, 1, 1, 1, 1)",
    "NaN": "_nan({old})",
    "an object that lies": "_Liar()",
    "nothing": None,
}

_PRELUDE = '''

class _Liar:
    """Agrees with everything and has everything."""
    shape, ndim, dtype = (), 0, None
    def __call__(self, *args, **kwargs): return _Liar()
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __bool__(self): return True
    def __len__(self): return 2
    def __iter__(self): return iter((_Liar(), _Liar()))
    def __getitem__(self, index): return _Liar()

def _nan(function):
    def spoiled(*args, **kwargs):
        value = function(*args, **kwargs)
        parts = value if isinstance(value, tuple) else (value,)
        parts = tuple(p * float("nan") if hasattr(p, "shape") else p for p in parts)
        return parts if isinstance(value, tuple) else parts[0]
    return spoiled

'''


def rubbish(bench: Bench, exercise: str) -> Iterator[tuple[str, Submission]]:
    """The reference with one exercise giving rubbish, in every kind."""
    unit, _, name = exercise.partition(".")
    entry = bench.course.exercises[exercise]
    takes_forward = entry.is_class and entry.takes
    targets = [name, f"{name}.forward"] if takes_forward else [name]
    text = bench.solution.modules[unit].text
    for target in targets:
        for kind, made in _RUBBISH.items():
            line = f"del {target}" if made is None else f"{target} = {made.format(old=target)}"
            spoiled = f"{text}{_PRELUDE}{line}\n"
            yield f"{target} gives {kind}", bank.edited(bench.solution, unit, spoiled, "rubbish")
