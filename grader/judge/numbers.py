"""Functions that give plain numbers, judged on several inputs at once.

On one input, many a wrong formula gives the right number. All that were found, side by side, tell
which formula it was: so a known mistake is recognised here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.expect import expect
from grader.model import Outcome, say
from grader.subject.faults import Failure
from grader.subject.proxy import Call

_MOST = 2**62  # a larger number is wrong, and fits into no tensor


def give(calls: Sequence[Call], expected: Sequence[Any], part: int | None = None) -> None:
    """Expect each call to give its number.

    Args:
        calls: of an exercise that returns ints.
        expected: what each should give.
        part: of several parts, the one that counts.
    """
    values = [call() for call in calls]
    expect(values)  # it counts: with its id, the place of a failure
    if part is not None:
        values, expected = [value[part] for value in values], [wanted[part] for wanted in expected]
    for call, wanted, value in zip(calls, expected, values):
        if value == wanted:
            continue
        names = {"call": written(call), "expected": wanted, "found": value}
        if part is None:
            words = say("`{call}` should give {expected}; it gave {found}.", **names)
        else:
            words = say(
                "Part {part} of `{call}` should be {expected}; it is {found}.",
                part=part + 1,
                **names,
            )
        raise Failure(Outcome.WRONG_VALUE, words, found=_tensor(values))


def equal(found: Sequence[int], expected: Sequence[int]) -> None:
    """Expect a row of ints, such as the lengths of pieces."""
    try:
        expect(list(found)).equals(list(expected))
    except Failure as failure:
        if all(isinstance(number, int) for number in found):
            failure.found = _tensor(found)
        raise


def written(call: Call) -> str:
    """The call as one would type it."""
    arguments = [repr(arg) for arg in call.args]
    arguments += [f"{name}={value!r}" for name, value in call.kwargs.items()]
    return f"{call.function.exercise.name}({', '.join(arguments)})"


def _tensor(values: Sequence[Any]) -> Tensor:
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return torch.tensor([[max(-_MOST, min(_MOST, number)) for number in row] for row in rows])
