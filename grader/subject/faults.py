"""What can go wrong between a check and the student's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.model import Message, Outcome


@dataclass(frozen=True)
class Ref:
    """A name for an object that stays with the student's code."""

    number: int
    type_name: str
    is_module: bool


# What each kind of fault tells, and of which type that is.
KINDS: dict[str, dict[str, type]] = {
    "raised": {"types": list, "text": str},  # an exception: its class names, its text
    "signature": {"found": str, "takes": list},  # it cannot take the arguments of its contract
    "missing": {"where": str, "name": str, "near": list},  # no such name in a module or a class
    "not_callable": {"name": str, "type": str},
    "not_module": {"name": str, "type": str},  # a class that makes something else
    "no_unit": {"unit": str, "near": list},  # no such file
    "hung": {"unit": str},  # importing it has no end
    "shared": {"unit": str, "name": str},  # importing it changes what is everyone's; or, "", a call
    "attribute": {"name": str, "holder": str, "type": str},  # what ends at a holder of a type
    "state_shape": {"name": str, "found": list, "expected": list},
    "shape": {"found": list, "expected": list},
    "no_tensor": {"found": str},
    "strange": {"text": str},  # what came back cannot cross to the judge
    "too_large": {"text": str},  # it is more than may cross
    "forbidden": {"operators": list},
    "device": {"text": str},  # operands on different devices met
    "device_result": {"device": str},
}
# What a fault of any kind may tell besides: in the import of which unit it arose, and whether what
# raised takes sums or the like.
BESIDES: dict[str, type] = {"importing": str, "reduces": bool}


class Fault(Exception):
    """What the host reports instead of a value. Plain data, so that it crosses a wire.

    Attributes:
        kind: one of `KINDS`.
        detail: what the message needs to say; depends on the kind.
        frames: the student's own lines, outermost first.
    """

    def __init__(self, kind: str, detail: Mapping[str, Any], frames: Sequence[str] = ()):
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail
        self.frames = tuple(frames)

    def is_plausible(self) -> bool:
        """Has the detail of its kind: what comes through a wire may have anything."""
        fields = KINDS.get(self.kind)
        besides = {name: kind for name, kind in BESIDES.items() if name in self.detail}
        return fields is not None and all(
            _is_plausible(name, kind, self.detail.get(name))
            for name, kind in {**fields, **besides}.items()
        )


def _is_plausible(name: str, kind: type, value: Any) -> bool:
    if kind is not list or not isinstance(value, list):
        return kind is not list and isinstance(value, kind)
    numbers = name in ("found", "expected")
    plain = all(type(item) is (int if numbers else str) for item in value)
    plain = plain and not (numbers and max(map(abs, value), default=0) >> 63)
    return plain and bool(value or name not in ("types", "operators"))


class Failure(Exception):
    """A check's verdict against the student: an outcome, and the words that explain it.

    Attributes:
        found: what was judged, if anything was, plain data as text: what a known mistake is
            recognised by.
        types: the class names of the student's exception, most special first.
        text: what that exception said.
        picture: makes a picture of what was judged, where there is one; only who shows it calls.
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
        text: str = "",
        picture: Callable[[], dict[str, Any] | None] = lambda: None,
    ):
        super().__init__(outcome.value, *(line.text.format(**line.args) for line in message))
        self.outcome = outcome
        self.message = message
        self.frames = tuple(frames)
        self.found = found
        self.types = tuple(types)
        self.standin = standin
        self.text = text
        self.picture = picture
