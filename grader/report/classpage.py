"""The page of a class: what to teach again, how good the checks are, and what stands out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from grader import course as courses
from grader.course import ROOT, Course
from grader.report import items, plots, similarity
from grader.report.language import Language
from grader.report.pages import UNSAFE, points, rendered

_BINS = 10
_SLOWEST = 5
_PAIRS = 12
_ALIKE = 0.5  # a pair is listed where the one has this much of the other
_FIRST = 8  # rows of a long table that stand there unasked

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Class:
    """What the page is made of.

    Attributes:
        results: `result.json` of every submission.
        texts: submission -> unit -> what was handed in.
        seconds: submission -> how long its grading took, where that is known.
    """

    results: Sequence[Json]
    texts: Mapping[str, Mapping[str, str]]
    seconds: Mapping[str, float]


def render(a_class: Class, course: Course, language: Language) -> str:
    """The page."""
    graded = [result for result in a_class.results if result["status"] == "graded"]
    statistics = items.items(graded)
    made_by: Json = next((r["made_by"] for r in a_class.results if "made_by" in r), {})
    return rendered(
        "class.html",
        language=language,
        course=course,
        results=a_class.results,
        graded=graded,
        ungraded=[_ungraded(r) for r in a_class.results if r["status"] != "graded"],
        quartiles=items.quantiles([r["score"] for r in graded]) if graded else None,
        most=graded[0]["max_score"] if graded else 0,
        mistakes=items.mistakes(graded),
        lost=items.lost(graded),
        clause=_clause,
        units=list(_units(graded, course)),
        first=_FIRST,
        distribution=_distribution(graded, language),
        statistics=statistics,
        by_unit=_by_unit(statistics, course),
        nobody=[item for item in statistics if item.tried and not item.passed],
        everybody=[item for item in statistics if item.tried and item.passed == item.tried],
        doubtful=[item for item in statistics if item.doubtful],
        item_map=_item_map(statistics, language),
        time=_time(a_class.seconds),
        alike=_alike(a_class.texts),
        page=_page,
        unsafe=UNSAFE in made_by.get("protections", ()),
        made_by=made_by,
    )


def _page(submission: str) -> str:
    """The address of a submission's page."""
    return f"{quote(submission, safe='')}/report.html"


def _clause(exercise: str, number: int) -> str:
    """A clause of a contract; nothing where there is none to be found."""
    path = ROOT / "solutions" / f"{exercise.split('.')[0]}.py"
    found = courses.clauses(path).get(exercise, []) if path.exists() else []
    return found[number - 1] if number <= len(found) else ""


def _ungraded(result: Json) -> Json:
    why = list(result["notes"])
    for exercise in result.get("exercises", ()):
        for check in exercise["checks"]:
            if check["outcome"] == "grader_error" and check["message"] not in why:
                why.append(check["message"])
    return {"submission": result["submission"], "status": result["status"], "why": why}


def _units(graded: Sequence[Json], course: Course) -> Iterator[Json]:
    """How far the class is: for each unit the mean score, and how many have begun it."""
    for unit in course.units:
        scores, begun = [], 0
        for result in graded:
            mine = [e for e in result["exercises"] if e["id"].split(".")[0] == unit.name]
            most = sum(e["max_score"] for e in mine)
            if most:
                scores.append(sum(e["score"] for e in mine) / most)
                begun += any(
                    check["outcome"] not in items.UNTRIED for e in mine for check in e["checks"]
                )
        if scores:
            mean = sum(scores) / len(scores)
            yield {"title": unit.title, "mean": mean, "begun": begun, "count": len(scores)}


def _by_unit(
    statistics: Sequence[items.Item], course: Course
) -> list[tuple[str, list[items.Item]]]:
    found = []
    for unit in course.units:
        mine = [item for item in statistics if item.exercise.split(".")[0] == unit.name]
        if mine:
            found.append((unit.title, mine))
    return found


def _distribution(graded: Sequence[Json], language: Language) -> Json | None:
    """The histogram of scores: as a plot, and as a table."""
    if not graded:
        return None
    most = graded[0]["max_score"]
    edges = [points(round(most * n / _BINS, 2)) for n in range(_BINS + 1)]
    counts = [0] * _BINS
    for result in graded:
        share = result["score"] / most if most else 0
        counts[min(int(share * _BINS), _BINS - 1)] += 1
    told = language("How many submissions have how many points; the table below says the same.")
    plot = plots.histogram(
        "scores", counts, edges, language("points"), language("submissions"), told
    )
    return {"plot": Markup(plot), "bins": list(zip(edges, edges[1:], counts))}


def _item_map(statistics: Sequence[items.Item], language: Language) -> Markup | None:
    places = [
        (item.difficulty, item.discrimination)
        for item in statistics
        if item.difficulty is not None and item.discrimination is not None
    ]
    if not places:
        return None
    told = language("Difficulty and discrimination of every check; the tables below say the same.")
    x, y = language("p: passed / tried"), language("r: discrimination")
    return Markup(plots.scatter("items", places, x, y, told))


def _time(seconds: Mapping[str, float]) -> Json | None:
    if not seconds:
        return None
    low, median, high = items.quantiles(list(seconds.values()))
    slowest = sorted(seconds.items(), key=lambda pair: -pair[1])[:_SLOWEST]
    whole = sum(seconds.values())
    return {"whole": whole, "low": low, "median": median, "high": high, "slowest": slowest}


def _alike(texts: Mapping[str, Mapping[str, str]]) -> Json:
    stubs = {}
    for unit in {unit for modules in texts.values() for unit in modules}:
        path = ROOT / "exercises" / f"{unit}.py"
        stubs[unit] = path.read_text(encoding="utf-8") if path.exists() else ""
    prints = similarity.fingerprints(texts, stubs)
    same = similarity.same(prints)
    grouped = {who: number for number, group in enumerate(same) for who in group}
    found = [
        pair
        for pair in similarity.pairs(prints)
        if max(pair.shares) >= _ALIKE
        and grouped.get(pair.one, pair.one) != grouped.get(pair.other, pair.other)
    ]
    return {"same": same, "pairs": found[:_PAIRS], "count": len(found)}
