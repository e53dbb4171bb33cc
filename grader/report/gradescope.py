"""`results.json` for Gradescope: one test for each clause, with its points and what was found.

What the public checks say is visible to students, what the hidden ones say to course staff. Where
there is no verdict, no clause is there at all: Gradescope asks for a score, and gets 0 with words
that say that it is none.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from grader.course import ROOT, CourseError
from grader.model import say, what
from grader.report import record
from grader.report.language import Language

PUBLIC = ROOT / "tests" / "public"


def results(result: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """What Gradescope reads, of one `result.json`."""
    if result.get("status") == "unreadable":
        return without(language("It could not be read."), result["notes"], language)
    broken = [
        f"{check['id']}: {check['message']}"
        for exercise in result.get("exercises", ())
        for check in exercise["checks"]
        if check["outcome"] == "grader_error"
    ]
    if result.get("status") != "graded" or broken or not result.get("exercises"):
        return without(
            language("There is no verdict: the grader itself failed, not you."), broken, language
        )
    public = public_checks()
    tests = []
    for place, exercise in enumerate(result["exercises"], 1):
        tests += _clauses(place, exercise, public, language)
    return {
        "score": result["score"],
        "output": "\n".join(result["notes"]),
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"status": "graded", "protections": result["made_by"]["protections"]},
    }


def without(reason: str, details: Iterable[str], language: Language) -> dict[str, Any]:
    """Results that hold no verdict: the reason for all, the details for course staff."""
    words = language("The 0 is not a grade. Your course staff can see why, and will run it again.")
    return {
        "score": 0,
        "output": f"{reason} {words}",
        "stdout_visibility": "hidden",
        "tests": [
            {
                "name": language("not graded"),
                "status": "failed",
                "visibility": "hidden",
                "output": "\n".join(details) or reason,
            }
        ],
        "extra_data": {"status": "ungraded"},
    }


def _clauses(
    place: int, exercise: Mapping[str, Any], public: set[tuple[str, str]], language: Language
) -> list[dict[str, Any]]:
    tests = []
    for clause in exercise["clauses"]:
        number = clause["clause"]
        checks = [check for check in exercise["checks"] if check["clause"] == number]
        lost = [check for check in checks if check["outcome"] != "passed"]
        seen = [check for check in lost if _name(check) in public]
        test = {
            "name": f"{exercise['id']}, {number}: {checks[0]['title'] if checks else ''}",
            "number": f"{place}.{number}",
            "score": clause["points"],
            "max_score": clause["max_points"],
            "status": "passed" if clause["points"] == clause["max_points"] else "failed",
            "visibility": "visible",
            "output_format": "text",
            "output": "\n".join(map(_told, seen)) or _why_lost(clause, lost, exercise, language),
        }
        tests.append(test)
        hidden = [check for check in lost if check not in seen]
        if hidden:
            what = language("hidden checks")
            tests.append(
                {
                    "name": f"{exercise['id']}, {number}: {what}",
                    "number": f"{place}.{number}.1",
                    "visibility": "hidden",
                    "output_format": "text",
                    "output": "\n".join(map(_told, hidden)),
                }
            )
    return tests


def _why_lost(
    clause: Mapping[str, Any],
    lost: list[Mapping[str, Any]],
    exercise: Mapping[str, Any],
    language: Language,
) -> str:
    """What to say where no public check says why points are missing."""
    if lost:
        return language("A check fails that only grading has: the clause says more than you met.")
    if clause["points"] == clause["max_points"]:
        return ""
    return language("(points come once the fault is gone: once clause 1 holds)")


def _told(check: Mapping[str, Any]) -> str:
    return "\n".join([f"✗ {check['title']}", check["message"], *check["frames"], ""])


def public_checks(folder: Path = PUBLIC) -> set[tuple[str, str]]:
    """(unit, name) of every check that students have."""
    return {
        (path.stem.removeprefix("test_"), node.name)
        for path in folder.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def _name(check: Mapping[str, Any]) -> tuple[str, str]:
    exercise, _, name = check["id"].split("/", 2)
    return exercise.split(".")[0], name.split("[")[0]


def write(out: Path, to: Path, language: Language) -> bool:
    """Write Gradescope's results of the one submission in ``out``; False: no verdict."""
    found = sorted(out.glob("*/result.json"))
    if len(found) > 1:
        words = say(
            "{folder} holds {count} submissions: this format is what Gradescope's autograder says"
            " of one (docs/release.md). For a class: --format canvas or moodle.",
            folder=str(out),
            count=len(found),
        )
        raise CourseError(words)
    try:
        result = record.read(found[0]) if len(found) == 1 else {}
    except CourseError as error:
        data = without(
            language("There is no verdict: the grader itself failed, not you."),
            [language.render(what(error))],
            language,
        )
    else:
        data = results(result, language)
    to.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return bool(data["extra_data"]["status"] == "graded")
