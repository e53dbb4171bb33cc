"""Plots of a class, as SVG that stands inside of a page.

matplotlib draws them, in colours that are then replaced by those of the page, so that they follow
its dark mode. Text stays text. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

_COLOURS = {"#123401": "--ink", "#123402": "--soft", "#123403": "--line", "#123404": "--accent"}
_INK, _SOFT, _LINE, _ACCENT = _COLOURS

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "before-transformers",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "grid.color": _LINE,
}


def histogram(
    name: str, counts: Sequence[int], labels: Sequence[str], x: str, y: str, told: str
) -> str:
    """Bars, one for each count.

    Args:
        name: of the plot, of which there is one in a page.
        counts: how many there are in each bin.
        labels: of the bins' edges: one more than there are bins.
        x: what the bins are.
        y: what is counted.
        told: the plot in words.
    """
    with matplotlib.rc_context(_STYLE):
        figure, axes = _axes(x, y)
        axes.bar(range(len(counts)), counts, width=0.9, color=_ACCENT)
        axes.set_xticks([n - 0.5 for n in range(len(labels))], labels)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        for place, count in enumerate(counts):
            if count:
                axes.text(place, count, str(count), ha="center", va="bottom")
        return _svg(name, figure, told)


def scatter(name: str, points: Sequence[tuple[float, float]], x: str, y: str, told: str) -> str:
    """A point for each pair of numbers, larger where several fall on one place."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _axes(x, y)
        places: dict[tuple[float, float], int] = {}
        for a, b in points:
            place = round(a, 2), round(b, 2)
            places[place] = places.get(place, 0) + 1
        axes.axhline(0, color=_SOFT, linewidth=1)
        axes.scatter(
            [a for a, _ in places],
            [b for _, b in places],
            s=[18 * count**0.5 for count in places.values()],
            color=_ACCENT,
            alpha=0.7,
            linewidths=0,
            clip_on=False,
        )
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-1.05, 1.15)
        axes.grid(True, linewidth=0.5)
        return _svg(name, figure, told)


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")  # no pyplot: it would keep them
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _svg(name: str, figure: Figure, told: str) -> str:
    """The figure as an element, with its text alternative."""
    file = io.StringIO()
    made = {"Date": None, "Creator": None}
    with warnings.catch_warnings():  # its own font lacks Chinese; the page's has it
        warnings.simplefilter("ignore")
        figure.savefig(file, format="svg", transparent=True, metadata=made)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r'( id="|href="#|url\(#)', rf"\1{name}-", text)  # two plots, no name twice
    for colour, variable in _COLOURS.items():
        text = text.replace(colour, f"var({variable})")
    # The page's own font, at any size: widths were measured in another.
    text = re.sub(r"font: ?(\d+)px[^;\"]*", r"font: \1px system-ui, sans-serif", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_escaped(told)}" ', 1)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
