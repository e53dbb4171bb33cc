"""Shapes in a contract's letters: ``"... seq_q d_k"`` bound to numbers, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Sizes = dict[str, Any]  # letter -> int, and "..." -> the leading axes
ANY = -1  # the size of an axis such as ``steps?``, which may have any


def bind(spec: str, shape: tuple[int, ...], sizes: Sizes) -> None:
    """Let each letter of ``spec`` stand for the size that ``shape`` has there; the first wins."""
    axes = spec.split()
    if axes[:1] == ["..."]:
        axes = axes[1:]
        leading = len(shape) - len(axes)
        sizes.setdefault("...", tuple(shape[:leading]))
        shape = shape[leading:]
    for axis, size in zip(axes, shape):
        if axis.isidentifier():
            sizes.setdefault(axis, size)


def resolve(spec: str, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape in numbers.

    An axis may be reckoned, by ``*``, ``/`` and ``+``, where a division leaves nothing.

    >>> resolve("batch num_heads d_model/num_heads", dict(batch=3, num_heads=2, d_model=12))
    (3, 2, 6)
    >>> resolve("height*width/size/size size*size", dict(height=4, width=6, size=2))
    (6, 4)
    >>> resolve("d_hidden d_embed+d_hidden", dict(d_embed=4, d_hidden=6))
    (6, 10)
    >>> resolve("batch steps?", dict(batch=3))
    (3, -1)

    Raises:
        KeyError: a letter that nothing has bound: the course's table is at fault.
    """
    shape: list[int] = []
    for axis in spec.split():
        if axis == "...":
            shape.extend(sizes["..."])
        elif axis.endswith("?"):
            shape.append(ANY)
        else:
            shape.append(_reckon(axis, sizes))
    return tuple(shape)


def fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Whether a shape is the expected one, where that says which."""
    return len(shape) == len(expected) and all(
        size == wanted or wanted == ANY for size, wanted in zip(shape, expected)
    )


def _reckon(axis: str, sizes: Mapping[str, Any]) -> int:
    """The size of one axis: a sum of products and quotients."""
    total = 0
    for term in axis.split("+"):
        size = 1
        for operator, word in re.findall(r"(^|[*/])([^*/]+)", term):
            number = int(word) if word.isdigit() else sizes[word]
            size = size // number if operator == "/" else size * number
        total += size
    return total
