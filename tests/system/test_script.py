"""Checks that are asked for at once: the same verdicts as in turn, and nothing given away."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.course import Course
from grader.judge import bank, scribe
from grader.judge.prove import rubbish
from grader.judge.reference import Live, Remembered
from grader.judge.suite import Check, Suite, collect, suite_files
from grader.model import Outcome, Submission
from grader.subject import wire
from grader.subject.faults import Failure
from grader.subject.host import Host
from grader.subject.peer import Peer, fault
from grader.subject.proxy import Subject
from grader.subject.remote import RemoteHost
from grader.subject.script import Replay, Script
from grader.subject.worker import Worker

Perform = Callable[..., Any]
SECRET = "of the tests"


class Judge:
    """The suites, what is right, and the scripts."""

    def __init__(self, course: Course):
        self.course = course
        self.units = [unit.name for unit in course.units]
        self.reference = bank.solution(course)
        self.suite = collect(suite_files(), SECRET)
        self.answers = Remembered(Live(self.host(self.reference)))
        self.scripts = self.write(self.suite, self.host(self.reference).perform)

    def host(self, submission: Submission) -> Host:
        return Host(submission, self.units)

    def write(self, suite: Suite, perform: Perform) -> dict[str, Script]:
        return scribe.write(self.course, suite, suite.checks, perform, self.answers)

    def script(self, function: Callable[..., None]) -> tuple[Check, Script | None]:
        """A check that does this, and its script."""
        check = Check("attention.self_attention/1/test", "attention.self_attention", 1, "",
                      False, function, ["draw", "reference", "subject"], {})  # fmt: skip
        found = self.write(Suite([check], SECRET), self.host(self.reference).perform)
        return check, found.get(check.id)

    def verdict(self, check: Check, perform: Perform) -> Any:
        return self.suite.run(check, Subject(self.course, perform), self.answers)


@pytest.fixture(scope="module")
def judge(course: Course) -> Judge:
    return Judge(course)


def played(script: Script, host: Host) -> list[Any]:
    """What a worker answers to a script, after a journey through the wire both ways."""
    worker = Worker.__new__(Worker)  # its own constructor takes over our output
    worker._host = host
    worker._printed = _Printed()
    question = parsed(script.packed).value
    answer = wire.pack(wire.Message("answer", script.number, worker.answer(question)), nothing)
    return [fault(g) if len(g) == 3 else g[0] for g in parsed(answer).value]


class _Printed:
    def clear(self) -> None: ...


def parsed(packed: bytes) -> wire.Message:
    head, _ = wire._PREFIX.unpack(packed[: wire._PREFIX.size])
    rest = memoryview(packed)[wire._PREFIX.size :]
    return wire.parse(wire.Raw(rest[:head], rest[head:]), nothing)


def nothing(anything: Any) -> Any:
    raise AssertionError("nothing is lent")


def test_most_checks_have_a_script(judge: Judge) -> None:
    """One without is asked in turn, which takes longer."""
    assert len(judge.scripts) > 0.9 * len(judge.suite.checks)


def told(scripts: dict[str, Script]) -> list[bytes]:
    return [script.packed for script in scripts.values()]


def test_no_script_holds_what_came_from_an_answer(judge: Judge) -> None:
    """Other answers, the same scripts, to the last bit."""
    host = judge.host(judge.reference)

    def otherwise(operation: str, **arguments: Any) -> Any:
        return nudged(host.perform(operation, **arguments))

    assert told(judge.write(judge.suite, otherwise)) == told(judge.scripts)


def nudged(value: Any) -> Any:
    """Another value that no check tells apart."""
    if isinstance(value, Tensor) and value.dtype == torch.float64:
        return value * (1 + 1e-12)
    if isinstance(value, (list, tuple)):
        return type(value)(nudged(item) for item in value)
    return value


def test_a_check_that_passes_an_answer_on_has_no_script(judge: Judge) -> None:
    def check(subject: Any, draw: Any, reference: Any) -> None:
        scores = draw.tensor(3, 4)
        subject.attention.stable_softmax(subject.attention.stable_softmax(scores) * 2)

    assert judge.script(check)[1] is None


def test_a_check_that_changes_what_it_has_asked_with_has_no_script(judge: Judge) -> None:
    def check(subject: Any, draw: Any, reference: Any) -> None:
        scores = draw.tensor(3, 4)
        subject.attention.stable_softmax(scores)
        scores[0] = 0
        subject.attention.stable_softmax(scores)

    assert judge.script(check)[1] is None


def test_a_check_that_leaves_its_script_is_noticed(judge: Judge) -> None:
    """What a check reads out of an answer, it may ask with; other answers, other questions."""

    def check(subject: Any, draw: Any, reference: Any) -> None:
        first = subject.attention.stable_softmax(draw.tensor(3, 4))
        subject.attention.stable_softmax(draw.tensor(3, 4, scale=float(first[0, 0])))

    made, script = judge.script(check)
    assert script is not None
    replay = Replay(script, played(script, judge.host(judge.reference)))
    judge.verdict(made, replay.perform)
    assert not replay.left
    answers = [None, (torch.full((3, 4), 0.25, dtype=torch.float64), []), None]
    replay = Replay(script, answers)
    judge.verdict(made, replay.perform)
    assert replay.left


def submissions(judge: Judge) -> list[Submission]:
    """Wrong ones of every kind: known mistakes, and rubbish."""
    mistaken = [
        bank.edited(judge.reference, m.unit, m.apply(judge.reference.modules[m.unit].text), m.id)
        for m in bank.mistakes(judge.course)[::24]
    ]
    bench = type("Bench", (), {"course": judge.course, "solution": judge.reference})()
    bad = [s for id in list(judge.course.exercises)[::3] for _, s in rubbish(bench, id)]
    return [*mistaken, *bad]


@pytest.mark.slow
def test_a_check_asked_at_once_ends_as_one_asked_in_turn(judge: Judge) -> None:
    failed, left = 0, set()
    for submission in submissions(judge):
        changed = [
            unit for unit in judge.units
            if submission.modules[unit].text != judge.reference.modules[unit].text
        ]  # fmt: skip
        at_once, in_turn = judge.host(submission), judge.host(submission)
        for check in judge.suite.checks:
            if check.exercise.split(".")[0] not in changed or check.id not in judge.scripts:
                continue
            replay = Replay(judge.scripts[check.id], played(judge.scripts[check.id], at_once))
            result, signature = judge.verdict(check, replay.perform)
            expected, known = judge.verdict(check, in_turn.perform)
            if replay.left:
                left.add(check.id)
                continue
            assert result == expected
            assert signature is None if known is None else signature.fits(known)
            failed += result.outcome is not Outcome.PASSED
    assert failed > 300
    assert len(left) < 10, left


GIVEN: dict[str, Any] = {
    "a number": 5,
    "nothing": None,
    "more than was asked": [[None]] * 9,
    "a bare value": [None],
    "two fields": [[1, 2]],
    "no value of a call": [[None], [5]],
    "changes to arguments that are not there": [[None], [[torch.ones(2), [7]]]],
    "no fault": [["shout", {}, []]],
}


@pytest.mark.parametrize("name", GIVEN)
def test_answers_of_the_wrong_form_end_the_worker(judge: Judge, name: str) -> None:
    check = next(c.id for c in judge.suite.checks if c.exercise == "attention.stable_softmax")
    script = judge.scripts[check]
    ours, theirs = socket.socketpair()
    fork = _Fork(ours)
    host = RemoteHost(SimpleNamespace(fork=lambda: fork, spawn=False, device="cpu"),
                      judge.reference, judge.units)  # type: ignore[arg-type]  # fmt: skip
    replies = iter([None, GIVEN[name]])
    peer = Peer(theirs, lambda question: next(replies), nothing)
    with theirs, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(peer.serve)
        with pytest.raises(Failure) as caught:
            host.read(script, host.play(script))
        assert caught.value.outcome is Outcome.CRASHED
        assert fork.killed
        serving.result(10)


class _Fork:
    """A worker that is not behind walls."""

    shared = False

    def __init__(self, end: socket.socket):
        self.socket = end
        self.killed = False

    def kill(self) -> None:
        self.killed = True
        self.socket.shutdown(socket.SHUT_RDWR)
