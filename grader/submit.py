"""`grader submit`: what a student hands in, packed and then read as the grader will read it.

A zip of the modules and notebooks of the course, and of nothing else, with `manifest.json`: names,
sizes and digests, the course's digest, the versions. The same work gives the same bytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import platform
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import __version__, given, intake
from grader.course import Course, CourseError
from grader.desk import Desk
from grader.files import write_whole
from grader.model import Message, lines, say

MANIFEST = "manifest.json"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can tell


class SubmitError(CourseError):
    """There is nothing to hand in, or it did not arrive whole; the text says what to do."""


@dataclass(frozen=True)
class Packed:
    """What was packed.

    Attributes:
        path: the zip.
        files: name and size of each module and notebook.
        missing: the units of which there is none.
        empty: the units whose file has nothing in it.
        as_given: the units in whose file nobody has begun anything.
        untouched: the exercises that nobody has begun.
        open: those that had not passed when they were last checked, as they stand.
        unchecked: those that have not been checked as they stand.
        left_out: names of Python files that are no module of the course.
        notes: what the grader's intake will remark.
    """

    path: Path
    files: Sequence[tuple[str, int]]
    missing: Sequence[str]
    empty: Sequence[str]
    as_given: Sequence[str]
    untouched: Sequence[str]
    open: Sequence[str]
    unchecked: Sequence[str]
    left_out: Sequence[str]
    notes: Sequence[Message]


def pack(desk: Desk, out: Path) -> Packed:
    """Pack a student's work.

    Raises:
        SubmitError: there is no module of the course, something else than a zip lies where the zip
            shall, or what was written cannot be read back.
    """
    course, submission = desk.course, desk.submission
    files = {}
    for module in submission.modules.values():
        path = Path(module.path)
        files[path.name] = path.read_bytes()
    if not files:
        names = ", ".join(f"{unit.name}.py" for unit in course.units)
        nothing = say(
            "There is nothing to hand in in {folder}: none of {names}.",
            folder=str(desk.path),
            names=names,
        )
        raise SubmitError(lines([nothing, *submission.notes]))
    if out.exists() and not (zipfile.is_zipfile(out) or (out.is_file() and not out.stat().st_size)):
        raise SubmitError(say("{file} is there and is no zip: name another file.", file=str(out)))
    handed_out = given.modules(course)
    texts = {unit.name: desk.texts.get(unit.name, "") for unit in course.units}
    as_given = {
        unit: given.as_given(course, unit, text, handed_out[unit]) for unit, text in texts.items()
    }
    untouched = [id for ids in as_given.values() for id in ids]
    begun = [id for id in course.exercises if id not in untouched]
    blank = [unit for unit in submission.modules if not desk.texts[unit].strip()]
    empty = [unit for unit in blank if unit not in submission.unread]
    whole = [
        unit.name
        for unit in course.units
        if unit.name in submission.modules
        and unit.name not in blank
        and len(as_given[unit.name]) == len(unit.exercises)
    ]
    _write(out, {MANIFEST: _manifest(course, files, untouched)} | files)
    _hold(out, desk, files)
    return Packed(
        out,
        [(name, len(content)) for name, content in files.items()],
        [unit.name for unit in course.units if unit.name not in submission.modules],
        empty,
        whole,
        untouched,
        [id for id in begun if desk.fresh(id) and not desk.has_passed(id)],
        [id for id in begun if not desk.fresh(id)],
        submission.strays,
        submission.notes,
    )


def _manifest(course: Course, files: dict[str, bytes], untouched: Sequence[str]) -> bytes:
    from grader.report.record import course_digest

    listed = [
        {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    ]
    manifest = {
        "schema": 1,
        "course": course_digest(),
        "made_by": {
            "grader": __version__,
            "python": platform.python_version(),
            "torch": _version("torch"),
            "numpy": _version("numpy"),
        },
        "files": listed,
        "not_attempted": list(untouched),
    }
    return json.dumps(manifest, ensure_ascii=False, indent=1).encode()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _write(out: Path, contents: dict[str, bytes]) -> None:
    """Write a whole new zip in the place of an old one."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    write_whole(out, packed.getvalue())


def _hold(out: Path, desk: Desk, files: dict[str, bytes]) -> None:
    """Read it as the grader's intake does, and compare with what lies in the folder."""
    with zipfile.ZipFile(out) as archive:
        manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
        told = {file["name"]: (file["size"], file["sha256"]) for file in manifest["files"]}
        found = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
    digests = {n: (len(text), hashlib.sha256(text).hexdigest()) for n, text in found.items()}
    read = intake.read(out, desk.course.definitions)
    texts = {unit: module.text for unit, module in read.modules.items()}
    if not (digests == told and found == files and texts == desk.texts):
        raise SubmitError(
            say(
                "{file} is not what lies in {folder}: is the disk full? Try again.",
                file=str(out),
                folder=str(desk.path),
            )
        )
