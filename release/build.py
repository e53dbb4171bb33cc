"""Builds what leaves the maintainer's machine, part by part, and lets nothing out that leaks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from grader import course as courses
from grader.course import CourseError
from grader.model import say
from grader.subject.modules import PACKAGE
from release import archive, classroom, gradescope, nbgrader, notebooks, student
from release.leaks import Finding, LeakCheck

_OURS = ".made-by-release"  # in a folder that we may empty


class BuildError(CourseError):
    """The release cannot be built as asked; the text says what to do."""


@dataclass(frozen=True)
class Part:
    """One thing that is released.

    Attributes:
        write: fills a folder with it.
        folder: where that lies in the release. It is zipped, unless it lies in another part's.
        inside: the folder inside the zip; empty where its files must stand at the top.
        for_students: students receive it, so it is searched for leaks.
        needs: the packages that writing it takes, beyond those that everything takes.
    """

    write: Callable[[Path], None]
    folder: str
    inside: str = ""
    for_students: bool = False
    needs: tuple[str, ...] = ()

    @property
    def top(self) -> str:
        """The folder that is zipped."""
        return self.folder.split("/")[0]


# In this order: what lies in another part's folder stands behind it, and is built with it.
PARTS: dict[str, Part] = {
    "student": Part(student.write, "student", "before-transformers", for_students=True),
    "notebooks": Part(
        notebooks.write, f"student/{PACKAGE}", for_students=True, needs=notebooks.NEEDS
    ),
    "nbgrader": Part(nbgrader.write, "nbgrader", needs=notebooks.NEEDS),
    "gradescope": Part(gradescope.write, "gradescope"),
    "classroom": Part(classroom.write, "classroom"),
}


def build(out: Path, names: Sequence[str] = ()) -> list[Finding]:
    """Build parts, all by default; give back what leaks. Where something does, nothing is zipped.

    Args:
        out: the folder of the release. What an earlier build has left there is replaced.
        names: of `PARTS`.

    Raises:
        BuildError: there is no such part, a package is missing, or the folder holds something
            else. Nothing has been written then.
    """
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        names_there = ", ".join(PARTS)
        raise BuildError(
            say("There is no part {name!r}; there is {names}.", name=unknown[0], names=names_there)
        )
    tops = {PARTS[name].top for name in names or PARTS}
    chosen = [part for part in PARTS.values() if part.top in tops]
    hold([package for part in chosen for package in part.needs])
    _claim(out)
    for top in tops:
        shutil.rmtree(out / top, ignore_errors=True)
        (out / f"{top}.zip").unlink(missing_ok=True)
        fill(out, top)
    found = leaks([out / top for top in sorted({p.top for p in chosen if p.for_students})])
    if not found:
        for part in chosen:
            if part.folder == part.top:
                archive.write(out / part.top, out / f"{part.top}.zip", part.inside)
    return found


def hold(packages: Sequence[str]) -> None:
    """Raise a `BuildError` that names the packages which are not installed."""
    missing = [name for name in dict.fromkeys(packages) if find_spec(name) is None]
    if missing:
        raise BuildError(
            say(
                "Notebooks are made with {packages}, which is not installed: `make release`, or"
                " `python tools/set_up.py instructor notebooks`, installs it.",
                packages=", ".join(missing),
            )
        )


def fill(out: Path, top: str) -> None:
    """Write one folder of a release: its own part, and those that lie in it."""
    for part in PARTS.values():
        if part.top == top:
            (out / part.folder).mkdir(parents=True, exist_ok=True)
            part.write(out / part.folder)


def _claim(out: Path) -> None:
    if out.exists() and not (out / _OURS).exists() and (not out.is_dir() or any(out.iterdir())):
        raise BuildError(
            say("{folder} holds something else: name another folder, or empty it yourself.",
                folder=str(out))
        )  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / _OURS).touch()


def leaks(places: Sequence[Path]) -> list[Finding]:
    """What leaks in folders and files."""
    if not places:
        return []
    check = LeakCheck(courses.load())
    found: list[Finding] = []
    for place in places:
        found += (
            check.folder(place) if place.is_dir() else check.file(place.name, place.read_bytes())
        )
    return found
