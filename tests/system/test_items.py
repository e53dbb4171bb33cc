"""Item statistics and similarity, against definitions and published examples."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.report import items, similarity


def result(name: str, outcomes: dict[str, str], mistake: str | None = None) -> dict:
    checks = [
        {"id": id, "clause": 1, "title": id, "outcome": outcome, "message": "T\nH\nx", "frames": [],
         "mistake": mistake if outcome == "wrong_value" else None}
        for id, outcome in outcomes.items()
    ]  # fmt: skip
    points = float(all(c["outcome"] == "passed" for c in checks))
    clauses = [{"clause": 1, "points": points, "max_points": 1.0}]
    return {"submission": name, "status": "graded", "score": points, "max_score": 1.0,
            "exercises": [{"id": "u.f", "score": points, "max_score": 1.0, "clauses": clauses,
                           "checks": checks}]}  # fmt: skip


def by_matrix(rows: list[str]) -> list[items.Item]:
    """Items of a class whose outcomes are written as 1, 0 and - (not attempted)."""
    words = {"1": "passed", "0": "wrong_value", "-": "not_attempted"}
    results = [
        result(str(n), {f"c{k}": words[sign] for k, sign in enumerate(row)})
        for n, row in enumerate(rows)
    ]
    return tally(results).items()


def tally(results) -> items.Tally:
    found = items.Tally()
    for one in results:
        found.add(one)
    return found


def test_difficulty_is_the_share_of_those_who_tried() -> None:
    first, second = by_matrix(["11", "01", "-1", "01"])
    assert (first.tried, first.passed, first.difficulty) == (3, 1, 1 / 3)
    assert second.difficulty == 1


@given(st.integers(0, 10_000))
def test_discrimination_is_the_correlation_with_the_rest(seed) -> None:
    matrix = np.random.RandomState(seed).rand(12, 5) < 0.6
    found = by_matrix(["".join("01"[int(x)] for x in row) for row in matrix])
    for place, item in enumerate(found):
        x = matrix[:, place].astype(float)
        rest = matrix.sum(1) - x
        if x.std() and rest.std():
            assert item.discrimination == pytest.approx(np.corrcoef(x, rest)[0, 1])
            ones, zeros = rest[x == 1], rest[x == 0]  # the textbook's point-biserial
            p = x.mean()
            textbook = (ones.mean() - zeros.mean()) / rest.std() * (p * (1 - p)) ** 0.5
            assert item.discrimination == pytest.approx(textbook)
        else:
            assert item.discrimination is None


def test_a_check_that_the_weak_pass_is_below_zero() -> None:
    *_, doubtful = by_matrix(["1110", "1110", "1100", "0001", "0001"])
    assert doubtful.discrimination < -0.8
    assert doubtful.doubtful
    assert not any(item.doubtful for item in by_matrix(["10", "01", "11", "11", "11"]))


def test_a_mistake_counts_once_for_each_student() -> None:
    wrong = {"a": "wrong_value", "b": "wrong_value"}
    found = tally([result("x", wrong, "m"), result("y", wrong, "m"), result("z", wrong)]).mistakes()
    assert [(m.id, m.who, m.title, m.hint) for m in found] == [("m", ["x", "y"], "T", "H")]


def test_points_lost_leave_out_who_did_not_try() -> None:
    found = tally(
        [
            result("x", {"a": "wrong_value"}, "m"),
            result("y", {"a": "wrong_value"}),
            result("z", {"a": "not_attempted"}),
            result("w", {"a": "passed"}),
        ]
    ).lost()
    assert [(one.points, one.who, one.tried, one.unnamed) for one in found] == [
        (2.0, ["x", "y"], 3, 1)
    ]


@given(st.lists(st.floats(0, 100), min_size=2))
def test_quartiles_are_those_of_the_standard_library(values) -> None:
    expected = statistics.quantiles(values, method="inclusive")
    assert items.quartiles(values) == pytest.approx(tuple(expected))


# Similarity


def test_the_example_of_the_paper() -> None:
    """Schleimer, Wilkerson, Aiken 2003, figure 2."""
    hashes = [77, 74, 42, 17, 98, 50, 17, 98, 8, 88, 67, 39, 77, 74, 42, 17, 98]
    assert similarity.winnow(np.array(hashes, np.uint64), 4).tolist() == [17, 17, 8, 39, 17]


def code(seed: int, lines: int) -> str:
    """Some Python that says something else for each seed."""
    pick = random.Random(seed)
    signs = ["+", "-", "*", "/", "@", "%", "**", "//", "and", "or", "<", ">"]
    return "".join(
        f"{'if' if pick.random() < 0.2 else 'x ='} a {pick.choice(signs)}"
        f" (b {pick.choice(signs)} c)"
        f" {pick.choice(signs)} f(d{', e' * pick.randrange(3)})[{pick.choice(':0')}]\n"
        for _ in range(lines)
    )


@given(st.integers(0, 1000), st.integers(0, 9), st.integers(0, 9))
def test_a_common_passage_of_35_tokens_is_never_missed(seed, before, after) -> None:
    common = similarity.tokens(code(seed, 9))[: similarity.SURE]
    one = similarity.tokens(code(seed + 1001, before)) + common
    other = common + similarity.tokens(code(seed + 2002, after))
    kept = [set(similarity.winnow(similarity.hashes(t)).tolist()) for t in (one, other)]
    assert kept[0] & kept[1]


def test_names_comments_and_layout_make_no_difference() -> None:
    one = 'def f(x):\n    """Say what."""\n    # why\n    return x.softmax(-1) * 2.5\n'
    other = "def g( value ):\n  'other'\n  return value . log_softmax(\n     -3)*4\n"
    assert similarity.tokens(one) == similarity.tokens(other)


@pytest.mark.parametrize("text", ["'''never closed", "a = 'b", "\x00\ud800 (", "def (:", "`$?"])
def test_what_is_no_python_is_read_all_the_same(text) -> None:
    similarity.hashes(similarity.tokens(text * 30))


def prints(texts: dict[str, str], stub: str = "") -> dict[str, similarity.Hashes]:
    given = similarity.given([stub])
    return {name: similarity.fingerprint([text], given) for name, text in texts.items()}


def test_the_stub_is_taken_away() -> None:
    stub = code(1, 40)
    texts = {"a": stub + code(2, 12), "b": stub + code(3, 12), "c": stub}
    assert len(prints(texts, stub)["c"]) == 0
    for pair in similarity.pairs(prints(texts, stub)):  # what runs over the stub's end by a token
        assert max(pair.shares) < 0.05
    whole = similarity.pairs(prints(texts))
    assert len(whole) == 3
    assert min(max(pair.shares) for pair in whole) > 0.5


def test_what_few_have_weighs_more() -> None:
    usual, rare = code(1, 20), code(2, 20)
    texts = {f"s{n}": usual + code(100 + n, 10) for n in range(8)}
    texts |= {name: code(200 + n, 30) + rare for n, name in enumerate("xy")}
    first, *others = similarity.pairs(prints(texts))
    assert (first.one, first.other) == ("x", "y")
    assert others


def test_the_same_code_is_one_group() -> None:
    text = code(1, 20)
    texts = {"a": text, "b": f"# mine\n{text}", "c": code(2, 20), "d": ""}
    assert similarity.same(prints(texts)) == [["a", "b"]]


def test_pairs_by_blocks_are_those_of_one(monkeypatch) -> None:
    found = prints({n: code(int(n) // 2, 30) + code(9 + int(n), 9) for n in "012345"})
    whole = similarity.pairs(found)
    monkeypatch.setattr(similarity, "_BLOCK", 3)
    assert similarity.pairs(found) == whole
    assert whole
