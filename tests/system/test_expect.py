"""`expect` passes what is right, says what is wrong in words that help, and survives rubbish."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge import expect
from grader.judge.diagnose import Signature
from grader.judge.expect import Expectation, begin, steps
from grader.model import Message, Outcome, say
from grader.report.language import Language
from grader.subject.faults import Failure, Ref
from grader.subject.verdicts import describe

NAN, INF = math.nan, math.inf
Judge = Callable[[Expectation], None]


def tensor(*values: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=dtype)


def verdict(judge: Judge, found: Any, where: Tensor | None = None) -> tuple[Outcome, list[str]]:
    """How the judged value fails, and in which words."""
    with pytest.raises(Failure) as caught:
        judge(expect(found, where))
    return caught.value.outcome, [line.text.format(**line.args) for line in caught.value.message]


def equals(expected: Any, within: float | None = None) -> Judge:
    return lambda e: e.equals(expected, within)


ROWS = tensor([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
SQUARE = tensor([1.0, 2.0], [3.0, 5.0])
FIRST = torch.tensor([[True], [False]])
CHOICES = ["left", "right"]


@pytest.mark.parametrize(
    ("judge", "found", "where"),
    [
        (equals(ROWS), ROWS + 1e-12, None),
        (equals(ROWS, 0.1), ROWS + 0.05, None),
        (equals(ROWS.float()), ROWS.float() + 1e-6, None),
        (equals(0), torch.zeros(2, 3), None),
        (equals(ROWS), tensor([1.0, 2.0, 3.0], [9.0, 9.0, 9.0]), FIRST),
        (equals(FIRST), FIRST, None),
        (equals(torch.arange(3)), torch.arange(3), None),
        (equals([1, "a"]), [1, "a"], None),
        (lambda e: e.differs_from(ROWS), ROWS + 1e-3, None),
        (lambda e: e.is_finite(), ROWS, None),
        (lambda e: e.is_finite(), tensor([1.0], [NAN]), FIRST),
        (lambda e: e.sums_to(1), torch.softmax(ROWS, -1), None),
        (lambda e: e.sums_to(1, dim=0), torch.softmax(ROWS, 0), None),
        (lambda e: e.sums_to(6), ROWS, torch.tensor([True, False])),
        (lambda e: e.has_dtype(torch.bool), FIRST, None),
        (lambda e: e.mentions(8, 16, "heads"), "16 heads, or 8", None),
        (lambda e: e.chooses("it", CHOICES), "right", None),
        (lambda e: e.chooses("it", CHOICES, "left"), "left", None),
    ],
)
def test_passes(judge: Judge, found: Any, where: Tensor | None) -> None:
    judge(expect(found, where))


FAILS: dict[str, tuple[Judge, Any, Outcome, list[str]]] = {
    "value": (
        equals(ROWS), ROWS + tensor([0, 0, 0], [0, 0.5, 0]), Outcome.WRONG_VALUE,
        ["expected 5 at [1, 1]; found 5.5 (1 of 6 entries differ)"],
    ),
    "close value": (
        equals(tensor(1.0, 2.0), 1e-9), tensor(1.0, 2.0 + 1e-8), Outcome.WRONG_VALUE,
        ["expected 2 at [1]; found 2.00000001 (1 of 2 entries differ)"],
    ),
    "shape": (
        equals(ROWS), ROWS.T, Outcome.WRONG_SHAPE, ["expected shape [2, 3]; found [3, 2]"],
    ),
    "integers": (
        equals(torch.arange(3)), torch.tensor([0, 1, 7]), Outcome.WRONG_VALUE,
        ["expected 2 at [2]; found 7 (1 of 3 entries differ)"],
    ),
    "plain data": (equals([1, 2]), [1, 3], Outcome.WRONG_VALUE, ["expected [1, 2]; found [1, 3]"]),
    "ratio": (
        equals(SQUARE), SQUARE / 8, Outcome.WRONG_VALUE,
        ["expected 1 at [0, 0]; found 0.125 (4 of 4 entries differ)",
         "Every entry is the expected one times 0.125 = 1/sqrt(64)."],
    ),
    "ratio above one": (
        equals(SQUARE), SQUARE * math.sqrt(6), Outcome.WRONG_VALUE,
        ["expected 1 at [0, 0]; found 2.44949 (4 of 4 entries differ)",
         "Every entry is the expected one times 2.44949 = sqrt(6)."],
    ),
    "ratio without a root": (
        equals(SQUARE), SQUARE * -0.3, Outcome.WRONG_VALUE,
        ["expected 1 at [0, 0]; found -0.3 (4 of 4 entries differ)",
         "Every entry is the expected one times -0.3."],
    ),
    "transposed": (
        equals(SQUARE), SQUARE.T, Outcome.WRONG_VALUE,
        ["expected 2 at [0, 1]; found 3 (2 of 4 entries differ)",
         "It is the expected matrix transposed."],
    ),
    "permuted": (
        equals(ROWS), ROWS.flip(0), Outcome.WRONG_VALUE,
        ["expected 1 at [0, 0]; found 4 (6 of 6 entries differ)",
         "All the right numbers are there, in the wrong places."],
    ),
    "exchanged": (
        equals(FIRST), ~FIRST, Outcome.WRONG_VALUE,
        ["expected True at [0, 0]; found False (2 of 2 entries differ)",
         "True and False are exchanged everywhere."],
    ),
    "NaN": (
        equals(ROWS), tensor([1, 2, 3], [4, NAN, 7]), Outcome.WRONG_VALUE,
        ["expected finite numbers; found nan at [1, 1] (1 of 6 entries)",
         "NaN is born of 0 / 0, inf / inf, inf - inf or 0 * inf."],
    ),
    "NaN found where inf is due": (
        equals(tensor(INF, 1.0)), tensor(NAN, 1.0), Outcome.WRONG_VALUE,
        ["expected inf at [0]; found nan (1 of 2 entries differ)"],
    ),
    "NaN found where NaN was before": (
        equals(tensor(NAN, 1.0)), tensor(NAN, 1.0), Outcome.WRONG_VALUE,
        ["expected finite numbers; found nan at [0] (1 of 2 entries)",
         "NaN is born of 0 / 0, inf / inf, inf - inf or 0 * inf."],
    ),
    "a word left out": (
        lambda e: e.mentions(8, 16, 8), "8 heads, or 160?", Outcome.WRONG_VALUE,
        ["expected it to name 8, 16; it says: 8 heads, or 160?"],
    ),
    "no choice": (
        lambda e: e.chooses("it", CHOICES), None, Outcome.NOT_ATTEMPTED,
        ["Nothing is chosen for it."],
    ),
    "a choice misspelt": (
        lambda e: e.chooses("it", CHOICES, "left"), "rigth", Outcome.WRONG_VALUE,
        ["For it, expected one of the list, such as 'right'; found 'rigth'"],
    ),
    "the wrong choice": (
        lambda e: e.chooses("it", CHOICES, "left"), "right", Outcome.WRONG_VALUE,
        ["With it, something else was wrong."],
    ),
    "the same": (
        lambda e: e.differs_from(ROWS), ROWS, Outcome.WRONG_VALUE,
        ["expected two different results; found the same one twice"],
    ),
    "not finite": (
        lambda e: e.is_finite(), tensor(1.0, -INF, NAN), Outcome.WRONG_VALUE,
        ["expected finite numbers; found -inf at [1] (2 of 3 entries)",
         "NaN is born of 0 / 0, inf / inf, inf - inf or 0 * inf."],
    ),
    "infinite": (
        lambda e: e.is_finite(), tensor(1.0, INF), Outcome.WRONG_VALUE,
        ["expected finite numbers; found inf at [1] (1 of 2 entries)"],
    ),
    "sum": (
        lambda e: e.sums_to(1), tensor([0.5, 0.5], [0.5, 0.25]), Outcome.WRONG_VALUE,
        ["expected the entries along dim -1 to sum to 1; those at [1] sum to 0.75"],
    ),
    "dtype": (
        lambda e: e.has_dtype(torch.bool), ROWS, Outcome.WRONG_DTYPE,
        ["expected dtype bool; found float64"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILS)
def test_fails_in_words(case: str) -> None:
    judge, found, outcome, words = FAILS[case]
    assert verdict(judge, found) == (outcome, words)


def test_only_the_entries_asked_about_are_judged() -> None:
    words = "expected 0 at [0, 1]; found 2 (2 of 4 entries differ)"
    where = torch.tensor([[False, True], [True, False]])
    assert verdict(equals(0), SQUARE, where) == (Outcome.WRONG_VALUE, [words])


class Liar(int):
    """A number that cannot be shown or compared."""

    def __repr__(self) -> str:
        raise ValueError

    def __eq__(self, other: object) -> bool:
        raise ValueError

    __hash__ = int.__hash__


RUBBISH: dict[str, Any] = {
    "a number of too many digits": 10**5000,
    "a number that lies": Liar(3),
    "a list of rubbish": [Liar(3), 10**5000, [[[[[[]]]]]], None],
    "None": None,
    "text": "rubbish",
    "number": 3,
    "NaN": NAN,
    "dict": {"a": 1},
    "list of tensors": [ROWS, ROWS],
    "tuple of tensors": (ROWS, ROWS),
    "object": Ref(0, "Liar", False),
    "0-dim": torch.tensor(7.0),
    "0-dim NaN": torch.tensor(NAN),
    "0-dim bool": torch.tensor(False),
    "other rank": torch.full((1, 1, 1, 1, 1), 7.0),
    "other shape": torch.full((5, 7), 7.0),
    "broadcastable shape": torch.full((1, 3), 7.0),
    "empty": torch.zeros(0),
    "empty rows": torch.zeros(2, 0),
    "integers": torch.full((2, 3), 7),
    "complex": torch.full((2, 3), 7j),
    "NaN everywhere": torch.full((2, 3), NAN),
    "huge": torch.full((2, 3), 1e308, dtype=torch.float64),
}
JUDGES: dict[str, tuple[Judge, Tensor | None]] = {
    "equals a tensor": (equals(ROWS), None),
    "equals a tensor somewhere": (equals(ROWS), ROWS > 2),
    "equals a tensor in some rows": (equals(ROWS), FIRST),
    "equals two numbers": (equals(tensor(1.0, 2.0)), None),
    "equals integers": (equals(torch.ones(2, 3, dtype=torch.int64)), None),
    "equals bools": (equals(torch.ones(2, 3, dtype=torch.bool)), None),
    "equals text": (equals("text"), None),
    "equals None": (equals([None]), None),
    "equals a list": (equals([1.0, 2.0]), None),
    "sums to": (lambda e: e.sums_to(1.0), None),
    "sums to along dim 1": (lambda e: e.sums_to(1.0, dim=1), None),
    "sums to in some rows": (lambda e: e.sums_to(1.0), FIRST[:, 0]),
    "has dtype": (lambda e: e.has_dtype(torch.float16), None),
}


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("kind", RUBBISH)
def test_rubbish_fails_and_never_raises_anything_else(kind: str, judge: str) -> None:
    function, where = JUDGES[judge]
    outcome, words = verdict(function, RUBBISH[kind], where)
    assert outcome in (Outcome.WRONG_VALUE, Outcome.WRONG_SHAPE, Outcome.WRONG_DTYPE)
    assert all(words)


@pytest.mark.parametrize("kind", RUBBISH)
@pytest.mark.parametrize("where", [None, FIRST, ROWS > 2], ids=["all", "rows", "some"])
@pytest.mark.parametrize(
    "judge",
    [lambda e: e.is_finite(), lambda e: e.differs_from(ROWS), equals(0)],
    ids=["finite", "differs", "equals"],
)
def test_rubbish_that_may_pass_raises_nothing_but_failures(
    kind: str, where: Tensor | None, judge: Judge
) -> None:
    with contextlib.suppress(Failure):
        judge(expect(RUBBISH[kind], where))
        assert isinstance(RUBBISH[kind], Tensor)


def test_a_failure_carries_the_tensor_that_was_judged() -> None:
    with pytest.raises(Failure) as caught:
        expect(ROWS).equals(SQUARE)
    assert caught.value.found is ROWS


def test_expectations_are_counted() -> None:
    begin()
    expect(1).equals(1)
    expect(ROWS).is_finite()
    assert steps() == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"),
        ("x" * 99, "str 'xxx"),
        (ROWS, "a tensor [2, 3]"),
        ((ROWS, 3), "a tuple of 2 (a tensor [2, 3], int 3)"),
        ([], "an empty list"),
        ((), "an empty tuple"),
        ([[[[1]]]], "a list of lists"),
        (Ref(0, "Thing", True), "an object of class Thing"),
        ((10**5000,), "a tuple of 1 (int (cannot be shown))"),
    ],
    ids=range(9),
)
def test_a_found_value_in_words(value: Any, words: str) -> None:
    assert str(describe(value)).startswith(words)
    assert len(str(describe(value))) < 60


def test_long_plain_data_is_cut() -> None:
    _, [words] = verdict(equals(1), ["x" * 50] * 50)
    assert len(words) < 200


@pytest.mark.parametrize(
    ("judge", "found"),
    [
        (equals([(0, 1)]), []),
        (equals({"a": 1}), {"a": 2}),
        (equals(64), 63),
        (equals("nan"), "inf"),
    ],
    ids=["list", "dict", "number", "text"],
)
def test_what_is_no_tensor_is_known_by_its_text(judge: Judge, found: Any) -> None:
    with pytest.raises(Failure) as caught:
        judge(expect(found))
    signature = Signature(1, "wrong_value", caught.value.found)
    assert signature.fits(Signature(1, "wrong_value", repr(found)))
    assert not signature.fits(Signature(1, "wrong_value", "another"))
    assert not signature.tells


def test_a_found_value_in_the_reader_s_language() -> None:
    words = say("expected a tensor; found {found}", found=describe((ROWS, 3)))
    kept = Message.from_json(json.loads(json.dumps(words.to_json())))
    assert kept == words
    assert Language("en").render(kept) == (
        "expected a tensor; found a tuple of 2 (a tensor [2, 3], int 3)"
    )
    assert " of " not in Language("zh").render(kept)
    assert "[2, 3]" in Language("zh").render(kept)
