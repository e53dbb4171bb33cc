"""Item statistics of a class: how hard each check is, and whether it tells strong from weak.

The difficulty of a check is p = passed / tried: low is hard. Its discrimination is the corrected
item-total correlation

    r = cov(x, t - x) / (sd(x) sd(t - x)),    x = 1 or 0 for passed or not, t = checks passed,

a point-biserial correlation, since x has two values; the check itself is taken out of the total, or
it would correlate with itself. Both are over the submissions that tried the check: an exercise that
nobody began says nothing about its checks. r is undefined (None) where all of these, or none, pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.model import Outcome

UNTRIED = {Outcome.NOT_ATTEMPTED.value, Outcome.BLOCKED.value}
_PASSED = Outcome.PASSED.value
_UNTRIED, _WRONG, _RIGHT = range(3)

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Item:
    """One check in a class."""

    id: str
    exercise: str
    clause: int
    title: str
    tried: int
    passed: int
    discrimination: float | None

    @property
    def difficulty(self) -> float | None:
        """The share of those who tried it that passed."""
        return self.passed / self.tried if self.tried else None

    @property
    def doubtful(self) -> bool:
        """The weak pass it and the strong don't, by more than chance would do (1 / sqrt(n))."""
        r = self.discrimination
        return r is not None and r < -(self.tried**-0.5)


@dataclass(frozen=True)
class Mistake:
    """A known mistake in a class."""

    id: str
    exercise: str
    clause: int  # where it shows first
    title: str
    hint: str
    who: list[str]


@dataclass
class Lost:
    """A clause in a class: points that were lost by those who tried it."""

    exercise: str
    clause: int
    points: float = 0.0
    who: list[str] = field(default_factory=list)
    tried: int = 0
    unnamed: int = 0  # of `who`, those in whose work no known mistake explains it


class Tally:
    """Counts a class, one result after the other; it holds a byte for each check of each."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._about: list[tuple[str, int, str]] = []  # exercise, clause, title
        self._rows: list[bytes] = []
        self._mistakes: dict[str, Mistake] = {}
        self._lost: dict[tuple[str, int], Lost] = {}

    def add(self, result: Json) -> None:
        """Count a submission that has been graded."""
        who, row = result["submission"], bytearray(len(self._columns))
        for exercise in result["exercises"]:
            clauses: dict[int, list[Json]] = defaultdict(list)
            for check in exercise["checks"]:
                clauses[check["clause"]].append(check)
                if check["id"] not in self._columns:
                    self._columns[check["id"]] = len(row)
                    self._about.append((exercise["id"], check["clause"], check["title"]))
                    row.append(_UNTRIED)
                row[self._columns[check["id"]]] = _of(check["outcome"])
                if check["mistake"]:
                    self._mistaken(who, exercise["id"], check)
            for clause in exercise["clauses"]:
                self._clause(who, exercise["id"], clause, clauses[clause["clause"]])
        self._rows.append(bytes(row))

    def _mistaken(self, who: str, exercise: str, check: Json) -> None:
        title, hint = f"{check['message']}\n".split("\n")[:2]
        new = Mistake(check["mistake"], exercise, check["clause"], title, hint, [])
        mistake = self._mistakes.setdefault(check["mistake"], new)
        if who not in mistake.who[-1:]:
            mistake.who.append(who)

    def _clause(self, who: str, exercise: str, clause: Json, checks: Sequence[Json]) -> None:
        if all(check["outcome"] in UNTRIED for check in checks):
            return
        key = exercise, clause["clause"]
        lost = self._lost.setdefault(key, Lost(*key))
        lost.tried += 1
        missing = clause["max_points"] - clause["points"]
        if missing:
            lost.points += missing
            lost.who.append(who)
            lost.unnamed += not any(check["mistake"] for check in checks)

    def items(self) -> list[Item]:
        """The statistics of every check, in the order of the course."""
        whole = len(self._columns)
        rows = [row.ljust(whole, bytes([_UNTRIED])) for row in self._rows]
        matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), whole)
        total = (matrix == _RIGHT).sum(1)
        found = []
        for (id, column), about in zip(self._columns.items(), self._about):
            tried = matrix[:, column] != _UNTRIED
            passed = (matrix[tried, column] == _RIGHT).astype(float)
            r = _discrimination(passed, total[tried] - passed)
            found.append(Item(id, *about, int(tried.sum()), int(passed.sum()), r))
        return found

    def mistakes(self) -> list[Mistake]:
        """The known mistakes that were named, the most frequent first."""
        return sorted(self._mistakes.values(), key=lambda m: -len(m.who))

    def lost(self) -> list[Lost]:
        """The clauses on which points were lost, the most first."""
        return sorted((one for one in self._lost.values() if one.who), key=lambda one: -one.points)


def _of(outcome: str) -> int:
    return _UNTRIED if outcome in UNTRIED else _RIGHT if outcome == _PASSED else _WRONG


def _discrimination(passed: NDArray[np.float64], rest: NDArray[np.float64]) -> float | None:
    if len(set(passed)) < 2 or len(set(rest)) < 2:
        return None
    return float(np.corrcoef(passed, rest)[0, 1])


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The quartiles, linear between neighbours; of one value, it three times."""
    low, median, high = np.percentile(values, [25, 50, 75])
    return float(low), float(median), float(high)
