"""`grader mutants`: change the reference mechanically, and see that the suites notice.

A mutant that passes every check is a survivor: either a check is missing, or the contract allows
it, and then it is written down in ``solutions/equivalents`` with the reason. Any other survivor is
a hole, and so is an entry there that does not hold; the exit code is then not 0.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from grader import course as courses
from grader.course import Course, CourseError
from grader.forks import Done, confine, in_forks
from grader.judge import bank, mutate
from grader.judge.mutate import Equivalent, Mutant
from grader.judge.prove import Bench
from grader.judge.suite import Check, Suite, collect, suite_files
from grader.model import Outcome

_LEAST_S = 3  # of processor time for a mutant, beside ten times what the reference takes

# Signals by which a program ends that never would, or that took its process with it. Any other (an
# alarm, too little memory for all) may be the machine's doing, and says nothing of the mutant.
_TELLING = {"SIGXCPU", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"}


@dataclass(frozen=True)
class Fate:
    """What became of a mutant.

    Attributes:
        killer: the check that it fails, or the signal that ended it; "" where it survives.
        fault: why its fate tells nothing.
        seconds: how long it took.
    """

    killer: str = ""
    fault: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, done: Done[Mutant, Fate]) -> Fate:
        if done.given is not None:
            return replace(done.given, seconds=done.seconds)
        if done.signal in _TELLING:
            return cls(killer=done.signal, seconds=done.seconds)
        return cls(fault=f"ended by {done.signal}, which tells nothing", seconds=done.seconds)


class Mutation:
    """One run over the chosen exercises.

    Attributes:
        mutants: all of them, in the order of the course.
    """

    def __init__(self, course: Course, suite: Suite, chosen: Sequence[str]):
        self.course = course
        self.bench = Bench(course, suite)
        self.mutants: list[Mutant] = []
        for unit in course.units:
            self.mutants += mutate.mutants(unit, self.text(unit.name), chosen)
        self._costs: dict[str, float] = {}  # check -> the reference's processor time

    def text(self, unit: str) -> str:
        """A unit of the reference."""
        return self.bench.solution.modules[unit].text

    def run(self, told: Callable[[int], None], jobs: int) -> dict[Mutant, Fate]:
        """Try every mutant.

        Args:
            told: given the number of those that are done.
            jobs: how many at a time.

        Raises:
            CourseError: the reference itself does not pass, so nothing could be told.
        """
        self._try_reference()
        fates: dict[Mutant, Fate] = {}
        for done in in_forks(self._try, self.mutants, jobs):
            fates[done.item] = Fate.of(done)
            told(len(fates))
        return {mutant: fates[mutant] for mutant in self.mutants}

    def _try_reference(self) -> None:
        exercises = {mutant.exercise: None for mutant in self.mutants}
        wanted = {check.id: check for id in exercises for check in self._checks(id)}
        before = time.process_time()
        for attempt in self.bench.attempts(self.bench.solution, wanted.values()):
            if attempt.outcome is not Outcome.PASSED:
                raise CourseError(
                    f"The reference fails {attempt.check.id}: see `make validate` first."
                )
            after = time.process_time()
            self._costs[attempt.check.id], before = after - before, after

    def _checks(self, exercise: str) -> list[Check]:
        """The exercise's own checks, then those of what stands on it."""
        standing = self.course.standing_on([exercise])
        return sorted(self.bench.checks(standing), key=lambda check: standing.index(check.exercise))

    def _try(self, mutant: Mutant) -> Fate:
        """In a fork: run checks up to the first that does not pass."""
        checks = self._checks(mutant.exercise)
        confine(_LEAST_S + round(10 * sum(self._costs[check.id] for check in checks)))
        submission = bank.edited(self.bench.solution, mutant.unit, mutant.text, "mutant")
        for attempt in self.bench.attempts(submission, checks):
            if attempt.outcome is Outcome.GRADER_ERROR:
                return Fate(fault=f"{attempt.check.id} fails by our own fault: {attempt.error!r}")
            if attempt.outcome is not Outcome.PASSED:
                return Fate(killer=attempt.check.id)
        return Fate()


def tally(
    unit: str, text: str, fates: Mapping[Mutant, Fate], written: Sequence[Equivalent]
) -> tuple[list[str], list[str]]:
    """One unit's row of the table, and its holes.

    Args:
        unit: its name.
        text: the solution's source.
        fates: of the unit's mutants.
        written: what is written down about it.
    """
    allowed, holes = _allowed({m.program: fate for m, fate in fates.items()}, text, written)
    survivors = [m for m, fate in fates.items() if not fate.killer and not fate.fault]
    unexplained = [mutant for mutant in survivors if mutant.program not in allowed]
    holes += [f"{fate.fault}\n{mutant}" for mutant, fate in fates.items() if fate.fault]
    holes += [f"no check notices\n{mutant}" for mutant in unexplained]
    return [
        unit,
        str(len(fates)),
        str(sum(bool(fate.killer) for fate in fates.values())),
        str(len(survivors) - len(unexplained)),
        str(len(unexplained)),
        f"{sum(fate.seconds for fate in fates.values()):.1f} s",
    ], holes


def _allowed(
    fates: Mapping[str, Fate], text: str, written: Sequence[Equivalent]
) -> tuple[set[str], list[str]]:
    """What survivors that are written down do, and what is written down and does not hold."""
    allowed, holes = set(), []
    for one in written:
        for put in one.becomes:
            where = f"equivalents of {one.exercise}, {one.find!r} -> {put!r}"
            try:
                does = one.program(text, put)
            except CourseError as error:
                holes.append(f"{where}: {error}")
                continue
            if does not in fates:
                holes.append(f"{where}: no operator makes this mutant; take it out")
            elif fates[does].killer:
                holes.append(f"{where}: {fates[does].killer} kills it; take it out")
            else:
                allowed.add(does)
    return allowed, holes


def run(targets: Sequence[str]) -> int:
    """Try the mutants of the units or exercises that are named, or of all.

    Raises:
        CourseError: it cannot be done here.
    """
    if sys.platform != "linux":
        raise CourseError(
            "Some mutants never end, so each runs in a forked process: that needs Linux."
        )
    started = time.monotonic()
    warnings.filterwarnings("ignore")
    course = courses.load()
    chosen = course.select(targets)
    console = Console(highlight=False)
    suite = collect(suite_files(), secret="mutants")
    written = [one for one in mutate.equivalents(course) if one.exercise in chosen]
    mutation = Mutation(course, suite, chosen)
    with progress(console, "mutants", len(mutation.mutants)) as told:
        fates = mutation.run(told, os.cpu_count() or 1)
    table = Table(title=course.title, box=None, pad_edge=False, collapse_padding=True)
    for name in ("unit", "mutants", "killed", "equivalent", "survivors", "time"):
        table.add_column(name, justify="left" if name == "unit" else "right")
    holes: list[str] = []
    for name in dict.fromkeys(id.split(".")[0] for id in chosen):
        own = {mutant: fate for mutant, fate in fates.items() if mutant.unit == name}
        entries = [one for one in written if one.unit == name]
        row, found = tally(name, mutation.text(name), own, entries)
        table.add_row(*row)
        holes += found
    console.print(table)
    for hole in holes:
        console.print(f"hole: {hole}", style="red", soft_wrap=True, markup=False)
    seconds = time.monotonic() - started
    console.print(f"{len(holes)} holes, {seconds:.0f} s", style="red" if holes else "green")
    return 1 if holes else 0


@contextlib.contextmanager
def progress(console: Console, what: str, all: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        every = 50
        yield lambda done: print(f"{done} / {all}", file=sys.stderr) if done % every == 0 else None
        return
    # It moves when it is told to. Its thread, which moves it otherwise, would not survive a fork.
    with Progress(console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(what, total=all)
        yield lambda done: bar.update(task, completed=done, refresh=True)
