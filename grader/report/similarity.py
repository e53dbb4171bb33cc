"""How alike two submissions are, once what was handed out is taken away.

The algorithm is that of compare50's structure pass (CS50): names, numbers and texts are normalised,
comments and layout are left out, and winnowing (Schleimer, Wilkerson, Aiken 2003) keeps some of the
hashes of every 25 tokens in a row, so that a passage of 35 tokens that two have in common is never
missed. Pairs are ranked as there: each passage in common counts 1 + log(n / (1 + n with it)).
"""

from __future__ import annotations

import keyword
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

NOISE, SURE = 25, 35  # compare50's k and t
_BLOCK = 4096

_TOKEN = re.compile(
    r"""
    (?P<skip>\#[^\n]*|\\\n)
    |(?P<text>[rbuf]{0,2}(?:\"{3}[\s\S]*?(?:\"{3}|\Z)|'{3}[\s\S]*?(?:'{3}|\Z)
        |\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?))
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<sign>\S)
    """,
    re.X | re.I,
)
_KEYWORDS = {*keyword.kwlist, *keyword.softkwlist} - {"_"}

Hashes = NDArray[np.uint64]
_NONE: Hashes = np.zeros(0, np.uint64)


@dataclass(frozen=True)
class Pair:
    """Two submissions and what they have in common.

    Attributes:
        one, other: which.
        shares: of the passages of each, the part that the other has too.
        weight: the passages in common, rare ones counting more.
    """

    one: str
    other: str
    shares: tuple[float, float]
    weight: float


def tokens(code: str) -> list[str]:
    """The code as compare50's structure pass sees it; what is no Python is read all the same."""
    found = []
    for match in _TOKEN.finditer(code):
        kind, text = match.lastgroup, match[0]
        if kind == "name":
            found.append(text if text in _KEYWORDS else "v")
        elif kind in ("text", "number"):
            found.append("s" if kind == "text" else "0")
        elif kind == "sign":
            found.append(text)
    return found


def hashes(tokens: Sequence[str], size: int = NOISE) -> Hashes:
    """A hash of every ``size`` tokens in a row: the same on every machine and in every run."""
    codes = np.array([zlib.crc32(t.encode("utf-8", "replace")) for t in tokens], np.uint64)
    count = len(codes) - size + 1
    if count < 1:
        return _NONE
    found = np.zeros(count, np.uint64)
    for place in range(size):
        found = found * np.uint64(0x100000001B3) + codes[place : place + count]
    found ^= found >> np.uint64(29)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(32)
    return found


def winnow(hashes: Hashes, window: int = SURE - NOISE + 1) -> Hashes:
    """Of every ``window`` hashes in a row the least, the last of equal ones; in order."""
    window = min(window, len(hashes))
    if not window:
        return hashes
    rows = sliding_window_view(hashes, window)[:, ::-1]
    places = np.arange(len(rows)) + window - 1 - rows.argmin(axis=1)
    found: Hashes = hashes[np.unique(places)]
    return found


def given(texts: Iterable[str]) -> Hashes:
    """Every hash of what was handed out, in order."""
    return np.unique(np.concatenate([_NONE, *(hashes(tokens(text)) for text in texts)]))


def fingerprint(texts: Iterable[str], given: Hashes) -> Hashes:
    """What is a submission's own: its winnowed hashes, in order, without those of the stubs."""
    own = [winnow(hashes(tokens(text))) for text in texts]
    return np.setdiff1d(np.concatenate([_NONE, *own]), given)


def same(prints: Mapping[str, Hashes]) -> list[list[str]]:
    """Groups of submissions that are one text but for names, comments and layout."""
    groups: dict[bytes, list[str]] = {}
    for who, own in prints.items():
        if len(own):
            groups.setdefault(own.tobytes(), []).append(who)
    return [group for group in groups.values() if len(group) > 1]


def pairs(prints: Mapping[str, Hashes], least: float = 0) -> list[Pair]:
    """The pairs with something in common, the most suspicious first.

    Args:
        prints: submission -> its fingerprint.
        least: the share of one of the two that must be the other's, too.
    """
    who = [name for name, own in prints.items() if len(own)]
    if not who:
        return []
    every, held = np.unique(np.concatenate([prints[name] for name in who]), return_counts=True)
    shared = every[held > 1]
    common = np.zeros((len(who), len(who)), np.float32)
    weight = np.zeros_like(common)
    for start in range(0, len(shared), _BLOCK):  # of a large class, all at once would be gigabytes
        block = shared[start : start + _BLOCK]
        has = np.array([np.isin(block, prints[name], assume_unique=True) for name in who])
        has = has.astype(np.float32)
        common += has @ has.T
        weight += (has * (1 + np.log(len(who) / (1 + has.sum(0))))) @ has.T
    shares = common / np.array([[len(prints[name])] for name in who])  # row: of whose passages
    listed = np.triu((common > 0) & (np.maximum(shares, shares.T) >= least), 1)
    found = [
        Pair(
            who[i],
            who[j],
            (float(shares[i, j]), float(shares[j, i])),
            round(float(weight[i, j]), 1),
        )
        for i, j in np.argwhere(listed)
    ]
    return sorted(found, key=lambda pair: -pair.weight)
