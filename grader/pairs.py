"""`grader pairs`: what the report says of two mistakes at once, and of one that the bank lacks.

A title is right if its mistake is in the code, or may as well be: with it put there, too, every
check ends as before. Any other is a hole, and the exit code is then not 0. To say nothing is never
wrong: it costs recall.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.progress import track
from rich.table import Table

from grader import course as courses
from grader.course import Course
from grader.forks import forked
from grader.judge import bank, prove
from grader.judge.diagnose import Known
from grader.judge.prove import Attempt, Bench
from grader.judge.suite import Suite, collect
from grader.model import CheckResult, Outcome
from grader.naming import named
from grader.score import score
from grader.validate import HIDDEN, PUBLIC

ACROSS = "on a flaw below"  # the row of pairs of which one is in what the other stands on


@dataclass(frozen=True)
class Trial:
    """Mistakes that are put into the code together, and the exercise whose report is read."""

    exercise: str
    mistakes: tuple[str, ...]
    suites: tuple[str, ...] = ("check", "grade")
    row: str = ""


Count = tuple[str, str, int, int, str]


@dataclass
class Told:
    """What reports said.

    Attributes:
        counts: (suite, row, how many mistakes, how many of them the bank lacks, what) -> how often.
        wrong: each wrong title, in a sentence.
    """

    counts: Counter[Count] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Told) -> None:
        self.counts.update(other.counts)
        self.wrong += other.wrong


class Pairs:
    """Puts mistakes into the reference and reads what the report would say.

    Args:
        course: the table.
        suite: the collected checks, public and hidden.
        exercises: the ids whose reports are read.
    """

    def __init__(self, course: Course, suite: Suite, exercises: Iterable[str]):
        self.course = course
        self.bench = Bench(course, suite)
        self.exercises = set(exercises)
        below = set(course.closure(self.exercises))
        mistakes = [m for m in bank.mistakes(course) if m.exercise in below]
        tried = prove.tried(self.bench, mistakes)
        self._known = Known(prove.signatures(tried), bank.titles(mistakes))
        self._of = {m.id: m for m in mistakes}
        self._text = {m.id: self.bench.mistaken(m).modules[m.unit].text for m in mistakes}
        self._alone = {id: self._compared(attempts) for id, attempts in tried.items()}
        self._checks = {
            "check": {check.id for check in suite.checks if not check.hidden},
            "grade": {check.id for check in suite.checks},
        }
        self._groups: dict[tuple[str, str], Set[str]] = {}

    @property
    def mistakes(self) -> Sequence[str]:
        """The ids of those that are put into the code."""
        return list(self._of)

    def trials(self) -> list[Trial]:
        """Each mistake alone, and every two of the same exercise."""
        return [
            Trial(exercise, ids)
            for exercise in self.course.exercises
            if exercise in self.exercises
            for size in (1, 2)
            for ids in itertools.combinations(self._own(exercise), size)
        ]

    def across(self, mistake: str) -> list[Trial]:
        """With a mistake further down, the exercises that `check` does not hold up for it.

        What stands on an exercise that is open is held up, and `grade` judges it on a sound one. So
        two mistakes meet only where what lies between them passes all its checks.
        """
        own = self._of[mistake].exercise
        above = [e for e in self.course.exercises if own in self.course.closure([e])]
        attempts = self._attempts([mistake], above, hidden=False)
        assert attempts is not None
        scores = score(self.course, above, [attempt.result for attempt in attempts])
        passed = {s.exercise.id for s in scores.exercises if s.passed}
        return [
            Trial(exercise, (mistake, *other), ("check",), ACROSS)
            for exercise in above
            if exercise in self.exercises - {own}
            and not set(above) & set(self.course.exercises[exercise].needs) - passed
            for other in [(), *((id,) for id in self._own(exercise))]
        ]

    def told(self, trial: Trial) -> Told:
        """What the reports say of a trial: nothing, if its mistakes clash."""
        told = Told()
        attempts = self._attempts(trial.mistakes, [trial.exercise], "grade" in trial.suites)
        if attempts is None:
            return told
        results = self._compared(attempts)
        for suite in trial.suites:
            for size in range(len(trial.mistakes) + 1):
                for lacking in itertools.combinations(trial.mistakes, size):
                    self._tell(told, trial, suite, lacking, attempts, results)
        return told

    def _tell(
        self,
        told: Told,
        trial: Trial,
        suite: str,
        lacking: Sequence[str],
        attempts: Sequence[Attempt],
        results: Sequence[CheckResult],
    ) -> None:
        """Add what a report says if the bank lacks some mistakes, and all that look like them."""
        gone = {id for mistake in lacking for id in self._same(mistake, suite)}
        there = {id for mistake in trial.mistakes for id in self._same(mistake, suite)} - gone
        seen = list(self._seen(results, suite, gone))
        names = {check.mistake for check in named(seen) if check.mistake}
        wrong = {n for n in names - there if not self._as_good_as_there(n, trial, attempts)}
        where = suite, trial.row or trial.exercise, len(trial.mistakes), len(lacking)
        happened = {
            "tried": True,
            "failing": any(check.outcome is not Outcome.PASSED for check in seen),
            "named": bool(names),
            "another": bool(names - there - wrong),
            "wrong": bool(wrong),
        }
        told.counts.update((*where, what) for what, so in happened.items() if so)
        told.wrong += [
            f"{suite}: in {trial.exercise}, {' + '.join(trial.mistakes)} is called {name}"
            + (f", where the bank lacks {' and '.join(lacking)}" if lacking else "")
            for name in sorted(wrong)
        ]

    def _as_good_as_there(self, name: str, trial: Trial, attempts: Sequence[Attempt]) -> bool:
        """Put into the code as well, or in place of a mistake there, it changes nothing."""
        hidden = "grade" in trial.suites
        for size in range(len(trial.mistakes) + 1):
            for others in itertools.combinations(trial.mistakes, size):
                again = self._attempts([name, *others], [trial.exercise], hidden)
                if again is not None and all(map(_alike, attempts, again)):
                    return True
        return False

    def _own(self, exercise: str) -> list[str]:
        return [id for id, mistake in self._of.items() if mistake.exercise == exercise]

    def _attempts(
        self, mistakes: Iterable[str], exercises: Iterable[str], hidden: bool
    ) -> list[Attempt] | None:
        submission = self.bench.solution
        ordered = sorted(mistakes, key=lambda id: self._of[id].unit)
        for unit, ids in itertools.groupby(ordered, key=lambda id: self._of[id].unit):
            text = submission.modules[unit].text
            changed = bank.joined(text, [self._text[id] for id in ids])
            if changed is None:
                return None
            submission = bank.edited(submission, unit, changed, "+".join(ordered))
        return list(self.bench.attempts(submission, self.bench.checks(exercises, hidden)))

    def _compared(self, attempts: Iterable[Attempt]) -> list[CheckResult]:
        return [self._known.compared(a.result, a.signature) for a in attempts]

    def _seen(
        self, results: Iterable[CheckResult], suite: str, gone: Set[str]
    ) -> Iterator[CheckResult]:
        """The results in a suite, where some mistakes are not known."""
        for result in results:
            if result.id in self._checks[suite]:
                found_in = {
                    id: [check for check in where if check in self._checks[suite]]
                    for id, where in result.found_in.items()
                    if id not in gone
                }
                suspects = {id: result.suspects[id] for id in found_in}
                alike = [id for id in result.alike if id not in gone]
                yield replace(result, alike=alike, suspects=suspects, found_in=found_in)

    def _same(self, mistake: str, suite: str) -> Set[str]:
        """The mistakes that no check of a suite tells from this one."""
        if (mistake, suite) not in self._groups:
            checks = self._checks[suite]
            failed = [r for r in self._alone[mistake] if r.alike and r.id in checks]
            fails = {result.id for result in failed}
            self._groups[mistake, suite] = {
                id
                for id in set.intersection(*(set(result.alike) for result in failed))
                if fails == {r.id for r in self._alone[id] if r.alike and r.id in checks}
            }
        return self._groups[mistake, suite]


def _alike(one: Attempt, other: Attempt) -> bool:
    """A check ends in the same way."""
    if one.signature is None or other.signature is None:
        return one.outcome is other.outcome
    return one.signature.fits(other.signature)


_this: Pairs  # in a process that makes one trial after another


def _told(trial: Trial) -> Told:
    return _this.told(trial)


def _across(mistake: str) -> list[Trial]:
    return _this.across(mistake)


def run(targets: Sequence[str]) -> int:
    """Try the mistakes of the units or exercises that are named, or of all."""
    global _this
    started = time.monotonic()
    warnings.filterwarnings("ignore")
    course = courses.load()
    console = Console(highlight=False, width=120)
    files = sorted([*PUBLIC.glob("test_*.py"), *HIDDEN.glob("test_*.py")])
    _this = Pairs(course, collect(files), course.select(targets))
    trials = _this.trials()
    for found in forked(_across, list(_this.mistakes), 4):
        trials += found
    told = Told()
    for part in track(forked(_told, trials, 8), "", len(trials), console=console, transient=True):
        told.add(part)
    for suite in ("check", "grade"):
        console.print(_table(suite, told.counts), "")
    for sentence in told.wrong:
        console.print(f"hole: {sentence}", style="red", soft_wrap=True, markup=False)
    seconds = time.monotonic() - started
    style = "red" if told.wrong else "green"
    console.print(f"{len(told.wrong)} holes, {seconds:.0f} s", style=style)
    return 1 if told.wrong else 0


_COLUMNS = ("exercise", "pairs", "failing", "named", "another", "wrong", "precision", "recall",
            "one new", "both new", "alone new")  # fmt: skip


def _table(suite: str, counts: Counter[Count]) -> Table:
    table = Table(title=f"what `{suite}` says", box=None, pad_edge=False, collapse_padding=True)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name == "exercise" else "right", no_wrap=True)
    rows = list(dict.fromkeys(row for of, row, *_ in counts if of == suite))
    for name, summed in [*((row, [row]) for row in rows), ("all", rows)]:

        def count(size: int, lacking: int, what: str, summed: Sequence[str] = summed) -> int:
            return sum(counts[suite, row, size, lacking, what] for row in summed)

        failing, told, another, wrong = (
            count(2, 0, what) for what in ("failing", "named", "another", "wrong")
        )
        table.add_row(
            name,
            *map(str, (count(2, 0, "tried"), failing, told, another, wrong)),
            f"{100 * (told - wrong) / max(1, told):.1f} %",
            f"{100 * (told - wrong) / max(1, failing):.1f} %",
            *(
                f"{count(size, lacking, 'wrong')}/{count(size, lacking, 'tried')}"
                for size, lacking in ((2, 1), (2, 2), (1, 1))
            ),
        )
    return table
