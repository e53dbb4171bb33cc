"""The page of a class: what to teach again, how good the checks are, and what stands out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
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


class Submission(NamedTuple):
    """What the page says of one submission by name."""

    name: str
    status: str
    score: float | None  # where it is graded
    notes: Sequence[str]
    why: Sequence[str]  # it is not


class Class:
    """A class as its page needs it; submissions are added one by one, and little of each is kept.

    Args:
        course: the table.
        language: of the page.
    """

    def __init__(self, course: Course, language: Language):
        self.course = course
        self.language = language
        self._tally = items.Tally()
        self._submissions: list[Submission] = []
        self._units: dict[str, list[tuple[float, bool]]] = defaultdict(list)
        self._most = 0.0
        self._made_by: Json = {}
        self._given = similarity.given(_stubs(course))
        self._prints: dict[str, similarity.Hashes] = {}
        self._seconds: dict[str, float] = {}

    def add(self, result: Json, texts: Mapping[str, str], seconds: float | None) -> None:
        """Add a submission.

        Args:
            result: its `result.json`.
            texts: unit -> what was handed in.
            seconds: how long its grading took, where that is known.
        """
        who = result["submission"]
        graded = result["status"] == "graded"
        self._submissions.append(
            Submission(
                who,
                result["status"],
                result["score"] if graded else None,
                result["notes"],
                [] if graded else _why(result),
            )
        )
        self._made_by = result.get("made_by", self._made_by)
        units = {exercise["id"].partition(".")[0] for exercise in result.get("exercises", ())}
        judged = [text for unit, text in texts.items() if unit in units]
        self._prints[who] = similarity.fingerprint(judged, self._given)
        if seconds is not None:
            self._seconds[who] = seconds
        if graded:
            self._most = result["max_score"]
            self._tally.add(result)
            for unit, mean, begun in _units(result):
                self._units[unit].append((mean, begun))

    def page(self) -> str:
        """The page."""
        statistics = self._tally.items()
        scores = [one.score for one in self._submissions if one.score is not None]
        contracts = self.language.of("contracts")
        return rendered(
            "class.html",
            language=self.language,
            course=self.course,
            submissions=self._submissions,
            shared=_shared([one.notes for one in self._submissions if one.score is not None]),
            graded=len(scores),
            ungraded=[one for one in self._submissions if one.score is None],
            quartiles=items.quartiles(scores) if scores else None,
            most=self._most,
            mistakes=self._tally.mistakes(),
            lost=self._tally.lost(),
            clause=lambda exercise, number: contracts(_clause(exercise, number)).replace("``", "`"),
            units=list(self._progress()),
            first=_FIRST,
            distribution=self._distribution(scores),
            statistics=statistics,
            by_unit=_by_unit(statistics, self.course),
            nobody=[item for item in statistics if item.tried and not item.passed],
            everybody=[item for item in statistics if item.tried and item.passed == item.tried],
            doubtful=[item for item in statistics if item.doubtful],
            item_map=_item_map(statistics, self.language),
            time=_time(self._seconds),
            alike=_alike(self._prints),
            page=_page,
            unsafe=UNSAFE in self._made_by.get("protections", ()),
            made_by=self._made_by,
        )

    def _progress(self) -> Iterator[Json]:
        """How far the class is: for each unit the mean score, and how many have begun it."""
        for unit in self.course.units:
            all = self._units.get(unit.name)
            if all:
                mean = sum(mean for mean, _ in all) / len(all)
                begun = sum(begun for _, begun in all)
                yield {"title": unit.title, "mean": mean, "begun": begun, "count": len(all)}

    def _distribution(self, scores: Sequence[float]) -> Json | None:
        """The histogram of scores: as a plot, and as a table."""
        if not scores or not self._most:
            return None
        language = self.language
        edges = [points(round(self._most * n / _BINS, 2)) for n in range(_BINS + 1)]
        counts = [0] * _BINS
        for score in scores:
            counts[min(int(score / self._most * _BINS), _BINS - 1)] += 1
        told = language("How many submissions have how many points; the table below says the same.")
        x, y = language("points"), language("submissions")
        plot = plots.histogram("scores", counts, edges, x, y, told)
        return {"plot": Markup(plot), "bins": list(zip(edges, edges[1:], counts))}


def _shared(notes: Sequence[Sequence[str]]) -> list[str]:
    """What is noted of all, such as a check that was declared void, is told once."""
    first, *others = notes or [[]]
    return [note for note in first if others and all(note in other for other in others)]


def _stubs(course: Course) -> Iterator[str]:
    """What was handed out."""
    for unit in course.units:
        path = ROOT / "exercises" / f"{unit.name}.py"
        if path.exists():
            yield path.read_text(encoding="utf-8")


def _page(submission: str) -> str:
    """The address of a submission's page."""
    return f"{quote(submission, safe='')}/report.html"


def _clause(exercise: str, number: int) -> str:
    """A clause of a contract; nothing where there is none to be found."""
    path = ROOT / "solutions" / f"{exercise.split('.')[0]}.py"
    found = courses.clauses(path).get(exercise, []) if path.exists() else []
    return found[number - 1] if number <= len(found) else ""


def _why(result: Json) -> list[str]:
    """Why there is no verdict."""
    why = list(result["notes"])
    for exercise in result.get("exercises", ()):
        for check in exercise["checks"]:
            if check["outcome"] == "grader_error" and check["message"] not in why:
                why.append(check["message"])
    return why


def _units(result: Json) -> Iterator[tuple[str, float, bool]]:
    """For each unit the share of its points, and whether it was begun."""
    units: dict[str, list[Json]] = defaultdict(list)
    for exercise in result["exercises"]:
        units[exercise["id"].split(".")[0]].append(exercise)
    for unit, exercises in units.items():
        most = sum(exercise["max_score"] for exercise in exercises)
        begun = any(c["outcome"] not in items.UNTRIED for e in exercises for c in e["checks"])
        yield unit, sum(e["score"] for e in exercises) / most, begun


def _by_unit(
    statistics: Sequence[items.Item], course: Course
) -> list[tuple[str, list[items.Item]]]:
    found = []
    for unit in course.units:
        mine = [item for item in statistics if item.exercise.split(".")[0] == unit.name]
        if mine:
            found.append((unit.title, mine))
    return found


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
    low, median, high = items.quartiles(list(seconds.values()))
    slowest = sorted(seconds.items(), key=lambda pair: -pair[1])[:_SLOWEST]
    whole = sum(seconds.values())
    return {"whole": whole, "low": low, "median": median, "high": high, "slowest": slowest}


def _alike(prints: Mapping[str, similarity.Hashes]) -> Json:
    same = similarity.same(prints)
    grouped = {who: number for number, group in enumerate(same) for who in group}
    found = [
        pair
        for pair in similarity.pairs(prints, _ALIKE)
        if grouped.get(pair.one, pair.one) != grouped.get(pair.other, pair.other)
    ]
    return {"same": same, "pairs": found[:_PAIRS], "count": len(found)}
