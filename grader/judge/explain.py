"""What is different between two tensors, in a line or two that point at the cause."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.model import Message, say


def difference(found: Tensor, expected: Tensor, wrong: Tensor, tolerance: float) -> list[Message]:
    """Say where ``found`` first differs from ``expected``, and how, if there is a pattern.

    Args:
        found: what the student's code gave.
        expected: what it should be, same shape.
        wrong: bool, same shape, True where they differ; True somewhere.
        tolerance: relative and absolute, for recognising a pattern.
    """
    bad = ~torch.isfinite(found) & wrong
    both = torch.isnan(found) & torch.isnan(expected)  # NaN is not even equal to NaN
    if bad.any() and bool(torch.isfinite(expected).all() or both.any()):
        return nonfinite(found, bad)
    index = first(wrong)
    right, given = numbers(expected[tuple(index)], found[tuple(index)])
    if not index:
        return [say("expected {expected}; found {found}", expected=right, found=given)]
    lines = [
        say(
            "expected {expected} at {index}; found {found} ({wrong} of {total} entries differ)",
            expected=right,
            index=index,
            found=given,
            wrong=int(wrong.sum()),
            total=wrong.numel(),
        )
    ]
    pattern = _pattern(found, expected, max(tolerance, 1e-9))
    return lines + ([pattern] if pattern else [])


def nonfinite(found: Tensor, wrong: Tensor) -> list[Message]:
    """Say where the first NaN or inf stands."""
    index = first(wrong)
    lines = [
        say(
            "expected finite numbers; found {found} at {index} ({wrong} of {total} entries)",
            found=number(found[tuple(index)]),
            index=index,
            wrong=int(wrong.sum()),
            total=wrong.numel(),
        )
    ]
    if bool((torch.isnan(found) & wrong).any()):
        lines.append(say("NaN is born of 0 / 0, inf / inf, inf - inf or 0 * inf."))
    return lines


def first(wrong: Tensor) -> list[int]:
    """The index of the first True."""
    return [int(i) for i in wrong.nonzero()[0]]


def number(value: Tensor) -> str:
    """One entry, readably."""
    entry = value.item()
    return f"{entry:.6g}" if isinstance(entry, float) else str(entry)


def numbers(one: Tensor, other: Tensor) -> tuple[str, str]:
    """Two entries that differ, with as many digits as it takes to see that."""
    texts = number(one), number(other)
    if texts[0] == texts[1] and one.is_floating_point():
        return f"{one.item():.12g}", f"{other.item():.12g}"
    return texts


def _pattern(found: Tensor, expected: Tensor, tolerance: float) -> Message | None:
    if found.numel() < 2:
        return None
    entry = found.flatten()[0]
    if bool((found == entry).all()):
        return say("Every entry of yours is {value}.", value=number(entry))
    if found.dtype == torch.bool == expected.dtype and torch.equal(found, ~expected):
        return say("True and False are exchanged everywhere.")
    if not found.is_floating_point():
        return None
    found, expected = found.double(), expected.double()
    if not bool(torch.isfinite(found).all() and torch.isfinite(expected).all()):
        return None
    ratio = _ratio(found, expected, tolerance)
    if ratio is not None:
        text = f"{ratio:.6g}" if abs(ratio - 1) > 1e-5 else f"{ratio:.12g}"
        root = ratio**2 if ratio > 1 else ratio**-2
        if abs(root - round(root)) < 1e-6 and round(root) > 1:
            sign = "" if ratio > 1 else "1/"
            text += f" = {sign}sqrt({round(root)})"
        return say("Every entry is the expected one times {ratio}.", ratio=text)
    square = found.ndim >= 2 and found.shape[-1] == found.shape[-2]
    if square and torch.allclose(found.mT, expected, rtol=tolerance, atol=tolerance):
        return say("It is the expected matrix transposed.")
    same_entries = torch.allclose(
        found.flatten().sort().values,
        expected.flatten().sort().values,
        rtol=tolerance,
        atol=tolerance,
    )
    if same_entries and bool((expected != expected.flatten()[0]).any()):
        return say("All the right numbers are there, in the wrong places.")
    return None


def _ratio(found: Tensor, expected: Tensor, tolerance: float) -> float | None:
    """The one factor between them, if there is one."""
    largest = expected.abs().argmax()
    scale = expected.flatten()[largest].item()
    if not scale:
        return None
    ratio = found.flatten()[largest].item() / scale
    if not 1e-6 <= abs(ratio) <= 1e6:
        return None
    fits = torch.allclose(found, expected * ratio, rtol=tolerance, atol=tolerance)
    return ratio if fits else None
