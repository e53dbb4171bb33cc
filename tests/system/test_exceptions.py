"""What a check learns of an exception, and where one could mean two things."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import torch

from grader.course import Course
from grader.model import Outcome
from grader.subject import verdicts
from grader.subject.faults import Failure, Fault
from grader.subject.host import Host
from grader.subject.proxy import Subject

MISSING_KERNEL = "\"abs_cpu\" not implemented for 'Bool'"


def raised(kind: str, text: str) -> Failure:
    detail = {"types": [kind, "RuntimeError", "Exception"], "text": text}
    return verdicts.of(Fault("raised", detail))


@pytest.mark.parametrize("text", ["", "attention.stable_softmax", "multihead.A.split_heads"])
def test_a_stub_is_not_attempted(text: str) -> None:
    failure = raised("NotImplementedError", text)
    assert (failure.outcome, failure.standin) == (Outcome.NOT_ATTEMPTED, text)


def test_an_operator_that_torch_lacks_is_no_stub() -> None:
    failure = raised("NotImplementedError", MISSING_KERNEL)
    assert (failure.outcome, failure.standin) == (Outcome.RAISED, "")
    assert failure.message[0].args["text"] == MISSING_KERNEL


STUDENT = """
import torch

def check_heads(d_model, num_heads):
    raise ValueError(f"{num_heads} for {d_model}?")

def first_nonfinite(named_tensors):
    return dict(named_tensors)["it"]

def post_mortem():
    return ["left behind"]

def causal_weights(scores):
    return torch.nested.nested_tensor([scores, scores[:1]], layout=torch.jagged)

def encoder_weights(scores, padding_mask):
    return scores.bfloat16()

def scaled_scores(query, key):
    escaped = []
    torch.func.vmap(lambda row: escaped.append(row * 1) or row.sum())(query)
    return escaped[0]
"""


@pytest.fixture
def subject(course: Course, submit) -> Subject:
    return Subject(course, Host(submit(troubleshooting=STUDENT), ["troubleshooting"]).perform)


@pytest.mark.parametrize("where", ["", "def check_heads(d_model, num_heads):\n    "])
def test_what_only_ctrl_c_raises_is_the_student_s_where_none_arrives(submit, where: str) -> None:
    call = {"target": ["troubleshooting", "check_heads"], "args": [8, 2], "kwargs": {}}
    submission = submit(troubleshooting=f"{where}raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        Host(submission, ["troubleshooting"]).perform("call", **call, forbidden=[])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        undisturbed = Host(submission, ["troubleshooting"])
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(Fault) as caught:
        undisturbed.perform("call", **call, forbidden=[])
    assert caught.value.detail["types"][0] == "KeyboardInterrupt"


def test_a_check_can_read_what_it_said(subject: Subject) -> None:
    with subject.raises("ValueError") as raised:
        subject.troubleshooting.check_heads(8, 3)
    assert raised.text == "3 for 8?"


# Returns that are no tensors.


@pytest.mark.parametrize("value", [None, ("it", (0,), "nan"), ()])
def test_a_tuple_or_none(subject: Subject, value: Any) -> None:
    assert subject.troubleshooting.first_nonfinite([("it", value)]) == value


@pytest.mark.parametrize("value", [["it"], "it", 0, False])
def test_neither_a_tuple_nor_none(subject: Subject, value: Any) -> None:
    with pytest.raises(Failure, match="expected tuple or None; found"):
        subject.troubleshooting.first_nonfinite([("it", value)])


def test_no_dict(subject: Subject) -> None:
    with pytest.raises(Failure, match="expected dict; found a list"):
        subject.troubleshooting.post_mortem()


@pytest.mark.parametrize("name", ["causal_weights", "scaled_scores"])
def test_a_tensor_that_has_no_numbers_is_the_students(subject: Subject, name: str) -> None:
    x = torch.ones(2, 2)
    arguments = (x,) if name == "causal_weights" else (x, x)
    with pytest.raises(Failure, match="What came back cannot be judged"):
        getattr(subject.troubleshooting, name)(*arguments)


def test_what_is_coarser_than_its_arguments_cannot_be_judged(subject: Subject) -> None:
    """Its tolerance would let through what in their precision is wrong."""
    scores = torch.ones(1, 1, 2, 2)
    for precise in (scores, scores.double()):
        with pytest.raises(Failure, match=r"expected dtype float\d+; found bfloat16") as caught:
            subject.troubleshooting.encoder_weights(precise, None)
        assert caught.value.outcome is Outcome.WRONG_DTYPE
    coarse = subject.troubleshooting.encoder_weights(scores.bfloat16(), None)
    assert coarse.dtype == torch.bfloat16


# Advice.

KEEPDIM, TURNED = "keepdim=True", ".transpose(-2, -1)"


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize(
    ("body", "there", "not_there"),
    [
        ("return scores @ scores.T", TURNED, KEEPDIM),
        ("return scores.exp() / scores.exp().sum(dim)", KEEPDIM, TURNED),
        ("total = scores.exp().sum(dim)\n    return scores / total", KEEPDIM, TURNED),
        ("return scores + torch.ones(7)", "Print both shapes.", KEEPDIM),
    ],
)
def test_sizes_that_differ(course: Course, submit, body: str, there: str, not_there: str) -> None:
    text = f"import torch\n\ndef stable_softmax(scores, dim=-1):\n    {body}\n"
    subject = Subject(course, Host(submit(attention=text), ["attention"]).perform)
    with pytest.raises(Failure) as caught:
        subject.attention.stable_softmax(torch.rand(2, 3, 4))
    assert there in caught.value.args[-1]
    assert not_there not in caught.value.args[-1]


@pytest.mark.parametrize(
    ("kind", "text", "advice"),
    [
        ("NameError", "name 'np' is not defined", "torch"),
        ("TypeError", "'torch.Size' object is not callable", "square brackets"),
        ("TypeError", "sqrt(): argument 'input' (position 1) must be Tensor, not int", "math.sqrt"),
        (
            "IndexError",
            "The shape of the mask [3, 4] at index 0 does not match the shape of the indexed ...",
            "`masked_fill`",
        ),
        ("SyntaxError", "invalid character '，' (U+FF0C)", "ASCII"),
        ("SyntaxError", "inconsistent use of tabs and spaces in indentation", "spaces alone"),
        (
            "SyntaxError",
            "from __future__ imports must occur at the beginning of the file",
            "below that line",
        ),
    ],
)
def test_what_beginners_meet(kind: str, text: str, advice: str) -> None:
    assert advice in raised(kind, text).args[-1]
