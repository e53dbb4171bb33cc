"""Item statistics of a class: how hard each check is, and whether it tells strong from weak.

The difficulty of a check is p = passed / tried: low is hard. Its discrimination is the corrected
item-total correlation

    r = cov(x, t - x) / (sd(x) sd(t - x)),    x = 1 or 0 for passed or not, t = checks passed,

a point-biserial correlation, since x has two values; the check itself is taken out of the total, or
it would correlate with itself. Both are over the submissions that tried the check: an exercise that
nobody began says nothing about its checks. r is undefined (None) where all of these, or none, pass.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation
from typing import Any

from grader.model import Outcome

UNTRIED = {Outcome.NOT_ATTEMPTED.value, Outcome.BLOCKED.value}
_PASSED = Outcome.PASSED.value

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
    who: Sequence[str]


@dataclass(frozen=True)
class Lost:
    """A clause in a class: points that were lost by those who tried it."""

    exercise: str
    clause: int
    points: float
    who: Sequence[str]
    tried: int
    unnamed: int  # of `who`, those in whose work no known mistake explains it


def _checks(results: Iterable[Json]) -> Iterable[tuple[str, str, Json]]:
    """(submission, exercise, check) of all."""
    for result in results:
        for exercise in result["exercises"]:
            for check in exercise["checks"]:
                yield result["submission"], exercise["id"], check


def items(results: Sequence[Json]) -> list[Item]:
    """The statistics of every check, in the order of the course."""
    total: Counter[str] = Counter()
    tried: dict[str, dict[str, int]] = defaultdict(dict)  # check -> submission -> 0 or 1
    about: dict[str, tuple[str, Json]] = {}
    for submission, exercise, check in _checks(results):
        passed = check["outcome"] == _PASSED
        total[submission] += passed
        about.setdefault(check["id"], (exercise, check))
        if check["outcome"] not in UNTRIED:
            tried[check["id"]][submission] = int(passed)
    return [
        Item(
            id,
            exercise,
            check["clause"],
            check["title"],
            len(tried[id]),
            sum(tried[id].values()),
            _discrimination(tried[id], total),
        )
        for id, (exercise, check) in about.items()
    ]


def _discrimination(passed: Mapping[str, int], total: Mapping[str, int]) -> float | None:
    x = list(passed.values())
    rest = [total[who] - one for who, one in passed.items()]
    if len(set(x)) < 2 or len(set(rest)) < 2:
        return None
    return correlation(x, rest)


def mistakes(results: Sequence[Json]) -> list[Mistake]:
    """The known mistakes that were named, the most frequent first."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    about: dict[str, tuple[str, Json]] = {}
    for submission, exercise, check in _checks(results):
        if check["mistake"]:
            found[check["mistake"]][submission] = None
            about.setdefault(check["mistake"], (exercise, check))
    all = []
    for id, (exercise, check) in about.items():
        title, hint = f"{check['message']}\n".split("\n")[:2]
        all.append(Mistake(id, exercise, check["clause"], title, hint, list(found[id])))
    return sorted(all, key=lambda m: -len(m.who))


def lost(results: Sequence[Json]) -> list[Lost]:
    """The clauses on which points were lost, the most first."""
    points: Counter[tuple[str, int]] = Counter()
    tried: Counter[tuple[str, int]] = Counter()
    who: dict[tuple[str, int], list[str]] = defaultdict(list)
    named: Counter[tuple[str, int]] = Counter()
    for result in results:
        for exercise in result["exercises"]:
            outcomes: dict[int, list[Json]] = defaultdict(list)
            for check in exercise["checks"]:
                outcomes[check["clause"]].append(check)
            for clause in exercise["clauses"]:
                key = exercise["id"], clause["clause"]
                checks = outcomes[clause["clause"]]
                if all(check["outcome"] in UNTRIED for check in checks):
                    continue
                tried[key] += 1
                missing = clause["max_points"] - clause["points"]
                if missing:
                    points[key] += missing
                    who[key].append(result["submission"])
                    named[key] += any(check["mistake"] for check in checks)
    return [
        Lost(*key, points[key], who[key], tried[key], len(who[key]) - named[key])
        for key in sorted(who, key=lambda key: -points[key])
    ]


def quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The quartiles, linear between neighbours; of one value, it three times.

    Raises:
        StatisticsError: there is no value.
    """
    if not values:
        raise StatisticsError("no value")
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    return at(0.25), at(0.5), at(0.75)
