"""Collects every text that a student sees into templates for translators, grader/locale/*.pot.

    python -m tools.catalogue

It writes the templates, brings the translations up to date with them (what is new is empty, and
named), and compiles these.

`grader` holds what code and pages pass to `say` or `language`, help texts of commands and of the
Makefile, the docstrings of checks, the titles and hints of known mistakes, and what `hint` and
`compare` say. `contracts` holds the docstrings of
exercises.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from grader.course import tomllib

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "grader" / "locale"
KEYWORDS = {"say": None, "_say": None, "language": None, "_Attack": None}
IN_MAKEFILE = re.compile(r"^[a-z-]+:.*## (.+)$|\\t([^\\%]+)\\n|\$\(call told,([^)]+)\)", re.M)
COMMANDS = sorted((ROOT / "grader" / "commands").glob("*.py"))
MAINS = [ROOT / name for name in ("grader/cli.py", "release/__main__.py", "tools/install.py")]
METHODS = [("**.py", "python"), ("**/templates/*.html", "jinja2")]
_THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)  # or no two compilations would be the same


def templates() -> dict[str, Catalog]:
    """The templates as the code is now; their places are files, without lines that would move."""
    return {"grader": _grader(), "contracts": _contracts()}


def _grader() -> Catalog:
    from grader import course as courses
    from grader.judge import bank

    catalogue = Catalog(project="before-transformers", charset="utf-8")
    for folder in ("grader", "release", "tools"):
        for name, _line, message, *_ in extract_from_dir(
            ROOT / folder, method_map=METHODS, keywords=KEYWORDS
        ):
            catalogue.add(message, locations=[(f"{folder}/{name}", 0)])
    for path in (*MAINS, *COMMANDS):
        for text in _helps(path):
            catalogue.add(text, locations=[(path.relative_to(ROOT).as_posix(), 0)])
    for found in IN_MAKEFILE.finditer((ROOT / "Makefile").read_text(encoding="utf-8")):
        catalogue.add(found[found.lastindex or 0], locations=[("Makefile", 0)])
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        if path.parent.name in ("public", "hidden"):
            for title in _titles(path):
                catalogue.add(title, locations=[(f"tests/{path.parent.name}/{path.name}", 0)])
    course = courses.load()
    for unit in course.units:
        for text in (unit.title, unit.why):
            catalogue.add(text, locations=[("course.toml", 0)])
    for mistake in bank.mistakes(course):
        place = [(f"solutions/mistakes/{mistake.unit}.toml", 0)]
        catalogue.add(mistake.title, locations=place)
        catalogue.add(mistake.hint, locations=place)
    for path in sorted((ROOT / "docs" / "hints").glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).values():
            for text in (*entry["hints"], entry["compare"]):
                catalogue.add(text, locations=[(f"docs/hints/{path.name}", 0)])
    return catalogue


def _contracts() -> Catalog:
    from grader import course as courses
    from release import contracts

    catalogue = Catalog(project="before-transformers", charset="utf-8")
    for unit, text in contracts.texts(courses.load()):
        catalogue.add(text, locations=[(f"solutions/{unit}.py", 0)])
    for section in (*contracts.SECTIONS, *contracts.HEADINGS):
        catalogue.add(section, locations=[("release/contracts.py", 0)])
    return catalogue


def _helps(path: Path) -> Iterator[str]:
    """What `--help` shows of a module: `help=` and `description=`, and a command's docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path in COMMANDS and path.name != "__init__.py":
        yield (ast.get_docstring(tree) or "").split("\n")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("help", "description"):
            value = node.value.value if isinstance(node.value, ast.Constant) else None
            if isinstance(value, str):
                yield value


def _titles(path: Path) -> list[str]:
    tests = ast.parse(path.read_text(encoding="utf-8")).body
    named = [t for t in tests if isinstance(t, ast.FunctionDef) and t.name.startswith("test_")]
    return [(ast.get_docstring(test) or "").split("\n")[0] for test in named]


def texts(catalogue: Catalog) -> set[str]:
    """The messages of a catalogue, without its header."""
    return {str(message.id) for message in catalogue if message.id}


def read(path: Path) -> Catalog:
    """A catalogue as it is committed."""
    with path.open("rb") as file:
        return read_po(file)


def translations(domain: str) -> list[Path]:
    """The translations that there are of a template."""
    return sorted(LOCALE.glob(f"*/LC_MESSAGES/{domain}.po"))


def compiled(catalogue: Catalog) -> bytes:
    """What gettext reads."""
    catalogue.creation_date = catalogue.revision_date = _THEN
    file = io.BytesIO()
    write_mo(file, catalogue)
    return file.getvalue()


def main() -> int:
    """Write the templates and bring the translations up to date."""
    for domain, template in templates().items():
        _write(LOCALE / f"{domain}.pot", template)
        for path in translations(domain):
            catalogue = read(path)
            catalogue.update(template, no_fuzzy_matching=True)
            catalogue.obsolete.clear()
            _write(path, catalogue)
            path.with_suffix(".mo").write_bytes(compiled(catalogue))
            for text in sorted(texts(catalogue)):
                if not catalogue[text].string:
                    print(f"  not translated: {text}")
    return 0


def _write(path: Path, catalogue: Catalog) -> None:
    with path.open("wb") as file:
        write_po(
            file, catalogue, omit_header=True, sort_output=True, include_lineno=False, width=100
        )
    print(f"{path.relative_to(ROOT)}: {len(texts(catalogue))} texts")


if __name__ == "__main__":
    sys.exit(main())
