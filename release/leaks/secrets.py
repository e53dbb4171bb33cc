"""What may not leave: solutions, the banks' edits and variants, the hidden suites, the secret."""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.course import ROOT, Course, tomllib
from grader.judge import bank
from release import stubs
from release.leaks import forms

SOLUTION, VARIANT, HIDDEN, MISTAKE = "solution", "variant", "hidden check", "known mistake"


@dataclass(frozen=True)
class Secret:
    """One function that students must not receive.

    Attributes:
        kind: where it comes from.
        name: what a report calls it.
        function: its name, and its code.
        body: its code as text.
        check: what it is known by as a check, clause and parameters included; 0 for the rest.
    """

    kind: str
    name: str
    function: ast.FunctionDef = field(repr=False)
    check: int = 0

    @functools.cached_property
    def tokens(self) -> list[str]:
        """Its decorators and its code, as tokens."""
        above = [ast.unparse(one) for one in self.function.decorator_list]
        return forms.tokens("\n".join([*above, *map(ast.unparse, forms.code_of(self.function))]))


@dataclass(frozen=True)
class Edit:
    """A change of a solution as it stands in the banks: what is replaced by what."""

    name: str
    find: tuple[str, ...]
    put: tuple[str, ...]

    @classmethod
    def of(cls, name: str, find: str, put: str) -> Edit:
        """Of texts."""
        return cls(name, _plain(find), _plain(put))


@dataclass(frozen=True)
class Known:
    """Everything to look for, and what students have anyway."""

    secrets: list[Secret]
    edits: list[Edit]
    words: Mapping[str, str]  # a single word that gives something away -> what it is
    given: list[str]  # the stubs
    public: Mapping[str, str]  # file name -> the public suite's texts


def collect(course: Course, root: Path = ROOT) -> Known:
    """Read all that is secret."""
    given = stubs.stubs(course)
    public = _texts(root / "tests" / "public")
    hidden = _texts(root / "tests" / "hidden")
    solution = bank.solution(course).modules
    functions = [f for text in given.values() for f in forms.functions(ast.parse(text))]
    as_given = {forms.shape_of(function).whole for function in functions}
    secrets: list[Secret] = []
    solved: set[int] = set()
    for unit, module in solution.items():
        found = list(_functions(SOLUTION, unit, module.text, as_given))
        solved |= {forms.shape_of(secret.function).whole for secret in found}
        secrets += found
    for path in sorted((root / "solutions" / "variants").rglob("*.py")):
        name = f"{path.parent.name}/{path.stem}"
        secrets += _functions(VARIANT, name, path.read_text(encoding="utf-8"), as_given)
    edits = []
    for mistake in bank.mistakes(course):
        text = _definition(solution[mistake.unit].text, mistake.exercise.split(".")[1])
        secrets += _functions(MISTAKE, mistake.id, mistake.apply(text), as_given | solved)
        edits += [Edit.of(f"{MISTAKE} {mistake.id}", *edit) for edit in mistake.edits]
    for path in sorted((root / "solutions" / "equivalents").glob("*.toml")):
        for one in tomllib.loads(path.read_text(encoding="utf-8"))["equivalent"]:
            name = f"equivalent of {one['exercise']}"
            edits += [Edit.of(name, one["find"], put) for put in one["becomes"]]
    for file, text in hidden.items():
        tree = ast.parse(text)
        constants = forms.constants(tree)
        for function in forms.functions(tree):
            is_check = function.name.startswith("test_")
            check = forms.check_of(function, constants) if is_check else 0
            secrets.append(Secret(HIDDEN, f"{file}: {function.name}", function, check))
    words = _names(hidden, public)
    secret = root / ".course-secret"
    kept = secret.read_text(encoding="utf-8") if secret.exists() else ""
    for value in (kept.strip(), os.environ.get("GRADER_SECRET", "")):
        if value:
            words[value] = "the course's secret"
    return Known(secrets, edits, words, list(given.values()), public)


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}


def _functions(kind: str, name: str, text: str, known: set[int]) -> Iterator[Secret]:
    for function in forms.functions(ast.parse(text)):
        if forms.shape_of(function).whole not in known:
            yield Secret(kind, f"{name}: {function.name}", function)


_parsed = functools.cache(ast.parse)


@functools.cache
def _definition(module: str, name: str) -> str:
    """One definition out of a module, which is quicker to read again and again than all of it."""
    body = _parsed(module).body
    place = next(i for i, node in enumerate(body) if getattr(node, "name", None) == name)
    # To the next one: where a block ends is a comment, and no part of the definition.
    end = body[place + 1].lineno - 1 if place + 1 < len(body) else None
    return "\n".join(module.split("\n")[body[place].lineno - 1 : end])


def _plain(text: str) -> tuple[str, ...]:
    return tuple(forms.plain(forms.tokens(text)))


def _names(hidden: Mapping[str, str], public: Mapping[str, str]) -> dict[str, str]:
    """The names of the hidden checks. One that a check of another public unit has tells nothing."""
    found = {}
    defined = {file: _defined(text) for file, text in public.items()}
    for file, text in hidden.items():
        others = {name for other in defined if other != file for name in defined[other]}
        for name in _defined(text) - others:
            found[name] = f"the name of a hidden check ({file})"
    return found


def _defined(text: str) -> set[str]:
    names = {function.name for function in forms.functions(ast.parse(text))}
    return {name for name in names if name.startswith("test_")}
