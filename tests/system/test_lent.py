"""Functions of a check in the hands of the student's code: `decoder`, `attention_fn`, `fn`.

Every test runs through both bindings: in one process, as `grader check` does, and through a wire to
a worker behind walls, as `grader grade` does. They must not differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grader import course as courses
from grader.course import Course
from grader.judge import expect
from grader.judge.reference import Reference, Remembered, fingerprint
from grader.judge.suite import Answers
from grader.model import Outcome, Submission
from grader.subject.faults import Failure
from grader.subject.host import Host
from grader.subject.proxy import Subject

if sys.platform == "linux":
    from grader.subject.remote import RemoteHost
    from grader.subject.sandbox import JailError, Sandbox

TABLE = """
schema = 1
title = "A course"
[[unit]]
name = "lab"
title = "Lab"
why = "Because."
[[unit.exercise]]
name = "drive"
points = [1]
takes = { fn = "", x = "rows size" }
returns = ["any? size"]
[[unit.exercise]]
name = "count"
points = [1]
takes = { x = "..." }
returns = ["..."]
[[unit.exercise]]
name = "Store"
points = [1]
init = []
[[unit.exercise]]
name = "Store.put"
points = [1]
takes = { x = "..." }
[[unit.exercise]]
name = "Model"
points = [1]
init = ["size"]
takes = { x = "batch size" }
returns = ["batch size"]
state = { weight = "size size" }
dtype = "weights"
"""

STUDENT = """
import torch
from torch import nn

def drive(fn, x):
    return {body}

def count(x):
    return x + 1

class Store:
    def __init__(self):
        self.kept = 0

    def put(self, x):
        self.kept = self.kept + x

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, size))

    def forward(self, x):
        return x @ self.weight
"""
X = torch.arange(6.0, dtype=torch.float64).view(2, 3) / 4

Drive = Callable[..., Subject]  # from the body of `drive` to a subject


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Course:
    path = tmp_path_factory.mktemp("course") / "course.toml"
    path.write_text(TABLE, encoding="utf-8")
    return courses.load(path)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Any]:
    if sys.platform != "linux":
        pytest.skip("the sandbox needs Linux")
    try:
        with Sandbox() as sandbox:
            yield sandbox
    except JailError as problem:
        pytest.skip(str(problem))


@pytest.fixture(params=["here", "behind walls"])
def drive(request: pytest.FixtureRequest, table: Course, submit: Any) -> Iterator[Drive]:
    hosts: list[Any] = []

    def drive(body: str) -> Subject:
        submission: Submission = submit(lab=STUDENT.format(body=body))
        if request.param == "here":
            host: Any = Host(submission, ["lab"])
        else:
            walls = request.getfixturevalue("sandbox")
            host = RemoteHost(walls, submission, ["lab"], limit_s=5.0)
            hosts.append(host)
        subject = Subject(table, host.perform)
        subject.begin(0)
        return subject

    yield drive
    for host in hosts:
        host.close()


def test_it_is_called_in_the_judge(drive: Drive) -> None:
    seen: list[Tensor] = []

    def fn(x: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        seen.append(x)
        return scale * x, x.argmax(-1)

    found = drive("fn(x, scale=2.0)[0] + fn(x=x)[1][:, None]").lab.drive(fn, X)
    expect(found).equals(2 * X + 2)
    assert len(seen) == 2
    assert all(torch.equal(x, X) for x in seen)


def test_gradients_pass_through_it(drive: Drive) -> None:
    weight = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    subject = drive("3 * fn(x * x)")
    call = subject.lab.drive.on(lambda x: weight * x, X)
    gradient = subject.vjp(call, torch.ones_like(X), wrt=["x"])["x"]
    expect(gradient).equals(6 * weight * X)


def test_the_student_can_ask_for_gradients(drive: Drive) -> None:
    body = "torch.autograd.grad(fn(x.requires_grad_()).sum(), x)[0]"
    expect(drive(body).lab.drive(lambda x: x**3, X)).equals(3 * X**2)


@pytest.mark.parametrize(
    "body",
    [
        "torch.autograd.functional.jacobian(fn, x)",
        "torch.func.jacrev(fn)(x)",
        "torch.stack([torch.func.grad(lambda x: fn(x).flatten()[i])(x) for i in range(6)])",
        "torch.func.vmap(torch.func.vjp(fn, x)[1])(torch.eye(6).double().view(6, 3, 2))[0]",
    ],
    ids=["jacobian", "jacrev", "grad", "vjp"],
)
def test_all_derivatives_can_be_asked_for(drive: Drive, body: str) -> None:
    found = drive(f"({body}).reshape(-1, 3)").lab.drive(lambda x: (x**2).T, X)
    expected = torch.autograd.functional.jacobian(lambda x: (x**2).T, X)
    expect(found).equals(expected.reshape(-1, 3))


def test_a_batch_of_samples_can_be_mapped(drive: Drive) -> None:
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y, x.sum()

    body = "torch.func.vmap(fn, in_dims=(1, None))(x, x[:, 0])[0].T"
    expect(drive(body).lab.drive(fn, X)).equals(X * X[:, :1])


def test_a_constant_has_no_slope(drive: Drive) -> None:
    found = drive("torch.func.jacrev(fn)(x)[0]").lab.drive(lambda x: torch.ones(2), X)
    expect(found).equals(torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("torch.autograd.functional.jacobian(fn, x, vectorize=True)", "leave out `vectorize=True`"),
        ("torch.func.jacrev(torch.func.jacrev(fn))(x)", "first derivatives alone"),
    ],
)
def test_what_cannot_be_asked_for_is_said(drive: Drive, body: str, words: str) -> None:
    with pytest.raises(Failure, match=words):
        drive(body).lab.drive(lambda x: x**2, X)


@pytest.mark.parametrize("body", ["fn.eval()(x)", "fn.train().to(x.device)(x)", "fn.forward(x)"])
def test_it_passes_for_a_module(drive: Drive, body: str) -> None:
    expect(drive(body).lab.drive(lambda x: x + 1, X)).equals(X + 1)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("fn(x, x)", "TypeError: fn() takes 1 positional argument"),
        ("fn(x[:, :2])", "ValueError: not this one"),
        ("fn('x')", "RuntimeError: Odd: text"),
        ("fn.cell", "AttributeError: this function is only to be called; it has no `cell`"),
    ],
)
def test_what_it_raises_is_raised_in_the_students_code(drive: Drive, body: str, words: str) -> None:
    class Odd(Exception):
        pass

    def fn(x: Tensor) -> Tensor:
        if isinstance(x, str):
            raise Odd("text")
        if x.size(-1) != 3:
            raise ValueError("not this one")
        return x

    with pytest.raises(Failure) as caught:
        drive(body).lab.drive(fn, X)
    assert caught.value.outcome is Outcome.RAISED
    assert words in str(caught.value)
    assert caught.value.frames == (f"lab.py, line 6, in drive\n    return {body}",)


def test_in_the_gradient_too(drive: Drive) -> None:
    def fn(x: Tensor) -> Tensor:
        if x.requires_grad:
            raise ValueError("no gradient here")
        return x

    body = "torch.autograd.grad(fn(x.requires_grad_()).sum(), x)[0]"
    with pytest.raises(Failure, match="ValueError: no gradient here") as caught:
        drive(body).lab.drive(fn, X)
    assert caught.value.frames


CAUGHT = "attempt(fn, x)\n\ndef attempt(fn, x):\n    try:\n        fn(x)\n    except Exception:\n"


def test_a_verdict_in_it_is_the_verdict(drive: Drive) -> None:
    """Whatever the student's code makes of the exception that it meets."""

    def fn(x: Tensor) -> Tensor:
        expect(x).equals(X)
        return x

    for body in ("fn(x + 1)", CAUGHT + "        return fn(x)", CAUGHT + "        return x"):
        subject = drive(body.replace("fn(x)", "fn(x + 1)"))
        with pytest.raises(Failure) as caught:
            subject.lab.drive(fn, X)
        assert caught.value.outcome is Outcome.WRONG_VALUE
        assert "expected 0 at [0, 0]; found 1" in str(caught.value)
        subject.begin(0)  # and it is of this check alone
        expect(subject.lab.count(X)).equals(X + 1)


def test_it_may_call_the_students_code(drive: Drive) -> None:
    subject = drive("fn(x) + fn(2 * x)")
    expect(subject.lab.drive(lambda x: subject.lab.count(x), X)).equals(3 * X + 2)
    model = subject.lab.Model(3).load({"weight": 2 * torch.eye(3).double()})
    expect(subject.lab.drive(model, X)).equals(6 * X)
    with pytest.raises(Failure, match="expected shape"):
        subject.lab.drive(lambda x: expect(model(x)).equals(X[:1]), X)


def test_an_object_of_the_students_own_arrives_as_itself(drive: Drive) -> None:
    """One that is no module, too, and methods that return nothing are called for what they do."""
    subject = drive("fn.put(x) or fn.kept")
    store = subject.lab.Store()
    assert store.get("kept") == 0
    store.put(X)
    expect(subject.lab.drive(store, X)).equals(2 * X)
    expect(store.get("kept")).equals(2 * X)
    expect(subject.lab.drive(fn=subject.lab.Store(), x=X)).equals(X)


def test_an_axis_may_have_any_size(drive: Drive) -> None:
    subject = drive("fn(x)")
    for rows in (1, 5):
        subject.lab.drive(lambda x: torch.zeros(rows, 3), X)  # noqa: B023
    with pytest.raises(Failure, match=r"expected shape \[any\? size\] = \[\?, 3\]; found \[3, 2\]"):
        subject.lab.drive(lambda x: x.T, X)


def test_endless_calls_end(drive: Drive, request: pytest.FixtureRequest) -> None:
    if "here" in request.node.name:
        pytest.skip("the watchdog of `grader check` ends these")
    subject = drive("[fn(x) for _ in iter(int, 1)]")
    with pytest.raises(Failure) as caught:
        subject.lab.drive(lambda x: x, X)
    assert caught.value.outcome is Outcome.TIMEOUT


def test_too_much_is_refused(drive: Drive) -> None:
    with pytest.raises(Failure, match="ValueError: 131072 numbers"):
        drive("fn(torch.zeros(2 << 16))").lab.drive(lambda x: x, X)


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("fn(x) + fn(x * torch.ones_like(x))", None),
        ("fn(x) + torch.zeros(2, 3)", Outcome.WRONG_DEVICE),
        ("fn(x, torch.zeros(2, 3))", Outcome.WRONG_DEVICE),
        ("fn(x, torch.tensor(2.0))", None),
    ],
)
def test_on_the_accelerator(drive: Drive, body: str, outcome: Outcome | None) -> None:
    """What it gives is there too, and what it takes must be."""

    def fn(x: Tensor, factor: Any = 1.0) -> Tensor:
        return factor * x.log()

    subject = drive(body)
    call = subject.lab.drive.on(fn, X)
    if outcome is None:
        assert subject.on_accelerator(call)
        return
    with pytest.raises(Failure) as caught:
        subject.on_accelerator(call)
    assert caught.value.outcome is outcome


def test_operators_in_it_are_not_the_students(drive: Drive) -> None:
    subject = drive("fn(x)")
    subject.perform(
        "call", target=["lab", "drive"], args=(lambda x: x.exp(), X), kwargs={}, forbidden=("exp",)
    )
    with pytest.raises(Failure) as caught:
        subject.perform(
            "call", target=["lab", "drive"], args=(lambda x: x, X.exp()), kwargs={},
            forbidden=("mm", "detach", "clone", "alias", "_to_copy"),
        )  # fmt: skip
    assert caught.value.outcome is Outcome.FORBIDDEN_CALL


# What the reference is asked about them.


class Kept:
    """An answer of the reference, whose questions are kept."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def begin(self, check: str) -> None:
        pass

    def __call__(self, request: Any) -> Any:
        self.asked.append(request)
        return len(self.asked)


def scaled_by(factor: Tensor | float) -> Callable[[Tensor], Tensor]:
    log: list[Tensor] = []

    def scaled(x: Tensor) -> Tensor:
        log.append(x)
        return x * factor

    return scaled


def test_a_function_is_known_by_what_it_rests_on(drive: Drive) -> None:
    kept = Kept()
    answers: Answers = Remembered(kept)  # type: ignore[arg-type]
    answers.begin("check")
    subject, reference = drive("fn(x)"), Reference(answers)

    def ask(factor: Tensor | float) -> Any:
        call = subject.lab.drive.on(scaled_by(factor), X)
        call()  # which goes into its log
        return reference.call(call)

    one, two = torch.ones(3).double(), 2 * torch.ones(3).double()
    assert [ask(one), ask(two), ask(one.clone()), ask(2.0), ask(2.0)] == [1, 2, 1, 3, 3]


def test_what_has_no_lasting_name_is_refused() -> None:
    with pytest.raises(TypeError, match="a `def` or a `lambda`"):
        fingerprint({"fn": Kept()})


def test_a_recording_of_a_function_lasts(tmp_path: Path) -> None:
    """The same in another process: no address goes in."""
    assert fingerprint(scaled_by(2.0)) == fingerprint(scaled_by(2.0))
    assert fingerprint(scaled_by(2.0)) != fingerprint(scaled_by(3.0))
    assert fingerprint(lambda x: x) != fingerprint(scaled_by(2.0))
