"""What a report in a terminal tells once, and what it leaves out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from grader import cli
from grader.model import CheckResult, Outcome, say
from grader.report import pages
from grader.report.language import Language
from grader.report.terminal import Terminal
from grader.score import ExerciseScore
from grader.subject import endings
from tests.system.made import ENGLISH, SOFTMAX, check, result, wrong


def told(course, *checks: CheckResult) -> str:
    console = Console(width=80, file=io.StringIO())
    exercise = ExerciseScore(course.exercises[SOFTMAX], checks)
    Terminal(console, ENGLISH, detailed=True).tell(exercise)
    return "\n".join(line.rstrip() for line in console.file.getvalue().split("\n"))


def shape(clause: int, expected: list[int], found: list[int]) -> CheckResult:
    words = say("expected shape {expected}; found {found}", expected=expected, found=found)
    return wrong(clause, Outcome.WRONG_SHAPE, message=(words,), title=f"Clause {clause}")


SHAPES = [shape(1, [3, 5], [5, 3]), shape(2, [2, 3, 4], [2, 4, 3])]


def test_shapes_that_differ_only_in_sizes_are_told_once(course) -> None:
    text = told(course, *SHAPES)
    assert text.count("expected shape") == 1
    assert " ✗ 2 Clause 2  (as in 1)" in text
    page = pages.student(result(course, outcomes=dict(enumerate(SHAPES, 1))), course, ENGLISH)
    assert page.count("expected shape") == 1
    values = [wrong(n, message=(say("expected 1; found {n}", n=n),)) for n in (1, 2)]
    assert told(course, *values).count("found") == 2


def test_what_was_printed_stands_once(course) -> None:
    printed = "".join(f"line {n}\n" for n in range(20))
    failed = [wrong(n, message=(say(f"reason {n}"),), printed=printed) for n in (1, 2)]
    text = told(course, *failed)
    assert text.count("your code printed:") == text.count("line 7\n") == 1
    assert "line 8" not in text
    assert "... (12 more)" in text
    many = wrong(printed="0123456789\n" * 200)
    assert "+ more)" in told(course, many)
    assert "more)" not in told(course, wrong(printed="one\ntwo\n"))


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.CRASHED])
def test_what_was_not_tried_is_no_failure(course, outcome, times) -> None:
    words = endings.not_tried(outcome, times)
    left = wrong(2, outcome, message=(words,), title="Clause 2")
    text = told(course, wrong(1, outcome, message=(endings.ran_on(2),), title="Clause 1"), left)
    assert " ✗ 1 Clause 1\n" in text
    assert " · 2 Clause 2\n" in text
    page = pages.student(result(course, outcomes={2: left}), course, ENGLISH)
    assert '<span class="soft" aria-hidden="true">·</span> Clause 2' in page


def test_a_run_of_the_same_reason_is_one_line(course) -> None:
    same = [wrong(n, mistake="m", title=f"Clause {n}") for n in range(1, 6)]
    text = told(course, *same, wrong(6, title="Clause 6"), check(SOFTMAX, 7))
    assert " ✗   and 4 more checks, as in 1\n" in text
    assert "Clause 2" not in text
    assert " ✗ 6 Clause 6" in text
    short = told(course, *same[:4], check(SOFTMAX, 7))
    assert "more checks" not in short
    assert short.count("(as in 1)") == 3


def test_what_is_missing_as_a_whole_is_told_once(course) -> None:
    lacks = say("There is no `{name}` in {where}.", name="a", where="b")
    names = [wrong(n, Outcome.NOT_ATTEMPTED, message=(lacks,), title=f"Clause {n}") for n in (1, 2)]
    text = told(course, *names)
    assert text.count("There is no `a`") == 1
    assert "as in" not in text
    assert " · 2 Clause 2" in text


@pytest.mark.parametrize(
    "place",
    [
        "attention.py, line 47, in stable_softmax",
        "attention.py, line 3",
        "attention.ipynb, code cell 4, line 3, in f",
    ],
)
def test_the_place_of_a_line_in_the_reader_s_language(place) -> None:
    text = f"{place}\n    return x, line 7, in y"
    assert ENGLISH.frame(text) == text
    there, code = Language("zh").frame(text).split("\n")
    assert code == "    return x, line 7, in y"
    assert "line" not in there
    assert "cell" not in there
    assert Language("zh").frame("...") == "..."


def test_an_unknown_name_in_the_reader_s_language(capsys) -> None:
    assert cli.main(["check", "--lang", "zh", "atention"]) == 2
    told = capsys.readouterr().err
    assert "attention" in told
    assert "Did you mean" not in told
