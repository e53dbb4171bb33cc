"""The leak check: nothing that students receive holds what they must not.

Every file is unpacked into the texts that stand in it (`unpack`); each is brought into forms that
know neither layout nor names (`forms`) and compared with what is secret (`secrets`, `compare`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.course import Course
from release.leaks import secrets
from release.leaks.compare import Comparison
from release.leaks.unpack import unpack

__all__ = ["Finding", "LeakCheck"]

_NOT_FOR_STUDENTS = {
    "solutions", "hidden", "mistakes", "variants", "equivalents",
    ".course-secret", ".git", ".ipynb_checkpoints", "__pycache__",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """Something in a file that students must not receive, or that could hide it."""

    path: str
    what: str


class LeakCheck:
    """Looks for leaks.

    Args:
        course: whose solutions, banks and hidden suites are secret.
    """

    def __init__(self, course: Course):
        self._comparison = Comparison(secrets.collect(course))

    def likest(self, place: Path) -> list[str]:
        """The nearest that comes to a secret, in each form, however far it is from a leak.

        Args:
            place: a folder or a file.
        """
        found: dict[str, tuple[float, str]] = {}
        for path in sorted(p for p in [place, *place.rglob("*")] if p.is_file()):
            name = path.name if path == place else path.relative_to(place).as_posix()
            text = self._comparison.read(unpack(path.read_bytes()).texts)
            for one in self._comparison.likenesses(text):
                for form in ("verbatim", "renamed", "tree", "largest"):
                    near = getattr(one, form), f"{name}, {one.secret.kind} {one.secret.name}"
                    found[form] = max(near, found.get(form, (0.0, "")))
        return [f"{form}: {near:.3g} ({what})" for form, (near, what) in found.items()]

    def folder(self, folder: Path) -> list[Finding]:
        """Everything that leaks in a folder, in the order of its files."""
        found: list[Finding] = []
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found.append(Finding(name, "a link may not ship"))
            elif path.is_file():
                found += self.file(name, path.read_bytes())
        return found

    def file(self, name: str, data: bytes) -> list[Finding]:
        """Everything that leaks in one file, its name included."""
        inside = unpack(data)
        odd = _NOT_FOR_STUDENTS.intersection(name.split("/"))
        told: Iterable[str] = [
            *(f"{part!r} is no part of what students receive" for part in sorted(odd)),
            *inside.problems,
            *self._comparison.leaks([*unpack(name.encode()).texts, *inside.texts]),
        ]
        return [Finding(name, what) for what in told]
