"""Either end of the gap: asks, answers, and answers while it waits for an answer.

So calls nest. A check calls the student's function; that function may call one that the judge has
lent it; and that one may call the student's code again.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from typing import Any

from grader.subject import wire
from grader.subject.faults import BESIDES, KINDS, Fault
from grader.subject.wire import WireError

_NESTED_MOST = 32
_TEXT_MOST = 500  # characters of one text in a fault
_ITEMS_MOST = 40  # of one list in a fault: a class has no more bases, a tensor no more axes


class Peer:
    """One end of a socket.

    Args:
        end: a connected stream socket.
        answer: answers the other side's questions; may raise `Fault`, which crosses.
        borrow: makes something that can be called of the other side's lent callable, by number.
    """

    def __init__(
        self,
        end: socket.socket,
        answer: Callable[[Any], Any],
        borrow: Callable[[int], Any],
    ):
        self._end = end
        self._answer = answer
        self._borrow = borrow
        self._lent: list[Callable[..., Any]] = []
        self._asked = 0
        self._depth = 0

    def lend(self, function: Callable[..., Any]) -> int:
        """Give a callable that stays here a number."""
        if function not in self._lent:
            self._lent.append(function)
        return self._lent.index(function)

    def lent(self, number: int) -> Callable[..., Any]:
        """The callable of a number.

        Raises:
            WireError: nothing of that number was lent.
        """
        if not 0 <= number < len(self._lent):
            raise WireError(f"nothing was lent under {number}")
        return self._lent[number]

    def ask(self, question: Any, deadline: float = math.inf) -> Any:
        """Ask, and answer what is asked meanwhile, until the answer is there.

        Args:
            question: what the other side's ``answer`` understands.
            deadline: of `time.monotonic`.

        Raises:
            Fault: the other side's.
            TimeoutError, WireError: there will be no answer.
        """
        self._asked += 1
        number = self._asked
        self._send("ask", number, question, deadline)
        while True:
            raw = self._next(deadline)
            if raw is not None:
                return self.value(raw, number)

    def play(self, packed: bytes, deadline: float) -> wire.Raw:
        """Put a question that was packed beforehand; the answer as it came.

        Args:
            packed: by `wire.pack`, with a number of its own.
            deadline: of `time.monotonic`.

        Raises:
            TimeoutError, WireError: there will be no answer.
        """
        wire.push(self._end, packed, deadline)
        while True:
            raw = self._next(deadline)
            if raw is not None:
                return raw

    def value(self, raw: wire.Raw, number: int) -> Any:
        """What answers a question.

        Raises:
            Fault: the other side's.
            WireError: it is no answer to this question.
        """
        kind, about, value = wire.parse(raw, self._borrow)
        if about != number:
            raise WireError(f"it answers question {about}; {number} was asked")
        if kind == "answer":
            return value
        if kind == "fault":
            raise fault(value)
        raise WireError(f"an unknown kind {kind!r:.20}")

    def _next(self, deadline: float) -> wire.Raw | None:
        """Take one message: answer it, if it is a question."""
        raw = wire.pull(self._end, deadline)
        if not raw.asks:
            return raw
        _, about, value = wire.parse(raw, self._borrow)
        self._reply(about, value, deadline)
        return None

    def serve(self) -> None:
        """Answer until the other end is closed."""
        while True:
            try:
                kind, about, value = wire.receive(self._end, math.inf, self._borrow)
            except wire.WireClosed:
                return
            if kind != "ask":
                raise WireError("nothing was asked, and an answer came")
            self._reply(about, value, math.inf)

    def _reply(self, number: int, question: Any, deadline: float) -> None:
        if self._depth >= _NESTED_MOST:
            raise WireError("the two sides call each other without end")
        self._depth += 1
        try:
            kind, value = "answer", self._answer(question)
        except Fault as error:
            kind, value = "fault", [error.kind, dict(error.detail), list(error.frames)]
        finally:
            self._depth -= 1
        try:
            self._send(kind, number, value, deadline)
        except wire.WireClosed:
            raise
        except (WireError, MemoryError) as error:  # it cannot cross; nothing has been sent
            large = isinstance(error, (wire.TooLarge, MemoryError))
            told: list[Any] = ["too_large" if large else "strange", {"text": str(error)}, []]
            self._send("fault", number, told, deadline)

    def _send(self, kind: str, number: int, value: Any, deadline: float) -> None:
        wire.send(self._end, wire.Message(kind, number, value), self.lend, deadline)


def fault(value: Any) -> Fault:
    """A fault that came through a wire, if it is one: what its kind tells, and no more.

    Raises:
        WireError: it is not.
    """
    try:
        kind, detail, frames = value
        told = {*KINDS.get(kind, ()), *BESIDES}
        clean = {name: _clean(item) for name, item in dict(detail).items() if name in told}
        found = Fault(str(kind), clean, [wire.text(str(frame), 300) for frame in frames[:20]])
    except (ValueError, TypeError, LookupError, RuntimeError) as error:
        raise WireError(f"it is no fault: {error}") from None
    if not found.is_plausible():
        raise WireError(f"a fault {kind!r:.20} with a detail that is not its own")
    return found


def _clean(value: Any) -> Any:
    """Hostile text made harmless, in plain data."""
    if isinstance(value, str):
        return wire.text(value, _TEXT_MOST)
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value[:_ITEMS_MOST]]
    return value


def seconds_from_now(seconds: float) -> float:
    """A deadline."""
    return time.monotonic() + seconds
