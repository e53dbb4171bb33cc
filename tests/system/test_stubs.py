"""Stubs come from solutions, are what is committed, and give nothing away."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from grader import course as courses
from grader.course import ROOT, Course
from grader.judge import bank
from grader.subject.modules import PACKAGE, Namespace
from release import stubs

UNITS = [unit.name for unit in courses.load().units]

SOLVED = '''"""Docs."""

LIMIT = 3


def self_attention(x):
    """Contract."""
    ### BEGIN SOLUTION
    return secret(x)
    ### END SOLUTION
'''


@pytest.fixture(scope="module")
def texts(course: Course) -> dict[str, str]:
    return stubs.stubs(course)


def test_there_is_a_stub_for_every_unit(course: Course, texts: dict[str, str]) -> None:
    assert set(texts) == {"__init__.py", *(f"{unit.name}.py" for unit in course.units)}


def test_the_committed_stubs_are_what_the_generator_gives(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        committed = (ROOT / PACKAGE / name).read_text(encoding="utf-8")
        assert committed == text, f"{name}: run `python -m grader stubs`"


def test_every_exercise_raises_with_its_own_name(
    course: Course, texts: dict[str, str], submit
) -> None:
    space = Namespace(submit(**{unit: texts[f"{unit}.py"] for unit in UNITS}), UNITS)
    for id, exercise in course.exercises.items():
        if exercise.stub:
            continue  # a repair, which runs
        unit, _, path = id.partition(".")
        with space.active():
            target: Any = space.module(unit)
        for name in path.split("."):
            target = getattr(target, name)
        functions = [target]
        if exercise.init:
            functions = [target.__init__] + ([target.forward] if exercise.takes else [])
        for function in functions:
            names = inspect.signature(function).parameters.values()
            given = [None for name in names if name.default is inspect.Parameter.empty]
            with pytest.raises(NotImplementedError, match=f"^{re.escape(id)}$"):
                function(*given)


@pytest.mark.parametrize("unit", UNITS)
def test_nothing_of_a_solution_is_left(course: Course, unit: str, texts: dict[str, str]) -> None:
    """Of a repair, nothing but what its fault leaves."""
    solved = (ROOT / "solutions" / f"{unit}.py").read_text(encoding="utf-8")
    block = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.S)
    blocks = block.findall(solved)
    assert blocks
    open_lines = [line.strip() for line in block.sub("", solved).splitlines()]
    for id, given in bank.given(course).items():
        if id.split(".")[0] == unit:
            open_lines += [line.strip() for line in given.splitlines()]
    left = [line.strip() for line in texts[f"{unit}.py"].splitlines()]
    for line in {line.strip() for text in blocks for line in text.splitlines()} - {""}:
        assert left.count(line) == open_lines.count(line), line
    assert "SOLUTION" not in texts[f"{unit}.py"]


@pytest.mark.parametrize("unit", UNITS)
def test_contracts_are_the_same_in_stub_and_solution(unit: str, texts: dict[str, str]) -> None:
    solved = (ROOT / "solutions" / f"{unit}.py").read_text(encoding="utf-8")
    assert texts[f"{unit}.py"].count('"""') == solved.count('"""')
    assert solved.split("### BEGIN", 1)[0].rstrip() in texts[f"{unit}.py"]


def test_a_block_becomes_a_line_that_raises(course: Course) -> None:
    assert stubs.stub("attention", SOLVED, course) == SOLVED.replace(
        "    ### BEGIN SOLUTION\n    return secret(x)\n    ### END SOLUTION\n",
        '    # Your code here.\n    raise NotImplementedError("attention.self_attention")\n',
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def self_attention", "def helper", "line 8: this block is in no exercise"),
        ("LIMIT = 3\n", "### BEGIN SOLUTION\nLIMIT = 3\n### END SOLUTION\n", "line 3: this block"),
        ("    ### END SOLUTION\n", "", "the last block has no `### END SOLUTION`"),
        ("    ### BEGIN SOLUTION\n", "", "line 9"),
        ("### BEGIN SOLUTION", "### BEGIN SOLUTION\n    ### BEGIN SOLUTION", "line 9"),
        ("### END SOLUTION", "### END  SOLUTION", "line 10"),
        ("### BEGIN SOLUTION", "# begin solution", "line 8"),
        ("### BEGIN SOLUTION", "### BEGIN SOLUTION here", "line 8"),
    ],
    ids=["in no exercise", "in no definition", "without an end", "without a beginning",
         "twice begun", "mistyped end", "mistyped beginning", "not alone"],
)  # fmt: skip
def test_a_block_that_cannot_be_cut_out_is_an_error(
    course: Course, old: str, new: str, words: str
) -> None:
    assert old in SOLVED
    with pytest.raises(ValueError, match=rf"solutions/attention\.py.*{words}"):
        stubs.stub("attention", SOLVED.replace(old, new), course)


def test_write_touches_only_what_has_changed(course: Course, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert len(stubs.write(tmp_path, course, kept)) == len(UNITS) + 1
    (tmp_path / "masks.py").write_text("x = 1")
    assert stubs.write(tmp_path, course, kept) == [tmp_path / "masks.py"]
    assert [path.read_text() for path in kept.glob("*/masks.py")] == ["x = 1"]
    assert stubs.write(tmp_path, course, kept) == []
    assert b"\r" not in (tmp_path / "masks.py").read_bytes()
