"""Functions that give plain numbers, judged on several inputs at once.

On one input, many a wrong formula gives the right number. All that were found, side by side, tell
which formula it was: so a known mistake is recognised here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader.judge.expect import expect
from grader.model import say
from grader.subject.faults import Failure
from grader.subject.proxy import Call


def give(calls: Sequence[Call], expected: Sequence[Any], part: int | None = None) -> None:
    """Expect each call to give its number, or its numbers.

    Args:
        calls: of an exercise that returns ints.
        expected: what each should give.
        part: of several parts, the one that counts.
    """
    found = [call() for call in calls]
    if part is not None:
        found, expected = [value[part] for value in found], [wanted[part] for wanted in expected]
    try:
        expect(found).equals(list(expected))
    except Failure as failure:
        call, wanted, value = next(
            case for case in zip(calls, expected, found) if case[1] != case[2]
        )
        names = {"call": written(call), "expected": wanted, "found": value}
        if part is None:
            words = say("`{call}` should give {expected}; it gave {found}.", **names)
        else:
            words = say(
                "Part {part} of `{call}` should be {expected}; it is {found}.",
                part=part + 1,
                **names,
            )
        raise Failure(failure.outcome, words, found=failure.found) from None


def written(call: Call) -> str:
    """The call as one would type it."""
    arguments = [repr(arg) for arg in call.args]
    arguments += [f"{name}={value!r}" for name, value in call.kwargs.items()]
    return f"{call.function.exercise.name}({', '.join(arguments)})"
