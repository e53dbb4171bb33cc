"""What the course remembers of a student."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from grader import state
from grader.course import Course
from grader.model import CheckResult, Outcome
from grader.score import ExerciseScore

ID = "attention.stable_softmax"
TEXTS = {"attention": "def stable_softmax(scores):\n    return scores\n"}


def scored(course: Course, outcome: Outcome) -> ExerciseScore:
    exercise = course.exercises[ID]
    return ExerciseScore(
        exercise,
        tuple(
            CheckResult(f"{ID}/{n}/t", ID, n, "t", outcome)
            for n in range(1, len(exercise.points) + 1)
        ),
    )


def kept(folder: Path, course: Course, outcome: Outcome = Outcome.PASSED) -> state.State:
    found = state.read(folder)
    found.note(course, TEXTS, [scored(course, outcome)])
    assert found.write(folder)
    return state.read(folder)


@pytest.mark.parametrize(
    ("outcome", "standing"),
    [
        (Outcome.PASSED, "passed"),
        (Outcome.WRONG_VALUE, "open"),
        (Outcome.NOT_ATTEMPTED, "not_attempted"),
        (Outcome.BLOCKED, "blocked"),
    ],
)
def test_what_was_noted_is_there_again(tmp_path, course, outcome, standing) -> None:
    found = kept(tmp_path, course, outcome).fresh(course, ID, TEXTS)
    assert found is not None
    assert found.standing == standing
    assert found.score == (course.exercises[ID].max_score if outcome is Outcome.PASSED else 0)


def test_it_is_stale_once_the_text_has_changed(tmp_path: Path, course: Course) -> None:
    found = kept(tmp_path, course)
    assert found.fresh(course, ID, {"attention": TEXTS["attention"] + "import math\n"}) is None
    assert found.results[ID].passed


def test_a_failure_of_ours_is_not_remembered(tmp_path: Path, course: Course) -> None:
    assert kept(tmp_path, course, Outcome.GRADER_ERROR).results == {}


ENTRY = {"digest": "d", "score": 1.0, "standing": "open", "when": 0.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 2, "results": {}, "hints": {}}',
        '{"schema": 1}',
        '{"schema": 1, "results": [1], "hints": 3}',
        json.dumps({"schema": 1, "results": {ID: {"digest": 1}, "x": 3}, "hints": {ID: "two"}}),
        json.dumps({"schema": 1, "results": {ID: ENTRY | {"score": "many"}}, "hints": {ID: -1}}),
        json.dumps({"schema": 1, "results": {ID: ENTRY | {"when": 10**400}}, "hints": {}}),
        "[" * 100_000,
        "\udcff\x00",
    ],
)
def test_a_spoiled_file_is_an_empty_one(tmp_path: Path, course: Course, text: str) -> None:
    path = tmp_path / state.NAME
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = state.read(tmp_path)
    assert (found.results, found.hints) == ({}, {})
    assert kept(tmp_path, course).results[ID].passed


def test_one_spoiled_entry_does_not_cost_the_others(tmp_path: Path) -> None:
    data = {"schema": 1, "results": {"a": ENTRY, "b": None}, "hints": {"a": 2, "b": True}}
    (tmp_path / state.NAME).write_text(json.dumps(data))
    found = state.read(tmp_path)
    assert (list(found.results), found.hints) == (["a"], {"a": 2})


def test_two_who_write_keep_each_others_entries(tmp_path: Path, course: Course) -> None:
    one, other = state.read(tmp_path), state.read(tmp_path)
    one.note(course, TEXTS, [scored(course, Outcome.PASSED)])
    other.hints["masks.combine_masks"] = 2
    assert one.write(tmp_path)
    assert other.write(tmp_path)
    both = state.read(tmp_path)
    assert (list(both.results), both.hints) == ([ID], {"masks.combine_masks": 2})


def test_nothing_is_left_beside_it(tmp_path: Path, course: Course) -> None:
    kept(tmp_path, course)
    assert os.listdir(tmp_path) == [state.NAME]


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be closed to its owner there")
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    nowhere = tmp_path / "a file"
    nowhere.write_text("")
    assert not state.State().write(nowhere)
