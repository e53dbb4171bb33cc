"""The bank: known mistakes, as edits of the reference, and unusual but right implementations.

A mistake is the smallest edit that makes it. An edit that no longer applies is an error, so the
bank cannot rot.
"""

from __future__ import annotations

import ast
import difflib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.course import ROOT, Course, CourseError, tomllib
from grader.model import Module, Submission

SOLUTIONS = ROOT / "solutions"

_MARKERS = re.compile(r"^[ ]*### (BEGIN|END) SOLUTION\n", re.M)
_REST = re.compile(r"^from solutions\.\w+ import .*$", re.M)
_WORD = re.compile(r"\w+|\W")
_BLOCK = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.S)


@dataclass(frozen=True)
class Mistake:
    """A known mistake of one exercise."""

    id: str
    exercise: str
    clause: int
    edits: tuple[
        tuple[str, str], ...
    ]  # text to find, exactly once in the solution; its replacement
    title: str
    hint: str

    @property
    def unit(self) -> str:
        return self.exercise.split(".")[0]

    def apply(self, text: str) -> str:
        """The solution's source with the mistake in it.

        Raises:
            CourseError: an edit does not apply exactly once.
        """
        for find, put in self.edits:
            try:
                text = replace_once(text, self.exercise, find, put)
            except CourseError as error:
                raise CourseError(f"mistake {self.id!r}: {error}") from None
        return text


def joined(text: str, others: Iterable[str]) -> str | None:
    """A source with the changes of several others in it, or None where these touch one another.

    What counts is what was changed, word by word, not the text by which an edit finds its place.
    What several change in the same way is changed once.
    """
    changes = sorted({change for other in others for change in _changes(text, other)})
    if any(first[1] >= second[0] for first, second in itertools.pairwise(changes)):
        return None
    words = _WORD.findall(text)
    for start, end, put in reversed(changes):
        words[start:end] = put
    return "".join(words)


@functools.cache
def _changes(text: str, changed: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """Which words have been replaced, from one to before another, and by what."""
    old, new = _WORD.findall(text), _WORD.findall(changed)
    start = _in_common(old, new)  # the rest alone is matched, which takes long
    end = _in_common(old[start:][::-1], new[start:][::-1])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        (start + first, start + last, tuple(new[put_first:put_last]))
        for kind, first, last, put_first, put_last in matcher.get_opcodes()
        if kind != "equal"
    ]


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words they begin with alike."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def replace_once(text: str, exercise: str, find: str, put: str) -> str:
    """Replace what stands exactly once in an exercise's solution.

    Raises:
        CourseError: it stands there more than once, or not at all.
    """
    places = [
        block.start(1) + match.start()
        for block in blocks(text, exercise)
        for match in re.finditer(re.escape(find), block[1])
    ]
    if len(places) != 1:
        raise CourseError(
            f"{find!r} stands {len(places)} times in the solution of {exercise}; it must stand"
            " there once"
        )
    return text[: places[0]] + put + text[places[0] + len(find) :]


def blocks(text: str, exercise: str) -> Iterator[re.Match[str]]:
    """The solution blocks inside an exercise's definition."""
    node = _definition(text, exercise)
    for block in _BLOCK.finditer(text):
        if node.lineno <= text.count("\n", 0, block.start()) + 1 <= (node.end_lineno or 0):
            yield block


def _definition(text: str, exercise: str) -> ast.FunctionDef | ast.ClassDef:
    node: ast.AST = ast.parse(text)
    for name in exercise.split(".")[1:]:
        node = next(
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and child.name == name
        )
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
    return node


def mistakes(course: Course, folder: Path = SOLUTIONS / "mistakes") -> list[Mistake]:
    """The whole bank, in the order of its files.

    Raises:
        CourseError: an entry lacks something or names no exercise.
    """
    found: list[Mistake] = []
    for unit in course.units:
        path = folder / f"{unit.name}.toml"
        if path.exists():
            try:
                data = tomllib.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise CourseError(f"{path.name} cannot be read: {error}") from None
            found += [_mistake(path, entry, course) for entry in data.get("mistake", ())]
    twice = [id for id, count in Counter(m.id for m in found).items() if count > 1]
    if twice:
        raise CourseError(f"two mistakes are called {twice[0]!r}")
    return found


def titles(mistakes: Iterable[Mistake]) -> dict[str, tuple[str, str]]:
    """Mistake -> what the report says of it: title and hint."""
    return {mistake.id: (mistake.title, mistake.hint) for mistake in mistakes}


def _mistake(path: Path, entry: dict[str, object], course: Course) -> Mistake:
    data = dict(entry)
    try:
        if "edits" not in data:
            data["edits"] = [[data.pop("find"), data.pop("replace")]]
        data["edits"] = tuple((find, put) for find, put in data["edits"])  # type: ignore[attr-defined]
        mistake = Mistake(**data)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise CourseError(f"{path.name}: mistake {entry.get('id')!r}: {what}") from None
    if not (mistake.title and mistake.hint):
        raise CourseError(f"{path.name}: mistake {mistake.id!r} needs a title and a hint")
    exercise = course.exercises.get(mistake.exercise)
    if exercise is None or mistake.clause not in range(1, len(exercise.points) + 1):
        raise CourseError(
            f"{path.name}: mistake {mistake.id!r} names {mistake.exercise} clause {mistake.clause},"
            " which course.toml does not have"
        )
    return mistake


def faults(course: Course, known: Iterable[Mistake] | None = None) -> dict[str, Mistake]:
    """Repair -> the mistake with which it is handed out.

    Raises:
        CourseError: the bank has no such mistake of this exercise, or it leaves clause 1 whole.
    """
    repairs = [exercise for exercise in course.exercises.values() if exercise.stub]
    if not repairs:
        return {}
    by_id = {m.id: m for m in (mistakes(course) if known is None else known)}
    for exercise in repairs:
        fault = by_id.get(exercise.stub)
        if fault is None or (fault.exercise, fault.clause) != (exercise.id, 1):
            raise CourseError(
                f"course.toml: {exercise.id} is handed out with the mistake {exercise.stub!r}; the"
                " bank must have it, of this exercise and of its clause 1"
            )
    return {exercise.id: by_id[exercise.stub] for exercise in repairs}


def given(course: Course, known: Iterable[Mistake] | None = None) -> dict[str, str]:
    """Repair -> its definition as students get it."""
    modules = solution(course).modules
    found = {}
    for exercise, fault in faults(course, known).items():
        text = uncovered(fault.apply(modules[fault.unit].text))
        found[exercise] = ast.get_source_segment(text, _definition(text, exercise)) or ""
    return found


def uncovered(text: str) -> str:
    """Code without the markers around its solutions."""
    return _MARKERS.sub("", text)


def solution(course: Course) -> Submission:
    """The reference, as a submission."""
    modules = {}
    for unit in course.units:
        path = SOLUTIONS / f"{unit.name}.py"
        modules[unit.name] = Module(unit.name, path.read_text(encoding="utf-8"), str(path))
    return Submission("reference", modules)


def edited(base: Submission, unit: str, text: str, id: str) -> Submission:
    """A submission with one module's text replaced."""
    module = replace(base.modules[unit], text=text, path=f"<{id}>/{unit}.py")
    return Submission(id, {**base.modules, unit: module})


def variants(course: Course, folder: Path = SOLUTIONS / "variants") -> Iterator[Submission]:
    """Every unusual but right implementation: the reference with one module replaced.

    A variant is a file ``variants/<unit>/<name>.py``; what it does not define, it imports from the
    reference by ``from solutions.<unit> import *``. That line is filled in, so that a variant
    stands by itself, also behind walls. Where it is not there, an exercise that is newer than the
    variant is the reference's all the same.
    """
    base = solution(course)
    for unit in course.units:
        rest = base.modules[unit.name].text.replace("from __future__ import annotations", "")
        names = {exercise.name.split(".")[0] for exercise in unit.exercises}
        for path in sorted((folder / unit.name).glob("*.py")):
            text = path.read_text(encoding="utf-8")
            defined = {getattr(node, "name", "") for node in ast.parse(text).body}
            if not _REST.search(text) and not names <= defined:
                text = f"{rest}\n{text}"
            text = _REST.sub(rest.replace("\\", r"\\"), text)
            yield edited(base, unit.name, text, f"{unit.name}/{path.stem}")
