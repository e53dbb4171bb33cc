"""``expect(found).equals(expected)``: comparing in words that help.

A bare ``assert`` in a check would fail on rubbish with an exception that looks like the grader's
own fault, so checks compare through here alone.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.judge import explain
from grader.judge.picture import picture
from grader.judge.tolerance import budget, distance
from grader.model import Message, Outcome, say
from grader.subject.faults import Failure
from grader.subject.verdicts import describe, short, shown

_steps = 0


def begin() -> None:
    """A check begins."""
    global _steps
    _steps = 0


def steps() -> int:
    """How many expectations the running check has made: with its id, the place of a failure."""
    return _steps


@dataclass(frozen=True)
class Comparison:
    """How far what was found is from what was expected, where a budget decides.

    Attributes:
        dtype: of what was found.
        budget: the distance that is allowed.
        distance: the largest there was; see `tolerance.distance`.
    """

    dtype: torch.dtype
    budget: float
    distance: float

    @property
    def share(self) -> float:
        """The distance in budgets: up to 1 is accepted."""
        return self.distance / self.budget


_comparisons: list[Comparison] | None = None  # where somebody measures


@contextlib.contextmanager
def measured() -> Iterator[list[Comparison]]:
    """Keep every comparison that is made meanwhile."""
    global _comparisons
    kept: list[Comparison] = []
    _comparisons = kept
    try:
        yield kept
    finally:
        _comparisons = None


def expect(found: Any, where: Tensor | None = None) -> Expectation:
    """Begin an expectation about what the student's code gave.

    Args:
        found: a tensor or plain data.
        where: bool, broadcastable to ``found``: judge these entries alone.
    """
    global _steps
    _steps += 1
    return Expectation(found, where)


class Expectation:
    """What is expected of a found value. Every method raises `Failure` where it does not hold."""

    def __init__(self, found: Any, where: Tensor | None):
        self._found = found
        self._where = where

    def equals(self, expected: Any, within: float | None = None) -> None:
        """Be equal: tensors up to the dtype's budget (or ``within``), plain data exactly."""
        found = self._found
        if not (isinstance(found, Tensor) and isinstance(expected, (Tensor, bool, int, float))):
            if not _same_plain(found, expected):
                self._fail(
                    say(
                        "expected {expected}; found {found}",
                        expected=describe_plain(expected),
                        found=describe_plain(found),
                    )
                )
            return
        target = torch.as_tensor(expected)
        if isinstance(expected, Tensor):
            self._hold_shape(target.shape, exact=self._where is None)
        tolerance = budget(found.dtype) if within is None else within
        judged = self._considered(found)
        wrong = _apart(found, target, tolerance, judged)
        if wrong.any():
            target = target.expand_as(found)
            self._fail(
                *explain.difference(found, target, wrong, tolerance),
                picture=functools.partial(picture, found, target, wrong, judged),
            )

    def mentions(self, *words: Any) -> None:
        """Be a text in which these words and numbers stand; one that is given twice, twice."""
        text = self._found if isinstance(self._found, str) else shown(self._found)
        missing = list((Counter(map(str, words)) - Counter(re.findall(r"\w+", text))).elements())
        if missing:
            self._fail(
                say(
                    "expected it to name {missing}; it says: {found}",
                    missing=", ".join(missing),
                    found=text,
                )
            )

    def chooses(self, what: str, among: Sequence[str], right: str | None = None) -> None:
        """Be one of some choices, and the right one if that is given.

        The right one is not told: whoever chose wrong may be graded again.
        """
        if self._found is None:
            raise Failure(Outcome.NOT_ATTEMPTED, say("Nothing is chosen for {what}.", what=what))
        if self._found not in among:
            near = difflib.get_close_matches(str(self._found), among, n=1)
            found = describe_plain(self._found)
            self._fail(
                say(
                    "For {what}, expected one of the list, such as {near!r}; found {found}",
                    what=what,
                    near=(near or among)[0],
                    found=found,
                )
            )
        if right not in (None, self._found):
            chosen = torch.tensor([choice == self._found for choice in among])
            words = say("With {what}, something else was wrong.", what=what)
            raise Failure(Outcome.WRONG_VALUE, words, found=chosen)

    def differs_from(self, other: Tensor, least: float = 1e-6) -> None:
        """Differ somewhere, by ``least`` or more."""
        found = self._tensor()
        self._hold_shape(other.shape)
        gap = (_wide(found) - _wide(other)).abs() * self._considered(found)
        if not bool((gap > least).any()):
            self._fail(say("expected two different results; found the same one twice"))

    def is_finite(self) -> None:
        """Hold neither NaN nor inf."""
        found = self._tensor()
        wrong = ~torch.isfinite(found) & self._considered(found)
        if wrong.any():
            self._fail(*explain.nonfinite(found, wrong))

    def sums_to(self, total: float, dim: int = -1) -> None:
        """Sum to ``total`` along ``dim``."""
        if self._where is None:
            self.is_finite()  # and say so, rather than that the sum is NaN
        found = self._tensor()
        if not -found.ndim <= dim < found.ndim:
            self._fail(say("expected a tensor; found {found}", found=describe(found)))
        sums = found.sum(dim)
        where = self._considered(sums)
        wrong = _apart(sums, torch.as_tensor(total), 10 * budget(found.dtype), where)
        if wrong.any():
            index = explain.first(wrong)
            self._fail(
                say(
                    "expected the entries along dim {dim} to sum to {total};"
                    " those at {index} sum to {found}",
                    dim=dim,
                    total=total,
                    index=index,
                    found=explain.number(sums[tuple(index)]),
                )
            )

    def has_dtype(self, dtype: torch.dtype) -> None:
        """Have this dtype."""
        found = self._tensor()
        if found.dtype != dtype:
            self._fail(
                say(
                    "expected dtype {expected}; found {found}",
                    expected=short(dtype),
                    found=short(found.dtype),
                ),
                outcome=Outcome.WRONG_DTYPE,
            )

    def _considered(self, found: Tensor) -> Tensor:
        if self._where is None:
            return torch.ones_like(found, dtype=torch.bool)
        self._hold_shape(self._where.shape, found, exact=False)
        return self._where.expand_as(found)

    def _hold_shape(
        self, expected: torch.Size, found: Tensor | None = None, exact: bool = True
    ) -> None:
        """Fail where what was found does not have this shape, or cannot be broadcast to."""
        shape = (self._found if found is None else found).shape
        if shape != expected and (exact or not _broadcasts(expected, shape)):
            self._fail(
                say(
                    "expected shape {expected}; found {found}",
                    expected=list(expected),
                    found=list(shape),
                ),
                outcome=Outcome.WRONG_SHAPE,
            )

    def _tensor(self) -> Tensor:
        if not isinstance(self._found, Tensor):
            self._fail(say("expected a tensor; found {found}", found=describe(self._found)))
        return self._found  # type: ignore[no-any-return]

    def _fail(self, *message: Message, outcome: Outcome = Outcome.WRONG_VALUE, **more: Any) -> None:
        found = self._found if isinstance(self._found, Tensor) else shown(self._found)
        raise Failure(outcome, *message, found=found, **more)


def describe_plain(value: Any) -> Message | str:
    """Plain data in full, if it is short; a tensor by its shape."""
    if isinstance(value, Tensor):
        return describe(value)
    text = shown(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _same_plain(found: Any, expected: Any) -> bool:
    try:
        return isinstance(found, Tensor) == isinstance(expected, Tensor) and bool(found == expected)
    except Exception:  # tensors inside, which say neither yes nor no; or an `__eq__` of theirs
        return False


def _broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    """Whether a tensor of the one shape can be expanded to the other."""
    missing = len(to) - len(shape)
    return missing >= 0 and all(a in (1, b) for a, b in zip(shape, to[missing:]))


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_complex() else tensor.double()


def _apart(found: Tensor, expected: Tensor, tolerance: float, where: Tensor) -> Tensor:
    """Where, of the entries that count, the two are further apart than the tolerance."""
    if found.dtype == torch.bool or not (found.is_floating_point() or tolerance):
        return (found != expected) & where
    apart = distance(_wide(found), _wide(expected))
    if _comparisons is not None and tolerance and where.any():
        furthest = apart[where].nan_to_num(math.inf, math.inf).max().item()
        _comparisons.append(Comparison(found.dtype, tolerance, furthest))
    return ~(apart <= tolerance) & where
