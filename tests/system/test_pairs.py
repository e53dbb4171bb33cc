"""`grader pairs` puts mistakes together, and finds a wrong title where there is one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from grader import pairs
from grader.course import Course
from grader.judge import bank
from grader.judge.prove import Bench
from grader.judge.suite import collect, suite_files
from grader.model import CheckResult
from grader.pairs import Pairs, Told

PADDING = "masks.create_padding_mask"
LOOK_AHEAD = "masks.create_look_ahead_mask"
ENCODER = "encoder.TransformerEncoder"

TEXT = "def f(x):\n    return x.mean(0) + x.sum(1)\n"

Measure = Callable[[str], Pairs]


@pytest.fixture(scope="module")
def measure(course: Course) -> Measure:
    bench = Bench(course, collect(suite_files()))
    return functools.cache(functools.partial(Pairs, bench, bank.mistakes(course)))


# Two mistakes in one source.


@pytest.mark.parametrize(
    ("edits", "joined"),
    [
        ([("0", "1"), ("sum", "max")], "x.mean(1) + x.max(1)"),
        ([("x.mean(0)", "x.mean(1)"), ("mean", "min")], "x.min(1) + x.sum(1)"),
        ([("sum", "max"), ("mean", "min"), ("(0)", "()")], "x.min() + x.max(1)"),
        ([("mean", "min"), ("mean(0) + x.sum", "min(0) + x.max")], "x.min(0) + x.max(1)"),
        ([("mean", "min"), ("mean", "max")], None),
        ([("x.mean(0)", "x"), ("0", "1")], None),
        ([("mean", "min"), ("x.mean", "mean")], None),
        ([], "x.mean(0) + x.sum(1)"),
    ],
    ids=["apart", "apart, though one finds its place by the other's", "three",
         "one word changed by both in the same way", "the same word",
         "one inside the other", "one that the other takes away", "none"],
)  # fmt: skip
def test_changes_are_joined_where_they_do_not_touch(
    edits: list[tuple[str, str]], joined: str | None
) -> None:
    found = bank.joined(TEXT, [TEXT.replace(*edit, 1) for edit in edits])
    assert found == (None if joined is None else f"def f(x):\n    return {joined}\n")


# What is counted.


def test_no_pair_of_one_exercise_is_misnamed(measure: Measure) -> None:
    padding = measure(PADDING)
    told = padding.told()[PADDING]
    assert told.wrong == []
    for suite in ("check", "grade"):
        count = {tuple(kind): times for (of, *kind), times in told.counts.items() if of == suite}
        assert count[1, 0, "tried"] == len(padding.own)
        assert 0 < count[2, 0, "named"] < count[2, 0, "failing"] <= count[2, 0, "tried"]
        assert count[2, 1, "tried"] == 2 * count[2, 2, "tried"] == 2 * count[2, 0, "tried"]
        assert (2, 0, "wrong") not in count


def test_a_guess_is_found_out(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    def guess(checks: Sequence[CheckResult]) -> list[CheckResult]:
        return [replace(check, mistake=next(iter(check.suspects), None)) for check in checks]

    monkeypatch.setattr(pairs, "named", guess)
    told = Told()
    for ids in (["look-ahead-without-self"], ["look-ahead-without-self", "look-ahead-float"]):
        told.add(measure(LOOK_AHEAD).told_of(ids))
    kinds = {tuple(kind) for _, *kind, what in told.counts if what == "wrong"}
    assert kinds == {(1, 1), (2, 0), (2, 1), (2, 2)}
    assert any(line.startswith(f"check {LOOK_AHEAD}: ") for line in told.wrong)
    assert any(", where the bank lacks " in line for line in told.wrong)


def test_two_that_amount_to_a_third_are_that_one(measure: Measure) -> None:
    told = measure(LOOK_AHEAD).told_of(["look-ahead-transposed", "look-ahead-mirrored"])
    assert told.wrong == []
    assert told.counts["check", 2, 0, "third"] == told.counts["grade", 2, 0, "third"] == 1


def test_mistakes_that_clash_are_not_tried(measure: Measure) -> None:
    clash = ["look-ahead-without-self", "look-ahead-one-too-far"]
    assert measure(LOOK_AHEAD).told_of(clash) == Told()


@pytest.mark.slow
def test_a_flaw_below_is_met_where_all_between_passes(measure: Measure) -> None:
    encoder = measure(ENCODER)
    below = set(encoder.below())
    assert "attention-scaled-by-rounded-root" in below
    assert "attention-unscaled" not in below  # MultiHeadAttention.forward shows it
    assert not below & set(encoder.own)
    told = encoder.told_of(["attention-scaled-by-rounded-root"], ["check"])
    assert told.counts["check", 1, 0, "failing"] == 1
    assert told.wrong == []
