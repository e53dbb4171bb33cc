"""What was expected and found of a tensor, as a small picture: data, which `report` draws."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MOST = 12  # rows, and columns
ANY = "-"  # where nothing is expected


def picture(
    found: Tensor, expected: Tensor, wrong: Tensor, judged: Tensor
) -> dict[str, Any] | None:
    """The slice in which the first wrong entry stands, or the part around it where that is large.

    Args:
        found: what the student's code gave.
        expected: what it should be, same shape.
        wrong: bool, same shape, True where they differ.
        judged: bool, same shape, True where anything is expected.

    Returns:
        The field ``picture`` of docs/result.schema.json; None where it says no more than words do:
        of a number, and of numbers of no special meaning that are all wrong.
    """
    if found.ndim == 0 or found.is_complex() or expected.is_complex() or not wrong.any():
        return None
    first = [int(i) for i in wrong.nonzero()[0]]
    outer, inner = first[:-2], first[-2:]
    start = [
        min(max(0, index - MOST // 2), max(0, size - MOST))
        for index, size in zip(inner, found.shape[-2:])
    ]
    parts = []
    for tensor in (expected, found, wrong, judged):
        part = tensor[tuple(outer)] if outer else tensor
        for dim, begin in enumerate(start):
            part = part.narrow(dim, begin, min(MOST, part.shape[dim] - begin))
        parts.append(part if part.ndim == 2 else part[None])
    if not _telling(*parts[:3]):
        return None
    rows = [[[_entry(value) for value in row] for row in part.tolist()] for part in parts[:2]]
    for row, kept in zip(rows[0], parts[3].tolist()):
        row[:] = [text if is_kept else ANY for text, is_kept in zip(row, kept)]
    return {
        "shape": list(found.shape),
        "at": [*outer, *start],
        "expected": [" ".join(row) for row in rows[0]],
        "found": [" ".join(row) for row in rows[1]],
        "wrong": ["".join(".*"[is_wrong] for is_wrong in row) for row in parts[2].tolist()],
    }


def _telling(expected: Tensor, found: Tensor, wrong: Tensor) -> bool:
    """A mask, weights, or a pattern of right and wrong entries."""
    if expected.numel() < 2:
        return False
    if torch.bool in (expected.dtype, found.dtype) or not bool(wrong.all()):
        return True
    return bool(((expected >= 0) & (expected <= 1)).all())


def _entry(value: float | bool) -> str:
    """A number in five characters or so."""
    if isinstance(value, bool):
        return str(int(value))
    size = abs(value)
    if not size < 9999.5:  # NaN, too
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    if isinstance(value, int):
        return str(value)
    return f"{value:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"
