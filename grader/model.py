"""The data that crosses from one stage to the next. Frozen, plain, and free of torch."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

PRINTED_MOST = 2000  # characters of one check's output that are kept


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


_PHRASE = "phrase"  # in JSON, what is a Message among a Message's args


@dataclass(frozen=True)
class Message:
    """A sentence before translation: the English text, and what goes into its ``{braces}``."""

    text: str
    args: Mapping[str, Any] = field(default_factory=dict)  # a phrase among them is a Message, too

    def __str__(self) -> str:
        return self.text.format(**self.args) if self.args else self.text

    def to_json(self) -> dict[str, Any]:
        args = {
            name: {_PHRASE: value.to_json()} if isinstance(value, Message) else value
            for name, value in self.args.items()
        }
        return {"text": self.text, "args": args}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Message:
        args = {
            name: cls.from_json(value[_PHRASE])
            if isinstance(value, dict) and value.keys() == {_PHRASE}
            else value
            for name, value in data["args"].items()
        }
        return cls(data["text"], args)


def say(text: str, /, **args: Any) -> Message:
    """Make a `Message`; the catalogue extractor looks for this name.

    >>> say("expected {expected}", expected=3).text
    'expected {expected}'
    """
    return Message(text, args)


# Of the system's words, those that people meet; named here for the catalogue.
SYSTEM_SAYS = (
    say("No space left on device"),
    say("Disk quota exceeded"),
    say("Permission denied"),
    say("Read-only file system"),
    say("No such file or directory"),
    say("Is a directory"),
    say("Not a directory"),
    say("File is not a zip file"),
)


def what(error: BaseException, named: object = None) -> Message:
    """What an exception says; the system's words are translated where the catalogue has them.

    Args:
        error: the exception.
        named: a file that need not be named again.

    >>> str(what(PermissionError(13, "Permission denied", "attention.py")))
    'attention.py: Permission denied'
    """
    if isinstance(error, OSError) and error.strerror:
        words = Message(error.strerror)
        if error.filename is None or str(error.filename) == str(named):
            return words
        return say("{file}: {what}", file=str(error.filename), what=words)
    first: Any = error.args[0] if error.args else ""
    return first if isinstance(first, Message) else Message(str(error))


def listed(phrases: Sequence[Message]) -> Message:
    """Phrases with commas between them.

    >>> str(listed([say("one"), say("the other")]))
    'one, the other'
    """
    return _joined(", ", phrases)


def lines(sentences: Sequence[Message]) -> Message:
    """Sentences, each on a line of its own."""
    return _joined("\n", sentences)


def _joined(sign: str, phrases: Sequence[Message]) -> Message:
    args = {f"phrase_{number}": phrase for number, phrase in enumerate(phrases)}
    return Message(sign.join(f"{{{name}}}" for name in args), args)


@dataclass(frozen=True)
class Module:
    """One unit's source as the student wrote it."""

    unit: str
    text: str
    path: str  # what tracebacks show


CELL = "# %% "  # begins a notebook's cell in a module's text, as in jupytext's percent format


def place(lines: Sequence[str], line: int) -> str:
    """Where a line of a module is: "line 3", or "code cell 4, line 3" where it came from a cell.

    Args:
        lines: of the module's text.
        line: a number, from 1.
    """
    for above in range(min(line, len(lines)) - 1, -1, -1):
        if lines[above].startswith(CELL):
            return f"{lines[above][len(CELL) :].strip()}, line {line - above - 1}"
    return f"line {line}"


@dataclass(frozen=True)
class Submission:
    """What a student handed in, read but not run."""

    id: str
    modules: Mapping[str, Module]
    strays: tuple[str, ...] = ()  # names of Python files that are no unit
    notes: tuple[Message, ...] = ()
    passed_by: tuple[str, ...] = ()  # folders with modules of the same names
    unread: tuple[str, ...] = ()  # units whose file is there and cannot be read; notes say why

    @property
    def unreadable(self) -> bool:
        """Whether something was handed in, and nothing of it can be read."""
        return bool(self.unread) and self.modules.keys() <= set(self.unread)


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
    # What was expected and found, to be drawn: no part of what makes two failures alike
    picture: Mapping[str, Any] | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """What is not as by default: most checks pass, and have nothing more to say."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data = {name: value for name, value in data.items() if value}
        data["outcome"] = self.outcome.value
        if self.message:
            data["message"] = [line.to_json() for line in self.message]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CheckResult:
        given = dict(data)
        given["outcome"] = Outcome(given["outcome"])
        given["message"] = tuple(Message.from_json(line) for line in given.get("message", ()))
        given["frames"] = tuple(given.get("frames", ()))
        suspects = given.get("suspects", {})
        given["suspects"] = {id: tuple(words) for id, words in suspects.items()}
        return cls(**given)
