"""`grader pairs`: what the report says of two mistakes at once, and of one that the bank lacks.

A title is right if its mistake is in the code, or may as well be: with it put there, too, every
check ends as before. Any other is a hole, and the exit code is then not 0. To say nothing is never
wrong: it costs recall.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.table import Table

from grader import course as courses
from grader.course import CourseError
from grader.forks import in_forks
from grader.judge import bank, prove
from grader.judge.bank import Mistake
from grader.judge.diagnose import Known
from grader.judge.prove import Attempt, Bench
from grader.judge.suite import collect, suite_files
from grader.model import CheckResult, Outcome
from grader.mutants import progress
from grader.naming import named

SUITES = "check", "grade"  # the public checks, and all
ACROSS = "(on a flaw below)"  # the row of mistakes beside one in what the exercise stands on

Count = tuple[str, int, int, str]  # suite, how many mistakes, how many the bank lacks, what


@dataclass
class Told:
    """What reports said.

    Attributes:
        counts: how often they did what.
        wrong: each wrong title, in a sentence.
    """

    counts: Counter[Count] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Told) -> None:
        self.counts.update(other.counts)
        self.wrong += other.wrong


class Pairs:
    """Puts mistakes into the reference and reads what the report says of one exercise.

    Args:
        bench: runs the checks, public and hidden.
        mistakes: the bank.
        exercise: the exercise's id.
    """

    def __init__(self, bench: Bench, mistakes: Iterable[Mistake], exercise: str):
        self._bench = bench
        self._exercise = exercise
        below = bench.course.closure([exercise])
        self._of = {mistake.id: mistake for mistake in mistakes if mistake.exercise in below}
        own = [mistake for mistake in self._of.values() if mistake.exercise == exercise]
        self.own = [mistake.id for mistake in own]
        tried = prove.tried(bench, own)
        self._known = Known(prove.signatures(tried), bank.titles(own))
        self._alone = {id: self._compared(attempts) for id, attempts in tried.items()}
        self._text = {
            id: mistake.apply(bench.solution.modules[mistake.unit].text)
            for id, mistake in self._of.items()
        }
        checks = bench.checks([exercise])
        self._checks = {
            "check": {check.id for check in checks if not check.hidden},
            "grade": {check.id for check in checks},
        }
        self._same = {suite: self._groups(ids) for suite, ids in self._checks.items()}

    def told(self) -> dict[str, Told]:
        """Of each mistake alone, of every two, and of each beside a flaw that lies `below`."""
        own, across = Told(), Told()
        for size in (1, 2):
            for ids in itertools.combinations(self.own, size):
                own.add(self.told_of(ids))
        for flaw in self.below():
            for ids in [(flaw,), *((flaw, id) for id in self.own)]:
                across.add(self.told_of(ids, ["check"]))
        return {self._exercise: own, ACROSS: across}

    def below(self) -> Iterator[str]:
        """Mistakes in what the exercise stands on that do not hold it up in `check`.

        It waits for what it needs to pass. So a mistake reaches it only from further down, where
        all between passes on it. In `grade`, none does: there the exercise is judged on sound ones.
        """
        course = self._bench.course
        needs = course.exercises[self._exercise].needs
        for id, mistake in self._of.items():
            between = [need for need in needs if mistake.exercise in course.closure([need])]
            attempts = self._attempts([id], between, hidden=False) or ()
            if between and all(attempt.outcome is Outcome.PASSED for attempt in attempts):
                yield id

    def told_of(self, ids: Sequence[str], suites: Collection[str] = SUITES) -> Told:
        """What the reports say of these mistakes together: nothing, if they clash."""
        told = Told()
        attempts = self._ends(ids, "grade" in suites)
        if attempts:
            results = self._compared(attempts)
            for suite, size in itertools.product(suites, range(len(ids) + 1)):
                for lacking in itertools.combinations(ids, size):
                    told.add(self._told_of(ids, suite, lacking, attempts, results))
        return told

    def _told_of(
        self,
        ids: Sequence[str],
        suite: str,
        lacking: Sequence[str],
        attempts: Sequence[Attempt],
        results: Sequence[CheckResult],
    ) -> Told:
        """What a report says if the bank lacks some mistakes, and all that look like them."""
        same = self._same[suite]
        gone = {id for mistake in lacking for id in same.get(mistake, ())}
        there = {id for mistake in ids for id in same.get(mistake, ())} - gone
        seen = list(self._seen(results, suite, gone))
        names = {check.mistake for check in named(seen) if check.mistake}
        wrong = {n for n in names - there if not self._may_as_well_be(n, ids, attempts)}
        happened = {
            "tried": True,
            "failing": any(check.outcome is not Outcome.PASSED for check in seen),
            "named": names,
            "third": names - there - wrong,
            "wrong": wrong,
        }
        kind = suite, len(ids), len(lacking)
        counts = Counter((*kind, what) for what, so in happened.items() if so)
        without = f", where the bank lacks {' and '.join(lacking)}" if lacking else ""
        where = f"{suite} {self._exercise}: {' + '.join(ids)}"
        return Told(counts, [f"{where} is called {name}{without}" for name in sorted(wrong)])

    def _may_as_well_be(self, name: str, ids: Sequence[str], attempts: Sequence[Attempt]) -> bool:
        """Put into the code, too, or in place of one there, it changes nothing; or it would change
        nothing if it were not for the others.
        """
        hidden = any(attempt.check.hidden for attempt in attempts)
        for size in range(len(ids) + 1):
            for others in itertools.combinations(ids, size):
                ends = self._ends((name, *others), hidden)
                if ends and any(
                    all(map(prove.alike, ends, known))
                    for known in (attempts, self._ends(others, hidden))
                ):
                    return True
        return False

    def _ends(self, ids: Sequence[str], hidden: bool) -> list[Attempt]:
        """How the exercise's checks end on these mistakes together; none do if they clash."""
        return list(self._attempts(ids, [self._exercise], hidden) or ())

    def _attempts(
        self, ids: Iterable[str], exercises: Iterable[str], hidden: bool
    ) -> Iterator[Attempt] | None:
        """How the checks of some exercises end on these mistakes together; None if they clash."""
        submission = self._bench.solution
        mistakes = sorted((self._of[id] for id in ids), key=lambda mistake: mistake.unit)
        for unit, group in itertools.groupby(mistakes, key=lambda mistake: mistake.unit):
            text = submission.modules[unit].text
            changed = bank.joined(text, [self._text[mistake.id] for mistake in group])
            if changed is None:
                return None
            submission = bank.edited(submission, unit, changed, "+".join(ids))
        return self._bench.attempts(submission, self._bench.checks(exercises, hidden))

    def _compared(self, attempts: Iterable[Attempt]) -> list[CheckResult]:
        return [self._known.compared(a.result, a.signature) for a in attempts]

    def _seen(
        self, results: Iterable[CheckResult], suite: str, gone: Set[str]
    ) -> Iterator[CheckResult]:
        """The results in a suite, where some mistakes are not known."""
        checks = self._checks[suite]
        for result in results:
            if result.id in checks:
                yield replace(
                    result,
                    alike=[id for id in result.alike if id not in gone],
                    suspects={id: s for id, s in result.suspects.items() if id not in gone},
                    found_in={
                        id: [check for check in where if check in checks]
                        for id, where in result.found_in.items()
                        if id not in gone
                    },
                )

    def _groups(self, checks: Set[str]) -> dict[str, Set[str]]:
        """Mistake -> those that no check of some tells from it."""
        failed = {
            id: {result.id: result for result in results if result.id in checks and result.alike}
            for id, results in self._alone.items()
        }
        return {
            id: {
                other
                for other in self.own
                if failed[other].keys() == failed[id].keys()
                and all(other in result.alike for result in failed[id].values())
            }
            for id in self.own
        }


def run(targets: Sequence[str]) -> int:
    """Try the mistakes of the units or exercises that are named, or of all.

    Raises:
        CourseError: it cannot be done here.
    """
    if sys.platform != "linux":
        raise CourseError("Each exercise is tried in a forked process: that needs Linux.")
    started = time.monotonic()
    warnings.filterwarnings("ignore")
    course = courses.load()
    chosen = course.select(targets)
    console = Console(highlight=False, width=120)
    bench = Bench(course, collect(suite_files()))
    mistakes = bank.mistakes(course)
    many = Counter(mistake.exercise for mistake in mistakes)
    told = {row: Told() for row in (*chosen, ACROSS)}

    def work(exercise: str) -> dict[str, Told]:
        return Pairs(bench, mistakes, exercise).told()

    longest_first = sorted(chosen, key=lambda id: -many[id])
    with progress(console, "exercises", len(chosen)) as bar:
        for number, done in enumerate(in_forks(work, longest_first, os.cpu_count() or 1), 1):
            bar(number)
            if done.given is None:
                told[done.item].wrong.append(f"{done.item}: ended by {done.signal}")
            for row, part in (done.given or {}).items():
                told[row].add(part)
    for suite in SUITES:
        console.print(_table(suite, told), "", soft_wrap=True)
    holes = [sentence for part in told.values() for sentence in part.wrong]
    for hole in holes:
        console.print(f"hole: {hole}", style="red", soft_wrap=True, markup=False)
    seconds = time.monotonic() - started
    console.print(f"{len(holes)} holes, {seconds:.0f} s", style="red" if holes else "green")
    return 1 if holes else 0


def _table(suite: str, told: Mapping[str, Told]) -> Table:
    table = Table(title=f"what `{suite}` says", box=None, pad_edge=False, collapse_padding=True)
    for name in ("exercise", "pairs", "failing", "named", "third", "wrong", "precision", "recall",
                 "one new", "both new", "alone new"):  # fmt: skip
        table.add_column(name, justify="left" if name == "exercise" else "right", no_wrap=True)
    whole = Told()
    for row, part in told.items():
        if row == ACROSS:  # other pairs than those of one exercise
            table.add_row("all", *_figures(suite, whole.counts))
        if any(key[0] == suite for key in part.counts):
            table.add_row(row, *_figures(suite, part.counts))
        whole.add(part)
    return table


def _figures(suite: str, counts: Counter[Count]) -> Iterator[str]:
    def count(what: str, together: int = 2, lacking: int = 0) -> int:
        return counts[suite, together, lacking, what]

    yield from (str(count(what)) for what in ("tried", "failing", "named", "third", "wrong"))
    right = count("named") - count("wrong")
    for whole in (count("named"), count("failing")):
        yield f"{100 * right / whole:.1f} %" if whole else "-"
    for kind in ((2, 1), (2, 2), (1, 1)):
        yield f"{count('wrong', *kind)}/{count('tried', *kind)}"
