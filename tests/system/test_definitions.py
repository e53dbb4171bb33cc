"""Where exercises stand in a text, and what a verdict rests on."""

from __future__ import annotations

import pytest

from grader import definitions
from grader.course import ROOT, Course

TEXT = '''"""A module."""

import math

HELP = 1


@torch.no_grad()
def first(
    x: int,
) -> int:
    """It has

# what looks like the end of it
    """
    return x


class Second:
    """A class."""

    def inner(self):
        return 1

    def helper(self):
        return 2


def third():
    return 3
'''
NAMES = ("first", "Second", "Second.inner", "third", "fourth")


def test_spans_include_decorators_and_hold_whole_definitions() -> None:
    lines = TEXT.split("\n")
    found = definitions.spans(TEXT, NAMES)
    assert set(found) == set(NAMES) - {"fourth"}
    first, end = found["first"]
    assert (lines[first], lines[end - 1]) == ("@torch.no_grad()", "    return x")
    first, end = found["Second.inner"]
    assert (lines[first], lines[end - 1]) == ("    def inner(self):", "        return 1")


def test_a_text_that_python_cannot_read_is_taken_by_indentation() -> None:
    whole = TEXT.replace("# what looks", "    # what looks")  # a docstring at the margin misleads
    broken = whole.replace("return 1", "return (")
    with pytest.raises(SyntaxError):
        compile(broken, "", "exec")
    assert definitions.spans(broken, NAMES) == definitions.spans(whole, NAMES)


def test_pieces_are_the_whole_text_taken_apart() -> None:
    parts = definitions.pieces(TEXT, NAMES)
    assert "helper" in parts["Second"]
    assert "inner" not in parts["Second"]
    assert "HELP" in parts[""]
    lines = [line for part in parts.values() for line in part.split("\n")]
    assert sorted(lines) == sorted(TEXT.split("\n"))


@pytest.fixture(scope="module")
def texts(course: Course) -> dict[str, str]:
    folder = ROOT / "exercises"
    return {u.name: (folder / f"{u.name}.py").read_text(encoding="utf-8") for u in course.units}


def test_every_exercise_is_found_in_what_is_handed_out(course: Course, texts) -> None:
    for unit in course.units:
        names = definitions.names_of(course, unit.name)
        assert set(definitions.spans(texts[unit.name], names)) == set(names)


@pytest.mark.parametrize(
    ("id", "where", "rests"),
    [
        ("attention.self_attention", "def scaled_dot_product_attention(", True),  # by the table
        ("attention.self_attention", "def stable_softmax(", False),
        ("attention.self_attention", "import math", True),  # the module's own
        ("attention.self_attention", "def cross_attention(", False),  # a neighbour
        ("attention.stable_softmax", "def self_attention(", False),
        ("multihead.MultiHeadAttention.split_heads", "class MultiHeadAttention(", True),
    ],
)
def test_a_verdict_rests_on_what_the_exercise_stands_on(
    course: Course, texts, id: str, where: str, rests: bool
) -> None:
    before = definitions.digest(course, id, texts)
    other = {unit: text.replace(where, f"{where} # changed\n", 1) for unit, text in texts.items()}
    assert other != texts
    assert (definitions.digest(course, id, other) != before) == rests


def test_a_verdict_rests_on_what_the_code_calls(course: Course, texts) -> None:
    raises = 'raise NotImplementedError("attention.scaled_dot_product_attention")'
    calls = texts["attention"].replace(raises, "return stable_softmax(query)")
    calls = texts | {"attention": calls}
    changed = calls | {
        "attention": calls["attention"].replace("def stable_softmax(", "def stable_softmax( # !\n")
    }
    id = "attention.self_attention"
    assert definitions.digest(course, id, calls) != definitions.digest(course, id, changed)


def test_what_changed_is_named(course: Course, texts) -> None:
    raises = 'raise NotImplementedError("attention.stable_softmax")'
    other = texts | {"attention": texts["attention"].replace(raises, "return scores +")}
    assert definitions.changed(course, texts, other) == ["attention.stable_softmax"]
    without = {unit: text for unit, text in texts.items() if unit != "masks"}
    masks = [f"masks.{name}" for name in definitions.names_of(course, "masks")]
    assert definitions.changed(course, texts, without) == masks
