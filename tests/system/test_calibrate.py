"""Tolerances are measured where they are used; one that is too narrow or too wide is reported."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from grader import calibrate, cli, commands
from grader.course import Course
from grader.judge import bank, expect, tolerance
from grader.judge.calibration import Calibration, Evidence
from grader.judge.expect import measured
from grader.judge.prove import Bench
from grader.judge.reference import Live, Reference
from grader.judge.suite import Suite, collect, suite_files
from grader.model import Submission
from grader.subject.faults import Failure
from grader.subject.host import Host
from grader.subject.proxy import Subject

SOFTMAX = "attention.stable_softmax"
FLOAT64 = torch.float64
ONES = torch.ones(3, dtype=FLOAT64)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """As the command line has it: on a busy machine, threads wait for each other for minutes."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


@pytest.fixture(scope="module")
def suite() -> Suite:
    return collect(suite_files(["attention"]))


@pytest.fixture
def softmax(course: Course, suite: Suite) -> Calibration:
    """Of one exercise, with two of its mistakes: one in plain sight, one that is a close thing."""
    calibration = Calibration(course, suite, [SOFTMAX])
    few = {"softmax-base-2", "softmax-sum-loses-axis"}
    calibration.mistakes = [m for m in calibration.mistakes if m.id in few]
    assert len(calibration.mistakes) == 2
    return calibration


def spoiled(calibration: Calibration, find: str, put: str) -> Submission:
    """The reference with a text replaced."""
    solution = calibration.bench.solution
    text = solution.modules["attention"].text
    assert text.count(find) == 1
    return bank.edited(solution, "attention", text.replace(find, put), "attention/spoiled")


# What a comparison tells.


@pytest.mark.parametrize(
    ("judged", "seen"),
    [
        (lambda: expect(ONES + 1e-8).equals(ONES), (FLOAT64, 1e-6, 0.5e-8)),
        (lambda: expect(ONES + 1).equals(ONES), (FLOAT64, 1e-6, 0.5)),
        (lambda: expect(ONES + 0.2).equals(ONES, within=0.1), (FLOAT64, 0.1, 0.1)),
        (lambda: expect(ONES.float()).equals(0), (torch.float32, 2e-5, 1)),
        (lambda: expect(ONES).sums_to(4), (FLOAT64, 1e-5, 0.2)),
        (lambda: expect(ONES * math.nan).equals(ONES), (FLOAT64, 1e-6, math.inf)),
        (lambda: expect(ONES * math.inf).equals(ONES), (FLOAT64, 1e-6, math.inf)),
        (lambda: expect(ONES * math.inf).equals(ONES * math.inf), (FLOAT64, 1e-6, 0)),
        (lambda: expect(ONES + 1, where=ONES < 0).equals(ONES), None),
        (lambda: expect(ONES + 1).equals(ONES, within=0.0), None),
        (lambda: expect(ONES > 0).equals(ONES < 0), None),
        (lambda: expect(3).equals(4), None),
    ],
    ids=range(12),
)
def test_a_comparison_tells_how_far_apart_it_found_the_two(judged: Any, seen: Any) -> None:
    with measured() as comparisons:
        try:
            judged()
        except Failure:
            failed = True
        else:
            failed = False
    if seen is None:
        assert comparisons == []
        return
    [one] = comparisons
    assert (one.dtype, one.budget, one.distance) == (seen[0], *map(pytest.approx, seen[1:]))
    assert failed == (one.share > 1)


def test_nothing_is_kept_while_nobody_measures() -> None:
    with measured() as comparisons:
        pass
    expect(ONES).equals(ONES)
    assert comparisons == []


# The oracle.


def test_a_question_in_half_precision_is_answered_in_float64_and_rounded_once(
    course: Course, suite: Suite
) -> None:
    bench = Bench(course, suite)
    subject = Subject(course, Host(bench.solution, ["attention"]).perform)
    scores = (torch.arange(60.0).reshape(6, 10) / 7).half()
    answer = Reference(bench.answers).call(subject.attention.stable_softmax.on(scores, -1))
    assert answer.dtype == torch.float16
    assert torch.equal(answer, torch.softmax(scores.double(), -1).half())


def test_a_module_is_asked_in_float64_with_its_weights_as_rounded(course: Course) -> None:
    units = [unit.name for unit in course.units]
    host = Host(bank.solution(course), units)
    layer = Subject(course, host.perform).multihead.MultiHeadAttention(4, 1)
    weights = {name: torch.full(shape, 0.1, dtype=FLOAT64) for name, shape in {
        f"{linear}.{part}": (4, 4) if part == "weight" else (4,)
        for linear in ("w_q", "w_k", "w_v", "w_o") for part in ("weight", "bias")
    }.items()}  # fmt: skip
    x = torch.arange(12.0).reshape(1, 3, 4) / 3
    call = layer.load(weights).to(torch.float32).on(x, x, x)
    answer, _ = Reference(Live(Host(bank.solution(course), units))).call(call)
    rounded = {name: value.float().double() for name, value in weights.items()}
    exact, _ = layer.load(rounded)(x.double(), x.double(), x.double())
    assert answer.dtype == torch.float32
    assert torch.equal(answer, exact.float())


# What is measured.


def test_right_answers_lie_within_and_mistakes_beyond(softmax: Calibration) -> None:
    evidence = softmax.measure(0, with_mistakes=True)
    assert evidence.false_failures == list(calibrate.between(evidence)) == []
    assert {dtype for _, dtype in evidence.right} == {"float64", "float32", "float16"}
    assert evidence.nearest()[SOFTMAX, "float64"].who == "softmax-sum-loses-axis"
    assert all(sight.share > 1000 for sight in evidence.caught.values())


@pytest.mark.parametrize(
    ("budget", "words"),
    [(1e-17, "a budget is too narrow: "), (2.0, "is not caught at its clause")],
)
def test_a_budget_that_does_not_lie_between_is_a_hole(
    softmax: Calibration, monkeypatch: pytest.MonkeyPatch, budget: float, words: str
) -> None:
    for dtype in list(tolerance.BUDGETS):
        monkeypatch.setitem(tolerance.BUDGETS, dtype, budget)
    holes = list(calibrate.between(softmax.measure(0, with_mistakes=True)))
    assert any(words in hole for hole in holes)


def test_a_false_failure_is_told_with_what_it_takes_to_see_it_again(
    softmax: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = spoiled(softmax, "return exps / ", "return (1 + 1e-5) * exps / ")
    monkeypatch.setattr(softmax, "mixture", lambda number: off)
    evidence = softmax.measure(7, with_mistakes=False)
    told = evidence.false_failures[0]
    assert told.startswith(f"attention/spoiled fails {SOFTMAX}/")
    assert "with a budget of 1e-06" in told
    assert told.endswith(f"grader calibrate {SOFTMAX} --first 7 --secrets 1 --mistakes 0")
    assert any("too narrow" in hole for hole in calibrate.between(evidence))


def test_a_mistake_that_no_check_sees_is_a_hole(softmax: Calibration) -> None:
    [one, _] = softmax.mistakes
    harmless = dataclasses.replace(one, id="harmless", edits=(("return exps", "return 1 * exps"),))
    softmax.mistakes = [one, harmless]
    evidence = softmax.measure(3, with_mistakes=True)
    expected = "mistake harmless is not caught at its clause with secret 3"
    assert list(calibrate.between(evidence)) == [expected]


def test_what_a_device_gives_comes_home(course: Course, suite: Suite) -> None:
    bench = Bench(course, suite, device="cpu:0")  # a device by another name
    tried = list(bench.attempts(bench.solution, bench.checks([SOFTMAX])))
    assert tried
    assert [attempt.error for attempt in tried if attempt.error] == []


def test_a_mixture_takes_every_variant_in_turn(softmax: Calibration, course: Course) -> None:
    taken = {part for number in range(20) for part in softmax.mixture(number).id.split()}
    assert taken == {variant.id for variant in bank.variants(course)}
    assert set(softmax.mixture(0).modules) == {unit.name for unit in course.units}


def test_several_secrets_add_up_to_the_worst_of_each(softmax: Calibration) -> None:
    parts = [softmax.measure(secret, with_mistakes=True) for secret in range(2)]
    whole = Evidence()
    for part in parts:
        whole.add(part)
    key = SOFTMAX, "float64"
    assert whole.right[key] == max(part.right[key] for part in parts)
    assert whole.nearest()[key].share >= max(part.nearest()[key].share for part in parts) > 1
    assert whole.caught == {id: min(part.caught[id] for part in parts) for id in parts[0].caught}


# The table.

ROW = dict(zip(calibrate.COLUMNS, [SOFTMAX, "float64", "cpu", "1e-09", "1e-06", "reference",
                                   "0.1", "1e-06", "softmax-base-2"]))  # fmt: skip


def test_the_committed_table_shows_every_budget_between() -> None:
    committed = calibrate.read(calibrate.TABLE)
    assert committed
    for row in committed:
        assert float(row["spread"]) * calibrate.MARGIN <= float(row["spread_budget"]), row
        if row["nearest"]:
            assert float(row["nearest"]) >= calibrate.MARGIN * float(row["nearest_budget"]), row


def test_the_committed_table_is_in_order_and_of_this_course(course: Course, tmp_path: Path) -> None:
    committed = calibrate.read(calibrate.TABLE)
    path = tmp_path / "again.csv"
    calibrate.write(path, committed, course, [])
    assert path.read_bytes() == calibrate.TABLE.read_bytes()
    mistakes = {mistake.id for mistake in bank.mistakes(course)} | {""}
    assert {row["mistake"] for row in committed} <= mistakes


def test_one_secret_shows_what_the_committed_table_says(course: Course) -> None:
    """So that no exercise is without its rows: `grader calibrate --write` makes them."""
    suite = collect(suite_files())
    evidence = Calibration(course, suite, list(course.exercises)).measure(0, with_mistakes=False)
    committed = [row for row in calibrate.read(calibrate.TABLE) if row["device"] == "cpu"]
    holes = [*evidence.false_failures, *calibrate.between(evidence)]
    assert [*holes, *calibrate.stale(calibrate.rows(evidence, "cpu"), committed)] == []


def test_writing_replaces_what_was_measured_and_keeps_the_rest(
    course: Course, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    other = ROW | {"exercise": "positional.PositionalEncoding", "dtype": "float32"}
    gone = ROW | {"exercise": "attention.of_another_course"}
    calibrate.write(path, [other, ROW], course, [])
    assert calibrate.read(path) == [ROW, other]
    path.write_text(path.read_text() + ",".join(gone.values()) + "\n")
    on_cuda, half = ROW | {"device": "cuda"}, ROW | {"dtype": "float16"}
    calibrate.write(path, [on_cuda, half], course, [ROW])
    assert calibrate.read(path) == [on_cuda, half, other]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"spread": "9e-09"}, ""),  # another machine, other bits
        ({"nearest": "0.02"}, ""),
        ({"nearest": "", "nearest_budget": "", "mistake": ""}, ""),  # no mistakes were run
        ({"spread": "2e-08"}, "right answers come as far as 0.02 budgets"),
        ({"nearest": "0.009"}, "the nearest mistake is 9e+03 budgets off"),
        ({"dtype": "float32"}, "lacks a row: attention|has a row that nothing gives"),
    ],
)
def test_a_table_that_is_not_what_was_measured_is_stale(
    changes: dict[str, str], words: str
) -> None:
    holes = list(calibrate.stale([ROW | changes], [ROW]))
    assert bool(holes) == bool(words)
    for word in words.split("|"):
        assert any(word in hole for hole in holes) or not word


# The command.


def test_the_command_prints_the_figures_and_ends_with_1_at_a_hole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def one_process(calibration: Calibration, tasks: Any) -> Any:
        calibration.mistakes = calibration.mistakes[:2]
        return (calibration.measure(*task) for task in tasks)

    monkeypatch.setattr(calibrate, "_measured", one_process)
    monkeypatch.setattr(calibrate, "TABLE", tmp_path / "table.csv")
    asked = ["calibrate", SOFTMAX, "--secrets", "2", "--mistakes", "1"]
    assert cli.main(asked) == 1
    out = capsys.readouterr().out
    assert "2 secrets, 0 false failures" in out
    assert "1 secrets, 2 of 2 known mistakes caught with each" in out
    assert f"hole: table.csv lacks a row: {SOFTMAX}, float16, cpu" in out
    assert cli.main([*asked, "--write"]) == 0
    assert cli.main(asked) == 0
    assert capsys.readouterr().out.count("0 holes") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "nonsense"], "no device 'nonsense'"),
        (["--device", "cuda"], "no GPU here"),
        (["--write", "--mistakes", "0"], "Without --mistakes"),
    ],
)
def test_what_cannot_be_measured_is_said(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "cuda" in options and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert cli.main(["calibrate", *options]) == commands.TROUBLE
    assert words in capsys.readouterr().err
