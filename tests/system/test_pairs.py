"""`grader pairs` puts mistakes together, and finds a wrong title where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from grader import pairs
from grader.course import Course
from grader.judge import bank
from grader.judge.suite import collect
from grader.model import CheckResult
from grader.pairs import Pairs, Told, Trial
from grader.validate import HIDDEN, PUBLIC

PADDING = "masks.create_padding_mask"
LOOK_AHEAD = "masks.create_look_ahead_mask"
ENCODER = "encoder.TransformerEncoder"

TEXT = "def f(x):\n    return x.mean(0) + x.sum(1)\n"


def measure(course: Course, exercise: str) -> Pairs:
    files = sorted([*PUBLIC.glob("test_*.py"), *HIDDEN.glob("test_*.py")])
    return Pairs(course, collect(files), [exercise])


@pytest.fixture(scope="module")
def padding(course: Course) -> Pairs:
    return measure(course, PADDING)


@pytest.fixture(scope="module")
def look_ahead(course: Course) -> Pairs:
    return measure(course, LOOK_AHEAD)


# Two mistakes in one source.


@pytest.mark.parametrize(
    ("edits", "joined"),
    [
        ([("0", "1"), ("sum", "max")], "x.mean(1) + x.max(1)"),
        ([("x.mean(0)", "x.mean(1)"), ("mean", "min")], "x.min(1) + x.sum(1)"),
        ([("sum", "max"), ("mean", "min"), ("(0)", "()")], "x.min() + x.max(1)"),
        ([("mean", "min"), ("mean", "max")], None),
        ([("x.mean(0)", "x"), ("0", "1")], None),
        ([("mean", "min"), ("x.mean", "mean")], None),
        ([], "x.mean(0) + x.sum(1)"),
    ],
    ids=["apart", "apart, though one finds its place by the other's", "three", "the same word",
         "one inside the other", "one that the other takes away", "none"],
)  # fmt: skip
def test_changes_are_joined_where_they_do_not_touch(
    edits: list[tuple[str, str]], joined: str | None
) -> None:
    found = bank.joined(TEXT, [TEXT.replace(*edit, 1) for edit in edits])
    assert found == (None if joined is None else f"def f(x):\n    return {joined}\n")


# What is counted.


def told(measured: Pairs, trials: Iterable[Trial]) -> Told:
    whole = Told()
    for trial in trials:
        whole.add(measured.told(trial))
    return whole


def test_no_pair_of_one_exercise_is_misnamed(padding: Pairs) -> None:
    found = told(padding, padding.trials())
    assert found.wrong == []
    for suite in ("check", "grade"):
        count = {key[2:]: times for key, times in found.counts.items() if key[0] == suite}
        assert count[1, 0, "tried"] == len(padding.mistakes)
        assert 0 < count[2, 0, "named"] < count[2, 0, "failing"] <= count[2, 0, "tried"]
        assert count[2, 1, "tried"] == 2 * count[2, 0, "tried"]
        assert count[2, 2, "tried"] == count[2, 0, "tried"]
        assert (1, 0, "wrong") not in count


def test_a_guess_is_found_out(padding: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    def guess(checks: Sequence[CheckResult]) -> list[CheckResult]:
        return [replace(check, mistake=next(iter(check.suspects), None)) for check in checks]

    monkeypatch.setattr(pairs, "named", guess)
    trials = [trial for trial in padding.trials() if padding.told(trial).counts]
    found = told(padding, trials[:3] + trials[-5:])
    kinds = {key[2:4] for key in found.counts if key[-1] == "wrong"}
    assert kinds == {(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    assert any(line.startswith(f"check: in {PADDING}, ") for line in found.wrong)
    assert any(", where the bank lacks " in line for line in found.wrong)


def test_two_that_amount_to_a_third_are_that_one(look_ahead: Pairs) -> None:
    """Nothing but the present and the past, turned round, is nothing but the future."""
    both = Trial(LOOK_AHEAD, ("look-ahead-transposed", "look-ahead-mirrored"))
    found = look_ahead.told(both)
    assert found.wrong == []
    assert found.counts["check", LOOK_AHEAD, 2, 0, "another"] == 1


def test_mistakes_that_clash_are_not_tried(look_ahead: Pairs) -> None:
    both = Trial(LOOK_AHEAD, ("look-ahead-hides-nothing", "look-ahead-transposed"))
    assert look_ahead.told(both) == Told()


@pytest.mark.slow
def test_a_flaw_below_is_met_where_all_between_passes(course: Course) -> None:
    measured = measure(course, ENCODER)
    (alone, *pairs) = measured.across("attention-scaled-by-rounded-root")
    assert alone == Trial(ENCODER, ("attention-scaled-by-rounded-root",), ("check",), pairs[0].row)
    assert len(pairs) == len(measured._own(ENCODER))
    assert measured.across("attention-unscaled") == []  # MultiHeadAttention.forward shows it
    assert measured.told(alone).counts["check", alone.row, 1, 0, "failing"] == 1
