"""nbgrader, with our judge in it. `nbgrader_config.py` calls `configure`.

nbgrader executes a submitted notebook and reads its points off the outputs; so whoever controls the
kernel controls the points. Here nothing of a student's is executed by nbgrader. In its place stands
`SandboxGrades`: it lets `grader grade` judge the submitted folder behind walls, once for all of it,
and writes into each check cell what a student may read, and its points, as a plain float, which
nbgrader takes for partial credit.

    generate_assignment    `Stubs`: stubs as they are handed out everywhere
    autograde              `Mend`, then `SandboxGrades` where `Execute` stood
    validate               exits with 1 where a check fails
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook
from nbgrader.apps.validateapp import ValidateApp
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import ClearSolutions, Execute, NbGraderPreprocessor
from nbgrader.validator import Validator
from traitlets import Bool, Float, Integer, Unicode

from grader import course as courses
from grader.course import ROOT, Course
from grader.report import feedback, html
from grader.report.language import Language
from grader.report.nbgrader import check_cell, find_alembic

RESULTS = "grades"  # the folder of an assignment's results, in the course's folder

Resources = dict[str, Any]


class NoVerdict(Exception):
    """There are no points, which is not the student's doing; nbgrader must not take it for zero."""


def configure(config: Any) -> None:
    """Set nbgrader's options."""
    find_alembic()
    config.GenerateAssignment.preprocessors = [
        Stubs if one is ClearSolutions else one for one in _default(GenerateAssignment)
    ]
    config.Autograde.sanitize_preprocessors = [
        Mend, *_default(Autograde, "sanitize_preprocessors")
    ]  # fmt: skip
    config.Autograde.autograde_preprocessors = [
        SandboxGrades if one is Execute else one
        for one in _default(Autograde, "autograde_preprocessors")
    ]
    _validate_strictly()


def _default(owner: Any, name: str = "preprocessors") -> list[Any]:
    return list(owner.class_traits()[name].default())


# ----------------------------------------------------------------------------- generate_assignment


class Stubs(NbGraderPreprocessor):  # type: ignore[misc]
    """Puts into each exercise's cell the stub that students get, whatever solution stands there."""

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        from release import notebooks

        unit = _unit(resources)
        handed_out = notebooks.notebook(unit, courses.load())
        stubs = {cell["id"]: cell["source"] for cell in handed_out["cells"]}
        for cell in filter(utils.is_solution, nb.cells):
            name = cell.metadata.nbgrader.grade_id
            if name not in stubs:
                raise NoVerdict(f"{unit.name}.ipynb: the solution cell {name!r} is no exercise")
            cell.source = stubs[name]
        nb.metadata.before_transformers = handed_out["metadata"]["before_transformers"]
        return nb, resources


def _unit(resources: Resources) -> courses.Unit:
    name = resources["nbgrader"]["notebook"]
    for unit in courses.load().units:
        if unit.name == name:
            return unit
    raise NoVerdict(
        f"{name}.ipynb is no unit of the course, and this folder grades by the course's own suites:"
        " keep other notebooks in another course folder."
    )


# ---------------------------------------------------------------------------------------- autograde


class Mend(NbGraderPreprocessor):  # type: ignore[misc]
    """Gives a submitted notebook the cells back that it should have.

    nbgrader knows cells by metadata that a copied cell copies, and that other editors drop: a copy
    ends the whole run, a deleted cell loses its points. Points do not depend on it here, so what is
    foreign becomes an ordinary cell, and what is missing is put where it was.
    """

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        known = _source_cells(resources)
        last: dict[str, NotebookNode] = {}
        for cell in nb.cells:
            data = cell.metadata.pop("nbgrader", None)
            name = data.get("grade_id") if isinstance(data, Mapping) else None
            if name in known and known[name]["cell_type"] == cell.cell_type:
                last[name] = cell  # of copies the last, which is what Python would keep
        place = -1
        for name, source in known.items():
            if name in last:
                last[name].metadata["nbgrader"] = source["nbgrader"]
                place = nb.cells.index(last[name])
            else:
                place += 1
                nb.cells.insert(place, _new_cell(nb, name, source))
        return nb, resources


def _source_cells(resources: Resources) -> dict[str, dict[str, Any]]:
    """The cells of the assignment that nbgrader knows, with their metadata, in order."""
    info = resources["nbgrader"]
    with Gradebook(info["db_url"]) as gradebook:
        notebook = gradebook.find_notebook(info["notebook"], info["assignment"])
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
        solutions = {cell.name for cell in notebook.solution_cells}
        return {
            cell.name: {
                "cell_type": cell.cell_type,
                "source": cell.source,
                "nbgrader": NotebookNode(
                    grade=cell.name in points,
                    solution=cell.name in solutions,
                    locked=cell.locked,
                    task=False,
                    grade_id=cell.name,
                    checksum=cell.checksum,
                    cell_type=cell.cell_type,
                    schema_version=3,
                    **({"points": points[cell.name]} if cell.name in points else {}),
                ),
            }
            for cell in notebook.source_cells
        }


def _new_cell(nb: NotebookNode, name: str, source: Mapping[str, Any]) -> NotebookNode:
    cell = NotebookNode(
        cell_type=source["cell_type"],
        metadata=NotebookNode(nbgrader=source["nbgrader"]),
        source=source["source"],
    )
    if cell.cell_type == "code":
        cell.execution_count, cell.outputs = None, []
    if (nb.nbformat, nb.nbformat_minor) >= (4, 5):
        taken = {one.get("id") for one in nb.cells}
        cell.id = next(id for id in _ids(name) if id not in taken)
    return cell


def _ids(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


class SandboxGrades(NbGraderPreprocessor):  # type: ignore[misc]
    """Writes outputs and points into a notebook's check cells, as `grader grade` finds them."""

    jobs = Integer(0, help="How many submissions at the same time; as many as cores by default"
                   ).tag(config=True)  # fmt: skip
    limit = Float(10.0, help="Seconds that one check may take").tag(config=True)
    unsafe = Bool(False, help="Grade although protections are absent").tag(config=True)
    lang = Unicode("", help="Of the feedback: en or zh; the system's by default").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        unit = _unit(resources)
        result = self._result(resources)
        course = courses.load()
        by_cell = {check_cell(one["id"]): one for one in result["exercises"]}
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
            if utils.is_grade(cell):
                name = cell.metadata.nbgrader.grade_id
                if name not in by_cell:
                    raise NoVerdict(f"{unit.name}.ipynb: the cell {name!r} checks no exercise")
                cell.outputs = self._outputs(course, by_cell[name])
        first = next(filter(utils.is_grade, nb.cells), None)
        if first is not None and result["notes"]:
            first.outputs.insert(0, _shown({"text/plain": "\n".join(result["notes"])}))
        return nb, resources

    def _outputs(self, course: Course, one: Mapping[str, Any]) -> list[NotebookNode]:
        told = feedback.exercise(course, one)
        rendered, text = html.told([told], Language(self.lang or None))
        return [
            _shown({"text/html": rendered, "text/plain": text}),
            NotebookNode(
                output_type="execute_result",
                data={"text/plain": repr(float(one["score"]))},
                metadata={},
                execution_count=None,
            ),
        ]

    def _result(self, resources: Resources) -> dict[str, Any]:
        info = resources["nbgrader"]
        folders = self.parent.parent.coursedir
        submitted = Path(folders.format_path(folders.submitted_directory, ".", ".")).resolve()
        out = Path(folders.root) / RESULTS / info["assignment"]
        with Gradebook(info["db_url"]) as gradebook:
            names = {one.name for one in gradebook.find_assignment(info["assignment"]).notebooks}
        units = [unit.name for unit in courses.load().units if unit.name in names]
        command = ["grade", str(submitted), "--out", str(out.resolve()), "--limit", str(self.limit)]
        command += ["--assignment", info["assignment"], "--students", folders.student_id]
        command += [word for unit in units for word in ("--only", unit)]
        command += ["--unsafe"] if self.unsafe else []
        command += ["--jobs", str(self.jobs)] if self.jobs else []
        command += ["--lang", self.lang] if self.lang else []
        failed = _graded(tuple(command), _state(submitted, folders.student_id, info["assignment"]))
        path = out / info["student"] / "result.json"
        if failed or not path.exists():
            raise NoVerdict(failed or f"{info['student']} was not graded: {path} is not there.")
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if result["status"] != "graded":
            raise NoVerdict(f"{info['student']} is {result['status']}: see {path}.")
        return result


def _shown(data: dict[str, str]) -> NotebookNode:
    return NotebookNode(output_type="display_data", data=data, metadata={})


def _state(submitted: Path, students: str, assignment: str) -> tuple[Any, ...]:
    """What tells that something was handed in anew."""
    paths = sorted(submitted.glob(f"{students}/{assignment}/*.*"))
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths)


@functools.cache
def _graded(command: tuple[str, ...], state: tuple[Any, ...]) -> str:
    """Grade all that was submitted; why that failed, or nothing.

    nbgrader comes here for each notebook of each student, and one run serves them all. It is a
    process of its own, since the formgrader's server should neither import torch nor be forked.
    """
    del state
    done = subprocess.run(
        [sys.executable, "-m", "grader", *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    ungraded = 1  # some submissions have no verdict, which their results say
    if done.returncode in (0, ungraded):
        return ""
    return f"grader {' '.join(command)}\n{done.stdout}\n{done.stderr}"


# ----------------------------------------------------------------------------------------- validate


def _validate_strictly() -> None:
    """Let `nbgrader validate` exit with 1 where a notebook fails: by itself it exits with 0."""
    if getattr(ValidateApp.start, "strict", False):
        return
    failed: list[str] = []
    validate, start = Validator.validate, ValidateApp.start

    def noting(self: Validator, filename: str) -> dict[str, Any]:
        found: dict[str, Any] = validate(self, filename)
        failed.extend([filename] if found else [])
        return found

    def strict(self: ValidateApp) -> None:
        start(self)
        if failed:
            self.exit(1)

    strict.strict = True  # type: ignore[attr-defined]
    Validator.validate, ValidateApp.start = noting, strict
