"""From faults to outcomes: where an exception could mean two things."""

from __future__ import annotations

import pytest

from grader.model import Outcome
from grader.subject import verdicts
from grader.subject.faults import Failure, Fault

MISSING_KERNEL = "\"abs_cpu\" not implemented for 'Bool'"


def raised(kind: str, text: str) -> Failure:
    return verdicts.of(
        Fault("raised", {"types": [kind, "RuntimeError", "Exception"], "text": text})
    )


@pytest.mark.parametrize("text", ["", "attention.stable_softmax", "multihead.A.split_heads"])
def test_a_stub_is_not_attempted(text: str) -> None:
    failure = raised("NotImplementedError", text)
    assert (failure.outcome, failure.standin) == (Outcome.NOT_ATTEMPTED, text)


def test_an_operator_that_torch_lacks_is_no_stub() -> None:
    failure = raised("NotImplementedError", MISSING_KERNEL)
    assert (failure.outcome, failure.standin) == (Outcome.RAISED, "")
    assert failure.message[0].args["text"] == MISSING_KERNEL


def test_an_exceptions_text_is_kept() -> None:
    assert raised("ValueError", "8 or 16 heads would do").text == "8 or 16 heads would do"
