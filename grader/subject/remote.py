"""The judge's end of a worker: does the operations of a host that lives behind walls.

A check that takes its worker down (a hang, a crash, nonsense on the wire) costs that check alone:
the next one begins in a fresh worker.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from grader.model import Outcome, Submission, say
from grader.subject import across, endings, kernel
from grader.subject.faults import Failure, Fault, Ref
from grader.subject.peer import Peer, fault
from grader.subject.sandbox import Fork, Sandbox
from grader.subject.script import Operation, Script
from grader.subject.wire import Raw, WireClosed, WireError

_MEMORY_MOST = 256 << 20  # bytes that answering one question of a worker may take: a few suffice

# {"exercise": id, "kind": "function" | "module" | "method" | "object", "methods": of an object}
StandIn = dict[str, str]


class RemoteHost:
    """A host behind walls; `perform` is that of `Host`.

    Args:
        sandbox: where forks come from.
        submission: what they serve.
        units: the names of the course's units.
        stand_ins: which exercises the judge stands in for.
        stand_in: answers a stand-in's calls.
        limit_s: seconds that one check may take.

    Attributes:
        broken: units whose import has failed, and those that lack a name which was imported.
        shared: the worker has served another submission before this one.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        submission: Submission,
        units: Iterable[str],
        stand_ins: Sequence[StandIn] = (),
        stand_in: Callable[[Mapping[str, Any]], Any] | None = None,
        limit_s: float = 10.0,
    ):
        self._sandbox = sandbox
        self.submission = submission
        self._units = list(units)
        self._stand_ins = list(stand_ins)
        self._stand_in = stand_in
        self._limit_s = limit_s
        self._fork: Fork | None = None
        self._peer: Peer
        self._deadline = 0.0
        self._waiting: list[list[Any]] = []
        self._importing = ""
        self._hung: set[str] = set()
        self.broken: set[str] = set()
        self.shared = False

    def perform(self, operation: str, **arguments: Any) -> Any:
        """Do one operation.

        One that gives nothing back waits, and crosses with the next one that does: half of a
        suite's operations load weights or set a mode.

        Raises:
            Fault: the student's code is at fault, in this operation or in one that waited.
            Failure: the worker is gone, or was ended.
        """
        if operation == "begin":
            self._begin()
        elif self._fork is None:  # the check goes on after its worker has gone
            raise Failure(Outcome.CRASHED, say("Its process had ended before."))
        if operation == "settle" and all(waiting == "begin" for waiting, _ in self._waiting):
            return None
        self._waiting.append([operation, arguments])
        if operation in _QUIET:
            return None
        todo, self._waiting = self._waiting, []
        answer = self._ask({"do": todo})
        if not _FITS.get(operation, _anything)(answer, arguments):
            self._crashed(WireError("an answer of the wrong form"))
        return answer

    def play(self, script: Script) -> Raw:
        """Ask for all that a check asks, at once; the answers as they came.

        Raises:
            Fault, Failure: as `perform`.
        """
        self._begin()
        with self._watched():
            return self._peer.play(script.packed, self._deadline)

    def read(self, script: Script, raw: Raw) -> list[Any]:
        """What each operation of a script gave; a fault where one was raised.

        Raises:
            Fault: the answers could not cross.
            Failure: they are no answers; the worker was ended.
        """
        with self._watched():
            given = self._peer.value(raw, script.number)
            if not isinstance(given, list) or len(given) > len(script.operations):
                raise WireError("answers of the wrong form")
            return [self._read(one, value) for one, value in zip(script.operations, given)]

    def _read(self, operation: Operation, given: Any) -> Any:
        if not isinstance(given, list) or len(given) not in (1, 3):
            raise WireError("an answer of the wrong form")
        if len(given) == 3:
            found = fault(given)
            self._note(found)
            return found
        fits = _FITS.get(operation.name, _anything)
        if not fits(given[0], operation.arguments):
            raise WireError("an answer of the wrong form")
        return given[0]

    def close(self) -> None:
        """End the worker."""
        if self._fork is not None:
            self._fork.kill()
            self._fork.socket.close()
            self._fork = None

    def hand_back(self) -> None:
        """Let the worker serve the next submission, if this one has left nothing behind; else end
        it. Forks are ended in any case: the next one costs nothing.

        The worker itself says what was left behind, so it could lie. The caller makes that useless:
        it hands back a worker only after a submission that passed everything, and believes of a
        `shared` worker only that its submission passes everything; else it asks a fresh one. So
        nothing that was left behind can cost anybody a point, or say anything to anybody.
        """
        if self._fork is not None and self._sandbox.spawn:
            self._deadline = time.monotonic() + self._limit_s
            with contextlib.suppress(Fault, Failure):
                left = self._ask({"leave": True})
                if isinstance(left, list) and not left:
                    self._fork.hand_back()
                    self._fork = None
        self.close()

    def _begin(self) -> None:
        """A check begins."""
        self._deadline = time.monotonic() + self._limit_s
        self._waiting.clear()
        if self._fork is None:
            self._open()

    def _open(self) -> None:
        self._fork = self._sandbox.fork()
        self.shared = self._fork.shared
        self._deadline = time.monotonic() + self._limit_s  # its birth took none of the student's
        self._peer = Peer(self._fork.socket, self._answer, self._borrow)
        modules = self.submission.modules.items()
        self._ask(
            {
                "open": {name: (module.text, module.path) for name, module in modules},
                "strays": list(self.submission.strays),
                "units": self._units,
                "hung": sorted(self._hung),
                "stand_ins": self._stand_ins,
                "lasting": self._sandbox.spawn,
                "device": self._sandbox.device,
            }
        )

    def _ask(self, question: dict[str, Any]) -> Any:
        with self._watched():
            return self._peer.ask(question, self._deadline)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """What the worker is asked within ends in a fault of the student's, or ends the worker."""
        try:
            yield
            self._importing = ""
        except Fault as found:
            self._note(found)
            self._importing = ""
            raise
        except TimeoutError:
            unit = self._end_import()
            self.close()
            if unit:
                self._hung.add(unit)
                text = endings.import_ran_on(unit)
            else:
                text = endings.ran_on(self._limit_s)
            raise Failure(Outcome.TIMEOUT, text) from None
        except WireError as error:
            self._crashed(error)

    def _note(self, found: Fault) -> None:
        units: list[Any] = [found.detail.get("importing")]
        if units[0] and found.kind == "missing":
            units.append(found.detail["where"].removesuffix(".py"))
        self.broken |= {unit for unit in units if self._is_unit(unit)}

    def _is_unit(self, name: Any) -> bool:
        return isinstance(name, str) and name in self._units

    def _end_import(self) -> str:
        """The unit in whose import the question failed, if it did."""
        unit, self._importing = self._importing, ""
        self.broken |= {unit} - {""}
        return unit

    def _crashed(self, error: WireError) -> None:
        self._end_import()
        fork = self._fork
        status = fork.exit_status(1.0) if fork and isinstance(error, WireClosed) else None
        self.close()
        if not isinstance(error, WireClosed):
            text = say("Its process sent something that is no answer.")
        elif status is not None and status < 0:
            text = say("Its process was ended by signal {signal}: a crash.", signal=-status)
        else:
            text = endings.VANISHED
        raise Failure(Outcome.CRASHED, text) from None

    def _answer(self, question: Any) -> Any:
        """What the worker asks meanwhile; hostile, like all that it says."""
        if not isinstance(question, dict):
            raise WireError("no question")
        if "importing" in question:  # "" when it is over
            unit = question["importing"]
            self._importing = unit if self._is_unit(unit) else ""
            return None
        try:
            with kernel.memory_left(_MEMORY_MOST):
                return self._lend(question)
        except (WireError, Fault):
            raise
        except Exception as error:  # called with what it cannot take: the student's doing
            raise WireError(f"a question that has no answer: {error}") from None

    def _lend(self, question: Mapping[str, Any]) -> Any:
        """What the judge's own functions give for what the worker calls them with."""
        if "lent" in question:
            return across.give(question, self._peer.lent(int(question["lent"])))
        asked = question.get("make", question.get("stand_in"))
        if self._stand_in is not None and asked in [s["exercise"] for s in self._stand_ins]:
            return self._stand_in(question)
        raise WireError("an unknown question")

    def _borrow(self, number: int) -> Any:
        raise WireError("a worker lends nothing")


_QUIET = {"begin", "make", "load", "mode", "convert", "set"}


def _anything(answer: Any, arguments: Mapping[str, Any]) -> bool:
    return True


def _is_call(answer: Any, arguments: Mapping[str, Any]) -> bool:
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], list):
        return False
    count = len(arguments["args"])
    return all(type(place) is int and 0 <= place < count for place in answer[1])


def _is_vjp(answer: Any, arguments: Mapping[str, Any]) -> bool:
    wanted = len(arguments["inputs"]) + len(arguments["parameters"])
    if not isinstance(answer, list) or len(answer) != wanted:
        return False
    inputs = [arguments["args"][place] for place in arguments["inputs"]]
    given = inputs + [None] * len(arguments["parameters"])
    return all(
        gradient is None
        or (
            isinstance(gradient, Tensor)
            and gradient.is_floating_point()
            and (of is None or (gradient.shape, gradient.dtype) == (of.shape, of.dtype))
        )
        for gradient, of in zip(answer, given)
    )


def _is_description(answer: Any, arguments: Mapping[str, Any]) -> bool:
    if not isinstance(answer, dict) or not isinstance(answer.get("trained"), list):
        return False
    parameters, buffers, modules = (
        answer.get(name) for name in ("parameters", "buffers", "modules")
    )
    if not (
        isinstance(parameters, dict) and isinstance(buffers, dict) and isinstance(modules, dict)
    ):
        return False
    shapes = [*parameters.values(), *buffers.values()]
    return (
        all(isinstance(name, str) for name in [*answer["trained"], *modules.values()])
        and set(answer["trained"]) <= parameters.keys()
        and all(isinstance(shape, list) for shape in shapes)
        and all(type(size) is int for shape in shapes for size in shape)
    )


_FITS: dict[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "call": _is_call,
    "vjp": _is_vjp,
    "describe": _is_description,
    "accelerator": lambda answer, arguments: isinstance(answer, bool),
}

__all__ = ["Ref", "RemoteHost", "StandIn"]
