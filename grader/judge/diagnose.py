"""Recognise a known mistake by what it gives on the check's own inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grader.judge.tolerance import budget
from grader.model import CheckResult, Outcome

_MOST = 1 << 16  # entries, or characters


@dataclass(frozen=True)
class Signature:
    """Where a check failed, and on what.

    Attributes:
        step: how many expectations the check had made.
        outcome: how it failed.
        found: what was judged, plain data as text; None where the code gave nothing to judge.
    """

    step: int
    outcome: str
    found: Tensor | str | None

    def fits(self, other: Signature) -> bool:
        """The same failure, up to the dtype's budget."""
        if (self.step, self.outcome) != (other.step, other.outcome):
            return False
        mine, theirs = self.found, other.found
        if not (isinstance(mine, Tensor) and isinstance(theirs, Tensor)):
            return type(mine) is type(theirs) and mine == theirs
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return False
        tolerance = budget(mine.dtype)
        return torch.allclose(
            mine.double(), theirs.double(), rtol=tolerance, atol=tolerance, equal_nan=True
        )

    @property
    def tells(self) -> bool:
        """It is no accident to give just this: different numbers, and wrong as numbers. One value,
        or the same one everywhere, could come from anything, NaN and inf from any overflow, and a
        wrong shape or dtype may hold what is right.
        """
        found = self.found
        if self.outcome != Outcome.WRONG_VALUE.value or not isinstance(found, Tensor):
            return False
        finite = bool(torch.isfinite(found).all())
        return finite and found.numel() > 1 and bool((found != found.flatten()[0]).any())

    def kept(self) -> Signature | None:
        """The same, of its own memory: a few entries may lie in a giant's. None for a giant: what
        is larger than any check asks for comes from no known mistake.
        """
        if isinstance(self.found, Tensor):
            return replace(self, found=self.found.clone()) if self.found.numel() <= _MOST else None
        return self if len(self.found or "") <= _MOST else None


class Known:
    """What known mistakes give, and what to say of them.

    Args:
        signatures: check -> how each mistake fails it, where it does.
        titles: mistake -> title and hint.
    """

    def __init__(
        self,
        signatures: Mapping[str, Sequence[tuple[str, Signature]]],
        titles: Mapping[str, tuple[str, str]],
    ):
        self._signatures = signatures
        self._titles = titles
        self._found_in: dict[str, list[str]] = {}
        for check, given in signatures.items():
            for mistake, _ in given:
                self._found_in.setdefault(mistake, []).append(check)

    def compared(self, result: CheckResult, signature: Signature | None) -> CheckResult:
        """A check's result with the known mistakes that fail it in the same way."""
        if signature is None:
            return result
        given = self._signatures.get(result.id, ())
        alike = [mistake for mistake, known in given if known.fits(signature)]
        suspects = alike if signature.found is not None else []
        return replace(
            result,
            alike=alike,
            suspects={mistake: self._titles[mistake] for mistake in suspects},
            found_in={mistake: self._found_in[mistake] for mistake in suspects},
            telling=bool(suspects) and signature.tells,
        )
