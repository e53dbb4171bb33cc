"""Whatever a worker answers, the verdict is about the student: never an exception of ours.

Each check meets the reference's own answers with something in them replaced: what no honest worker
would send, and the wire lets pass. An exception in the judge would leave a submission ungraded.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.course import Course
from grader.judge import bank
from grader.judge.diagnose import Signature
from grader.judge.reference import Live, Remembered
from grader.judge.suite import collect, suite_files
from grader.model import Outcome
from grader.subject import remote
from grader.subject.faults import KINDS, Failure, Fault, Ref
from grader.subject.host import Host
from grader.subject.proxy import Subject
from grader.subject.remote import RemoteHost
from grader.subject.script import Operation
from grader.subject.wire import WireError

pytestmark = pytest.mark.slow

ROUNDS = 8

LEAVES: list[Callable[[], Any]] = [
    lambda: None, lambda: True, lambda: -1, lambda: 10**30, lambda: 1.5, lambda: float("nan"),
    lambda: "", lambda: "{x}", list, tuple, dict, lambda: [[]], lambda: [True], lambda: ("a",),
    lambda: {"a": 1}, lambda: Ref(0, "A", True), lambda: torch.float32,
    lambda: torch.device("cuda"), lambda: torch.tensor(1.0), lambda: torch.tensor(True),
    lambda: torch.zeros(0), lambda: torch.zeros(0, 3), lambda: torch.zeros(1, 1, 1, 1, 1, 1, 1),
    lambda: torch.ones(2, 2, dtype=torch.complex64), lambda: torch.ones(3, dtype=torch.int64),
    lambda: torch.zeros(1).expand(1 << 12, 1 << 10),
]  # fmt: skip
TENSORS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x * float("nan"), lambda x: x * float("inf"), lambda x: x.to(torch.complex64),
    lambda x: x.nan_to_num(0, 0, 0).to(torch.int64), lambda x: x != 0, lambda x: x[..., None],
    lambda x: x[:0] if x.dim() else x, lambda x: x.half(), lambda x: x.float() * 1e30,
]  # fmt: skip


class Forger:
    """The host of a right submission, some of whose answers are replaced."""

    def __init__(self, host: Host, units: list[str], seed: int):
        self._host = host
        self._chance = random.Random(seed)
        self._judge = RemoteHost(None, None, units)  # type: ignore[arg-type]
        self.rate = 0.0

    def perform(self, operation: str, **arguments: Any) -> Any:
        answer: list[Any] = [self._host.perform(operation, **arguments)]
        if self._chance.random() < self.rate / 5:
            kind = self._chance.choice(list(KINDS))
            own = {name: self._plausible(is_a) for name, is_a in KINDS[kind].items()}
            answer = [kind, self._foreign() | own, self._chance.choice([list, *LEAVES])()]
        elif self._chance.random() < self.rate and answer[0] is not None:
            answer = [self._spoiled(answer[0])]
        try:
            found = self._judge._read(Operation(operation, arguments, False), answer)
        except WireError:
            raise Failure(Outcome.CRASHED) from None
        if isinstance(found, Fault):
            raise found
        return found

    def _plausible(self, is_a: type) -> Any:
        return "{0}\x1b" if is_a is str else self._chance.choice([["{0}"], [-5], []])

    def _foreign(self) -> dict[str, Any]:
        """What other kinds of fault tell, and of no type that they tell it in."""
        names = sorted({name for fields in KINDS.values() for name in fields} | {"importing"})
        return {name: self._chance.choice(LEAVES)() for name in self._chance.sample(names, 3)}

    def _spoiled(self, value: Any) -> Any:
        chance = self._chance
        if chance.random() < 0.4:
            return chance.choice(LEAVES)()
        if isinstance(value, Tensor):
            return chance.choice(TENSORS)(value)
        if isinstance(value, (list, tuple)) and value:
            items, place = list(value), chance.randrange(len(value))
            items[place : place + 1] = chance.choice([[], [self._spoiled(items[place])], items * 2])
            return type(value)(items)
        if isinstance(value, dict) and value:
            name = chance.choice(list(value))
            return {**value, name: self._spoiled(value[name])}
        return chance.choice(LEAVES)()


def test_little_is_kept_of_a_giant() -> None:
    """Of every check that failed, what was judged is kept until the submission is done."""
    giant = torch.rand(1 << 20)
    assert Signature(1, "wrong_shape", giant).kept() is None
    few = Signature(1, "wrong_shape", giant[:6])
    kept = few.kept()
    assert kept is not None
    assert kept.fits(few)
    assert kept.found is not None
    assert kept.found.untyped_storage().nbytes() == 24


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_gradient_is_of_its_arguments_dtype(dtype: torch.dtype) -> None:
    """A coarser one would be compared with the tolerance of a coarser dtype."""
    arguments = {"args": [torch.ones(3, dtype=torch.float64)], "inputs": [0], "parameters": []}
    answer = [torch.ones(3, dtype=dtype)]
    assert remote._FITS["vjp"](answer, arguments) is (dtype is torch.float64)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and a busy machine makes them wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_no_answer_makes_the_judge_fail(course: Course) -> None:
    units = [unit.name for unit in course.units]
    reference = bank.solution(course)
    suite = collect(suite_files(), "of the tests")
    answers = Remembered(Live(Host(reference, units)))
    forger = Forger(Host(reference, units), units, seed=0)
    ours, failed = set(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about complex numbers made real
        for check in suite.checks * ROUNDS:
            forger.rate = forger._chance.choice([0.1, 0.5, 1.0])
            error, signature = suite.attempt(check, Subject(course, forger.perform), answers)
            failed += error is not None
            if error is not None and not isinstance(error, Failure):
                ours.add((check.id, repr(error)))
            elif signature is not None:
                assert signature.tells in (True, False)
    assert not ours
    assert failed > 100 * ROUNDS, "else nothing was forged"
