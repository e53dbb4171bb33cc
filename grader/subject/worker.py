"""What a locked worker does: takes a submission and answers the judge's questions about it.

A fork serves one submission. A spawned worker may be told to leave one, and serve another.
"""

from __future__ import annotations

import contextlib
import gc
import io
import signal
import socket
import sys
import types
from collections import defaultdict
from typing import Any

from grader.model import Module, Submission
from grader.subject import across, devices
from grader.subject.faults import Fault
from grader.subject.host import Host
from grader.subject.leftovers import Before
from grader.subject.modules import Finish
from grader.subject.peer import Peer

LEAN = True  # the warm parent need not pay for gradcheck and optimizers: no operation uses them

_PRINTED_MOST = 8 << 10  # characters that are kept of what one check prints


def serve(end: socket.socket) -> None:
    """Serve until the judge hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what interrupts here is the student's own
    Worker(end).peer.serve()


def warm() -> None:
    """In the warm parent: pay for first uses, those of what `Host` does."""
    import torch

    from grader.subject.host import Watch

    with Watch():
        torch.ones(2).double().exp().sum()
    getattr(devices, "warm", lambda: None)()


class Worker:
    """The answers to the judge's questions.

    Args:
        end: the socket to the judge.
    """

    def __init__(self, end: socket.socket):
        self.peer = Peer(end, self.answer, self._borrow)
        self._host: Host | None = None
        self._before: Before | None = None  # how this process was before the first submission
        self._printed = Printed()
        sys.stdout = sys.stderr = self._printed
        sys.stdin = io.StringIO()

    def answer(self, question: dict[str, Any]) -> Any:
        """Open a submission, do operations of its host, or leave it."""
        if "open" in question:
            self._open(question)
            return None
        if "leave" in question:
            return self._leave()
        assert self._host is not None
        if "play" in question:
            return self._play(question["play"])
        answer = None
        for operation, arguments in question["do"]:
            if operation == "begin":
                self._printed.clear()
            answer = self._host.perform(operation, **arguments)
        return answer

    def _play(self, script: list[list[Any]]) -> list[Any]:
        """What each operation of a check gives: `[value]`, or a fault's three fields.

        It ends with the first fault that the check does not want.
        """
        assert self._host is not None
        self._printed.clear()
        answers: list[Any] = []
        for operation, arguments, wants_fault in script:
            try:
                answers.append([self._host.perform(operation, **arguments)])
            except Fault as fault:
                answers.append([fault.kind, dict(fault.detail), list(fault.frames)])
                if not wants_fault:
                    break
        return answers

    def _open(self, question: dict[str, Any]) -> None:
        if question["lasting"] and self._before is None:
            gc.freeze()  # the collector need not look at all this again and again
            self._before = Before()
            gc.freeze()
        modules = {name: Module(name, *fields) for name, fields in question["open"].items()}
        submission = Submission("", modules, tuple(question["strays"]))
        hung = set(question["hung"])

        def importing(unit: str) -> None:
            if unit in hung:
                raise Fault("hung", {"unit": unit})
            self.peer.ask({"importing": unit})

        finish = _finish(self.peer.ask, question["stand_ins"])
        device = question["device"]
        self._host = Host(submission, question["units"], importing, finish, device)

    def _leave(self) -> list[str]:
        """Forget the submission; what it has changed in this process."""
        self._host = None
        self._printed.clear()
        gc.collect()
        return self._before.changes() if self._before else []

    def _borrow(self, number: int) -> across.Lent:
        return across.Lent(self.peer.ask, {"lent": number})


class Printed(io.TextIOBase):
    """Keeps the beginning of what is printed; the descriptors lead nowhere."""

    def __init__(self) -> None:
        self._kept = ""

    def write(self, text: str) -> int:
        self._kept += text[: max(0, _PRINTED_MOST - len(self._kept))]
        return len(text)

    def writable(self) -> bool:
        return True

    def clear(self) -> None:
        self._kept = ""


def _finish(ask: across.Ask, stand_ins: list[dict[str, str]]) -> dict[str, Finish]:
    """What is done to each unit's module: stand-ins take the places of the exercises named."""
    by_unit: dict[str, list[dict[str, str]]] = defaultdict(list)
    for entry in stand_ins:
        by_unit[entry["exercise"].partition(".")[0]].append(entry)

    def finish(module: types.ModuleType, entries: list[dict[str, str]]) -> None:
        for entry in entries:
            exercise = entry["exercise"]
            _, name, *rest = exercise.split(".")
            if entry["kind"] == "function":
                setattr(module, name, across.function(ask, exercise))
            elif entry["kind"] == "module":
                setattr(module, name, across.module(ask, f"{module_unit(exercise)}.{name}"))
            elif entry["kind"] == "object":
                setattr(module, name, across.object_of(ask, exercise, entry["methods"].split()))
            else:
                with contextlib.suppress(AttributeError):  # no such class: nothing to follow
                    cls = getattr(module, name)
                    setattr(cls, rest[0], across.method(ask, exercise, cls))

    return {
        unit: (lambda module, entries=entries: finish(module, entries))  # type: ignore[misc]
        for unit, entries in by_unit.items()
    }


def module_unit(exercise: str) -> str:
    """The unit of an exercise's id."""
    return exercise.partition(".")[0]
