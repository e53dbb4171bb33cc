"""Checks in a notebook: ``check("attention.stable_softmax")`` in a cell of its own.

It takes the cells as they stand in the kernel, saved or not: the last source run of each. They are
read as what is handed in will be (`cells`), and checked as `make check` does, by a process beside
the kernel that has torch ready: it starts when this module is imported, and is kept. So an endless
loop ends by the limit or by an interrupt, and nothing that a cell prints or breaks can matter.
Other units come from the notebook's folder.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from grader import cells, intake
from grader import course as courses
from grader.cells import Cell
from grader.check import LIMIT_S, Check, SessionError
from grader.children import Warm
from grader.course import CourseError
from grader.intake import IntakeError
from grader.model import what
from grader.report.language import Language
from grader.score import Score, score
from grader.subject.modules import PACKAGE, Namespace

__all__ = ["check"]


def check(*targets: str, lang: str | None = None, limit: float = LIMIT_S) -> float | None:
    """Check exercises, and show what came of it.

    Args:
        targets: exercises or units, such as ``"attention.stable_softmax"``.
        lang: the language of the report; the system's by default.
        limit: seconds that one check may take.

    Returns:
        Nothing, so that the report stands alone; under `nbgrader validate`, the points.

    Raises:
        CannotCheck: there is no such exercise, or nothing can be run.
    """
    language = Language(lang)
    try:
        points = _points(targets, limit)
    except (CourseError, IntakeError, SessionError) as error:
        raise CannotCheck(language.render(what(error))) from None
    from grader.report import html  # with rich

    rendered, text = html.told(points.exercises, language)
    _show({"text/html": rendered, "text/plain": text})
    return points.score if os.environ.get("NBGRADER_EXECUTION") else None


class CannotCheck(Exception):
    """Says why, and no more: IPython asks it for a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def _points(targets: Sequence[str], limit: float) -> Score:
    course = courses.load()
    chosen = course.select(targets)
    run = Check(
        course,
        Path.cwd(),
        course.closure(chosen),
        limit,
        _kernel.warm.start,
        modules=_kernel.modules(),
    )
    return score(course, chosen, run.results())


def _show(bundle: dict[str, str]) -> None:
    if _shell() is None:
        print(bundle["text/plain"])
        return
    from IPython.display import display

    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def _shell() -> Any:
    """The kernel's shell; None where there is none."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None


class _Kernel:
    """What was run in this kernel, and the process beside it that checks."""

    def __init__(self) -> None:
        self.warm = Warm()
        self._cells: dict[Any, Cell] = {}
        shell = _shell()
        if shell is not None:
            for number, source in enumerate(shell.user_ns.get("In", ())):
                self._ran(None, number, source)
            shell.events.register("pre_run_cell", self._before)

    def _before(self, info: Any) -> None:
        number = len(_shell().user_ns.get("In", ()))  # it will be the last of them
        self._ran(getattr(info, "cell_id", None), number, str(info.raw_cell))
        _forget()

    def _ran(self, cell: str | None, number: int, source: str) -> None:
        """Note a cell. What it was before is replaced, in its place: cells run in the order of the
        notebook, not in that in which they were last mended.
        """
        key: Any = cell or cells.defined(source) or source
        self._cells[key] = Cell(f"In [{number}]", source)

    def modules(self) -> dict[str, str]:
        """Unit -> its text, of the units that this kernel has definitions of."""
        course = courses.load()
        defined = {name for cell in self._cells.values() for name in cells.defined(cell.source)}
        ran = list(self._cells.values())
        return {
            unit: cells.module(ran, names)[0]
            for unit, names in course.definitions.items()
            if defined & set(names)
        }


class _Finder:
    """Finds `exercises.<unit>` for the notebook's own imports: in the folder, as a module or a
    notebook, whichever was worked on.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, unit = name.partition(".")
        units = courses.load().definitions
        if package != PACKAGE or (unit and unit not in units):
            return None
        with contextlib.suppress(intake.IntakeError):
            return Namespace(intake.read_folder(Path.cwd(), units), units).find_spec(name)
        return None


def _forget() -> None:
    """Let the next import read again what may have been saved since."""
    for name in [n for n in sys.modules if n == PACKAGE or n.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]


_kernel = _Kernel()
atexit.register(_kernel.warm.close)
if _shell() is not None:
    sys.meta_path.insert(0, _Finder())
