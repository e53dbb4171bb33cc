"""Mechanical mutants of the reference, and those that are written down as equivalent.

The operators are cosmic-ray's, taken through its API: it knows where each can change a program, and
how. Only what stands in an exercise's solution is changed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grader.course import Course, CourseError, Unit, tomllib
from grader.judge import bank
from grader.judge.bank import SOLUTIONS

EQUIVALENTS = SOLUTIONS / "equivalents"


@dataclass(frozen=True)
class Mutant:
    """A unit's solution with one thing changed."""

    exercise: str
    operator: str  # cosmic-ray's name for it
    line: int  # of the solution
    before: str  # the lines that differ
    after: str
    text: str  # of the whole unit

    @property
    def unit(self) -> str:
        return self.exercise.split(".")[0]

    @property
    def program(self) -> str:
        """What it does, however it is written: two mutants alike in this are one."""
        return program(self.text)

    def __str__(self) -> str:
        lines = [f"  {self.exercise}, solutions/{self.unit}.py line {self.line}: {self.operator}"]
        lines += [f"    - {line.strip()}" for line in self.before.splitlines()]
        lines += [f"    + {line.strip()}" for line in self.after.splitlines()]
        return "\n".join(lines)


def mutants(unit: Unit, text: str, chosen: Collection[str]) -> list[Mutant]:
    """Every mutant that is a program, and another one than the solution and the rest.

    Args:
        unit: says which definitions are exercises.
        text: the solution's source.
        chosen: the exercises to be changed.

    Raises:
        CourseError: cosmic-ray is not installed.
    """
    if find_spec("cosmic_ray") is None:
        raise CourseError(
            "cosmic-ray, which makes the mutants, is not installed: run `make mutants`, or"
            " `python tools/set_up.py instructor dev`"
        )
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    owner = {line: id for line, id in _owners(unit, text).items() if id in chosen}
    nodes = list(ast_nodes(get_ast(text)))
    found: dict[str, Mutant] = {}
    known = {program(text)}
    for name, operator in _operators():
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, _) in enumerate(places):
            if line not in owner:
                continue
            mutated = mutate_code(text, operator, occurrence)
            try:
                does = program(mutated)
            except SyntaxError:  # `def f(a, *, b)` is no product, which the operator doesn't know
                continue
            if does not in known:
                known.add(does)
                before, after = _difference(text, mutated)
                found[does] = Mutant(owner[line], name, line, before, after, mutated)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _operators() -> Iterator[tuple[str, Any]]:
    """cosmic-ray's own operators by name, save two: they want to be told the names of variables,
    and put a number there that differs from run to run.
    """
    from cosmic_ray.plugins import OPERATOR_PROVIDERS

    core = OPERATOR_PROVIDERS["core"]
    for name in core:
        if not core[name].arguments():
            yield name, core[name]()


def _owners(unit: Unit, text: str) -> dict[int, str]:
    """Line -> the exercise in whose solution it stands; a method's is not its class's."""
    owner: dict[int, str] = {}
    for exercise in sorted(unit.exercises, key=lambda exercise: exercise.name.count(".")):
        for block in bank.blocks(text, exercise.id):
            first = text.count("\n", 0, block.start(1)) + 1
            owner |= dict.fromkeys(range(first, first + block[1].count("\n")), exercise.id)
    return owner


def program(text: str) -> str:
    """What a source does: its syntax tree, without the annotations, which nothing evaluates."""
    return ast.dump(_Bare().visit(ast.parse(text)))


class _Bare(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Constant(None)
        self.generic_visit(node)
        return node


def _difference(text: str, mutated: str) -> tuple[str, str]:
    """The lines in which two texts differ, of each."""
    before, after = text.splitlines(), mutated.splitlines()
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return "\n".join(before), "\n".join(after)


@dataclass(frozen=True)
class Equivalent:
    """Mutants that no check can kill, since the contract allows them, and why it does.

    Attributes:
        find: stands once in the exercise's solution.
        becomes: what it becomes in each of them.
    """

    exercise: str
    find: str
    becomes: tuple[str, ...]
    reason: str

    @property
    def unit(self) -> str:
        return self.exercise.split(".")[0]

    def program(self, text: str, put: str) -> str:
        """What the solution does with ``put`` in place of ``find``.

        Raises:
            CourseError: ``find`` does not stand there exactly once, or this makes no program.
        """
        try:
            return program(bank.replace_once(text, self.exercise, self.find, put))
        except SyntaxError:
            raise CourseError("this is no Python") from None


def equivalents(course: Course, folder: Path = EQUIVALENTS) -> list[Equivalent]:
    """All that is written down, in the order of its files.

    Raises:
        CourseError: an entry lacks something or names no exercise, or a file no unit.
    """
    strays = {path.stem for path in folder.glob("*.toml")} - {unit.name for unit in course.units}
    if strays:
        raise CourseError(f"{folder.name}/{min(strays)}.toml: the course has no such unit")
    found: list[Equivalent] = []
    for unit in course.units:
        path = folder / f"{unit.name}.toml"
        if path.exists():
            try:
                data = tomllib.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise CourseError(f"{path.name} cannot be read: {error}") from None
            own = {exercise.id for exercise in unit.exercises}
            found += [_equivalent(path, entry, own) for entry in data.get("equivalent", ())]
    return found


def _equivalent(path: Path, entry: dict[str, Any], exercises: Collection[str]) -> Equivalent:
    where = f"{path.name}: equivalent {entry.get('find')!r}"
    try:
        one = Equivalent(**{**entry, "becomes": tuple(entry["becomes"])})
    except (KeyError, TypeError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise CourseError(f"{where}: {what}") from None
    if not one.becomes or isinstance(entry["becomes"], str):
        raise CourseError(f"{where}: `becomes` is a list of texts, even if there is but one")
    if not one.reason.strip():
        raise CourseError(f"{where} needs a reason")
    if one.exercise not in exercises:
        raise CourseError(f"{where}: {one.exercise!r} is no exercise of this unit")
    return one
