"""What a submission leaves behind in a process that is to serve another one.

A worker on a GPU is too costly to make anew each time, so it is looked over after each submission:
has any module, class or function of this process changed, or any setting of Python's or torch's?
Whatever differs, it is ended. Nothing is repaired: who repairs must know all that can be broken.

Code that means to hide what it did can hide it from whoever looks in the same process. So what is
found here protects from accidents alone; `RemoteHost.hand_back` says what else must hold.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import os
import random
import signal
import sys
import types
from typing import Any

import torch

# Caches, which change when they are used.
_CACHES = {"linecache.cache", "re._cache", "re._cache2", "sys.path_importer_cache"}
_SHOWN_MOST = 20

Contents = list[Any]


class Before:
    """How this process was at one time. What it holds stays alive, so `is` tells old from new."""

    def __init__(self) -> None:
        self._places = _places()
        self._settings = _settings()

    def changes(self) -> list[str]:
        """The names of what is no longer as it was; the first of them."""
        now = _places()
        found = [name for name in self._places if not _same(self._places[name], now.get(name))]
        settings = _settings()
        found += [name for name in settings if settings[name] != self._settings[name]]
        return found[:_SHOWN_MOST]


def _places() -> dict[str, Contents]:
    """Each module, class, function and collection that a module holds, with what is in it."""
    places: dict[str, Contents] = {}
    seen: set[int] = set()

    def look(name: str, value: Any, module: str) -> None:
        kind = type(value)  # not isinstance(), which asks the value
        if kind is types.FunctionType:
            places[name] = [value.__code__, value.__defaults__, value.__kwdefaults__]
        elif issubclass(kind, dict) and name not in _CACHES:  # torch's hooks are an OrderedDict
            places[name] = [*value, *value.values()]
        elif kind in (list, set):
            places[name] = list(value)
        elif issubclass(kind, type) and vars(value).get("__module__") == module:
            look_into(name, value, module)

    def look_into(name: str, owner: Any, module: str) -> None:
        if id(owner) in seen:
            return
        seen.add(id(owner))
        contents = dict(vars(owner))
        places[name] = [*contents, *contents.values()]
        for inner, value in contents.items():
            look(f"{name}.{inner}", value, module)

    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType):
            look_into(name, module, name)
    return places


def _same(before: Contents, now: Contents | None) -> bool:
    """By identity: what is compared may have an `==` of its own."""
    return now is not None and list(map(id, before)) == list(map(id, now))


def _settings() -> dict[str, Any]:
    """What is set for the whole process, and not by a name in a module."""
    numpy = sys.modules.get("numpy.random")
    return {
        "files": sorted(os.listdir()),
        "environment": dict(os.environ),
        "threads": _thread._count(),
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "tracing": (sys.gettrace(), sys.getprofile()),
        "recursion": sys.getrecursionlimit(),
        "at exit": atexit._ncallbacks(),
        "garbage": (gc.isenabled(), gc.get_threshold()),
        "random": random.getstate(),
        "numpy's random": str(numpy.get_state()) if numpy else "",
        "dtype": torch.get_default_dtype(),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "anomalies": torch.is_anomaly_enabled(),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "determinism": torch.get_deterministic_debug_mode(),
        "precision": torch.get_float32_matmul_precision(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        "torch's threads": torch.get_num_threads(),
    }
