"""Points come from checks alone: a clause is earned whole or not at all."""

from __future__ import annotations

import json

import pytest

from grader import adjustments
from grader.course import Course, Exercise, Unit
from grader.model import CheckResult, Outcome, say
from grader.score import Score, score

PASSED, WRONG = Outcome.PASSED, Outcome.WRONG_VALUE
TITLES = {id: (f"Title of {id}.", f"Hint of {id}?") for id in "abc"}

COURSE = Course(
    "A course",
    (
        Unit(
            "unit",
            "Unit",
            "Why.",
            (
                Exercise("unit", "first", (2, 3)),
                Exercise("unit", "second", (5,), needs=("unit.first",)),
                Exercise("unit", "third", (7,), needs=("unit.second",)),
            ),
        ),
    ),
)
ALL = list(COURSE.exercises)


def result(exercise: str, clause: int, outcome: Outcome, suspects: str = "") -> CheckResult:
    return CheckResult(
        f"unit.{exercise}/{clause}/test", f"unit.{exercise}", clause, "It holds", outcome,
        (say("expected 1; found 2"),) if outcome is not PASSED else (),
        alike=list(suspects),
        suspects={id: TITLES[id] for id in suspects},
        found_in={id: [f"unit.{exercise}/{clause}/test"] for id in suspects},
    )  # fmt: skip


def of(*results: CheckResult) -> Score:
    return score(COURSE, ALL, results)


def test_a_clause_is_earned_when_all_its_checks_pass() -> None:
    scores = of(result("first", 1, PASSED), result("first", 1, WRONG), result("first", 2, PASSED))
    first = scores.exercises[0]
    assert first.clauses == [0, 3]
    assert (first.score, first.max_score, first.passed) == (3, 5, False)


def test_a_clause_without_a_check_is_not_earned() -> None:
    assert of(result("first", 1, PASSED)).exercises[0].clauses == [2, 0]


def test_all_passed() -> None:
    scores = of(*(result(name, n, PASSED) for name, n in
                  [("first", 1), ("first", 2), ("second", 1), ("third", 1)]))  # fmt: skip
    assert (scores.score, scores.max_score) == (17, 17)
    assert scores.passed
    assert scores.graded


def test_only_what_was_asked_for_counts() -> None:
    checks = [result("first", 1, WRONG), result("second", 1, PASSED)]
    scores = score(COURSE, ["unit.second"], checks)
    assert [e.exercise.id for e in scores.exercises] == ["unit.second"]
    assert (scores.score, scores.passed) == (5, True)


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not PASSED])
def test_no_other_outcome_earns_anything(outcome: Outcome) -> None:
    assert of(result("first", 1, outcome)).score == 0


def test_what_fails_on_something_unfinished_is_blocked() -> None:
    scores = of(
        result("first", 1, WRONG), result("second", 1, WRONG, "a"), result("third", 1, WRONG)
    )
    first, second, third = scores.exercises
    assert first.checks[0].outcome is WRONG
    for exercise, need in ((second, "unit.first"), (third, "unit.second")):
        (check,) = exercise.checks
        assert exercise.untouched is check.outcome is Outcome.BLOCKED
        words = say("It stands on {exercise}: finish that first.", exercise=need)
        assert check.message[0] == words
        assert check.mistake is None


def test_what_passes_on_something_unfinished_has_passed() -> None:
    scores = of(result("first", 1, WRONG), result("second", 1, PASSED))
    assert scores.exercises[1].score == 5


def test_a_need_that_was_not_checked_blocks_nothing() -> None:
    assert of(result("second", 1, WRONG)).exercises[1].checks[0].outcome is WRONG


def test_a_void_is_for_those_who_tried() -> None:
    """Who handed in nothing has begun nothing, and gets no point for it."""
    void = [adjustments.Adjustment("*", "void", "unit.first/1/test", 0, "unclear")]
    for outcome, points in ((WRONG, 2), (Outcome.NOT_ATTEMPTED, 0)):
        (found,) = adjustments.void([result("first", 1, outcome)], "ada", void)
        assert of(found).score == points
    assert found.outcome is Outcome.NOT_ATTEMPTED


def test_a_fault_of_the_grader_is_never_a_zero() -> None:
    scores = of(result("first", 1, WRONG), result("second", 1, Outcome.GRADER_ERROR))
    assert not scores.graded
    assert not scores.passed
    assert scores.exercises[1].checks[0].outcome is Outcome.GRADER_ERROR  # not hidden as blocked


@pytest.mark.parametrize(
    ("outcomes", "untouched"),
    [
        ([Outcome.NOT_ATTEMPTED, Outcome.NOT_ATTEMPTED], Outcome.NOT_ATTEMPTED),
        ([Outcome.NOT_ATTEMPTED, Outcome.BLOCKED], Outcome.BLOCKED),
        ([Outcome.NOT_ATTEMPTED, PASSED], None),
        ([WRONG, WRONG], None),
        ([], None),
    ],
)
def test_untouched(outcomes: list[Outcome], untouched: Outcome | None) -> None:
    checks = [result("first", number, outcome) for number, outcome in enumerate(outcomes, 1)]
    assert of(*checks).exercises[0].untouched is untouched


def test_a_known_mistake_is_named() -> None:
    """`test_naming` tells when; here, that it reaches the score, exercise by exercise."""
    scores = of(result("first", 1, WRONG, "a"), result("first", 2, PASSED),
                result("third", 1, WRONG, "b"))  # fmt: skip
    first, _, third = scores.exercises
    assert [check.mistake for check in (*first.checks, *third.checks)] == ["a", None, "b"]
    words = [line.text for line in first.checks[0].message]
    assert words == [*TITLES["a"], "expected 1; found 2"]


def test_a_result_is_the_same_after_a_journey_as_text() -> None:
    kept = result("first", 1, WRONG, "ab")
    again = CheckResult.from_json(json.loads(json.dumps(kept.to_json())))
    assert again == kept
    assert of(again) == of(kept)
