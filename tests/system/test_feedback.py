"""What a student may read of a grade: public checks whole, of hidden ones which clause."""

from __future__ import annotations

from typing import Any

from grader.course import Course
from grader.report import feedback, html
from grader.report.language import Language

ID = "attention.stable_softmax"
HIDDEN = "test_a_secret"


def check(name: str, clause: int, outcome: str, **more: Any) -> dict[str, Any]:
    told = {"title": f"title of {name}", "message": f"message of {name}", "frames": [],
            "mistake": None, "picture": None}  # fmt: skip
    return {"id": f"{ID}/{clause}/{name}", "clause": clause, "outcome": outcome} | told | more


def page(course: Course, score: float, *checks: dict[str, Any]) -> str:
    result = {"id": ID, "score": score, "followed_through": False, "checks": list(checks)}
    return html.told([feedback.exercise(course, result)], Language("en"))[1]


def public(course: Course) -> str:
    from grader.report.gradescope import public_checks

    return sorted(name for unit, name in public_checks() if unit == "attention")[0]


def test_of_a_hidden_check_the_clause_is_told(course: Course) -> None:
    said = page(course, 7, check(public(course), 1, "passed"), check(HIDDEN, 2, "wrong_value"))
    assert "7 / 8" in said
    assert HIDDEN not in said
    assert "✗ 2 What only grading checks" in said
    assert "the clause says more than you met" in said


def test_where_a_public_check_tells_it_a_hidden_one_need_not(course: Course) -> None:
    said = page(course, 6, check(public(course), 1, "wrong_value"), check(HIDDEN, 1, "wrong_value"))
    assert f"message of {public(course)}" in said
    assert "only grading" not in said


def test_that_a_loop_never_ended_is_told_wherever_it_ran(course: Course) -> None:
    said = page(
        course,
        0,
        check(HIDDEN, 1, "timeout", message="still running", frames=["attention.py, line 3"]),
        check(public(course), 1, "timeout", message="not tried"),
    )
    assert "title of test_a_secret" not in said
    assert said.index("still running") < said.index("not tried")
    assert "attention.py, line 3" in said


def test_one_mistake_is_told_once(course: Course) -> None:
    name = public(course)
    said = page(
        course,
        0,
        check(f"{name}[1]", 1, "wrong_value", title="one", message="m\n1", mistake="x"),
        check(f"{name}[2]", 2, "wrong_value", title="two", message="m\n2", mistake="x"),
    )
    assert "(as in 1)" in said


def test_what_a_student_wrote_is_no_markup(course: Course) -> None:
    one = check(public(course), 1, "raised", message="<script>alert(1)</script>")
    result = {"id": ID, "score": 0, "followed_through": False, "checks": [one]}
    rendered, _ = html.told([feedback.exercise(course, result)], Language("en"))
    assert "<script" not in rendered
    assert "&lt;script&gt;" in rendered
