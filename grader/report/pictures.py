"""Pictures of tensors in a terminal: digits, with marks where they are wrong; colour only adds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rich.style import Style
from rich.text import Text

from grader.report.language import Language

FIRST, OTHER, RIGHT = ">", "*", " "  # before an entry: the first wrong one, another, a right one
_SHADES = ("#ffffff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6")  # under black: 7 to 1 and more
_GAP = "   "
_TRUE, _FALSE = "#", "."  # of masks
_ANY = "-"  # where nothing is expected


class Entry(NamedTuple):
    """An entry of a grid: its text, how dark it is from 0 to 4, and its mark."""

    text: str
    shade: int
    mark: str


class Grid(NamedTuple):
    """What was expected, or found."""

    title: str
    rows: list[list[Entry]]


class Picture(NamedTuple):
    """A picture, read."""

    grids: tuple[Grid, Grid]
    place: str  # which part of the tensor it is
    legend: str
    mask: bool
    rows: range  # their indices, and those of the columns
    columns: range


def read(data: Mapping[str, Any], language: Language) -> Picture:
    """A picture of `result.json`."""
    wrong = data["wrong"]
    expected, found = ([row.split(" ") for row in data[key]] for key in ("expected", "found"))
    values = [_number(text) for row in (*expected, *found) for text in row]
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)

    def shade(text: str) -> int:
        share = (_number(text) - low) / (high - low) if high > low else 0
        return min(int(share * len(_SHADES)), len(_SHADES) - 1) if math.isfinite(share) else 0

    mask = all(text in ("0", "1", _ANY) for row in (*expected, *found) for text in row)
    first = next((r, row.index("*")) for r, row in enumerate(wrong) if "*" in row)

    def mark(r: int, c: int) -> str:
        return FIRST if (r, c) == first else OTHER if wrong[r][c] == "*" else RIGHT

    marks = [[mark(r, c) for c in range(len(row))] for r, row in enumerate(wrong)]

    def grid(title: str, rows: list[list[str]], marks: list[list[str]]) -> Grid:
        return Grid(
            title,
            [
                [Entry(text, shade(text), mark) for text, mark in zip(*pair)]
                for pair in zip(rows, marks)
            ],
        )

    none = [[RIGHT] * len(row) for row in wrong]
    row, column = data["at"][-2:] if len(data["at"]) > 1 else (0, *data["at"])
    return Picture(
        (grid(language("expected"), expected, none), grid(language("found"), found, marks)),
        _place(data, language),
        _legend(mask, any(_ANY in row for row in expected), language),
        mask,
        range(row, row + len(wrong)),
        range(column, column + len(wrong[0])),
    )


def _number(text: str) -> float:
    return math.nan if text == _ANY else float(text)


def _legend(mask: bool, unasked: bool, language: Language) -> str:
    words = language(
        "{first} first wrong entry, {other} other wrong ones", first=FIRST, other=OTHER
    )
    if unasked:
        words = language("{any} not judged; {legend}", any=_ANY, legend=words)
    signs = language("{true} True, {false} False", true=_TRUE, false=_FALSE)
    return f"{signs}; {words}" if mask else words


def _place(data: Mapping[str, Any], language: Language) -> str:
    """Such as ``[1, :, 3:15] of a tensor [2, 4, 20]``."""
    shape, at = data["shape"], data["at"]
    sizes = [len(data["wrong"]), len(data["wrong"][0])][-len(shape) :]
    outer = [str(index) for index in at[: -len(sizes)]]
    inner = [
        ":" if size == whole else f"{begin}:{begin + size}"
        for begin, size, whole in zip(at[-len(sizes) :], sizes, shape[-len(sizes) :])
    ]
    part = ", ".join([*outer, *inner])
    return language("[{part}] of a tensor {shape}", part=part, shape=shape)


def drawn(data: Mapping[str, Any], language: Language, width: int) -> Iterator[Text]:
    """The lines of a picture, the two grids side by side where that fits."""
    picture = read(data, language)
    blocks = [list(_block(grid, picture.mask)) for grid in picture.grids]
    wide = [max(line.cell_len for line in block) for block in blocks]
    yield Text(picture.place, "dim")
    if sum(wide) + len(_GAP) <= width:
        for left, right in zip(*blocks):
            yield Text.assemble(left, " " * (wide[0] - left.cell_len) + _GAP, right)
    else:
        yield from (line for block in blocks for line in block)
    yield Text(picture.legend, "dim")


def _block(grid: Grid, mask: bool) -> Iterator[Text]:
    yield Text(grid.title)
    signs = {"1": _TRUE, "0": _FALSE} if mask else {}
    wide = max(len(entry.text) for row in grid.rows for entry in row)
    for row in grid.rows:
        line = Text()
        for entry in row:
            wrong = entry.mark != RIGHT
            line.append(entry.mark, "bold red" if wrong else "")
            shade = Style(color="black", bgcolor=_SHADES[entry.shade], bold=wrong)
            line.append(signs.get(entry.text, entry.text).rjust(wide), shade)
        yield line
