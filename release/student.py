"""The student bundle: everything that a student needs, and nothing else.

What ships is listed here or follows from it: of the grader, what the commands that students have
import, directly or not.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from grader import course as courses
from grader.course import ROOT, Course, tomllib
from grader.report.language import Language
from grader.subject.modules import PACKAGE
from release import catalogue, contracts, stubs

TEMPLATE = Path(__file__).with_name("template") / "student"

# The commands that students have, of grader/commands; what is started by name stands beside them.
COMMANDS = ("check", "compare", "doctor", "hint", "progress", "reset", "submit", "watch")
_BEGINNINGS = ("grader.__main__", "grader.judge.session", "grader.judge.warm", "grader.notebook",
               "grader.report.github",
               *(f"grader.commands.{name}" for name in COMMANDS))  # fmt: skip

_AS_THEY_ARE = (
    "LICENSE", "course.toml", "grader/judge/pytest.ini", "tests/public/test_*.py",
    "tests/public/answers/*.safetensors", "tools/__init__.py", "tools/set_up.py",
    "tools/install.py", "tools/tell.py",
    "docs/hints/*.toml", "grader/report/templates/page.html",
    "grader/report/templates/student.html", "grader/report/templates/style.css",
)  # fmt: skip

STUDENTS_EXTRAS = ("lab",)  # what they may install besides, of pyproject.toml's
_EXTRAS = "optional-dependencies"

_STAFF = re.compile(r"^# BEGIN STAFF\b.*?^# END STAFF\b[^\n]*\n", re.M | re.S)


def write(folder: Path, course: Course | None = None, root: Path = ROOT) -> None:
    """Fill a folder with what students receive."""
    for path in sorted(p for p in TEMPLATE.rglob("*") if p.is_file()):
        _copy(path, folder / path.relative_to(TEMPLATE))
    course = course or courses.load()
    files = [path for pattern in _AS_THEY_ARE for path in sorted(root.glob(pattern))]
    for path in (*files, *grader_modules(root)):
        if path.is_file():
            _copy(path, folder / path.relative_to(root))
    for path in sorted(root.glob("grader/locale/*/LC_MESSAGES/grader.mo")):
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(catalogue.for_students(path.read_bytes(), course, root))
    chinese = Language("zh", "contracts")
    for unit in course.units:
        _write(folder / f"docs/contracts/zh/{unit.name}.md", contracts.page(unit, course, chinese))
    for name, text in stubs.stubs(course).items():
        _write(folder / PACKAGE / name, text)
        if name != "__init__.py":  # what `reset` gives back
            _write(folder / "grader" / "given" / f"{name.removesuffix('.py')}.txt", text)
    for name, cut in {"Makefile": makefile, "pyproject.toml": project}.items():
        _write(folder / name, cut((root / name).read_text(encoding="utf-8")))
    needed = _requirements((root / "pyproject.toml").read_text(encoding="utf-8"))
    pins = (root / "constraints.txt").read_text(encoding="utf-8")
    _write(folder / "constraints.txt", constraints(pins, needed))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


# ----------------------------------------------------------------------------------- of the grader


def grader_modules(root: Path = ROOT) -> list[Path]:
    """The modules of the grader that `COMMANDS` and the public suite import."""
    suite = sorted((root / "tests" / "public").glob("test_*.py"))
    waiting = [*_BEGINNINGS, *(name for path in suite for name in _imports(path))]
    found: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        path = _path(root, name)
        if path is None or name in found:
            continue
        found[name] = path
        parent = name.rpartition(".")[0]
        waiting += [parent, *_imports(path)]
    return sorted(found.values())


def _path(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    paths = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in paths if name and path.is_file()), None)


def _imports(path: Path) -> Iterator[str]:
    """What a module imports of ours; a name that is imported may be a module itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("grader"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grader"):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# ------------------------------------------------------------------------------------ cut to size


def makefile(text: str) -> str:
    """The Makefile without what is course staff's."""
    return _STAFF.sub("", text)


def project(text: str) -> str:
    """What students install, out of pyproject.toml."""
    whole = tomllib.loads(text)["project"]
    lines = [f"    {json.dumps(one)}," for one in whole["dependencies"]]
    extras = [f"{name} = {json.dumps(whole[_EXTRAS][name])}" for name in STUDENTS_EXTRAS]
    return "\n".join(
        [
            "# What tools/set_up.py installs; constraints.txt says in which versions.",
            "[project]",
            f"name = {json.dumps(whole['name'])}",
            f"version = {json.dumps(whole['version'])}",
            f"requires-python = {json.dumps(whole['requires-python'])}",
            "dependencies = [",
            *lines,
            "]",
            "",
            f"[project.{_EXTRAS}]",
            *extras,
            "",
        ]
    )


def constraints(text: str, needed: set[str]) -> str:
    """The pins of what students install, out of constraints.txt."""
    kept = [line for line in text.split("\n") if _package(line) in needed]
    head = "# The versions that this course is developed and graded with.\n"
    return head + "".join(f"{line}\n" for line in kept)


def _requirements(text: str) -> set[str]:
    whole = tomllib.loads(text)["project"]
    more = [one for name in STUDENTS_EXTRAS for one in whole[_EXTRAS][name]]
    return {_package(one) for one in (*whole["dependencies"], *more)}


def _package(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return found.group().lower() if found else ""
