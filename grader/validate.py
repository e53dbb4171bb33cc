"""`grader validate`: prove the course. Any hole is named, and the exit code is then not 0."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

from rich.console import Console
from rich.table import Table

from grader import course as courses
from grader import hints, naming
from grader.course import ROOT, Course, Unit
from grader.judge import bank, prove
from grader.judge.bank import Mistake
from grader.judge.diagnose import Known
from grader.judge.prove import Attempt, Bench, record, rubbish
from grader.judge.suite import PUBLIC, Suite, collect, suite_files
from grader.judge.untouched import untouched
from grader.model import Outcome, Submission
from grader.subject.modules import PACKAGE
from release import stubs

ANSWERS = PUBLIC / "answers"


class Validation:
    """One run over the chosen units.

    Attributes:
        holes: what is wrong with the course, in sentences.
    """

    def __init__(self, course: Course, suite: Suite):
        self.course = course
        self.suite = suite
        self.bench = Bench(course, suite)
        self.mistakes = bank.mistakes(course)
        self.variants = list(bank.variants(course))
        self.holes: list[str] = []

    def unit(self, unit: Unit) -> list[str]:
        """Prove one unit; give back its row of the table."""
        started = time.monotonic()
        exercises = [exercise.id for exercise in unit.exercises]
        checks = self.bench.checks(exercises)
        self._clauses(unit)
        self._hints(unit)
        right = list(self.bench.attempts(self.bench.solution, checks))
        for attempt in right:
            if attempt.outcome is not Outcome.PASSED:
                self.holes.append(f"the reference fails {attempt.check.id}: {attempt.error}")
        handed_out = _stubs(self.course, self.bench)
        as_given = untouched(handed_out, bank.given(self.course, self.mistakes))
        for exercise in unit.exercises:
            if exercise.stub and exercise.id not in as_given:
                self.holes.append(f"the stub of {exercise.id} is not known for what was handed out")
        begun = [check for check in checks if check.exercise not in as_given]
        stubbed = list(self.bench.attempts(handed_out, begun))
        for attempt in stubbed:
            if attempt.outcome not in (Outcome.NOT_ATTEMPTED, Outcome.BLOCKED):
                self.holes.append(f"the stubs end {attempt.check.id} as {attempt.outcome.value}")
        variants = [v for v in self.variants if v.id.split("/")[0] == unit.name]
        affected = self.course.standing_on(exercises)
        accepted = sum(self._accepted(variant, affected) for variant in variants)
        mistakes = [m for m in self.mistakes if m.unit == unit.name]
        caught, named = self._mistakes(mistakes)
        for id in exercises:
            self._rubbish(id)
        return [
            unit.name,
            str(len(exercises)),
            str(sum(len(e.points) for e in unit.exercises)),
            f"{sum(not c.hidden for c in checks)}+{sum(c.hidden for c in checks)}",
            _share(a.outcome is Outcome.PASSED for a in right),
            _share(a.outcome is Outcome.PASSED for a in stubbed),
            f"{accepted}/{len(variants)}",
            f"{caught}/{len(mistakes)}",
            f"{named}/{len(mistakes)}",
            f"{time.monotonic() - started:.1f} s",
        ]

    def _clauses(self, unit: Unit) -> None:
        written = courses.clauses(ROOT / "solutions" / f"{unit.name}.py")
        for exercise in unit.exercises:
            count = len(written.get(exercise.id, ()))
            if count != len(exercise.points):
                self.holes.append(
                    f"{exercise.id} has {count} clauses in its docstring and"
                    f" {len(exercise.points)} in course.toml"
                )
            if not any(c.hidden for c in self.bench.checks([exercise.id])):
                self.holes.append(f"{exercise.id} has no hidden check")
            numbers = set(range(1, count + 1))
            public = {c.clause for c in self.bench.checks([exercise.id], hidden=False)}
            for number in numbers - public:
                self.holes.append(f"{exercise.id} clause {number} has no public check")
            for check in self.bench.checks([exercise.id]):
                if check.clause not in numbers:
                    self.holes.append(f"{check.id}: {exercise.id} has no clause {check.clause}")

    def _hints(self, unit: Unit) -> None:
        for id in hints.holes(self.course):
            if self.course.exercises[id].unit == unit.name:
                self.holes.append(f"docs/hints/{unit.name}.toml says nothing of {id}")

    def _accepted(self, variant: Submission, exercises: Iterable[str]) -> bool:
        tried = self.bench.attempts(variant, self.bench.checks(exercises))
        failed = [a for a in tried if a.outcome is not Outcome.PASSED]
        for attempt in failed:
            self.holes.append(f"variant {variant.id} fails {attempt.check.id}: {attempt.error}")
        return not failed

    def _mistakes(self, mistakes: Sequence[Mistake]) -> tuple[int, int]:
        tried = prove.tried(self.bench, mistakes)
        self._bites(tried.values())
        self._tells_apart(mistakes, tried)
        titles = bank.titles(mistakes)
        known = Known(prove.signatures(tried), titles)
        faults = {fault.id for fault in bank.faults(self.course, self.mistakes).values()}
        caught = named = 0
        for mistake in mistakes:
            failed = [a for a in tried[mistake.id] if a.outcome is not Outcome.PASSED]
            # With what a repair is handed out must show in the checks that students have.
            seen = [a for a in failed if not (mistake.id in faults and a.check.hidden)]
            if mistake.clause in {attempt.check.clause for attempt in seen}:
                caught += 1
            else:
                where = sorted({attempt.check.clause for attempt in seen})
                self.holes.append(
                    f"mistake {mistake.id} is to break clause {mistake.clause} of"
                    f" {mistake.exercise}; it breaks {where or 'none'}"
                )
            results = [known.compared(a.result, a.signature) for a in tried[mistake.id]]
            told = {titles[check.mistake] for check in naming.named(results) if check.mistake}
            named += told == {titles[mistake.id]}
        return caught, named

    def _bites(self, tried: Iterable[Sequence[Attempt]]) -> None:
        """Each clause is lost by some known mistake: what nothing fails, checks nothing."""
        asked: set[tuple[str, int]] = set()
        lost: set[tuple[str, int]] = set()
        for attempt in itertools.chain.from_iterable(tried):
            clause = attempt.check.exercise, attempt.check.clause
            asked.add(clause)
            if attempt.outcome is not Outcome.PASSED:
                lost.add(clause)
        for exercise, number in sorted(asked - lost):
            self.holes.append(f"{exercise} clause {number}: no known mistake fails its checks")

    def _tells_apart(
        self, mistakes: Sequence[Mistake], tried: Mapping[str, Sequence[Attempt]]
    ) -> None:
        """No two mistakes of an exercise are one under every check."""
        alike: dict[tuple[str, ...], list[Mistake]] = {}
        for mistake in mistakes:
            ends = (attempt.outcome.value for attempt in tried[mistake.id])
            alike.setdefault((mistake.exercise, *ends), []).append(mistake)
        for group in alike.values():
            for one, other in itertools.combinations(group, 2):
                if all(map(prove.alike, tried[one.id], tried[other.id])):
                    self.holes.append(
                        f"mistakes {one.id} and {other.id} of {one.exercise} are the same under"
                        " every check"
                    )

    def _rubbish(self, exercise: str) -> None:
        for kind, submission in rubbish(self.bench, exercise):
            for attempt in self.bench.attempts(submission, self.bench.checks([exercise])):
                if attempt.outcome is Outcome.GRADER_ERROR:
                    self.holes.append(
                        f"where {kind}, {attempt.check.id} fails with our own fault:"
                        f" {attempt.error!r}"
                    )

    def sync(self) -> None:
        """The committed stubs and recorded answers are what the generators give."""
        for name, text in stubs.stubs(self.course).items():
            path = ROOT / PACKAGE / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                self.holes.append(
                    f"{PACKAGE}/{name} is not what solutions/ gives: run `make stubs`"
                )
        self.suite.secret = ""
        try:
            recordings = record(self.bench, self.mistakes)
        except AssertionError as error:
            self.holes.append(f"nothing can be recorded: {error}")
            return
        for unit, recording in recordings.items():
            path = ANSWERS / f"{unit}.safetensors"
            if not recording.agrees_with(type(recording).read(path)):
                self.holes.append(
                    f"tests/public/answers/{path.name} is not what the suite gives:"
                    " run `make answers`"
                )


def _stubs(course: Course, bench: Bench) -> Submission:
    submission = bench.solution
    for unit in course.units:
        text = stubs.stub(unit.name, submission.modules[unit.name].text, course)
        submission = bank.edited(submission, unit.name, text, "stubs")
    return submission


def _share(passed: Iterable[bool]) -> str:
    counts = Counter(passed)
    return f"{100 * counts[True] / max(1, sum(counts.values())):.0f} %"


Row = tuple[list[str], list[str]]  # of the table, and the holes

_this: Validation  # in a process that proves one unit after another


def _prove(unit: Unit | None) -> Row:
    """Prove a unit, or without one that all is in sync."""
    _this.holes.clear()
    if unit is None:
        _this.sync()
        return [], list(_this.holes)
    return _this.unit(unit), list(_this.holes)


def _prove_all(validation: Validation, tasks: Sequence[Unit | None]) -> list[Row]:
    """In as many processes as there are cores, where a process can fork safely."""
    global _this
    _this = validation
    if sys.platform != "linux":
        return [_prove(task) for task in tasks]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        return list(pool.map(_prove, tasks))


def run(targets: Sequence[str]) -> int:
    """Validate the units that are named, or all."""
    started = time.monotonic()
    warnings.filterwarnings("ignore")
    course = courses.load()
    chosen = {id.split(".")[0] for id in course.select(targets)}
    console = Console(highlight=False)
    tasks: list[Unit | None] = [unit for unit in course.units if unit.name in chosen]
    tasks.append(None)
    suite = collect(suite_files(), secret="validate")
    rows = _prove_all(Validation(course, suite), tasks)
    table = Table(title=course.title, box=None, pad_edge=False, collapse_padding=True)
    for name in ("unit", "ex.", "clauses", "checks", "ref.", "stubs", "variants", "caught",
                 "named", "time"):  # fmt: skip
        table.add_column(name, justify="left" if name == "unit" else "right")
    for row, _ in rows:
        if row:
            table.add_row(*row)
    console.print(table)
    holes = [hole for _, found in rows for hole in found]
    for hole in holes:
        console.print(f"hole: {hole}", style="red", soft_wrap=True, markup=False)
    seconds = time.monotonic() - started
    console.print(f"{len(holes)} holes, {seconds:.0f} s", style="red" if holes else "green")
    return 1 if holes else 0


def write_answers() -> int:
    """Record the public suite's answers again."""
    warnings.filterwarnings("ignore")
    course = courses.load()

    suite = collect(sorted(PUBLIC.glob("test_*.py")))
    changed = 0
    ANSWERS.mkdir(exist_ok=True)
    for unit, recording in record(Bench(course, suite), bank.mistakes(course)).items():
        path = ANSWERS / f"{unit}.safetensors"
        blob = recording.to_bytes()
        if not path.exists() or path.read_bytes() != blob:
            path.write_bytes(blob)
            changed += 1
    print(f"recorded answers: {changed} files changed")
    return 0
