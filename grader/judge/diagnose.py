"""Recognise a known mistake by what it gives on the check's own inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grader.judge.tolerance import budget

_ENTRIES_MOST = 1 << 16


@dataclass(frozen=True)
class Signature:
    """Where a check failed, and on what.

    Attributes:
        step: how many expectations the check had made.
        outcome: how it failed.
        found: the tensor that was judged.
    """

    step: int
    outcome: str
    found: Tensor

    def fits(self, other: Signature) -> bool:
        """The same failure, up to the dtype's budget."""
        if (self.step, self.outcome) != (other.step, other.outcome):
            return False
        mine, theirs = self.found, other.found
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return False
        tolerance = budget(mine.dtype)
        return torch.allclose(
            mine.double(), theirs.double(), rtol=tolerance, atol=tolerance, equal_nan=True
        )

    @property
    def tells(self) -> bool:
        """Says something: a single value, or the same one everywhere, could come from anything;
        what is larger than any check asks for comes from no known mistake.
        """
        return 1 < self.found.numel() <= _ENTRIES_MOST and bool(
            (self.found != self.found.flatten()[0]).any()
        )

    def kept(self) -> Signature:
        """The same, of its own memory: a few entries may lie in a giant's."""
        return replace(self, found=self.found.clone())


def suspects(failure: Signature, known: Iterable[tuple[str, Signature]]) -> list[str]:
    """The known mistakes that give just this."""
    if not failure.tells:
        return []
    return [mistake for mistake, signature in known if signature.fits(failure)]
