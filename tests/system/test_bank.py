"""The bank of known mistakes applies, names what it breaks, and gives no line away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.course import Course, CourseError
from grader.judge import bank
from grader.judge.bank import Mistake

SOFTMAX = "attention.stable_softmax"
CODE = """
def stable_softmax(scores):
    scale = 1  # not in a block
    ### BEGIN SOLUTION
    scale = 2
    return scale * scores
    ### END SOLUTION


def self_attention(x):
    ### BEGIN SOLUTION
    scale = 2
    ### END SOLUTION
"""


@pytest.fixture(scope="module")
def mistakes(course: Course) -> list[Mistake]:
    return bank.mistakes(course)


def mistake(*edits: tuple[str, str], id: str = "slip", exercise: str = SOFTMAX) -> Mistake:
    return Mistake(id, exercise, 1, edits, "Title.", "Hint?")


def entry(**changes: object) -> str:
    """A file of the bank with one mistake."""
    fields: dict[str, object] = {
        "id": "slip", "exercise": SOFTMAX, "clause": 1, "find": "a", "replace": "b",
        "title": "Title.", "hint": "Hint?",
    }  # fmt: skip
    fields |= changes
    lines = [f"{key} = {value!r}" for key, value in fields.items() if value is not None]
    return "\n".join(["[[mistake]]", *lines, ""])


# The bank that there is.


def test_every_mistake_applies_and_compiles(course: Course, mistakes: list[Mistake]) -> None:
    solution = bank.solution(course)
    assert mistakes
    for known in mistakes:
        text = solution.modules[known.unit].text
        spoiled = known.apply(text)
        assert spoiled != text, known.id
        compile(spoiled, known.id, "exec", dont_inherit=True)


def test_ids_are_unique_and_in_kebab_case(mistakes: list[Mistake]) -> None:
    ids = [known.id for known in mistakes]
    assert sorted(ids) == sorted(set(ids))
    assert [id for id in ids if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id)] == []


def test_no_two_mistakes_are_the_same_edit(course: Course, mistakes: list[Mistake]) -> None:
    texts = {m.unit: bank.solution(course).modules[m.unit].text for m in mistakes}
    seen: dict[str, str] = {}
    for known in mistakes:
        other = seen.setdefault(known.apply(texts[known.unit]), known.id)
        assert other == known.id


def test_titles_and_hints_are_there(mistakes: list[Mistake]) -> None:
    for known in mistakes:
        assert known.title.strip().endswith("."), known.id
        assert known.hint.strip().endswith(("?", ".")), known.id
        assert known.title != known.hint, known.id
        for text in (known.title, known.hint):
            assert "{" not in text, f"{known.id}: braces would be filled in"


def test_no_hint_gives_the_line_away(course: Course, mistakes: list[Mistake]) -> None:
    """Neither a line that the edit takes away or puts there, nor the right part of one."""
    modules = bank.solution(course).modules
    for known in mistakes:
        text = modules[known.unit].text
        changed = set(text.splitlines()) ^ set(known.apply(text).splitlines())
        parts = [line for find, _ in known.edits for line in find.splitlines()]
        for line in (" ".join(line.split()) for line in [*changed, *parts]):
            if len(line) > 5 and not re.fullmatch(r"[\w. ]*", line):  # a mere word tells nothing
                assert line not in " ".join(known.hint.split()), known.id


# The machinery.


def test_an_edit_is_made_inside_the_exercises_own_block() -> None:
    spoiled = mistake(("scale = 2", "scale = 3"), ("return", "yield")).apply(CODE)
    assert spoiled.count("scale = 3") == spoiled.count("yield") == 1
    assert spoiled.index("scale = 3") < spoiled.index("def self_attention")
    assert spoiled.count("scale = 1") == spoiled.count("scale = 2") == 1


@pytest.mark.parametrize(
    ("find", "times"), [("scale", 2), ("nowhere", 0), ("not in a block", 0), ("x", 0)]
)
def test_an_edit_that_does_not_fit_once_names_the_mistake(find: str, times: int) -> None:
    with pytest.raises(CourseError, match="'slip'") as caught:
        mistake((find, "y")).apply(CODE)
    assert f"{times} times in the solution of {SOFTMAX}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (entry(hint=None), "hint"),
        (entry(title=None), "title"),
        (entry(find=None), "find"),
        (entry(replace=None), "replace"),
        (entry(more="x"), "more"),
        (entry(clause=99), "clause 99"),
        (entry(clause="1"), "clause"),
        (entry(exercise="attention.none"), "attention.none"),
        (entry(hint=""), "hint"),
        (entry() + entry(), "two mistakes"),
    ],
)  # fmt: skip
def test_a_fault_in_the_bank_is_named(
    course: Course, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "attention.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CourseError, match="'slip'") as caught:
        bank.mistakes(course, tmp_path)
    assert words in str(caught.value)


def test_a_file_that_is_not_toml_is_named(course: Course, tmp_path: Path) -> None:
    (tmp_path / "masks.toml").write_text("[[mistake]\n", encoding="utf-8")
    with pytest.raises(CourseError, match=r"masks\.toml"):
        bank.mistakes(course, tmp_path)


def test_several_edits(course: Course, tmp_path: Path) -> None:
    text = entry(find=None, replace=None, edits=[["a", "b"], ["c", "d"]])
    (tmp_path / "attention.toml").write_text(text, encoding="utf-8")
    assert bank.mistakes(course, tmp_path) == [mistake(("a", "b"), ("c", "d"))]


def test_every_variant_is_a_whole_submission(course: Course) -> None:
    for variant in bank.variants(course):
        unit, _, name = variant.id.partition("/")
        assert name
        assert set(variant.modules) == {unit.name for unit in course.units}
        compile(variant.modules[unit].text, variant.id, "exec", dont_inherit=True)
