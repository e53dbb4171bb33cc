"""A score as a student reads it in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.model import CheckResult, Outcome, Submission, say
from grader.report.language import Language
from grader.score import ExerciseScore, Score

_MARKS = {
    Outcome.PASSED: ("✓", "green"),
    Outcome.BLOCKED: ("·", "dim"),
    Outcome.NOT_ATTEMPTED: ("·", "dim"),
}
_OPEN = ("✗", "red")
_DETAILED = 3  # exercises that are told whole when the whole course was asked for


class Terminal:
    """Prints scores.

    Args:
        console: where to.
        language: in which language.
        detailed: tell every exercise whole, not only the first open ones.
    """

    def __init__(self, console: Console, language: Language, detailed: bool):
        self._console = console
        self._say = language
        self._detailed = detailed
        self._told: set[str] = set()

    def show(self, score: Score, submission: Submission, folder: str) -> None:
        """Print everything that a student is told after a run."""
        for note in submission.notes:
            self._line(self._say.render(note), "yellow")
        told = 0
        for exercise in score.exercises:
            failed = not exercise.passed and exercise.untouched is None
            self._headline(exercise)
            if self._detailed or (failed and told < _DETAILED):
                told += failed
                self._checks(exercise)
        self._ending(score, folder)

    def _headline(self, exercise: ExerciseScore) -> None:
        name = exercise.exercise.id
        if exercise.untouched is Outcome.NOT_ATTEMPTED:
            verdict, style = self._say("not attempted"), "dim"
        elif exercise.untouched is Outcome.BLOCKED:
            verdict, style = self._say("blocked"), "dim"
        else:
            verdict = f"{exercise.score:g} / {exercise.max_score:g}"
            style = "green" if exercise.passed else "red"
        width = max(20, min(self._console.width, 88) - 2)
        line = Text(name)
        line.append(" " * max(1, width - line.cell_len - Text(verdict).cell_len))
        line.append(verdict, style)
        self._console.print(line, soft_wrap=True)

    def _checks(self, exercise: ExerciseScore) -> None:
        if exercise.followed_through:
            words = self._say(
                "(judged on a sound version of what it stands on, since yours is open)"
            )
            self._indent(Text(words, "dim"), 6)
        common = _common(exercise)
        if common:  # one reason for all: a file that cannot be read, say
            self._reason(common)
        if exercise.untouched is Outcome.BLOCKED or (common and exercise.untouched is None):
            return
        told: set[str] = set()
        for check in _once(exercise.checks):
            mark, style = _MARKS.get(check.outcome, _OPEN)
            line = Table.grid(padding=(0, 1))
            line.add_row("", Text(mark, style), str(check.clause), Text(self._say(check.title)))
            self._console.print(line)
            reason = check.mistake or self._words(check)
            if reason and reason not in told and not common:
                self._reason(check)
            told.add(reason)

    def _words(self, check: CheckResult) -> str:
        return "\n".join([*(self._say.render(line) for line in check.message), *check.frames])

    def _reason(self, check: CheckResult) -> None:
        words = self._words(check)
        if words in self._told and "\n" in words:
            words = self._say("(for the reason that is given above)")
        self._told.add(words)
        for line in words.split("\n"):
            style = "cyan" if any(line in frame for frame in check.frames) else ""
            self._indent(Text(line, style), 6)
        if check.printed and check.outcome is not Outcome.BLOCKED:
            self._indent(Text(self._say("your code printed:"), "dim"), 6)
            for printed in check.printed.rstrip("\n").split("\n")[:8]:
                self._indent(Text(printed, "dim"), 8)

    def _ending(self, score: Score, folder: str) -> None:
        console = self._console
        console.print()
        passed = sum(exercise.passed for exercise in score.exercises)
        console.print(
            self._say(
                "{passed} of {all} exercises passed, {points} of {most} points",
                passed=passed,
                all=len(score.exercises),
                points=f"{score.score:g}",
                most=f"{score.max_score:g}",
            ),
            style="bold",
            highlight=False,
        )
        upcoming = next(
            (e for e in score.exercises if not e.passed and e.untouched is not Outcome.BLOCKED),
            None,
        )
        upcoming = upcoming or next((e for e in score.exercises if not e.passed), None)
        if upcoming is None:
            return
        exercise = upcoming.exercise
        names = {"name": exercise.name, "folder": folder, "unit": exercise.unit, "id": exercise.id}
        words = (
            say("next: write `{name}` in {folder}/{unit}.py, then: make check ONLY={id}", **names)
            if upcoming.untouched
            else say(
                "next: mend `{name}` in {folder}/{unit}.py, then: make check ONLY={id}", **names
            )
        )
        filled = self._say.render(words)
        self._line(filled, "bold cyan")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)

    def _indent(self, text: Text, columns: int) -> None:
        self._console.print(Padding(text, (0, 0, 0, columns), expand=False))


def _common(exercise: ExerciseScore) -> CheckResult | None:
    """A check whose message all the others share, if there is a message and it is one for all."""
    if not exercise.checks:
        return None
    first, *others = exercise.checks
    same = first.message and all(
        (o.message, o.frames) == (first.message, first.frames) for o in others
    )
    return first if same and others else None


def _once(checks: tuple[CheckResult, ...]) -> Iterator[CheckResult]:
    """Checks of the same clause and title, such as those of one test with several inputs, as one:
    the first that failed, else the first.
    """
    groups: dict[tuple[int, str], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault((check.clause, check.title), []).append(check)
    for group in groups.values():
        yield next((c for c in group if c.outcome is not Outcome.PASSED), group[0])
