"""What a check asks of a subject, known before anybody is asked.

The whole class meets the same inputs, so most checks ask every submission for the same operations.
Such a check has a script: a worker gets all its operations in one message and answers them in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.subject.faults import Fault


@dataclass(frozen=True)
class Operation:
    """One operation, and whether the reference raises there, as the check wants it to."""

    name: str
    arguments: dict[str, Any]
    raises: bool


@dataclass(frozen=True)
class Script:
    """All that one check asks.

    Attributes:
        number: the question's, in every worker.
        operations: in order.
        packed: the question, as it crosses.
    """

    number: int
    operations: tuple[Operation, ...]
    packed: bytes


class Replay:
    """Serves a check what a worker has answered to its script.

    Attributes:
        left: the check has asked for something else than its script says.
    """

    def __init__(self, script: Script, answers: Sequence[Any]):
        self._steps = iter(zip(script.operations, answers))
        self.left = False

    def perform(self, operation: str, **arguments: Any) -> Any:
        if operation == "settle":
            return None
        foreseen, answer = next(self._steps, (None, None))
        if (
            foreseen is None
            or foreseen.name != operation
            or not _same(foreseen.arguments, arguments)
        ):
            self.left = True
            raise LookupError("the script says something else")
        if isinstance(answer, Fault):
            raise answer
        return answer


def _same(one: Any, other: Any) -> bool:
    """Equal, to the bits and the layout of tensors."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.stride() == other.stride()
            and (torch.equal(one, other) or _bits(one) == _bits(other))
        )
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other or one != one)


def _bits(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
