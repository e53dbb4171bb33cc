"""What a student's code shares with the judge where both live in one process, in `grader check`.

A module that takes torch out of `sys.modules`, or puts something of its own in the place of a
function of torch, breaks the judge and every unit after it, and the grader would take the blame. So
after each import what was there is put back, and the import is at fault. After each check, too: if
it has failed, that is why. What a module adds is its own business, as is how a tensor is shown, and
what torch does to itself: its compiler wraps some functions, and a default dtype sets
`torch.Storage`.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from grader.subject.faults import Fault

_MISSING = object()
_ANYBODYS = {"__repr__", "__str__", "__format__", "__loader__", "__spec__"}  # a reload's, too
_SETTINGS = (type(None), bool, int, float, str, tuple, list, dict, set)
_BUILTINS = vars(builtins)
_TORCH = str(Path(torch.__file__).parent)


class Shared:
    """How all this was at one time."""

    def __init__(self) -> None:
        self._builtins = _BUILTINS.copy()
        modules = (torch, torch.nn, torch.nn.functional, torch.autograd)
        owners = (*modules, torch.Tensor, torch.nn.Module)
        self._places = [_Place("sys.modules[{!r}]", sys.modules.copy, _set_module)]
        self._places += [_Place.of(owner) for owner in owners]
        self._modes = _modes()

    @contextlib.contextmanager
    def importing(self, unit: str) -> Iterator[None]:
        """Import a unit in here.

        Raises:
            Fault: it has changed what is everyone's; that is as before.
        """
        self._put_back()  # what a function of another unit has changed is not this one's fault
        modes = _modes()  # a function that is being watched may import
        try:
            yield
        finally:
            changed = self._put_back() + _modes_ended(modes)
            if changed:
                raise Fault("shared", {"unit": unit, "name": changed[0]})

    def put_back(self) -> list[str]:
        """Between checks: make everything as it was; the names of what was not."""
        return self._put_back() + _modes_ended(self._modes)

    def _put_back(self) -> list[str]:
        found = _BUILTINS.copy()
        _BUILTINS.update(self._builtins)  # first: without them nothing below works
        changed = [f"builtins.{n}" for n, v in self._builtins.items() if found.get(n) is not v]
        changed += [name for place in self._places for name in place.put_back()]
        return changed


class _Place:
    """Names and what they stand for.

    Args:
        form: of a name, for the message.
        now: what stands there.
        put: sets a name; or removes it, where it is given `_MISSING`.
    """

    def __init__(
        self, form: str, now: Callable[[], dict[str, Any]], put: Callable[[str, Any], None]
    ):
        self._form = form
        self._now = now
        self._put = put
        self._before = now()
        self._own = self._before

    @classmethod
    def of(cls, owner: Any) -> _Place:
        """The attributes of a module or a class, those that a class inherits included."""
        bases = owner.__mro__ if isinstance(owner, type) else (owner,)
        form = owner.__name__ if not isinstance(owner, type) else f"torch.{owner.__name__}"

        def now() -> dict[str, Any]:
            return {name: value for base in reversed(bases) for name, value in vars(base).items()}

        def put(name: str, value: Any) -> None:
            setattr(owner, name, value) if value is not _MISSING else delattr(owner, name)

        place = cls(f"{form}.{{}}", now, put)
        place._own = dict(vars(owner))
        return place

    def put_back(self) -> list[str]:
        """Make everything as it was; the names of what was not."""
        now = self._now()
        changed = []
        for name, before in self._before.items():
            value = now.get(name, _MISSING)
            if (
                value is before
                or isinstance(before, _SETTINGS)
                or name in _ANYBODYS
                or _torchs(value)
            ):
                continue
            self._put(name, self._own.get(name, _MISSING))
            changed.append(self._form.format(name))
        return changed


def _set_module(name: str, module: Any) -> None:
    sys.modules[name] = module


def _torchs(value: Any) -> bool:
    """Whether torch itself has written this function or class."""
    if isinstance(value, type):
        return str(value.__module__).startswith("torch")
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename.startswith(_TORCH)


def _modes() -> tuple[int, int]:
    """How many modes are on for all that torch does; a default device is one."""
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


def _modes_ended(before: tuple[int, int]) -> list[str]:
    """End those that were not on before; what matters of that."""
    found = []
    if _modes()[0] > before[0]:
        if torch.get_default_device().type != "cpu":
            found.append("torch.get_default_device()")
        torch.set_default_device(None)
    while _modes()[0] > before[0]:
        torch._C._pop_torch_function_stack()
        found.append("torch's modes")
    while _modes()[1] > before[1]:
        torch._C._pop_torch_dispatch_stack(None)
        found.append("torch's modes")
    return found
