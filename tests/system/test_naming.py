"""A mistake is named where nothing contradicts it; two at once are never called a third."""

from __future__ import annotations

import pytest

from grader.model import CheckResult, Outcome, say
from grader.naming import named

PASSED, WRONG, RAISED = Outcome.PASSED, Outcome.WRONG_VALUE, Outcome.RAISED
TITLES = {id: (f"Title of {id}.", f"Hint of {id}?") for id in "abcd"}
TITLES["e"] = TITLES["d"]  # as good as the same


def checks(known: dict[str, str], *looks: str, weak: str = "", void: str = "") -> list[CheckResult]:
    """The checks 0, 1, 2, ... of an exercise.

    Args:
        known: mistake -> the numbers of the checks that it is known to fail.
        looks: what each check's failure looks like: the letters of the mistakes that fail in the
            same way, "?" for one that no known mistake gives, "!" before letters for an exception;
            "" where it passed.
        weak: numbers of checks that found what could come from anything.
        void: numbers of checks that count as passed.
    """
    found = []
    for number, look in enumerate(looks):
        alike = [letter for letter in look if letter in known]
        judged = [] if look.startswith("!") else alike
        outcome = RAISED if look.startswith("!") else WRONG
        found.append(
            CheckResult(
                str(number), "unit.exercise", 1, "It holds",
                outcome if look and str(number) not in void else PASSED,
                (say("expected 1; found 2"),),
                alike=alike,
                suspects={id: TITLES[id] for id in judged},
                found_in={id: list(known[id]) for id in judged},
                telling=bool(look) and str(number) not in weak,
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("known", "looks", "told"),
    [
        ({"a": "0"}, ["a", ""], "a-"),
        ({"a": "01"}, ["a", "a"], "aa"),
        ({"a": "01"}, ["a", ""], "--"),
        ({"a": "01"}, ["a", "?"], "--"),
        ({"a": "0", "b": "01"}, ["ab", ""], "a-"),
        ({"a": "0", "b": "01"}, ["ab", "b"], "bb"),
        ({"a": "01", "b": "01"}, ["ab", "ab"], "--"),
        ({"d": "01", "e": "01"}, ["de", "de"], "dd"),
        ({"a": "01", "b": "01"}, ["ab", "b"], "bb"),
        ({"a": "01"}, ["a", "!a"], "a-"),
        ({"a": "01"}, ["!a", "!a"], "--"),
        ({"a": "01"}, ["a", "!"], "--"),
    ],
    ids=["one check", "all its checks", "one of them passed", "one of them fails otherwise",
         "the other is out: its check passed", "the other is out: it does not explain enough",
         "two explain all", "two of one title", "one explains more", "an exception, too",
         "nothing was judged", "another exception"],
)  # fmt: skip
def test_one_mistake(known: dict[str, str], looks: list[str], told: str) -> None:
    assert [check.mistake or "-" for check in named(checks(known, *looks))] == list(told)


@pytest.mark.parametrize(
    ("known", "looks", "told"),
    [
        ({"a": "0", "b": "1"}, ["a", "b"], "ab"),
        ({"a": "0", "b": "12"}, ["a", "b", "b"], "-bb"),
        ({"a": "01", "b": "2"}, ["a", "a", "?"], "aa-"),
        ({"a": "0", "b": "12"}, ["a", "?", "?"], "---"),
        ({"a": "01", "b": "12"}, ["a", "?", "b"], "---"),
        ({"a": "01", "b": "02"}, ["ab", "a", "?"], "-a-"),
        ({"a": "01", "c": "03"}, ["ac", "a", "?", ""], "aa--"),
        ({"a": "01", "b": "23", "c": "03"}, ["ac", "a", "b", "?"], "-a--"),
        ({"d": "01", "e": "01"}, ["de", "de", "?"], "dd-"),
    ],
    ids=["each has its half", "less than half is not enough", "half and more, beside an unknown",
         "a third is not enough", "both where neither is itself", "another may give this as well",
         "the other is out: its check passed", "the other is not out: its check failed",
         "two of one title"],
)  # fmt: skip
def test_in_company(known: dict[str, str], looks: list[str], told: str) -> None:
    assert [check.mistake or "-" for check in named(checks(known, *looks))] == list(told)


def test_what_could_come_from_anything_is_enough_only_where_it_explains_all() -> None:
    known = {"a": "01", "b": "2"}
    assert [c.mistake for c in named(checks(known, "a", "a", "", weak="01"))] == ["a", "a", None]
    assert [c.mistake for c in named(checks(known, "a", "a", "?", weak="0"))] == [None, "a", None]


def test_a_check_that_is_void_clears_nobody() -> None:
    told = named(checks({"a": "01"}, "a", "a", void="1"))
    assert [check.mistake for check in told] == ["a", None]
    assert told[1].message == (say("expected 1; found 2"),)


def test_title_and_hint_come_first() -> None:
    check, other = named(checks({"a": "0"}, "a", ""))
    assert [line.text for line in check.message] == [*TITLES["a"], "expected 1; found 2"]
    assert [line.text for line in other.message] == ["expected 1; found 2"]
