"""The data that crosses from one stage to the next. Frozen, plain, and free of torch."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class Outcome(str, enum.Enum):
    """How a check ended. All but the last are about the student's work; the last is our fault."""

    PASSED = "passed"
    WRONG_VALUE = "wrong_value"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_DEVICE = "wrong_device"
    RAISED = "raised"
    FORBIDDEN_CALL = "forbidden_call"
    NOT_ATTEMPTED = "not_attempted"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"
    BLOCKED = "blocked"
    GRADER_ERROR = "grader_error"


@dataclass(frozen=True)
class Message:
    """A sentence before translation: the English text, and what goes into its ``{braces}``."""

    text: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "args": dict(self.args)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Message:
        return cls(data["text"], data["args"])


def say(text: str, /, **args: Any) -> Message:
    """Make a `Message`; the catalogue extractor looks for this name.

    >>> say("expected {expected}", expected=3).text
    'expected {expected}'
    """
    return Message(text, args)


@dataclass(frozen=True)
class Module:
    """One unit's source as the student wrote it."""

    unit: str
    text: str
    path: str  # what tracebacks show


@dataclass(frozen=True)
class Submission:
    """What a student handed in, read but not run."""

    id: str
    modules: Mapping[str, Module]
    strays: tuple[str, ...] = ()  # names of Python files that are no unit
    notes: tuple[Message, ...] = ()
    passed_by: tuple[str, ...] = ()  # folders with modules of the same names


@dataclass(frozen=True)
class CheckResult:
    """What became of one check."""

    id: str
    exercise: str
    clause: int
    title: str
    outcome: Outcome
    message: tuple[Message, ...] = ()
    frames: tuple[str, ...] = ()
    mistake: str | None = None
    alike: Sequence[str] = ()  # the known mistakes that fail here in the same way
    # Of these, where a value was judged: id -> title, hint; and the checks that it is known to fail
    suspects: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    found_in: Mapping[str, Sequence[str]] = field(default_factory=dict)
    telling: bool = False  # that value is one that little else would give
    printed: str = ""

    def to_json(self) -> dict[str, Any]:
        data = dict(self.__dict__)
        data["outcome"] = self.outcome.value
        data["message"] = [line.to_json() for line in self.message]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CheckResult:
        fields = dict(data)
        fields["outcome"] = Outcome(fields["outcome"])
        fields["message"] = tuple(Message.from_json(line) for line in fields["message"])
        fields["frames"] = tuple(fields["frames"])
        fields["suspects"] = {id: tuple(words) for id, words in fields["suspects"].items()}
        return cls(**fields)
