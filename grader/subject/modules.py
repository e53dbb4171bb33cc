"""One finder for a submission's modules.

``attention``, ``.attention`` and ``exercises.attention`` are the same object, whichever way a
student writes the import. Two submissions can live in one process: each namespace puts its modules
into ``sys.modules`` while its code runs, and takes them out again.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from grader.model import Submission

PACKAGE = "exercises"

Finish = Callable[[types.ModuleType], None]
Around = Callable[[str], contextlib.AbstractContextManager[Any]]


class Namespace(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The modules of one submission, importable while `active`.

    Args:
        submission: the modules' texts.
        units: the names of the course's units.
        finish: unit -> what is done to its module before anyone sees it, also where it cannot be
            imported or is not there.
        around: makes, of a unit's name, the context in which its code runs.
    """

    def __init__(
        self,
        submission: Submission,
        units: Iterable[str],
        finish: Mapping[str, Finish] | None = None,
        around: Around = contextlib.nullcontext,
    ):
        self.units = set(units)
        self._modules = submission.modules
        self._finish = finish or {}
        self._around = around
        self._names = {PACKAGE, *units, *(f"{PACKAGE}.{unit}" for unit in units)}
        self._loaded: dict[str, types.ModuleType] = {}
        self._depth = 0

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make the submission's modules the ones that an import finds."""
        if self._depth:  # its own code called back
            yield
            return
        others = {name: sys.modules.pop(name) for name in self._names & sys.modules.keys()}
        sys.modules.update(self._loaded)
        sys.meta_path.insert(0, self)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self)
            self._loaded = {n: sys.modules.pop(n) for n in self._names & sys.modules.keys()}
            sys.modules.update(others)

    def module(self, unit: str) -> types.ModuleType:
        """Import a unit. Raises what the student's file raises."""
        return importlib.import_module(f"{PACKAGE}.{unit}")

    # The import system's side.

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._names:
            return None
        unit = _unit(name)
        if name != PACKAGE and unit not in self._modules and unit not in self._finish:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name == PACKAGE)

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        if name == PACKAGE:
            return
        if not name.startswith(f"{PACKAGE}."):  # an alias: hand out the one object
            sys.modules[name] = self.module(name)
            return
        unit = _unit(name)
        finish = self._finish.get(unit)
        try:
            if unit in self._modules:
                self._execute(module, unit)
        except Exception:
            if finish is None:
                raise
        if finish is not None:
            finish(module)

    def _execute(self, module: types.ModuleType, unit: str) -> None:
        source = self._modules[unit]
        lines = source.text.splitlines(keepends=True)
        linecache.cache[source.path] = (len(source.text), None, lines, source.path)
        module.__file__ = source.path
        code = compile(source.text, source.path, "exec", dont_inherit=True)
        with self._around(unit):
            exec(code, module.__dict__)


def _unit(name: str) -> str:
    return name.rpartition(".")[2]
