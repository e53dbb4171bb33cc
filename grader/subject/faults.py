"""What can go wrong between a check and the student's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader.model import Message, Outcome


class Fault(Exception):
    """What the host reports instead of a value. Plain data, so that it crosses a wire.

    Attributes:
        kind: "raised", "signature", "missing", "no_unit", "forbidden", "device", "state" or "attribute".
        detail: what the message needs to say; depends on the kind.
        frames: the student's own lines, outermost first.
    """

    def __init__(self, kind: str, detail: Mapping[str, Any], frames: Sequence[str] = ()):
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail
        self.frames = tuple(frames)


class Failure(Exception):
    """A check's verdict against the student: an outcome, and the words that explain it.

    Attributes:
        found: the tensor that was judged, if one was: what a known mistake is recognised by.
        types: the class names of the student's exception, most special first.
        standin: the exercise that isn't attempted, where that is the reason.
    """

    def __init__(
        self,
        outcome: Outcome,
        *message: Message,
        frames: Sequence[str] = (),
        found: Any = None,
        types: Sequence[str] = (),
        standin: str = "",
    ):
        super().__init__(outcome.value, *(line.text.format(**line.args) for line in message))
        self.outcome = outcome
        self.message = message
        self.frames = tuple(frames)
        self.found = found
        self.types = tuple(types)
        self.standin = standin
