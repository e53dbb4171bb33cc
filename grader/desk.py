"""A student's folder as the commands see it: what is written there, and how it stood when last
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import definitions, intake, state
from grader.check import LIMIT_S, Check
from grader.course import Course, Exercise
from grader.model import Outcome
from grader.score import ExerciseScore, Score, score


@dataclass(frozen=True)
class Upcoming:
    """An exercise to go on with.

    Attributes:
        exercise: which.
        begun: somebody has written in it.
        known: it has been checked as it stands.
    """

    exercise: Exercise
    begun: bool
    known: bool


class Desk:
    """One folder.

    Args:
        course: the table.
        path: the folder.

    Attributes:
        submission: its modules, as they were read.
        texts: unit -> source.
        state: what is remembered.

    Raises:
        IntakeError: there is no such folder.
    """

    def __init__(self, course: Course, path: Path):
        self.course = course
        self.path = path
        self.state = state.read(path)
        self.read()

    def read(self) -> None:
        """Read the modules anew."""
        self.submission = intake.read_folder(self.path, self.course.definitions)
        self.texts = {unit: module.text for unit, module in self.submission.modules.items()}

    def fresh(self, id: str) -> state.Kept | None:
        """How an exercise stands, if nothing has changed since it was checked."""
        return self.state.fresh(self.course, id, self.texts)

    def is_stub(self, id: str) -> bool:
        """Nobody has begun it, whatever has changed around it."""
        exercise = self.course.exercises[id]
        names = definitions.names_of(self.course, exercise.unit)
        own = definitions.pieces(self.texts.get(exercise.unit, ""), names).get(exercise.name, "")
        return not own or "raise NotImplementedError" in own

    def has_passed(self, id: str) -> bool:
        kept = self.fresh(id)
        return kept is not None and kept.passed

    def first_open(self, ids: Iterable[str]) -> str | None:
        """The first that has not passed; rather one that nothing blocks."""
        left = [id for id in ids if not self.has_passed(id)]
        kept = {id: self.fresh(id) for id in left}
        free = [id for id, one in kept.items() if not one or one.standing != Outcome.BLOCKED.value]
        return next(iter(free or left), None)

    def upcoming(self, ids: Sequence[str] = ()) -> Upcoming | None:
        """What to go on with, as far as is remembered: what was checked last and is open, or what
        that stands on; else the first open one of its unit, of the units behind it, of all.

        Args:
            ids: among which; all by default.
        """
        ids = list(ids or self.course.exercises)
        when = {id: self.state.results[id].when for id in ids if id in self.state.results}
        last = [id for id, time in when.items() if time == max(when.values())]
        order = [id for id in self.course.closure(last) if id in ids]
        if last:
            unit = self.course.exercises[last[-1]].unit
            first = next(n for n, id in enumerate(ids) if self.course.exercises[id].unit == unit)
            order += ids[first:]
        id = self.first_open([*last, *order, *ids])
        if id is None:
            return None
        exercise, kept = self.course.exercises[id], self.state.results.get(id)
        known = self.fresh(id) is not None
        begun = kept is not None and kept.standing in (state.PASSED, state.OPEN)
        if not known and not exercise.stub:  # one that is to be mended is whole from the first day
            begun = not self.is_stub(id)
        return Upcoming(exercise, begun, known)

    def remember(self, scores: Iterable[ExerciseScore]) -> bool:
        """Keep how these stand; False where that cannot be written."""
        self.state.note(self.course, self.texts, scores)
        return self.state.write(self.path)

    def check(self, ids: Sequence[str], waiting: Callable[[str], None]) -> Score:
        """Run the public suite and remember what came of it."""
        check = Check(self.course, self.path, self.course.closure(ids), LIMIT_S)
        scores = score(self.course, ids, check.results(waiting))
        self.remember(scores.exercises)
        return scores

    def file(self, id: str) -> str:
        """The file in which an exercise is written, as the student would name it."""
        module = self.submission.modules.get(self.course.exercises[id].unit)
        name = Path(module.path).name if module else f"{self.course.exercises[id].unit}.py"
        return str(self.path / name)
