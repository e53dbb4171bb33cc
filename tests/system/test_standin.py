"""What stands in for a class whose instances remember: the judge is told all that was done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from grader.course import ROOT, Course
from grader.judge import bank, standin
from grader.judge.reference import Live
from grader.judge.suite import collect
from grader.subject.host import Host
from grader.subject.proxy import Subject

if sys.platform == "linux":
    from grader.subject.remote import RemoteHost
    from grader.subject.sandbox import JailError, Sandbox

CACHE = "efficiency.KVCache"
CACHED = "efficiency.cached_attention"
BROKEN = ("[self._keys, key]", "[key, self._keys]")
STAND_IN = {"exercise": CACHE, "kind": "object", "methods": "append reset"}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Any]:
    if sys.platform != "linux":
        pytest.skip("the sandbox needs Linux")
    try:
        with Sandbox() as sandbox:
            yield sandbox
    except JailError as problem:
        pytest.skip(str(problem))


def test_the_class_is_replaced_where_a_method_of_it_is_open(course: Course) -> None:
    assert standin.needed(course, CACHED, [f"{CACHE}.append"]) == [STAND_IN]
    assert standin.needed(course, CACHED, [CACHE, f"{CACHE}.append"]) == [STAND_IN]


def test_its_own_methods_cannot_be_followed(course: Course) -> None:
    assert standin.needed(course, f"{CACHE}.reset", [f"{CACHE}.append"]) is None


@pytest.mark.parametrize("followed", [False, True])
def test_what_stands_on_it_is_judged_by_itself(
    course: Course, sandbox: Any, followed: bool
) -> None:
    """Every check of it passes, although the student's own cache is broken."""
    units = [unit.name for unit in course.units]
    sound = bank.solution(course)
    text = sound.modules["efficiency"].text
    assert BROKEN[0] in text
    broken = bank.edited(sound, "efficiency", text.replace(*BROKEN), "broken")
    suite = collect([ROOT / "tests" / "public" / "test_efficiency.py"])
    host = RemoteHost(
        sandbox, broken, units, [STAND_IN] if followed else [], standin.answer if followed else None
    )
    answers = Live(Host(sound, units))
    subject = Subject(course, host.perform)
    checks = [check for check in suite.checks if check.exercise == CACHED]
    failed = [c.id for c in checks if suite.attempt(c, subject, answers)[0] is not None]
    host.close()
    assert checks
    assert bool(failed) is not followed, failed


def question(**changes: Any) -> dict[str, Any]:
    done = [["append", 2, []]]
    args = [{"place": 0}, {"place": 0}]
    asked = {
        "stand_in": CACHE, "init": [[], {}], "done": done, "args": args, "kwargs": {}, "state": {},
        "tensors": [torch.ones(1, 3, 2)],
    }  # fmt: skip
    return asked | changes


def test_an_attribute_can_be_asked_for() -> None:
    assert standin.answer(question(get="length")) == 3
    keys, values = standin.answer(question())
    assert keys.shape == values.shape == (1, 3, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"done": [["__init__", 0, []]]},
        {"done": [["append.__globals__.clear", 0, []]]},
        {"done": [["append", 2, []]] * 65, "args": [{"place": 0}] * 130},
        {"get": "_keys"},
        {"get": "__class__"},
        {"init": [[1], {}]},
    ],
    ids=["own", "dotted", "too many", "tensor", "class", "init"],
)
def test_hostile_questions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        standin.answer(question(**changes))
