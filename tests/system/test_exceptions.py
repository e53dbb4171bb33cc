"""What a check learns of an exception, and where one could mean two things."""

from __future__ import annotations

from typing import Any

import pytest

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
def check_heads(d_model, num_heads):
    raise ValueError(f"{num_heads} for {d_model}?")

def first_nonfinite(named_tensors):
    return dict(named_tensors)["it"]

def post_mortem():
    return ["left behind"]
"""


@pytest.fixture
def subject(course: Course, submit) -> Subject:
    return Subject(course, Host(submit(troubleshooting=STUDENT), ["troubleshooting"]).perform)


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
