"""Writes scripts: runs each check on the reference once, and notes what it asks; see `Script`.

A script holds nothing that comes from an answer: it crosses before the worker has answered, and the
reference's answers must not. A check whose questions depend on answers has no script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from grader.course import Course
from grader.judge.suite import Answers, Check, Suite
from grader.subject import wire
from grader.subject.proxy import Perform, Subject
from grader.subject.script import Operation, Script

FIRST_NUMBER = 1 << 20  # of scripts, as questions: apart from those that are asked one by one


class _Answer(Tensor):
    """A tensor that an answer holds, and all that is computed from it."""


class _Scribe:
    """Writes down what a check asks of a host.

    Attributes:
        sound: nothing has been asked yet that a script cannot hold.
    """

    def __init__(self, perform: Perform):
        self._perform = perform
        self._operations: list[Operation] = []
        self._versions: list[tuple[Tensor, int]] = []
        self.sound = True

    def perform(self, operation: str, **arguments: Any) -> Any:
        if operation == "settle":
            return None
        raised = True
        given = list(_tensors(arguments))
        self.sound = self.sound and not any(isinstance(tensor, _Answer) for tensor in given)
        self._versions += [(tensor, tensor._version) for tensor in given]
        try:
            value = _marked(self._perform(operation, **arguments))
            raised = False
            return value
        finally:
            self._operations.append(Operation(operation, arguments, raised))

    def script(self, number: int) -> Script | None:
        """What was written down, if it is what any submission will be asked."""
        changed = any(tensor._version != version for tensor, version in self._versions)
        if changed or not self.sound:
            return None
        told = [[one.name, one.arguments, one.raises] for one in self._operations]
        question = wire.Message("ask", number, {"play": told})
        try:
            packed = wire.pack(question, _lend_nothing)
        except wire.WireError:
            return None
        return Script(number, tuple(self._operations), packed)


def write(
    course: Course, suite: Suite, checks: Sequence[Check], perform: Perform, answers: Answers
) -> dict[str, Script]:
    """The scripts of all checks that have one, by id.

    Args:
        course: the table.
        suite: runs the checks.
        checks: which.
        perform: that of a host of the reference.
        answers: the right ones.
    """
    scripts = {}
    for place, check in enumerate(checks):
        scribe = _Scribe(perform)
        error, _ = suite.attempt(check, Subject(course, scribe.perform), answers)
        script = scribe.script(FIRST_NUMBER + place) if error is None else None
        if script is not None:
            scripts[check.id] = script
    return scripts


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _marked(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.as_subclass(_Answer)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_marked, value))
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    return value


def _lend_nothing(function: Any) -> int:
    raise wire.WireError("a function has a number in one worker alone")
