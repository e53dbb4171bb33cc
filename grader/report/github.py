"""Points on GitHub: a summary of the run, and what GitHub Classroom reads.

    python -m grader.report.github result.json [--points]     what `check --json` printed
    python -m grader.report.github grades [--statuses]        a class that was graded

The summary goes to the run's page (GITHUB_STEP_SUMMARY), or is printed where there is none. The
exit code is 0 if all is passed or graded, 1 if something is open, and 2 where there is no verdict:
then there are no points either.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.model import Outcome
from grader.report.language import Language
from grader.report.plain import plain
from grader.report.words import OUTCOMES

PASSED, OPEN, NO_VERDICT = 0, 1, 2
_UNTRIED = {Outcome.NOT_ATTEMPTED.value, Outcome.BLOCKED.value}


def main(argv: Sequence[str] | None = None) -> int:
    """Write a summary."""
    parser = argparse.ArgumentParser("grader.report.github", description="Points on GitHub.")
    parser.add_argument("results", type=Path, help="result.json, or the folder of a class")
    parser.add_argument("--points", action="store_true", help="print GitHub Classroom's notices")
    parser.add_argument("--statuses", action="store_true", help="print commit statuses instead")
    parser.add_argument("--lang", help="the language of the summary")
    arguments = parser.parse_args(argv)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    language = Language(arguments.lang)
    if arguments.results.is_dir():
        rows = _rows(arguments.results / "grades.csv")
        if arguments.statuses:
            print("\n".join(statuses(rows, language)))
            return PASSED
        text, code = of_class(rows, language)
    else:
        result = _read(arguments.results)
        text, code = of_result(result, language)
        if arguments.points and code != NO_VERDICT:
            print("\n".join(notices(result)))
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text)
    return code


def _read(path: Path) -> dict[str, Any]:
    """The result, or an empty one where there is none."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def verdict(result: Mapping[str, Any]) -> int:
    """Whether all is passed, something is open, or nothing can be said."""
    checks = [check for one in result.get("exercises", ()) for check in one["checks"]]
    outcomes = {check["outcome"] for check in checks}
    if result.get("status") != "graded" or not checks or "grader_error" in outcomes:
        return NO_VERDICT
    return PASSED if result["score"] == result["max_score"] and outcomes == {"passed"} else OPEN


def of_result(result: Mapping[str, Any], language: Language) -> tuple[str, int]:
    """The summary of one submission, and its verdict."""
    code = verdict(result)
    if code == NO_VERDICT:
        words = language(
            "There is no verdict: the grader itself failed. This says nothing about the work."
        )
        head = language("no verdict")
        return f"## {head}\n\n{words}\n", code
    rows = [_row(exercise, language) for exercise in result["exercises"]]
    points = _points(result, language)
    heads = language("exercise"), language("points"), language("first open")
    head = f"| {' | '.join(heads)} |"
    return "\n".join([f"## {points}", "", head, "|---|---|---|", *rows, ""]), code


def _row(exercise: Mapping[str, Any], language: Language) -> str:
    open_checks = [check for check in exercise["checks"] if check["outcome"] != "passed"]
    first = open_checks[0] if open_checks else None
    said = f"{_cell(first['title'])} ({_outcome(first, language)})" if first else ""
    tried = any(check["outcome"] not in _UNTRIED for check in exercise["checks"])
    mark = "✓" if not open_checks else "✗" if tried else "·"
    name = f"`{exercise['id']}`"
    return f"| {mark} {name} | {exercise['score']:g} / {exercise['max_score']:g} | {said} |"


def _outcome(check: Mapping[str, Any], language: Language) -> str:
    return language.render(OUTCOMES[Outcome(check["outcome"])])


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))
    except OSError:
        return []


def of_class(rows: Sequence[Mapping[str, str]], language: Language) -> tuple[str, int]:
    """The summary of a class, and whether every submission has its points."""
    lines = [
        f"| {_cell(row['submission'])} | {row['status']} | {row['score']} | {row['max_score']} |"
        for row in rows
    ]
    missing = [row for row in rows if row["status"] != "graded"]
    counted = language(
        "{graded} of {all} submissions are graded", graded=len(rows) - len(missing), all=len(rows)
    )
    columns = (language(name) for name in ("submission", "status", "points", "of"))
    head = f"| {' | '.join(columns)} |"
    text = "\n".join([f"## {counted}", "", head, "|---|---|---|---|", *lines, ""])
    return text, NO_VERDICT if missing or not rows else PASSED


def statuses(rows: Sequence[Mapping[str, str]], language: Language) -> list[str]:
    """For each submission its name, the state of its commit, and words, with tabs between."""
    lines = []
    for row in rows:
        if row["status"] != "graded":
            state, words = "error", language("no verdict")
        else:
            state = "success" if row["score"] == row["max_score"] else "failure"
            words = language(
                "{points} of {most} points", points=row["score"], most=row["max_score"]
            )
        lines.append(f"{row['submission']}\t{state}\t{words}")
    return lines


def notices(result: Mapping[str, Any]) -> list[str]:
    """The annotations from which GitHub Classroom takes points.

    They are those of its own reporter (classroom-resources/autograding-grading-reporter), which
    needs one step for each test, and counts what reports nothing as nothing.
    """
    points = {"totalPoints": result["score"], "maxPoints": result["max_score"]}
    return [
        f"::notice title=Autograding complete::Points {result['score']:g}/{result['max_score']:g}",
        f"::notice title=Autograding report::{json.dumps(points)}",
    ]


def _points(result: Mapping[str, Any], language: Language) -> str:
    return language(
        "{points} of {most} points",
        points=f"{result['score']:g}",
        most=f"{result['max_score']:g}",
    )


def _cell(text: str) -> str:
    """A text that stays in its cell, and is no markup."""
    for sign in "\\`*_|<>[]":
        text = text.replace(sign, f"\\{sign}")
    return plain(" ".join(text.split()))


if __name__ == "__main__":
    sys.exit(main())
