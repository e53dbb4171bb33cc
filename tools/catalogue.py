"""Collects every text that a student sees into grader/locale/grader.pot, for translators.

    python -m tools.catalogue      writes the template, and compiles what is translated

The texts are: what code and templates pass to `say` or `language`, the docstrings of checks, and
the titles and hints of known mistakes.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "grader" / "locale"
TEMPLATE = LOCALE / "grader.pot"
KEYWORDS = {"say": None, "_say": None, "language": None}
METHODS = [("**.py", "python"), ("**/templates/*.html", "jinja2")]


def template() -> Catalog:
    """The template as the code is now; its places are files, without lines that would move."""
    from grader import course as courses
    from grader.judge import bank

    catalogue = Catalog(project="before-transformers", charset="utf-8")
    for name, _line, message, *_ in extract_from_dir(
        ROOT / "grader", method_map=METHODS, keywords=KEYWORDS
    ):
        catalogue.add(message, locations=[(f"grader/{name}", 0)])
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        if path.parent.name in ("public", "hidden"):
            for title in _titles(path):
                catalogue.add(title, locations=[(f"tests/{path.parent.name}/{path.name}", 0)])
    for mistake in bank.mistakes(courses.load()):
        place = [(f"solutions/mistakes/{mistake.unit}.toml", 0)]
        catalogue.add(mistake.title, locations=place)
        catalogue.add(mistake.hint, locations=place)
    return catalogue


def _titles(path: Path) -> list[str]:
    tests = ast.parse(path.read_text(encoding="utf-8")).body
    named = [t for t in tests if isinstance(t, ast.FunctionDef) and t.name.startswith("test_")]
    return [(ast.get_docstring(test) or "").split("\n")[0] for test in named]


def texts(catalogue: Catalog) -> set[str]:
    """The messages of a catalogue, without its header."""
    return {str(message.id) for message in catalogue if message.id}


def committed() -> Catalog:
    """The template as it is committed."""
    with TEMPLATE.open("rb") as file:
        return read_po(file)


def main() -> int:
    """Write the template and compile what is translated."""
    with TEMPLATE.open("wb") as file:
        write_po(
            file, template(), omit_header=True, sort_output=True, include_lineno=False, width=100
        )
    print(f"{TEMPLATE.relative_to(ROOT)}: {len(texts(template()))} texts")
    for path in sorted(LOCALE.glob("*/LC_MESSAGES/grader.po")):
        with path.open("rb") as source, path.with_suffix(".mo").open("wb") as compiled:
            write_mo(compiled, read_po(source))
        print(f"{path.relative_to(ROOT)}: compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
