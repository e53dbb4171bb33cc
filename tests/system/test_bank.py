"""The bank of known mistakes applies, names what it breaks, and gives no line away."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from grader import course as courses
from grader.course import Course, CourseError
from grader.judge import bank
from grader.judge.bank import SOLUTIONS, Mistake
from grader.judge.diagnose import Signature
from grader.judge.prove import Attempt, Bench
from grader.judge.reference import Recorded
from grader.judge.suite import Check, Suite, collect
from grader.model import Outcome, say
from grader.subject.faults import Failure
from grader.validate import HIDDEN, PUBLIC, Validation

CORE = "attention", "masks", "multihead", "positional", "encoder"

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


# The suites: what a check says, and what the bank has for each exercise.


@pytest.fixture(scope="module")
def suite() -> Suite:
    files = [*PUBLIC.glob("test_*.py"), *HIDDEN.glob("test_*.py")]
    return collect(sorted(files))


@pytest.fixture(scope="module")
def contracts(course: Course) -> dict[str, list[str]]:
    """Exercise -> its clauses."""
    return {
        id: clauses
        for unit in course.units
        for id, clauses in courses.clauses(SOLUTIONS / f"{unit.name}.py").items()
    }


def test_every_check_names_a_clause_that_there_is(suite: Suite, contracts) -> None:
    for check in suite.checks:
        assert 1 <= check.clause <= len(contracts[check.exercise]), check.id
        assert re.fullmatch(rf"{check.exercise}/{check.clause}/test_\S.*", check.id)


def test_every_clause_has_a_public_check_and_every_exercise_a_hidden_one(
    suite: Suite, contracts
) -> None:
    public = {(check.exercise, check.clause) for check in suite.checks if not check.hidden}
    clauses = {(id, n) for id, said in contracts.items() for n in range(1, len(said) + 1)}
    assert clauses - public == set()
    assert set(contracts) - {check.exercise for check in suite.checks if check.hidden} == set()


NUMERIC = r"\bexpect\(.+\.(equals|sums_to|chooses)\(|\bgive\("


def test_every_exercise_has_a_check_of_numbers(course: Course, suite: Suite) -> None:
    """One that compares values, not only shapes, types or what is raised."""
    numeric = {
        check.exercise
        for check in suite.checks
        if re.search(NUMERIC, inspect.getsource(check.function))
    }
    assert set(course.exercises) - numeric == set()


def test_every_exercise_has_mistakes_enough(course: Course, mistakes: list[Mistake]) -> None:
    known = Counter(mistake.exercise for mistake in mistakes)
    assert {id: known[id] for id in course.exercises if known[id] < 6} == {}


def test_every_exercise_has_variants_enough(course: Course) -> None:
    """Definitions of its own, no two alike: those that a variant takes from the reference don't
    count. Of the first five units, the exercises of substance have four.
    """
    few = {}
    for id, exercise in course.exercises.items():
        substance = id.split(".")[0] in CORE and exercise.minutes > 15
        written = _written(id)
        if len(set(written)) < (4 if substance else 3) or len(set(written)) < len(written):
            few[id] = f"{len(set(written))} of {len(written)}"
    assert few == {}
    core = [path for unit in CORE for path in (SOLUTIONS / "variants" / unit).glob("*.py")]
    assert len(core) >= 40


def _written(exercise: str) -> list[str]:
    """The exercise's definition in each variant that has one."""
    unit, *names = exercise.split(".")
    found = []
    for path in sorted((SOLUTIONS / "variants" / unit).glob("*.py")):
        node: ast.AST | None = ast.parse(path.read_text(encoding="utf-8"))
        for name in names:
            inside = [] if node is None else ast.iter_child_nodes(node)
            kinds = ast.FunctionDef, ast.ClassDef
            node = next((n for n in inside if isinstance(n, kinds) and n.name == name), None)
        if node is not None:
            found.append(ast.dump(node))
    return found


def test_every_variant_is_a_whole_submission(course: Course) -> None:
    for variant in bank.variants(course):
        unit, _, name = variant.id.partition("/")
        assert name
        assert set(variant.modules) == {unit.name for unit in course.units}
        compile(variant.modules[unit].text, variant.id, "exec", dont_inherit=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what a variant is warned of is its own
def test_the_recorded_answers_do_for_every_variant(course: Course) -> None:
    """Who rounds otherwise is asked the same questions as the reference."""
    bench = Bench(course, collect(sorted(PUBLIC.glob("test_*.py"))))
    bench.answers = Recorded(PUBLIC / "answers")
    for variant in bank.variants(course):
        unit = variant.id.split("/")[0]
        own = [id for id in course.exercises if id.split(".")[0] == unit]
        attempts = bench.attempts(variant, bench.checks(own))
        failed = {attempt.check.id: attempt.error for attempt in attempts if attempt.error}
        assert failed == {}, variant.id


def test_an_exercise_that_is_newer_than_a_variant_is_the_references(
    course: Course, tmp_path: Path
) -> None:
    (tmp_path / "masks").mkdir()
    text = "def create_padding_mask(token_ids, pad_id=0):\n    return ~(token_ids == pad_id)\n"
    (tmp_path / "masks" / "older.py").write_text(text, encoding="utf-8")
    (variant,) = bank.variants(course, tmp_path)
    module: dict[str, object] = {}
    exec(compile(variant.modules["masks"].text, "masks", "exec"), module)
    assert {"create_look_ahead_mask", "combine_masks"} <= module.keys()
    assert text in variant.modules["masks"].text


# What `validate` finds to be amiss with a bank.


def _attempts(*ends: object) -> list[Attempt]:
    """How checks of clause 1, 2, ... ended: on a tensor, with words, or with None: passed."""
    attempts = []
    for number, end in enumerate(ends, 1):
        check = Check(f"{SOFTMAX}/{number}/test_x", SOFTMAX, number, "Title", False, print, (), {})
        found = end if isinstance(end, torch.Tensor) else None
        signature = None if found is None else Signature(1, "wrong_value", found)
        outcome = Outcome.PASSED if end is None else Outcome.WRONG_VALUE
        error = None if end is None else Failure(outcome, say(str(end)), found=found)
        attempts.append(Attempt(check, outcome, signature, error))
    return attempts


@pytest.fixture
def validation(course: Course) -> Validation:
    return Validation(course, Suite([]))


def test_a_clause_that_nothing_breaks_is_a_hole(validation: Validation) -> None:
    validation._bites([_attempts(None, None, "words"), _attempts(None, torch.ones(2), None)])
    assert validation.holes == [f"{SOFTMAX} clause 1: no known mistake fails its checks"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([None, torch.ones(2)], [None, torch.ones(2) + 1e-9], True),
        ([None, torch.ones(2)], [None, torch.zeros(2)], False),
        ([None, torch.ones(2)], [torch.ones(2), None], False),
        (["words", torch.ones(2)], ["words", torch.ones(2)], True),
        (["words", torch.ones(2)], ["others", torch.ones(2)], False),
        (["words", torch.ones(2)], [torch.ones(2), torch.ones(2)], False),
    ],
)  # fmt: skip
def test_two_mistakes_that_are_one_are_a_hole(
    validation: Validation, one: list[object], other: list[object], same: bool
) -> None:
    pair = [mistake(id="one"), mistake(id="other")]
    validation._tells_apart(pair, {"one": _attempts(*one), "other": _attempts(*other)})
    words = f"mistakes one and other of {SOFTMAX} are the same under every check"
    assert validation.holes == [words] * same
