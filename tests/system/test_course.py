"""`course.toml`: the table loads, answers questions, and an error in it says where it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grader import course as courses
from grader.course import ROOT, Course, CourseError

ONE = """
schema = 1
title = "A course"
[[unit]]
name = "one"
title = "One"
why = "Because."
[[unit.exercise]]
name = "first"
points = [1, 2]
takes = { x = "..." }
returns = ["..."]
[[unit.exercise]]
name = "second"
needs = ["one.first"]
points = [3]
"""

ATTENTION = [
    "attention.stable_softmax",
    "attention.scaled_dot_product_attention",
    "attention.self_attention",
    "attention.cross_attention",
]


def read(tmp_path: Path, text: str) -> Course:
    path = tmp_path / "course.toml"
    path.write_text(text, encoding="utf-8")
    return courses.load(path)


def test_loads(tmp_path: Path) -> None:
    course = read(tmp_path, ONE)
    first, second = course.exercises.values()
    assert (first.id, first.points, first.max_score) == ("one.first", (1, 2), 3)
    assert (second.id, second.needs, second.max_score) == ("one.second", ("one.first",), 3)


def test_every_docstring_has_a_clause_for_each_points_entry(course: Course) -> None:
    written = {
        id: len(items)
        for unit in course.units
        for id, items in courses.clauses(ROOT / "solutions" / f"{unit.name}.py").items()
    }
    assert written == {id: len(e.points) for id, e in course.exercises.items()}


@pytest.mark.parametrize(
    ("targets", "chosen"),
    [
        (["attention"], ATTENTION),
        (["attention.self_attention"], ["attention.self_attention"]),
        (["stable_softmax"], ["attention.stable_softmax"]),
        (["split_heads"], ["multihead.MultiHeadAttention.split_heads"]),
        (["cross_attention", "attention.stable_softmax"], [ATTENTION[0], ATTENTION[3]]),
    ],
    ids=["unit", "exercise", "bare name", "bare name of a method", "several, in course order"],
)
def test_select(course: Course, targets: list[str], chosen: list[str]) -> None:
    assert course.select(targets) == chosen


def test_select_nothing_is_all(course: Course) -> None:
    assert course.select([]) == list(course.exercises)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("atention", "Did you mean: attention"),
        ("Stable_Softmaks", "Did you mean: stable_softmax"),
        ("multihead.MultiHeadAttention.split", "multihead.MultiHeadAttention.split_heads"),
        ("zzzz", f"The units are: {', '.join(unit.name for unit in courses.load().units)}."),
    ],
)
def test_select_unknown(course: Course, target: str, words: str) -> None:
    with pytest.raises(CourseError, match="no unit or exercise") as caught:
        course.select([target])
    assert repr(target) in str(caught.value)
    assert words in str(caught.value)


def test_closure_has_what_an_exercise_stands_on(course: Course) -> None:
    found = course.closure(["multihead.MultiHeadAttention.forward"])
    assert found == [
        "attention.scaled_dot_product_attention",
        "multihead.MultiHeadAttention",
        "multihead.MultiHeadAttention.split_heads",
        "multihead.MultiHeadAttention.forward",
    ]


def test_what_a_solution_imports_is_stood_on(course: Course) -> None:
    """Who asks what a change of a unit reaches, asks the table."""
    for unit in course.units:
        tree = ast.parse((ROOT / "solutions" / f"{unit.name}.py").read_text(encoding="utf-8"))
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level]
        for statement in imports:
            for alias in statement.names:
                reached = course.standing_on([f"{statement.module}.{alias.name}"])
                assert unit.name in {id.split(".")[0] for id in reached}, ast.unparse(statement)


def test_state_of_nested_and_repeated_classes(course: Course) -> None:
    layer = course.state_shapes("encoder.TransformerEncoderLayerSimple", {})
    assert layer["self_attn.w_q.weight"] == "d_model d_model"
    assert layer["feed_forward[1].weight"] == "d_model d_ff"
    whole = course.state_shapes("encoder.TransformerEncoder", {"num_layers": 2})
    repeated = {f"layers.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}
    assert whole == repeated | {
        "embedding.weight": "vocab_size d_model",
        "positional.pe": "1 max_len d_model",
    }


# What to change in ONE, and what the error must then name.
FAULTS = {
    "an exercise's unknown key": ("points = [3]", "points = [3]\nhint = 1", "one.second|hint"),
    "a unit's unknown key": ('why = "Because."', 'why = "Because."\nwyh = "?"', "one|wyh"),
    "an unknown key at the top": ("schema = 1", "schema = 1\ntitel = 1", "titel"),
    "an exercise without points": ("points = [3]", "", "one.second|points"),
    "a unit without why": ('why = "Because."', "", "one|why"),
    "a unit without a name": ('name = "one"', "", "unit|name"),
    "an exercise without a name": ('name = "second"', "", "one|name"),
    "no title": ('title = "A course"', "", "title"),
    "a need that stands later": ('name = "first"', 'name = "first"\nneeds = ["one.second"]',
                                 "one.first|one.second|before"),
    "a need that is nowhere": ("one.first", "one.none", "one.second|one.none"),
    "minutes that are a word": ("points = [3]", 'points = [3]\nminutes = "ten"',
                                "one.second|minutes must be a whole number|'ten'"),
    "points that are one number": ("points = [3]", "points = 3", "one.second|must be a list"),
    "points that are nothing": ("points = [3]", "points = [0]", "one.second|points must|above 0"),
    "points that are infinite": ("points = [3]", "points = [inf]", "one.second|points must be"),
    "needs that are a text": ('needs = ["one.first"]', 'needs = "one.first"',
                              "one.second|needs must be a list of texts"),
    "shapes that are numbers": ('takes = { x = "..." }', "takes = { x = 3 }",
                                "one.first|takes must be a table of texts"),
    "two of one name": ('name = "second"', 'name = "first"', "one.first|twice"),
    "not TOML": ("[[unit]]", "[[unit]", "line 4"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(tmp_path: Path, fault: str) -> None:
    old, new, words = FAULTS[fault]
    assert old in ONE
    with pytest.raises(CourseError) as caught:
        read(tmp_path, ONE.replace(old, new, 1))
    for word in ["course.toml", *words.split("|")]:
        assert word in str(caught.value)
