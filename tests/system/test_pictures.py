"""Pictures of tensors: what is drawn, that the marks are where it is wrong, and who may see it."""

from __future__ import annotations

import io
import json
import math

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from grader.course import ROOT
from grader.judge.expect import expect
from grader.judge.picture import MOST, picture
from grader.judge.suite import Check, ended
from grader.model import CheckResult, Outcome, say
from grader.report import pages, pictures
from grader.report.terminal import Terminal
from grader.score import ExerciseScore, Score
from grader.subject.faults import Failure
from tests.system.made import ENGLISH, SOFTMAX, check, result, wrong

SCHEMA = json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
HOLDS = jsonschema.Draft202012Validator({**SCHEMA["$defs"]["picture"], "$defs": SCHEMA["$defs"]})


def of(found, expected):
    found, expected = torch.as_tensor(found), torch.as_tensor(expected)
    return picture(found, expected, found != expected, torch.ones_like(found, dtype=torch.bool))


WEIGHTS = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]])
FOUND = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.5, 0.0]])


def test_nothing_is_expected_where_nothing_is_judged() -> None:
    judged = torch.tensor([[False, False, True], [True, True, True]])
    drawn = picture(FOUND, WEIGHTS, (FOUND != WEIGHTS) & judged, judged)
    assert drawn["expected"] == ["- - 0.00", "0.50 0.50 0.00"]
    assert drawn["found"] == ["0.25 0.50 0.25", "0.50 0.50 0.00"]
    HOLDS.validate(drawn)
    [first, *_] = pictures.read(drawn, ENGLISH).grids[0].rows
    assert [entry.shade for entry in first] == [0, 0, 0]


def test_two_grids_and_where_they_differ() -> None:
    assert of(FOUND, WEIGHTS) == {
        "shape": [2, 3],
        "at": [0, 0],
        "expected": ["0.25 0.75 0.00", "0.50 0.50 0.00"],
        "found": ["0.25 0.50 0.25", "0.50 0.50 0.00"],
        "wrong": [".**", "..."],
    }


def test_of_more_than_two_dimensions_the_first_slice_that_fails() -> None:
    expected = torch.arange(24.0).reshape(2, 3, 4)
    found = expected.clone()
    found[1, 1, 2] = -1
    drawn = of(found, expected)
    assert (drawn["shape"], drawn["at"]) == ([2, 3, 4], [1, 0, 0])
    assert drawn["wrong"] == ["....", "..*.", "...."]
    assert drawn["found"][1] == "16.0 17.0 -1.00 19.0"


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_the_first_wrong_entry_is_in_it(rows, columns, data) -> None:
    expected = torch.zeros(rows, columns)
    wrong = torch.zeros(rows, columns, dtype=torch.bool)
    for _ in range(data.draw(st.integers(1, 4))):
        wrong[data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))] = True
    drawn = picture(expected + wrong, expected, wrong, torch.ones_like(wrong))
    if rows * columns == 1:
        assert drawn is None
        return
    first = wrong.nonzero()[0].tolist()
    r, c = next((r, row.index("*")) for r, row in enumerate(drawn["wrong"]) if "*" in row)
    assert [drawn["at"][0] + r, drawn["at"][1] + c] == first
    assert len(drawn["wrong"]) == min(rows, MOST)
    assert len(drawn["wrong"][0]) == min(columns, MOST)
    HOLDS.validate(drawn)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64,
                                   torch.int8, torch.uint8, torch.bool])  # fmt: skip
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e-300, 65504, -12345, 1])
def test_any_numbers_of_any_dtype(dtype, value) -> None:
    whole = not (dtype.is_floating_point or dtype is torch.bool)
    if whole and value != 1:
        value = 100
    found = torch.tensor([[0, 1], [0, 0]]).to(dtype)
    found[1, 0] = value
    expected = torch.zeros(2, 2, dtype=dtype)
    drawn = of(found, expected)
    HOLDS.validate(drawn)
    assert all(len(entry) <= 7 for row in drawn["found"] for entry in row.split(" "))
    list(pictures.drawn(drawn, ENGLISH, 74))


@pytest.mark.parametrize(
    "found, expected",
    [
        (1.0, 2.0),  # a number
        ([1.0], [2.0]),
        (1j * torch.ones(2, 2), torch.zeros(2, 2)),
        (torch.randn(3, 3) + 9, torch.randn(3, 3) - 9),  # all wrong, and no weights
        (torch.zeros(0, 3), torch.zeros(0, 3)),
    ],
)
def test_no_picture_where_it_says_no_more_than_words(found, expected) -> None:
    assert of(found, expected) is None


def test_expect_draws_when_asked() -> None:
    with pytest.raises(Failure) as failed:
        expect(FOUND).equals(WEIGHTS)
    assert failed.value.picture()["wrong"] == [".**", "..."]
    with pytest.raises(Failure) as failed:
        expect(FOUND).equals(torch.zeros(1))
    assert failed.value.picture() is None


# Who may see it


@pytest.mark.parametrize("hidden", [False, True])
def test_a_hidden_check_has_no_picture(hidden) -> None:
    test = Check(f"{SOFTMAX}/1/test_a", SOFTMAX, 1, "A.", hidden, lambda: None, (), {})
    with pytest.raises(Failure) as failed:
        expect(FOUND).equals(WEIGHTS)
    assert (ended(test, failed.value).picture is None) is hidden


def test_a_picture_makes_no_difference_between_results() -> None:
    one, other = wrong(), wrong(picture=of(FOUND, WEIGHTS))
    assert one == other
    assert CheckResult.from_json(other.to_json()).picture == other.picture
    assert "picture" not in one.to_json()


# Drawn


def terminal(course, failed, width=80, color="standard") -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=color is not None,
                      color_system=color, legacy_windows=False)  # fmt: skip
    exercise = ExerciseScore(course.exercises[SOFTMAX], tuple(failed))
    Terminal(console, ENGLISH, detailed=True).tell(exercise)
    return console.file.getvalue()


def test_in_a_terminal_without_colour(course) -> None:
    said = terminal(course, [wrong(picture=of(FOUND, WEIGHTS))], color=None)
    assert "\x1b" not in said
    assert [line.rstrip() for line in said.split("\n")[3:8]] == [
        "      [:, :] of a tensor [2, 3]",
        "      expected          found",
        "       0.25 0.75 0.00    0.25>0.50*0.25",
        "       0.50 0.50 0.00    0.50 0.50 0.00",
        "      > first wrong entry, * other wrong ones",
    ]


def test_a_mask_is_a_grid_of_signs(course) -> None:
    expected = torch.ones(3, 3, dtype=torch.bool).tril()
    said = terminal(course, [wrong(picture=of(expected.T, expected))], color=None)
    assert [line.rstrip() for line in said.split("\n")[4:9]] == [
        "      expected   found",
        "       # . .      #>#*#",
        "       # # .     *. #*#",
        "       # # #     *.*. #",
        "      # True, . False; > first wrong entry, * other wrong ones",
    ]


def test_what_is_not_judged_has_a_sign_of_its_own(course) -> None:
    judged = torch.tensor([[False, False, True], [True, True, True]])
    drawn = picture(FOUND, WEIGHTS, (FOUND != WEIGHTS) & judged, judged)
    said = terminal(course, [wrong(picture=drawn)], color=None)
    assert "- not judged; > first wrong entry, * other wrong ones" in said


@pytest.mark.parametrize("value", [-9999.0, -1e-9, 1e99, math.nan])
def test_80_columns_hold_the_largest(course, value) -> None:
    found = torch.full((20, 20), value, dtype=torch.float64)
    found[0, 0] = 0
    said = terminal(course, [wrong(picture=of(found, torch.zeros(20, 20)))], color=None)
    assert max(map(len, said.split("\n"))) <= 80


def test_one_picture_of_an_exercise(course) -> None:
    failed = [
        wrong(n, message=(say(f"{n}"),), picture=of(FOUND, WEIGHTS), title=f"T{n}") for n in (1, 2)
    ]
    assert terminal(course, failed).count("of a tensor") == 1


def test_a_mistake_is_drawn_where_it_shows(course) -> None:
    failed = [wrong(1, mistake="m"), wrong(3, mistake="m", picture=of(FOUND, WEIGHTS))]
    assert "as a check of clause 3 shows it:\n      [:, :] of a tensor" in terminal(
        course, [failed[0], check(SOFTMAX, 2), failed[1]], color=None
    )
    found = result(course, "a", {1: failed[0], 3: failed[1]})
    page = pages.student(found, course, ENGLISH)
    assert '<p class="soft">as a check of clause 3 shows it:</p>' in page


def test_in_a_page(course) -> None:
    text = pages.student(
        result(course, "a", {1: wrong(picture=of(FOUND, WEIGHTS))}), course, ENGLISH
    )
    assert '<caption>found<span class="hidden">: [:, :] of a tensor [2, 3]</span></caption>' in text
    assert text.count("(first wrong)") == 1
    assert text.count("(wrong)") == 1
    assert text.count('<td class="s3 wrong first">0.50') == 1


def test_what_is_declared_void_or_blocked_has_none(course) -> None:
    from grader import adjustments
    from grader.score import score

    found = wrong(picture=of(FOUND, WEIGHTS))
    line = adjustments.Adjustment("*", "void", found.id, 0, "")
    (void,) = adjustments.void([found], "ada", [line])
    assert void.picture is None
    scored = score(course, [SOFTMAX], [found])
    assert isinstance(scored, Score)
    assert scored.exercises[0].checks[0].picture is not None
    assert found.outcome is Outcome.WRONG_VALUE
