"""Where a student stands: units, exercises, points, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from grader.course import Exercise
from grader.desk import Desk
from grader.model import Message, Outcome, say
from grader.report.teller import Teller
from grader.state import OPEN, PASSED, Kept

_STALE, _UNKNOWN = "stale", "unknown"
# A mark, its style, and what it means: said below the table where it occurs.
_MARKS: dict[str, tuple[str, str, Message]] = {
    PASSED: ("✓", "green", say("passed")),
    OPEN: ("✗", "red", say("open")),
    Outcome.BLOCKED.value: ("-", "dim", say("stands on one that is unfinished")),
    Outcome.NOT_ATTEMPTED.value: ("·", "dim", say("not attempted")),
    _STALE: ("~", "yellow", say("changed since it was checked")),
    _UNKNOWN: ("?", "dim", say("not checked yet")),
}


@dataclass(frozen=True)
class _Row:
    """How one exercise stands; of a stale one, how it stood."""

    exercise: Exercise
    kept: Kept | None
    standing: str

    @property
    def score(self) -> float:
        return self.kept.score if self.kept else 0.0


class Progress:
    """Prints it.

    Args:
        desk: whose.
        tell: where to, and in which language.
    """

    def __init__(self, desk: Desk, tell: Teller):
        self._desk = desk
        self._tell = tell

    def show(self, ids: Sequence[str], detailed: bool) -> None:
        """Print a line for each unit, and one for each exercise of those that matter.

        Args:
            ids: the exercises that are looked at.
            detailed: list the exercises of all units, not only of the one that is being worked on.
        """
        rows = [self._row(id) for id in ids]
        upcoming = self._desk.upcoming(ids)
        units = list(dict.fromkeys(row.exercise.unit for row in rows))
        console = self._tell.console
        console.print(self._units(units, rows))
        now = upcoming.exercise.unit if upcoming else ""
        for unit in units:
            if detailed or unit == now:
                console.print()
                console.print(Text(unit, "bold"))
                console.print(self._exercises([r for r in rows if r.exercise.unit == unit]))
        console.print()
        present = {row.standing for row in rows}
        legend = [(mark, words) for name, (mark, _, words) in _MARKS.items() if name in present]
        said = "   ".join(f"{mark} {self._tell.language.render(words)}" for mark, words in legend)
        self._tell.text(said, "dim")
        if _STALE in present:
            words = say("Where something has changed, the points are those of the last check.")
            self._tell(words, "yellow")
        if present & {_STALE, _UNKNOWN}:
            self._tell.line(say("up to date: make progress CHECK=yes"), "yellow")
        if upcoming is None:
            self._tell(say("All of this has passed."), "bold green")
            upcoming = self._desk.upcoming()
        if upcoming:
            self._next(upcoming.exercise)

    def _row(self, id: str) -> _Row:
        kept = self._desk.state.results.get(id)
        if kept is None:
            standing = _UNKNOWN
        elif self._desk.fresh(id) is None and (
            kept.standing in (PASSED, OPEN) or not self._desk.is_stub(id)
        ):
            standing = _STALE
        else:
            standing = kept.standing if kept.standing in _MARKS else _UNKNOWN
        return _Row(self._desk.course.exercises[id], kept, standing)

    def _units(self, units: Sequence[str], rows: Sequence[_Row]) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        for unit in units:
            mine = [row for row in rows if row.exercise.unit == unit]
            marks = Text()
            for row in mine:
                mark, style, _ = _MARKS[row.standing]
                marks.append(mark, style)
            table.add_row(unit, marks, *self._sums(mine))
        if len(units) > 1:
            table.add_row("", "", *(Text(text, "bold") for text in self._sums(rows)))
        return table

    def _sums(self, rows: Sequence[_Row]) -> tuple[str, str]:
        passed = sum(row.standing == PASSED for row in rows)
        points, most = sum(r.score for r in rows), sum(r.exercise.max_score for r in rows)
        language = self._tell.language
        return (
            language("{passed} of {all}", passed=passed, all=len(rows)),
            language("{points} of {most} points", points=f"{points:g}", most=f"{most:g}"),
        )

    def _exercises(self, rows: Sequence[_Row]) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        for row in rows:
            mark, style, words = _MARKS[row.standing]
            name = Text.assemble(" ", (mark, style), f" {row.exercise.name}")
            points = f"{row.score:g} / {row.exercise.max_score:g}"
            told = points if row.kept and row.standing in (PASSED, OPEN, _STALE) else ""
            table.add_row(name, told or Text(self._tell.language.render(words), "dim"))
        return table

    def _next(self, exercise: Exercise) -> None:
        words = say(
            "next: `{name}` in {file} (about {minutes} minutes), then: make check ONLY={id}",
            name=exercise.name,
            file=self._desk.file(exercise.id),
            minutes=exercise.minutes,
            id=exercise.id,
        )
        self._tell.line(words, "bold cyan")
