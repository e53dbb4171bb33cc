"""The judge's side of the walls: starts the warm parent, asks it for forks, and ends them.

    with Sandbox() as sandbox, sandbox.fork() as fork:
        fork.socket.sendall(...)          # the worker's own protocol
    fork.exit_status(timeout=1.0)

A sandbox belongs to one thread, which must outlive it: the kernel ends the warm parent with the
thread that started it. Linux only.
"""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from grader.model import say
from grader.subject import control, jail
from grader.subject.control import PRESENT, Limits, Report, Settings
from grader.subject.jail import JailError

__all__ = ["PRESENT", "Fork", "JailError", "Limits", "Sandbox"]

_READY_SECONDS = 120.0  # importing torch on a cold disk
_BORN_SECONDS = 30.0
_END_SECONDS = 5.0

_HOW_TO_ALLOW = """
The walls are made of user namespaces, which this system seems to forbid. On Ubuntu 24.04 and later:
    sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0
On older Debian: sudo sysctl kernel.unprivileged_userns_clone=1. On Red Hat's systems: sudo sysctl
user.max_user_namespaces=15000. In a container, start it with `--security-opt seccomp=unconfined
--security-opt apparmor=unconfined`, and see the container recipe in docs/grading.md."""


class Fork:
    """One locked worker.

    Attributes:
        socket: our end of the worker's stream socket; what comes out of it is hostile.
        shared: it has served another submission before.
    """

    def __init__(self, owner: "Sandbox", number: int, end: socket.socket):
        self.socket = end
        self.shared = False
        self._owner = owner
        self._number = number

    def kill(self) -> None:
        """End the fork and all that lives in its namespace. Ended already is fine."""
        self._owner._end(self._number)

    def hand_back(self) -> None:
        """Give it back alive, for the next who asks for a worker."""
        self.shared = True
        self._owner._idle = self

    def exit_status(self, timeout: float) -> int | None:
        """The exit code, or minus the signal that ended it; None if it runs on after `timeout` s.

        A fork that went down with its whole sandbox counts as killed, -9.
        """
        return self._owner._wait(self._number, timeout)

    def __enter__(self) -> "Fork":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._owner._idle is not self:
            self.kill()
            self.socket.close()


class Sandbox:
    """A warm parent behind walls.

    Args:
        service: what a locked fork runs, "module:function"; it gets the fork's end of the socket.
        limits: what one fork may use.
        secret: folders that must not be visible inside; the checkout is one in any case.
        unsafe: without bubblewrap, where it cannot be had. A fork does what it can by itself.
        spawn: a worker is a fresh interpreter, which takes seconds, and may be handed back.
        device: "cpu", or "cuda", for which workers are always spawned.

    Attributes:
        parent: the warm parent's pid, as itself and its forks know it.
        births_s: seconds spent on waiting for workers so far.

    Raises:
        JailError: the walls cannot be put up here; the text says what to do.
    """

    parent: int

    def __init__(
        self,
        service: str = "grader.subject.worker:serve",
        *,
        limits: Limits | None = None,
        secret: Sequence[Path] = (),
        unsafe: bool = False,
        spawn: bool = False,
        device: str = "cpu",
    ):
        if sys.platform != "linux":
            raise JailError(
                say(
                    "grading in a sandbox needs Linux. Use the container recipe in docs/grading.md"
                    " (`make check` works everywhere)."
                )
            )
        self._service = service
        self._limits = limits or (Limits() if device == "cpu" else control.GPU_LIMITS)
        self._secret = secret
        self._unsafe = unsafe
        self.spawn = spawn or device != "cpu"
        self.device = device
        self.births_s = 0.0
        self._idle: Fork | None = None
        self._parent: subprocess.Popen[bytes] | None = None
        self._started = self._warm = False
        self._open = contextlib.ExitStack()
        self._next = 0
        self._running: set[int] = set()
        self._statuses: dict[int, int] = {}
        self._report: Report = {}

    def __enter__(self) -> "Sandbox":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the warm parent, and wait until it is warm."""
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Start the warm parent. It takes seconds, in which other things can be done."""
        self.close()
        with contextlib.ExitStack() as stack:
            if self._unsafe:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="grader-"))
                place = jail.without_walls(folder, self.device)
            else:
                place = jail.build(self._secret, self.device)
            self._complaints = stack.enter_context(tempfile.TemporaryFile())
            self._control, theirs = control.pair()
            with theirs:
                self._parent = subprocess.Popen(
                    [*place.command, str(theirs.fileno())],
                    env=place.environment,
                    cwd=place.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._complaints,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            stack.callback(self._stop, self._parent)
            self._open, self._started, self._warm = stack.pop_all(), True, False
            settings = Settings(
                self._service, place.scratch, place.readable, place.become,
                self.spawn, self.device, place.devices, self._limits,
            )  # fmt: skip
            with contextlib.suppress(OSError):  # then `wait` meets it too
                control.send(self._control, {"settings": asdict(settings)})

    def wait(self) -> None:
        """Wait until the warm parent is warm."""
        try:
            self.parent = self._hear(_READY_SECONDS)["ready"]
            self._warm = True
        except (OSError, EOFError) as problem:
            why = self._why_not(problem)
            self.close()
            raise JailError(why) from None

    def share(self) -> None:
        """In a process that was forked from the one that started the warm parent: from now on ask
        it in the name of this process.

        One warm parent then serves all, which saves the others' memory and the time to warm them.
        """
        ours, theirs = control.pair()
        with theirs:
            control.send(self._control, {"judge": True}, [theirs.fileno()])
        self._control.close()
        self._control, self._parent = ours, None
        self._others = self._open  # not to be closed here, nor to be forgotten, which closes too
        self._open = contextlib.ExitStack()
        self._open.callback(self._leave)

    def _leave(self) -> None:
        self._control.close()  # the warm parent then ends our forks; with its last judge it goes
        self._started = False
        self._lose_all()

    def fork(self) -> Fork:
        """A worker, locked and waiting: one that was handed back, or a new one. Starts the warm
        parent again if it has died.

        Raises:
            JailError: no worker came to life.
        """
        idle, self._idle = self._idle, None
        if idle is not None:
            return idle
        started = time.monotonic()
        try:
            return self._fork()
        finally:
            self.births_s += time.monotonic() - started

    def _fork(self) -> Fork:
        if self._started:
            with contextlib.suppress(OSError, EOFError):  # it died just now, or no longer answers
                return self._bear()
        self.start()
        try:
            return self._bear()
        except (OSError, EOFError) as problem:
            raise JailError(self._why_not(problem)) from None

    def _bear(self) -> Fork:
        self._next += 1
        number = self._next
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                control.send(self._control, {"fork": number}, [theirs.fileno()])
            self._running.add(number)
            deadline = time.monotonic() + (_READY_SECONDS if self.spawn else _BORN_SECONDS)
            while True:
                message = self._hear(deadline - time.monotonic())
                if message.get("born") == number:
                    self._compare(message["report"])
                    return Fork(self, number, ours)
                if message.get("failed") == number:
                    self._running.discard(number)
                    raise JailError(f"no worker came to life: {message['why']}")
        except BaseException:
            self._end(number)
            ours.close()
            raise

    def _compare(self, report: Report) -> None:
        """Every fork must be locked as well as the first, which is the one that was judged."""
        self._report = self._report or report
        lost = [name for name, text in self._report.items() if text == PRESENT != report.get(name)]
        if lost:
            raise JailError(f"a worker lacks what others had: {', '.join(lost)}")

    def protections(self) -> dict[str, str]:
        """What a real fork said took: name to "present", or "absent: " and why."""
        if not self._report:
            with self.fork() as fork:
                if self.spawn:
                    fork.hand_back()
        walls = {"walls": "absent: --unsafe" if self._unsafe else PRESENT}
        return walls | self._report

    def close(self) -> None:
        """End the warm parent and every fork; harmless when there is none."""
        if self._idle is not None:
            self._idle.socket.close()
            self._idle = None
        self._open.close()

    def _stop(self, parent: "subprocess.Popen[bytes]") -> None:
        self._parent = None
        self._leave()
        if not self._warm:
            parent.kill()  # it would hear of it only once it has imported torch
        try:
            parent.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            parent.kill()
            parent.wait()

    def _lose_all(self) -> None:
        self._statuses |= dict.fromkeys(self._running, -9)
        self._running.clear()

    def _hear(self, seconds: float) -> dict[str, Any]:
        """Take one message, and remember it if it tells of an end."""
        self._control.settimeout(max(seconds, 0.001))
        message, _ = control.receive(self._control)
        if "ended" in message:
            self._running.discard(message["ended"])
            self._statuses[message["ended"]] = message["status"]
        return message

    def _end(self, number: int) -> None:
        if number in self._running:
            with contextlib.suppress(OSError):  # a dead parent has ended it
                control.send(self._control, {"end": number})

    def _wait(self, number: int, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        while number in self._running:
            try:
                self._hear(deadline - time.monotonic())
            except TimeoutError:
                break
            except (OSError, EOFError):
                self._lose_all()
        return self._statuses.get(number)

    def _why_not(self, problem: Exception) -> str:
        if self._parent is not None:
            self._parent.kill()
            self._parent.wait()
        self._complaints.seek(0)
        said = self._complaints.read()[-2000:].decode(errors="replace").strip()
        advice = _HOW_TO_ALLOW if "bwrap:" in said else ""
        return f"the sandbox did not start ({problem}): {said or 'no reason given'}{advice}"
