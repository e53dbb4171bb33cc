"""Pages in HTML: self-contained, without a script, and safe whatever a student has written.

A page is made of `result.json` alone, so it says nothing that is not said there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from grader.course import Course, Exercise
from grader.model import Outcome, say
from grader.report import pictures
from grader.report.cause import cause
from grader.report.language import Language
from grader.report.pictures import Picture
from grader.report.plain import plain
from grader.report.words import OUTCOMES
from grader.subject import endings

TEMPLATES = Path(__file__).resolve().with_name("templates")

_UNTOUCHED = {Outcome.NOT_ATTEMPTED.value, Outcome.BLOCKED.value}
_PASSED = Outcome.PASSED.value
UNSAFE = "UNSAFE"  # among the protections of a run without walls

Json = Mapping[str, Any]


def points(number: float) -> str:
    """Points as people write them."""
    return f"{number:g}"


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, in which everything is escaped that is not said to be safe."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )
    found.filters["points"] = points
    return found


def rendered(name: str, **values: Any) -> str:
    """A page, whose every character can be seen."""
    page = environment().get_template(name).render(values)
    return plain(page).replace("\t", "    ")


class Reason(NamedTuple):
    """Why a check failed; the first line is a mistake's title, if one is named."""

    lines: list[str]
    named: bool
    frames: str
    picture: Picture | None
    seen_in: int | None  # the clause where a picture shows the mistake, if it is another check's


class Line(NamedTuple):
    """A test of a clause, with all of its inputs: the first that failed, or that it passed."""

    mark: str
    style: str
    title: str
    verdict: str
    same_as: int | None  # the clause where the reason was told
    reason: Reason | None


class Clause(NamedTuple):
    """A clause and what it earned."""

    number: int
    points: float
    most: float
    checks: list[Line]


class Part(NamedTuple):
    """An exercise and what it earned."""

    name: str
    score: float
    most: float
    mark: str
    style: str
    verdict: str
    is_open: bool
    untouched: bool
    words: list[str]
    clauses: list[Clause]


class Group(NamedTuple):
    """A unit and what it earned."""

    name: str
    title: str
    why: str
    score: float
    most: float
    exercises: list[Part]


def student(result: Json, course: Course, language: Language) -> str:
    """The page of one submission.

    Args:
        result: what `record.result` gives, or less where the submission could not be read.
        course: the table.
        language: of the reader.
    """
    exercises = result.get("exercises", ())
    made_by = result.get("made_by", {})
    groups = list(_groups(exercises, course, language))
    parts = [part for group in groups for part in group.exercises]
    return rendered(
        "student.html",
        language=language,
        course=course,
        result=result,
        units=groups,
        open=[part for part in parts if part.score != part.most],
        passed=sum(part.score == part.most for part in parts),
        count=len(parts),
        unsafe=UNSAFE in made_by.get("protections", ()),
        made_by=made_by,
    )


def _groups(exercises: Sequence[Json], course: Course, language: Language) -> Iterator[Group]:
    by_id = {exercise["id"]: exercise for exercise in exercises}
    for unit in course.units:
        parts = [_part(by_id[e.id], e, language) for e in unit.exercises if e.id in by_id]
        if parts:
            score, most = sum(p.score for p in parts), sum(p.most for p in parts)
            yield Group(unit.name, unit.title, unit.why, score, most, parts)


def _part(data: Json, exercise: Exercise, language: Language) -> Part:
    outcomes = {check["outcome"] for check in data["checks"]}
    passed = data["score"] == data["max_score"]
    untouched = bool(outcomes) and outcomes <= _UNTOUCHED and not data["score"]
    verdict = say("passed") if passed else say("open")
    if untouched:
        blocked = Outcome.BLOCKED.value in outcomes
        verdict = OUTCOMES[Outcome.BLOCKED if blocked else Outcome.NOT_ATTEMPTED]
    tests: dict[int, dict[str, list[Json]]] = {}  # clause -> title -> one for each input
    for check in data["checks"]:
        tests.setdefault(check["clause"], {}).setdefault(check["title"], []).append(check)
    told: dict[str, int] = {}
    seen: dict[str, Json] = {}  # mistake -> the first check with a picture of it
    for check in data["checks"]:
        if check["mistake"] and check["picture"]:
            seen.setdefault(check["mistake"], check)
    clauses = [
        Clause(
            clause["clause"],
            clause["points"],
            clause["max_points"],
            [
                _line(test, told, seen, language)
                for test in tests.get(clause["clause"], {}).values()
            ],
        )
        for clause in data["clauses"]
    ]
    return Part(
        data["id"],
        data["score"],
        data["max_score"],
        *_mark(passed, untouched),
        language.render(verdict),
        not passed and not untouched,
        untouched,
        list(_words(data, exercise, language)),
        clauses,
    )


def _mark(passed: bool, untouched: bool) -> tuple[str, str]:
    """A sign, and the style that goes with it."""
    return ("✓", "good") if passed else ("·", "soft") if untouched else ("✗", "bad")


def _words(data: Json, exercise: Exercise, language: Language) -> Iterator[str]:
    """What is to be said of an exercise as a whole."""
    if data["followed_through"]:
        yield language("(judged on a sound version of what it stands on, since yours is open)")
    lost = {check["clause"] for check in data["checks"] if check["outcome"] != _PASSED}
    if exercise.stub and 1 in lost:
        yield language("(points come once the fault is gone: once clause 1 holds)")
    if data["score"] != sum(clause["points"] for clause in data["clauses"]):
        yield language("(these points were set by hand: see the notes)")


def _line(
    test: Sequence[Json], told: dict[str, int], seen: Mapping[str, Json], language: Language
) -> Line:
    failed = [check for check in test if check["outcome"] != _PASSED]
    check = (failed or test)[0]
    outcome = check["outcome"]
    verdict = language.render(OUTCOMES[Outcome(outcome)])
    if failed and len(test) > 1:
        verdict = language(
            "{verdict}; {failed} of {all} inputs fail",
            verdict=verdict,
            failed=len(failed),
            all=len(test),
        )
    key = cause(check["mistake"], outcome, check["message"], check["frames"])
    same_as = told.get(key)
    reason = None
    if key and same_as is None:
        told[key] = check["clause"]
        lines, frames = check["message"].split("\n"), "\n".join(check["frames"])
        shows = check if check["picture"] else seen.get(check["mistake"] or "", check)
        drawn = pictures.read(shows["picture"], language) if shows["picture"] else None
        clause = None if shows is check else shows["clause"]
        reason = Reason(lines, bool(check["mistake"]), frames, drawn, clause)
    untried = check["message"] in map(language.render, endings.UNTRIED)
    mark, style = _mark(not failed, untried or outcome in _UNTOUCHED)
    return Line(mark, style, check["title"], verdict, same_as, reason)
