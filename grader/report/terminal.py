"""A score as a student reads it in a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from grader.course import Exercise
from grader.desk import Upcoming
from grader.model import PRINTED_MOST, CheckResult, Message, Outcome, Submission, say
from grader.report import pictures
from grader.report.cause import cause
from grader.report.language import Language
from grader.report.plain import plain
from grader.report.wrapping import wrap
from grader.score import ExerciseScore, Score
from grader.subject import endings

_MARKS = {
    Outcome.PASSED: ("✓", "green"),
    Outcome.BLOCKED: ("·", "dim"),
    Outcome.NOT_ATTEMPTED: ("·", "dim"),
}
_OPEN, _UNTRIED = ("✗", "red"), ("·", "dim")
_DETAILED = 3  # exercises that are told whole when the whole course was asked for
_FOLDED = 3  # checks in a row with a reason that was told; more are one line
_PRINTED = 8  # lines of what was printed


class Terminal:
    """Prints scores.

    Args:
        console: where to.
        language: in which language.
        detailed: tell every exercise whole, not only the first open ones.
        folder: where the modules lie, as the student would say it; "" where that says nothing.
    """

    def __init__(self, console: Console, language: Language, detailed: bool, folder: str = ""):
        self._console = console
        self._say = language
        self._detailed = detailed
        self._folder = folder
        self._told: set[str] = set()
        self._printed: set[str] = set()
        self._pictured = False

    def show(self, score: Score, submission: Submission, upcoming: Upcoming | None = None) -> None:
        """Print everything that a student is told after a run.

        Args:
            score: what was earned.
            submission: whose notes are told first.
            upcoming: what comes next where nothing of this can be gone on with.
        """
        for note in submission.notes:
            self._line(self._say.render(note), "yellow")
        told = 0
        for exercise in score.exercises:
            own = not any(check.outcome is Outcome.BLOCKED for check in exercise.checks)
            failed = not exercise.passed and exercise.untouched is None and own
            self._headline(exercise)
            if self._detailed or (failed and told < _DETAILED):
                told += failed
                self._checks(exercise)
            elif exercise.untouched is Outcome.NOT_ATTEMPTED and (common := _common(exercise)):
                self._reason(common)  # a file that is not there, or a name
        self._ending(score, submission, upcoming)

    def tell(self, exercise: ExerciseScore) -> None:
        """Print all about one exercise, and nothing about what comes next."""
        self._told.clear()
        self._headline(exercise)
        self._checks(exercise)

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
        self._pictured = False
        self._printed.clear()
        if exercise.followed_through:
            words = self._say(
                "(judged on a sound version of what it stands on, since yours is open)"
            )
            self._write(Text(words, "dim"), 6)
        if exercise.at_fault and exercise.untouched is None:
            words = self._say("(points come once the fault is gone: once clause 1 holds)")
            self._write(Text(words, "dim"), 6)
        common = _common(exercise)
        if exercise.score and not exercise.passed:
            self._write(Text(self._say.render(_by_clause(exercise)), "dim"), 6)
        if common:  # one reason for all: a file that cannot be read, say
            self._reason(common)
        elif exercise.untouched is Outcome.NOT_ATTEMPTED:
            untouched = say("`raise NotImplementedError` still stands in it: write in its place.")
            if exercise.exercise.stub:
                untouched = say(
                    "It is as it was given: it runs, and has one fault. Its docstring says what"
                    " somebody saw."
                )
            self._write(Text(self._say.render(untouched)), 6)
        if exercise.untouched is Outcome.BLOCKED or (common and exercise.untouched is None):
            return
        told: dict[str, int] = {}

        def told_at(check: CheckResult) -> tuple[int, str]:
            """In which clause its reason was told, 0 where it is yet to be; and its cause."""
            key = "" if common else self._cause(check)
            if key in told:
                return told[key], key
            if key:
                told[key] = check.clause
            return 0, key

        for (clause, key), group in itertools.groupby(_once(exercise.checks), told_at):
            checks = list(group)
            if clause and len(checks) > _FOLDED:
                folded = say(
                    "and {count} more checks, as in {clause}", count=len(checks), clause=clause
                )
                before = Text.assemble(" ", _mark(checks[0]), "   ")
                self._write(Text(self._say.render(folded), "dim"), 5, before)
                continue
            for check in checks:
                title = Text(self._say(check.title))
                if clause:
                    title.append(self._say("  (as in {clause})", clause=clause), "dim")
                self._write(title, 5, Text.assemble(" ", _mark(check), f" {check.clause} "))
                if key and not clause:
                    self._reason(check)
                    self._picture(check, exercise.checks)

    def _cause(self, check: CheckResult) -> str:
        """What makes two failures one: see `cause`; and the line that raised, whatever it says."""
        if check.frames and check.message and not check.mistake:
            return "\n".join([str(check.message[0].args.get("type")), *check.frames])
        words = "\n".join(self._say.render(line) for line in check.message)
        return cause(check.mistake, check.outcome.value, words, check.frames)

    def _words(self, check: CheckResult) -> str:
        return "\n".join([*(self._say.render(line) for line in check.message), *check.frames])

    def _reason(self, check: CheckResult) -> None:
        words = self._words(check)
        if words in self._told and "\n" in words:
            self._write(Text(self._say("(for the reason that is given above)"), "dim"), 6)
            return
        self._told.add(words)
        for message in check.message:
            for line in self._say.render(message).split("\n"):
                self._write(Text(line), 6)
        for frame in check.frames:
            for line in self._say.frame(frame, self._folder).split("\n"):
                self._console.print(Text(" " * 6 + line, "cyan"), soft_wrap=True)
        if check.outcome is not Outcome.BLOCKED and check.printed not in {"", *self._printed}:
            self._printed.add(check.printed)
            self._write(Text(self._say("your code printed:"), "dim"), 6)
            lines = plain(check.printed).rstrip("\n").split("\n")
            for printed in lines[:_PRINTED]:
                self._console.print(Text(" " * 8 + printed, "dim"), soft_wrap=True)
            if len(lines) > _PRINTED:
                least = "+" if len(check.printed) >= PRINTED_MOST else ""
                more = self._say("... ({count} more)", count=f"{len(lines) - _PRINTED}{least}")
                self._write(Text(more, "dim"), 8)

    def _picture(self, check: CheckResult, others: Sequence[CheckResult]) -> None:
        """Draw what was expected and found, as seen in another check where a mistake shows there;
        one picture of an exercise says enough.
        """
        shows = [check, *(c for c in others if check.mistake and c.mistake == check.mistake)]
        drawn = next((c for c in shows if c.picture), None)
        if drawn is None or drawn.picture is None or self._pictured:
            return
        self._pictured = True
        if drawn is not check:
            words = self._say("as a check of clause {clause} shows it:", clause=drawn.clause)
            self._write(Text(words, "dim"), 6)
        for line in pictures.drawn(drawn.picture, self._say, self._console.width - 6):
            self._console.print(Text(" " * 6) + line, soft_wrap=True)

    def _ending(self, score: Score, submission: Submission, upcoming: Upcoming | None) -> None:
        folder = self._folder
        console = self._console
        console.print()
        passed = sum(exercise.passed for exercise in score.exercises)
        counted = self._say(
            "{passed} of {all} exercises passed, {points} of {most} points",
            passed=passed,
            all=len(score.exercises),
            points=f"{score.score:g}",
            most=f"{score.max_score:g}",
        )
        console.print(counted, style="bold", highlight=False)
        unfinished = [e for e in score.exercises if not e.passed]
        first = next((e for e in unfinished if e.untouched is not Outcome.BLOCKED), None)
        if first is None and upcoming:
            untouched, known = not upcoming.begun, upcoming.known
            words = _next(upcoming.exercise, untouched, folder, submission, known)
            self._line(self._say.render(words), "bold cyan")
            if unfinished:
                self._hint(upcoming.exercise)
        if not unfinished:
            words = say("what the reference does otherwise: make compare")
            self._line(self._say.render(words), "cyan")
        if first is None:
            return
        common = _common(first)
        if common and first.untouched is Outcome.NOT_ATTEMPTED:
            told = self._say("next: {words}", words=self._say.render(common.message[-1]))
        elif common and first.untouched is None and _is_elsewhere(common, first.exercise):
            place = self._say.frame(common.frames[-1].split("\n")[0], self._folder)
            unit = first.exercise.unit
            words = say("next: mend {place}, then: make check ONLY={unit}", place=place, unit=unit)
            told = self._say.render(words)
        else:
            words = _next(first.exercise, first.untouched is not None, folder, submission)
            told = self._say.render(words)
        self._line(told, "bold cyan")
        self._hint(first.exercise)

    def _hint(self, exercise: Exercise) -> None:
        words = say("a hint: make hint ONLY={id}   at every save: make watch", id=exercise.id)
        self._line(self._say.render(words), "cyan")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)

    def _write(self, text: Text, columns: int, before: Text | None = None) -> None:
        """Print a text that keeps its left margin when it is wrapped, and has none on the right."""
        lines = wrap(text, max(20, self._console.width - columns))
        for number, line in enumerate(lines):
            margin = before if before is not None and number == 0 else Text(" " * columns)
            self._console.print(Text.assemble(margin, line), soft_wrap=True)


def _by_clause(exercise: ExerciseScore) -> Message:
    most = exercise.exercise.points
    parts = (f"{points:g}/{all}" for points, all in zip(exercise.clauses, most))
    return say("points of clause 1, 2, ...: {points}", points="  ".join(parts))


def _mark(check: CheckResult) -> tuple[str, str]:
    """A sign, and its style."""
    untried = check.message[:1] and check.message[0] in endings.UNTRIED
    return _UNTRIED if untried else _MARKS.get(check.outcome, _OPEN)


def _next(
    exercise: Exercise, untouched: bool, folder: str, submission: Submission, known: bool = True
) -> Message:
    """What to do about an exercise that is open; or, not ``known``, has changed since its check."""
    id, unit = exercise.id, exercise.unit
    names = {"name": exercise.name, "folder": folder, "unit": unit, "id": id}
    module = submission.modules.get(unit)
    file = f"{folder}/{PurePath(module.path).name if module else f'{unit}.py'}"
    if not untouched and not known:
        return say(
            "next: see how `{name}` in {file} stands: make check ONLY={id}", file=file, **names
        )
    if module and module.path.endswith(".ipynb"):
        return say("next: `{name}` in {file}, then run the check below it", file=file, **names)
    if untouched and exercise.stub:
        return say(
            "next: find the fault of `{name}` in {folder}/{unit}.py and mend it, then:"
            " make check ONLY={id}",
            **names,
        )
    if untouched:
        return say(
            "next: write `{name}` in {folder}/{unit}.py, then: make check ONLY={id}", **names
        )
    return say("next: mend `{name}` in {folder}/{unit}.py, then: make check ONLY={id}", **names)


def _common(exercise: ExerciseScore) -> CheckResult | None:
    """A check whose message all the others share, if there is a message and it is one for all."""
    if not exercise.checks:
        return None
    first, *others = exercise.checks
    same = first.message and all(
        (o.message, o.frames) == (first.message, first.frames) for o in others
    )
    return first if same and others else None


def _is_elsewhere(check: CheckResult, exercise: Exercise) -> bool:
    """Whether it was stopped by a line that is not the exercise's own, such as an import."""
    place = check.frames[-1].split("\n")[0] if check.frames else ""
    return bool(place) and not place.endswith(f", in {exercise.name.split('.')[-1]}")


def _once(checks: tuple[CheckResult, ...]) -> Iterator[CheckResult]:
    """Checks of the same clause and title, such as those of one test with several inputs, as one:
    the first that failed, else the first.
    """
    groups: dict[tuple[int, str], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault((check.clause, check.title), []).append(check)
    for group in groups.values():
        yield next((c for c in group if c.outcome is not Outcome.PASSED), group[0])
