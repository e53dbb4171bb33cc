"""Mechanical mutants: which there are, what becomes of each, and what may be written down."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import course as courses
from grader import forks, mutants
from grader.course import Course, CourseError
from grader.forks import Done, confine, in_forks
from grader.judge import bank, mutate
from grader.judge.mutate import Equivalent, Mutant
from grader.judge.suite import collect
from grader.mutants import Fate, Mutation, tally

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mutants run in forks"),
    # Python 3.12 and newer warn of torch's threads, none of which a fork uses.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

TABLE = """
schema = 1
title = "A tiny course"
[[unit]]
name = "tiny"
title = "Tiny"
why = "To try things out."
[[unit.exercise]]
name = "halve"
points = [1]
takes = { x = "..." }
returns = ["..."]
[[unit.exercise]]
name = "quarter"
needs = ["tiny.halve"]
points = [1]
takes = { x = "..." }
returns = ["..."]
"""

SOLUTION = '''
from __future__ import annotations

from torch import Tensor

UNUSED = 1 + 1


def halve(x: Tensor) -> Tensor:
    """1 / 2."""
    ### BEGIN SOLUTION
    left: int | None = 1
    while left > 0:
        x = x / 2
        left -= 1
    return x
    ### END SOLUTION


def quarter(x: Tensor) -> Tensor:
    """1 / 4."""
    ### BEGIN SOLUTION
    def twice(x: Tensor | None, *, function) -> Tensor | None:
        return -function(function(x))

    return twice(-x, function=halve)
    ### END SOLUTION
'''

SUITE = '''
from grader.judge import clause, expect

@clause("tiny.quarter", 1)
def test_quarter(subject, draw):
    """A quarter"""
    x = draw.tensor(3)
    expect(subject.tiny.quarter(x)).equals(x / 4)

@clause("tiny.halve", 1)
def test_shape(subject, draw):
    """A half has the shape of the whole"""
    subject.tiny.halve(draw.tensor(3))

@clause("tiny.halve", 1)
def test_halve(subject, draw):
    """A half"""
    x = draw.tensor(3)
    expect(subject.tiny.halve(x)).equals(x / 2)
'''


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Mutation]:
    """Makes a run over the tiny course, with some suite."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "course.toml").write_text(TABLE, encoding="utf-8")
    (folder / "tiny.py").write_text(SOLUTION, encoding="utf-8")

    def make(suite: str) -> Mutation:
        path = folder / f"test_tiny_{len(list(folder.iterdir()))}.py"  # pytest remembers files
        path.write_text(suite, encoding="utf-8")
        course = courses.load(folder / "course.toml")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bank, "SOLUTIONS", folder)
            return Mutation(course, collect([path]), list(course.exercises))

    return make


@pytest.fixture(scope="module")
def fates(tiny: Callable[[str], Mutation]) -> dict[Mutant, Fate]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mutants, "_LEAST_S", 1)
        return tiny(SUITE).run(lambda done: None, jobs=2)


def of(fates: dict[Mutant, Fate], after: str) -> Fate:
    """What became of the mutant that has this line."""
    (fate,) = [fate for mutant, fate in fates.items() if mutant.after.split() == after.split()]
    return fate


# Which there are.


def test_solutions_alone_are_changed(fates: dict[Mutant, Fate]) -> None:
    assert {mutant.before.strip() for mutant in fates} == {
        "left: int | None = 1",
        "while left > 0:",
        "x = x / 2",
        "left -= 1",
        "def twice(x: Tensor | None, *, function) -> Tensor | None:",  # the star is no product
        "return -function(function(x))",
        "return twice(-x, function=halve)",
    }


def test_annotations_are_left_alone(fates: dict[Mutant, Fate]) -> None:
    changed = [mutant.after for mutant in fates if "left:" in mutant.before]
    assert [after.split("=")[0].strip() for after in changed] == 2 * ["left: int | None"]


def test_every_mutant_is_another_program(fates: dict[Mutant, Fate]) -> None:
    programs = [mutant.program for mutant in fates]
    assert len({mutate.program(SOLUTION), *programs}) == 1 + len(programs)


def test_a_mutant_says_what_it_is(fates: dict[Mutant, Fate]) -> None:
    (mutant,) = [m for m in fates if "left != 0" in m.after]
    assert str(mutant) == (
        "  tiny.halve, solutions/tiny.py line 13: ReplaceComparisonOperator_Gt_NotEq\n"
        "    - while left > 0:\n"
        "    + while left != 0:"
    )


def test_exercises_that_were_not_chosen_are_left_alone(course: Course) -> None:
    unit = next(unit for unit in course.units if unit.name == "multihead")
    text = bank.solution(course).modules["multihead"].text
    for id in ("multihead.MultiHeadAttention", "multihead.MultiHeadAttention.forward"):
        made = mutate.mutants(unit, text, [id])
        assert {mutant.exercise for mutant in made} == {id}  # a method's is not its class's


# What becomes of each.


def test_the_first_check_that_notices_ends_it(fates: dict[Mutant, Fate]) -> None:
    assert of(fates, "x = x * 2").killer == "tiny.halve/1/test_halve"
    assert of(fates, "x = x >> 2").killer == "tiny.halve/1/test_shape"  # raises at once


def test_one_that_never_ends_is_ended(fates: dict[Mutant, Fate]) -> None:
    assert of(fates, "left -= 0").killer == "SIGXCPU"


def test_what_stands_on_an_exercise_notices_too(tiny: Callable[[str], Mutation]) -> None:
    run = tiny(SUITE.replace("equals(x / 2)", "is_finite()"))
    run.mutants = [mutant for mutant in run.mutants if mutant.after.strip() == "x = x * 2"]
    (fate,) = run.run(lambda done: None, jobs=1).values()
    assert fate.killer == "tiny.quarter/1/test_quarter"


def test_a_check_that_fails_by_our_own_fault_kills_nothing(
    tiny: Callable[[str], Mutation],
) -> None:
    run = tiny(SUITE.replace("expect(subject.tiny.halve(x)).equals(x / 2)", "1 / int(\n"
                             "        abs(subject.tiny.halve(x) - x / 2).sum() < 1)"))  # fmt: skip
    run.mutants = [mutant for mutant in run.mutants if mutant.after.strip() == "x = x * 2"]
    ((mutant, fate),) = run.run(lambda done: None, jobs=1).items()
    assert fate.killer == ""
    assert "ZeroDivisionError" in fate.fault
    row, holes = tally("tiny", SOLUTION, {mutant: fate}, [])
    assert row[:5] == ["tiny", "1", "0", "0", "0"]
    assert holes == [f"{fate.fault}\n{mutant}"]


def test_a_reference_that_fails_tells_nothing(tiny: Callable[[str], Mutation]) -> None:
    with pytest.raises(CourseError, match="The reference fails"):
        tiny(SUITE.replace("x / 2", "x / 3")).run(lambda done: None, jobs=1)


@pytest.mark.parametrize(("name", "tells"), [("SIGSEGV", True), ("SIGALRM", False)])
def test_an_alarm_tells_nothing_of_a_mutant(
    fates: dict[Mutant, Fate], name: str, tells: bool
) -> None:
    fate = Fate.of(Done(next(iter(fates)), None, name, 1.0))
    assert (fate.killer == name, name in fate.fault) == (tells, not tells)


# What may be written down.


def test_survivors_are_holes_unless_they_are_written_down(fates: dict[Mutant, Fate]) -> None:
    written = [
        Equivalent("tiny.halve", "left > 0", ("left != 0",), "It never falls below 0."),
        Equivalent("tiny.halve", "left -= 1", ("left -= 2",), "One turn is enough."),
        Equivalent("tiny.quarter", "None, *,", ("None, /,",), "No call tells them apart."),
    ]
    row, holes = tally("tiny", SOLUTION, fates, [])
    killed = len(fates) - len(written)
    assert row[:5] == ["tiny", str(len(fates)), str(killed), "0", "3"]
    for hole, one in zip(holes, written, strict=True):
        assert one.becomes[0] in " ".join(hole.split())
    row, holes = tally("tiny", SOLUTION, fates, written)
    assert row[:5] == ["tiny", str(len(fates)), str(killed), "3", "0"]
    assert holes == []


@pytest.mark.parametrize(
    ("find", "put", "words"),
    [
        ("left > 0", "left < 0", "tiny.halve/1/test_halve kills it"),
        ("left -= 1", "left -= 0", "SIGXCPU kills it"),
        ("left > 0", "left > -5", "no operator makes this mutant"),
        ("left > 0", "left >", "no Python"),
        ("x / 4", "x * 4", "stands 0 times"),
        ("left", "right", "stands 3 times"),
    ],
)
def test_what_no_longer_holds_is_a_hole(
    fates: dict[Mutant, Fate], find: str, put: str, words: str
) -> None:
    plain = tally("tiny", SOLUTION, fates, [])[1]
    stale = Equivalent("tiny.halve", find, (put,), "So it was once.")
    _, holes = tally("tiny", SOLUTION, fates, [stale])
    (hole,) = [hole for hole in holes if hole not in plain]
    assert words in hole
    assert "tiny.halve" in hole
    assert repr(find) in hole
    assert len(holes) == len(plain) + 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('find = "a"\n', "", "find"),
        ('becomes = ["b"]\n', "", "becomes"),
        ('["b"]', '"b"', "list"),
        ('["b"]', "[]", "list"),
        ('"Because."', '" "', "reason"),
        ("reason", "raison", "raison"),
        ("attention.stable_softmax", "masks.combine_masks", "masks.combine_masks"),
        ("[[equivalent]]", "[[equivalent]", "cannot be read"),
    ],
)
def test_a_fault_in_the_list_is_named(
    course: Course, tmp_path: Path, old: str, new: str, words: str
) -> None:
    entry = """
[[equivalent]]
exercise = "attention.stable_softmax"
find = "a"
becomes = ["b"]
reason = "Because."
"""
    path = tmp_path / "attention.toml"
    path.write_text(entry, encoding="utf-8")
    expected = Equivalent("attention.stable_softmax", "a", ("b",), "Because.")
    assert mutate.equivalents(course, tmp_path) == [expected]
    path.write_text(entry.replace(old, new), encoding="utf-8")
    with pytest.raises(CourseError, match=r"attention\.toml") as caught:
        mutate.equivalents(course, tmp_path)
    assert words in str(caught.value)


def test_a_file_of_no_unit_is_named(course: Course, tmp_path: Path) -> None:
    (tmp_path / "masques.toml").write_text("", encoding="utf-8")
    with pytest.raises(CourseError, match=r"masques\.toml"):
        mutate.equivalents(course, tmp_path)


# The command.


def test_the_command_fails_where_a_survivor_is_not_written_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mutants.run(["combine_masks"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"masks +13 +12 +1 +0 ", shown)
    assert "0 holes" in shown
    monkeypatch.setattr(mutate, "equivalents", lambda course: [])
    assert mutants.run(["combine_masks"]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"masks +13 +12 +0 +1 ", shown)
    assert "    + return keys * look_ahead_mask" in shown
    assert "1 holes" in shown


# Forks.


def test_forks_give_what_they_did_or_the_signal_that_ended_them() -> None:
    def work(item: int) -> int:
        if item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * 10

    done = {one.item: (one.given, one.signal) for one in in_forks(work, range(5), jobs=2)}
    assert done == {n: (n * 10, "") for n in (0, 1, 3, 4)} | {2: (None, "SIGKILL")}


def test_a_fault_of_our_own_in_a_fork_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="the work for 3"):
        list(in_forks(lambda item: 1 // (item - 3), [3], jobs=1))
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_fork_that_sleeps_or_wants_too_much_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_LOADED", 1)

    def work(item: str) -> str:
        confine(1)
        if item == "sleeper":
            time.sleep(60)
        try:
            return str(len(bytearray(4 << 30)))
        except MemoryError:
            return "refused"

    done = {one.item: (one.given, one.signal) for one in in_forks(work, ["sleeper", "eater"], 2)}
    assert done == {"sleeper": (None, "SIGALRM"), "eater": ("refused", "")}
