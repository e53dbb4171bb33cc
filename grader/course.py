"""The course: `course.toml` as frozen data. The one table of units and exercises."""

from __future__ import annotations

import ast
import difflib
import functools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from grader.model import Message, say, what

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

__all__ = ["ROOT", "Course", "CourseError", "Exercise", "Unit", "clauses", "load", "tomllib"]

ROOT = Path(__file__).resolve().parent.parent


# What may stand around a unit's or exercise's name: exercises/attention.py, exercises.attention
_ADDED = re.compile(r"\A(?:ONLY=)?(?:.*[/\\])?(?:exercises\.)?|(?:\.zh)?\.(?:py|ipynb)\Z", re.I)


class CourseError(Exception):
    """The course itself, or what was asked of it, is at fault; the text says what to do."""


@dataclass(frozen=True)
class Exercise:
    """One function, class or method that a student can attempt in turn."""

    unit: str
    name: str  # "split" or "Class" or "Class.method"
    points: tuple[float, ...]  # of each clause, in order
    minutes: int = 0
    needs: tuple[str, ...] = ()
    takes: Mapping[str, str] = field(default_factory=dict)  # argument -> shape, "" where no tensor
    returns: tuple[str, ...] = ()  # the shape of each part
    dtype: str = ""  # an argument whose dtype is kept, a dtype, or "weights"
    init: tuple[str, ...] | None = None  # arguments of the constructor, where it is a class
    state: Mapping[str, str] = field(default_factory=dict)  # parameter or buffer -> shape
    forbidden: tuple[str, ...] = ()  # operators that may not be called
    stub: str = ""  # of a repair: the known mistake with which the solution is handed out

    @property
    def id(self) -> str:
        return f"{self.unit}.{self.name}"

    @property
    def is_class(self) -> bool:
        return self.init is not None

    @property
    def kind(self) -> str:
        """What it is, if it is no method: "function", "module" or, of a class without a call and
        without parameters, "object".
        """
        if not self.is_class:
            return "function"
        return "module" if self.state or self.takes else "object"

    @property
    def max_score(self) -> float:
        return sum(self.points)


@dataclass(frozen=True)
class Unit:
    """One module and one notebook."""

    name: str
    title: str
    why: str
    exercises: tuple[Exercise, ...]


@dataclass(frozen=True)
class Course:
    """The whole table."""

    title: str
    units: tuple[Unit, ...]

    @functools.cached_property
    def exercises(self) -> dict[str, Exercise]:
        """Every exercise by id, in the order of the course."""
        return {exercise.id: exercise for unit in self.units for exercise in unit.exercises}

    @functools.cached_property
    def definitions(self) -> dict[str, list[str]]:
        """Unit -> the functions and classes that are, or hold, its exercises."""
        return {
            unit.name: list(dict.fromkeys(e.name.split(".")[0] for e in unit.exercises))
            for unit in self.units
        }

    def select(self, targets: Iterable[str]) -> list[str]:
        """The ids of the exercises that the targets (units or exercises) name; all without any.

        A file's name means the unit in it, and `ONLY=` is passed over, as make has it.

        Raises:
            CourseError: a target is neither; the text lists the near names.
        """
        names = {unit.name: [e.id for e in unit.exercises] for unit in self.units}
        names |= {id: [id] for id in self.exercises}
        for id in self.exercises:  # `split_heads` alone will do: no two share a last name
            names.setdefault(id.rsplit(".", 1)[-1], [id])
        by_lower = {name.lower(): ids for name, ids in names.items()}
        chosen: set[str] = set()
        words = [word for target in targets for word in re.split(r"[,\s]+", target)]
        for target in filter(None, (_ADDED.sub("", word) for word in words)):
            ids = names.get(target) or by_lower.get(target.lower())
            if ids is None:
                raise CourseError(_unknown(target, names))
            chosen.update(ids)
        return [id for id in self.exercises if not chosen or id in chosen]

    def closure(self, ids: Iterable[str]) -> list[str]:
        """These exercises and everything they stand on, in the order of the course."""
        found: set[str] = set()
        waiting = list(ids)
        while waiting:
            id = waiting.pop()
            if id not in found:
                found.add(id)
                waiting.extend(self.exercises[id].needs)
        return [id for id in self.exercises if id in found]

    def standing_on(self, ids: Iterable[str]) -> list[str]:
        """These exercises and everything that stands on one of them, in the order of the course."""
        chosen = set(ids)
        return [id for id in self.exercises if not chosen.isdisjoint(self.closure([id]))]

    def state_shapes(self, id: str, sizes: Mapping[str, int]) -> dict[str, str]:
        """The declared parameters and buffers of a class, those of nested classes included.

        Args:
            id: the exercise that is the class.
            sizes: what the constructor's letters stand for, such as ``{"num_layers": 2}``.

        Returns:
            Dotted name -> shape in letters.
        """
        return dict(self._state(id, sizes))

    def _state(self, id: str, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        for name, shape in self.exercises[id].state.items():
            if shape not in self.exercises:
                yield name, shape
                continue
            repeated = re.fullmatch(r"(.+)\[([a-z_]+)\]", name)
            prefixes = (
                [name]
                if not repeated
                else [f"{repeated[1]}.{i}" for i in range(sizes[repeated[2]])]
            )
            for prefix in prefixes:
                for inner, inner_shape in self._state(shape, sizes):
                    yield f"{prefix}.{inner}", inner_shape


def _unknown(target: str, names: Mapping[str, list[str]]) -> Message:
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(target.lower(), lowered, n=3, cutoff=0.5)
    found = [lowered[word] for word in near]
    if found:
        return say(
            "There is no unit or exercise {target!r}. Did you mean: {near}?",
            target=target,
            near=", ".join(found),
        )
    units = ", ".join(dict.fromkeys(ids[0].split(".")[0] for ids in names.values()))
    return say(
        "There is no unit or exercise {target!r}. The units are: {units}.",
        target=target,
        units=units,
    )


@functools.cache
def load(path: Path = ROOT / "course.toml") -> Course:
    """Read the course's table.

    Raises:
        CourseError: an entry is unknown, missing or refers to nothing; the text names it.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = what(error, path)
        raise CourseError(
            say("{file} cannot be read: {error}", file=path.name, error=why)
        ) from None
    _hold(path, say("the course"), data, ("title", "unit"), ("schema",))
    course = Course(data["title"], tuple(_unit(path, unit) for unit in data["unit"]))
    seen: set[str] = set()
    for exercise in (exercise for unit in course.units for exercise in unit.exercises):
        if exercise.id in seen:
            raise _wrong(path, say("{exercise} stands there twice", exercise=exercise.id))
        for need in exercise.needs:
            if need not in seen:
                words = say("{exercise} needs {need!r}, which must stand before it",
                            exercise=exercise.id, need=need)  # fmt: skip
                raise _wrong(path, words)
        seen.add(exercise.id)
    return course


def _wrong(path: Path, words: Message) -> CourseError:
    return CourseError(say("{file}: {what}", file=path.name, what=words))


def _unit(path: Path, data: dict[str, Any]) -> Unit:
    where = say("the unit {unit}", unit=data.get("name", "?"))
    _hold(path, where, data, ("name", "title", "why", "exercise"))
    exercises = tuple(_exercise(path, data["name"], entry) for entry in data["exercise"])
    return Unit(data["name"], data["title"], data["why"], exercises)


def _exercise(path: Path, unit: str, data: dict[str, Any]) -> Exercise:
    known = [f.name for f in fields(Exercise) if f.name != "unit"]
    name = data.get("name")
    where = Message(f"{unit}.{name}") if name else say("an exercise of the unit {unit}", unit=unit)
    _hold(path, where, data, ("name", "points"), known)
    for key, (kind, is_kind) in _KINDS.items():
        if key in data and not is_kind(data[key]):
            words = say("{exercise}: {key} must be {kind}; it is {value!r}",
                        exercise=where, key=key, kind=kind, value=data[key])  # fmt: skip
            raise _wrong(path, words)
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Exercise(unit=unit, **given)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


_TEXT = (say("a text"), lambda value: isinstance(value, str))
_TEXTS = (say("a list of texts"), _is_texts)
_TABLE = (say("a table of texts"), _is_table)
_KINDS: dict[str, tuple[Message, Callable[[Any], bool]]] = {
    "name": _TEXT,
    "points": (
        say("a list of numbers above 0, one for each clause"),
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_number, value)),
    ),
    "minutes": (say("a whole number"), lambda value: type(value) is int and value >= 0),
    "needs": _TEXTS,
    "takes": _TABLE,
    "returns": _TEXTS,
    "dtype": _TEXT,
    "init": _TEXTS,
    "state": _TABLE,
    "forbidden": _TEXTS,
}


def _hold(
    path: Path,
    where: Message,
    data: Mapping[str, Any],
    required: Sequence[str],
    known: Sequence[str] = (),
) -> None:
    """Hold an entry against the keys that it must have and those that it may have."""
    for key in required:
        if key not in data:
            raise _wrong(path, say("{place} has no {key!r}", place=where, key=key))
    for key in data:
        if key not in (*required, *known):
            allowed = ", ".join(dict.fromkeys((*required, *known)))
            words = say("{place} has {key!r}, which is none of: {allowed}",
                        place=where, key=key, allowed=allowed)  # fmt: skip
            raise _wrong(path, words)


@functools.cache
def clauses(path: Path) -> dict[str, list[str]]:
    """The numbered clauses of every contract in a module, by exercise id, off its docstrings."""
    unit = path.stem
    found: dict[str, list[str]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                name = f"{prefix}.{child.name}"
                items = _contract(ast.get_docstring(child) or "")
                if items:
                    found[name] = items
                visit(child, name)

    visit(ast.parse(path.read_text(encoding="utf-8")), unit)
    return found


def _contract(docstring: str) -> list[str]:
    _, _, rest = docstring.partition("Contract:\n")
    section = re.split(r"\n(?=\S)", rest)[0]
    parts = re.split(r"^\s*\d+\.\s+", section, flags=re.MULTILINE)[1:]
    return [" ".join(part.split()) for part in parts]
