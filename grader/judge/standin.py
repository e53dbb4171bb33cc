"""The judge's end of a stand-in: the reference's values and gradients, for a worker that asks.

Where an exercise has lost points, what stands on it is graded once more on a sound one. The worker
gets a function or a class whose every call comes here; no text of the reference goes there.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.func import functional_call

from grader import course as courses
from grader.course import Course
from grader.subject import across
from grader.subject.remote import StandIn
from grader.subject.shapes import resolve

_PLAIN = (bool, int, float, str)
_SIZE_MOST = 1024
_CALLS_MOST = 64  # of one object, which are all made again for each question
_ENTRIES_MOST = 1 << 16  # of all tensors of one question, and of one module's state


def needed(course: Course, exercise: str, open_exercises: Sequence[str]) -> list[StandIn] | None:
    """What must stand in for what, so that ``exercise`` is judged by itself.

    Args:
        course: the table.
        exercise: what is to be graded again.
        open_exercises: what has lost points, of all that it stands on.

    Returns:
        The stand-ins, or None where there is none: a method is nothing without its own class.
    """
    found: dict[str, StandIn] = {}
    for need in open_exercises:
        unit, name, *method = need.split(".")
        whole = course.exercises[f"{unit}.{name}"]
        if whole.id == ".".join(exercise.split(".")[:2]):
            if not method or whole.kind == "object":  # each question would meet a new object
                return None
            found[need] = {"exercise": need, "kind": "method"}
        else:
            found[whole.id] = {"exercise": whole.id, "kind": whole.kind}
            if whole.kind == "object":
                found[whole.id]["methods"] = " ".join(_methods(course, whole.id))
    return list(found.values())


def _methods(course: Course, exercise: str) -> list[str]:
    """The names of a class's methods that are exercises of their own."""
    return [id.split(".")[2] for id in course.exercises if id.startswith(f"{exercise}.")]


def answer(question: Mapping[str, Any]) -> Any:
    """Answer what a worker's stand-in asks; see `across`.

    Raises:
        Exception: the question is not one that a stand-in asks, or asks for more than any check
            does: the worker chooses the sizes.
    """
    if sum(tensor.numel() for tensor in question.get("tensors", ())) > _ENTRIES_MOST:
        raise ValueError("the tensors are too large")
    if "make" in question:
        return _parts(_make(question["make"], question["init"]))
    exercise = question["stand_in"]
    return across.answer(question, lambda *call: _call(exercise, question, *call))


def _call(
    exercise: str,
    question: Mapping[str, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    state: dict[str, Any],
) -> Any:
    if question["init"] is None:
        return _find(exercise)(*args, **kwargs)
    if "done" in question:
        return _relive(exercise, question, args)
    unit, name, *method = exercise.split(".")
    instance = _make(f"{unit}.{name}", question["init"])
    if method:
        return getattr(instance, method[0])(*args, **kwargs)
    own = _parts(instance)["plain"]
    for path, value in question["plain"].items():
        if path not in own or not isinstance(value, _PLAIN):  # hostile: it names what it likes
            raise ValueError(f"{path!r:.50} is no attribute of {exercise}")
        owner, _, leaf = path.rpartition(".")
        setattr(operator.attrgetter(owner)(instance) if owner else instance, leaf, value)
    instance.train(question["training"])
    return functional_call(instance, state, tuple(args), kwargs)


def _relive(exercise: str, question: Mapping[str, Any], args: list[Any]) -> Any:
    """With a new object, do all that was done with theirs: the last result, or an attribute.

    Args:
        exercise: the class.
        question: names the methods that were called, with how many arguments each.
        args: of all calls.
    """
    if len(question["done"]) > _CALLS_MOST:
        raise ValueError("too many calls")
    methods = _methods(courses.load(), exercise)
    given, named = question["init"]
    instance, value = _find(exercise)(*given, **named), None
    for method, count, names in question["done"]:
        if method not in methods:  # hostile: it names what it likes
            raise ValueError(f"{method!r:.50} is no method of {exercise}")
        own, args = args[: count + len(names)], args[count + len(names) :]
        value = getattr(instance, method)(*own[:count], **dict(zip(names, own[count:])))
    if "get" in question:
        value = vars(instance)[question["get"]]
        if not isinstance(value, _PLAIN):
            raise ValueError(f"{question['get']!r:.50} is no attribute of {exercise}")
    return value


def _find(exercise: str) -> Any:
    unit, _, name = exercise.partition(".")
    return operator.attrgetter(name)(importlib.import_module(f"solutions.{unit}"))


def _make(exercise: str, init: Sequence[Any]) -> nn.Module:
    args, kwargs = init
    course = courses.load()
    sizes = dict(zip(course.exercises[exercise].init or (), args)) | kwargs
    if not all(isinstance(v, _PLAIN) and abs(float(v)) <= _SIZE_MOST for v in sizes.values()):
        raise ValueError("a size is no size")
    shapes = course.state_shapes(exercise, sizes).values()
    if sum(math.prod(resolve(shape, sizes)) for shape in shapes) > _ENTRIES_MOST:
        raise ValueError("the module is too large")
    made: nn.Module = _find(exercise)(*args, **kwargs)
    return made


def _parts(module: nn.Module) -> dict[str, Any]:
    """What a stand-in's instance is made of: no code, only names, numbers and tensors."""
    modules = {name: m for name, m in module.named_modules() if name}
    plain = {
        f"{prefix}.{name}" if prefix else name: value
        for prefix, inner in [("", module), *modules.items()]
        for name, value in vars(inner).items()
        if isinstance(value, _PLAIN) and not name.startswith("_") and name != "training"
    }
    return {
        "modules": {name: type(m).__name__ for name, m in modules.items()},
        "parameters": {name: p.detach() for name, p in module.named_parameters()},
        "buffers": dict(module.named_buffers()),
        "plain": plain,
    }
