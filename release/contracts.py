"""The contracts as pages, in any language: the docstrings of solutions/, part by part.

A contract stands once, in English, in its exercise's docstring. What is translated is each of its
paragraphs and items; a page in another language is made of them when it is built.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import course as courses
from grader.course import ROOT, Course, Unit
from grader.report.language import Language

LANGUAGES = ("en", "zh")
FOLDER = "contracts"  # of docs/, where the site builds them
HEADINGS = ("Contracts", "What each exercise promises.")
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Contract", "Elsewhere", "Example", "Source")
_HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):[ ]*(.*)$")
_LISTS = ("Args", "Attributes", "Raises", "Contract")
_ITEM = re.compile(r"^(\d+\.|[\w.*, ]+:)[ ](.*)$")


@dataclass(frozen=True)
class Part:
    """A paragraph of a docstring, or an item of one of its lists.

    Attributes:
        section: one of `SECTIONS`; empty before the first.
        label: what the item begins with, such as ``query`` or ``3.``; empty for a paragraph.
        text: the words on one line.
    """

    section: str
    label: str
    text: str


def parts(docstring: str) -> list[Part]:
    """Take a docstring apart."""
    found: list[Part] = []
    section, fresh = "", True
    for line in inspect.cleandoc(docstring).split("\n"):
        heading = _HEADING.match(line)
        if heading:
            section, line, fresh = heading[1], heading[2], True
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        item = _ITEM.match(words) if section in _LISTS and indent == 4 else None
        if not words:
            fresh = True
        elif item or fresh:
            label, text = (item[1].rstrip(":"), item[2]) if item else ("", words)
            found.append(Part(section, label, text))
            fresh = False
        else:
            last = found.pop()
            found.append(Part(last.section, last.label, f"{last.text} {words}"))
    return found


def texts(course: Course, solutions: Path = ROOT / "solutions") -> Iterator[tuple[str, str]]:
    """(unit, words) of everything on these pages that is translated."""
    for unit in course.units:
        yield from ((unit.name, words) for words in (unit.title, unit.why))
        for _, docstring in _docstrings(unit, course, solutions):
            for part in parts(docstring):
                if part.section != "Source":
                    yield unit.name, part.text


def page(
    unit: Unit,
    course: Course,
    translate: Callable[[str], str],
    solutions: Path = ROOT / "solutions",
) -> str:
    """One unit's contracts in Markdown."""
    lines = [f"# {translate(unit.title)} (`{unit.name}`)", ""]
    for name, docstring in _docstrings(unit, course, solutions):
        if name:
            lines += [f"## `{name}`", ""]
        section = ""
        for part in parts(docstring):
            if part.section != section:
                section = part.section
                lines += ["", f"**{translate(section)}**", ""]
            words = part.text if section == "Source" else translate(part.text)
            if part.label.endswith("."):
                lines.append(f"{part.label} {words}")
            elif part.label:
                lines.append(f"- `{part.label}`: {words}")
            else:
                lines += [words, ""]
        lines.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).replace("``", "`")


def _docstrings(unit: Unit, course: Course, solutions: Path) -> Iterator[tuple[str, str]]:
    """(name, docstring) of the module and of each of its exercises, in the course's order."""
    module = ast.parse((solutions / f"{unit.name}.py").read_text(encoding="utf-8"))
    yield "", ast.get_docstring(module) or ""
    found = dict(_definitions("", module))
    for exercise in course.exercises.values():
        if exercise.unit == unit.name:
            name = exercise.id.removeprefix(f"{unit.name}.")
            yield name, found[name]


def _definitions(prefix: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield f"{prefix}{child.name}", ast.get_docstring(child) or ""
            yield from _definitions(f"{prefix}{child.name}.", child)


def write(folder: Path, language: str) -> None:
    """Write every unit's page, and an index of them, into a folder."""
    course = courses.load()
    translate = Language(language, "contracts")
    folder.mkdir(parents=True, exist_ok=True)
    for unit in course.units:
        _write(folder / f"{unit.name}.md", page(unit, course, translate))
    names = "\n".join(unit.name for unit in course.units)
    head = f"# {translate('Contracts')}\n\n{translate('What each exercise promises.')}"
    _write(folder / "index.md", f"{head}\n\n```{{toctree}}\n:maxdepth: 2\n\n{names}\n```\n")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
