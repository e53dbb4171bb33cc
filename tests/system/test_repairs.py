"""Repairs: exercises that are given as code that runs, with a fault in it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from grader import course as courses
from grader.course import ROOT, Course, CourseError
from grader.judge import bank
from grader.judge.suite import collect
from grader.judge.untouched import untouched
from grader.model import CheckResult, Outcome, Submission
from grader.score import score
from release import stubs

REPAIR = "troubleshooting.causal_weights"


@pytest.fixture(scope="module")
def given(course: Course) -> dict[str, str]:
    return bank.given(course)


@pytest.fixture(scope="module")
def handed_out(course: Course) -> str:
    """The unit as students get it."""
    return stubs.stubs(course)["troubleshooting.py"]


# What is given.


def test_what_is_given_runs_and_is_not_the_solution(course: Course, given: dict[str, str]) -> None:
    solved = {name: module.text for name, module in bank.solution(course).modules.items()}
    assert list(given) == [id for id, exercise in course.exercises.items() if exercise.stub]
    for id, text in given.items():
        compile(text, id, "exec", dont_inherit=True)
        assert "NotImplementedError" not in text
        assert text not in bank.uncovered(solved[id.split(".")[0]])


def test_neither_name_nor_title_of_a_fault_tells_the_cause(course: Course) -> None:
    for exercise, fault in bank.faults(course).items():
        words = re.findall("[A-Z]?[a-z]+", exercise.split(".")[1])
        assert fault.id == "-".join(words).lower() + "-as-given"
        assert fault.title == "It still does what was reported."


@pytest.mark.parametrize("stub", ["nowhere", "causal-weights-upper", "encoder-weights-as-given"])
def test_a_fault_that_does_not_fit_is_named(tmp_path: Path, stub: str) -> None:
    text = (ROOT / "course.toml").read_text(encoding="utf-8")
    path = tmp_path / "course.toml"
    path.write_text(text.replace("causal-weights-as-given", stub), encoding="utf-8")
    with pytest.raises(CourseError, match=rf"{REPAIR} is handed out .*'{stub}'"):
        bank.given(courses.load(path))


# Which are not attempted: by their text, whatever its layout.


def text_of(text: str, *edits: tuple[str, str]) -> str:
    for find, put in edits:
        assert find in text, find
        text = text.replace(find, put)
    return text


CALL = "\n\nif __name__ == '__main__':\n    print(causal_weights(torch.zeros(2, 2)))\n"
OVER = "\n\ndef right(scores):\n    return scores\n\n\ncausal_weights = right\n"
AGAIN = "\n\ndef causal_weights(scores):\n    return scores.softmax(-1)\n"


@pytest.mark.parametrize(
    ("edits", "after", "begun"),
    [
        ([], "", False),
        ([('"""Repair: weigh the keys up', '"""Weigh the keys up')], "", False),
        ([("dtype=torch.bool).tril()\n", "dtype=torch.bool).tril()  # hm\n")], "", False),
        ([("    visible = torch.ones(seq, seq, ", "    visible = (  torch.ones)(seq,seq,\n  ")], "",
         False),
        ([("class AddPositions", "class Other")], "", False),
        ([("seq, seq, dtype=torch.bool)", "seq, seq, dtype=torch.bool, device=None)")], "", True),
        ([], CALL, True),
        ([], OVER, True),
        ([], AGAIN, True),
        ([("def causal_weights", "def causal_weight")], "", True),
        ([], "\n\ndef more(:\n", True),
    ],
    ids=["as given", "docstring", "comment", "layout", "elsewhere", "code", "called", "replaced",
         "again", "gone", "unreadable"],
)  # fmt: skip
def test_what_is_begun(
    submit, given: dict[str, str], handed_out: str, edits, after: str, begun: bool
) -> None:
    submission = submit(troubleshooting=text_of(handed_out, *edits) + after)
    assert (REPAIR in untouched(submission, given)) is not begun


def test_a_unit_that_is_not_there(submit, given: dict[str, str]) -> None:
    assert untouched(submit(attention=""), given) == frozenset()


def test_a_notebook_keeps_what_was_given(submit, given: dict[str, str]) -> None:
    """Its cells hold one definition each, without what stood around it."""
    for id, text in given.items():
        submission: Submission = submit(troubleshooting=textwrap.dedent(text))
        assert untouched(submission, given) == {id}


# What earns points.


def results(*outcomes: Outcome) -> list[CheckResult]:
    return [
        CheckResult(f"{REPAIR}/{clause}/test", REPAIR, clause, "It holds", outcome)
        for clause, outcome in enumerate(outcomes, 1)
    ]


PASSED, WRONG = Outcome.PASSED, Outcome.WRONG_VALUE


@pytest.mark.parametrize(
    ("outcomes", "points"),
    [
        ([PASSED, PASSED, PASSED, PASSED], [2, 1, 1, 1]),
        ([PASSED, WRONG, PASSED, PASSED], [2, 0, 1, 1]),  # a mend that breaks something else
        ([WRONG, PASSED, PASSED, PASSED], [0, 0, 0, 0]),  # no mend: the rest held before
    ],
)
def test_points_come_once_the_fault_is_gone(course: Course, outcomes, points) -> None:
    (found,) = score(course, [REPAIR], results(*outcomes)).exercises
    assert found.clauses == points
    assert found.at_fault is (outcomes[0] is WRONG)


def test_elsewhere_a_clause_stands_for_itself(course: Course) -> None:
    other = "troubleshooting.check_heads"
    checks = [
        CheckResult(f"{other}/{n}/test", other, n, "It holds", WRONG if n == 1 else PASSED)
        for n in range(1, 5)
    ]
    (found,) = score(course, [other], checks).exercises
    assert found.clauses == [0, 1, 1, 2]


# The causes.


def test_the_causes_to_choose_from_are_those_of_the_contract(course: Course) -> None:
    solved = bank.solution(course).modules["troubleshooting"].text
    listed = re.findall(r"^    ``([\w ]+)``  ", solved, re.M)
    assert len(listed) == len(set(listed)) == 16
    for folder in ("public", "hidden"):
        suite = collect([ROOT / "tests" / folder / "test_troubleshooting.py"])
        check = next(c for c in suite.checks if c.exercise.endswith(".post_mortem"))
        assert check.function.__globals__["CAUSES"] == listed


def test_public_files_do_not_tell_the_causes(course: Course, handed_out: str) -> None:
    """They name all that there are to choose from, and none beside a repair."""
    public = (ROOT / "tests/public/test_troubleshooting.py").read_text(encoding="utf-8")
    path = ROOT / "tests/public/answers/troubleshooting.safetensors"
    answers = path.read_bytes().decode("latin1")
    assert "post-mortem" not in answers, "nor which are wrong"
    solved = bank.solution(course).modules["troubleshooting"].text
    pairs = re.findall(r'^        "(\w+)": "([\w ]+)",$', solved, re.M)
    assert len(pairs) == 9
    for repair, cause in pairs:
        for text in (public, answers, handed_out):
            assert not re.search(rf"{repair}\W+{cause}", text)
