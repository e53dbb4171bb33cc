"""The warm parent: imports torch once, then forks a locked worker for whoever asks.

`python -m grader.subject.nursery FD` serves the control socket on descriptor FD; `control` tells
the messages. It never reads student code, and it holds nothing secret: a fork inherits its memory.

A fork is born in two steps, since a process cannot move itself into a new pid namespace: the first
fork takes namespaces of its own and forks again, and the second is process 1 of that namespace. The
first then ends, which leaves the second to us (we are its subreaper): we see it end, and ending it
ends all that may live in its namespace.

Where workers are to be spawned, this process imports nothing, and the second fork becomes a fresh
interpreter (`spawned`), which gets ready and locks itself in.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

# torch and its libraries read these when they are imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from grader.subject import control, kernel, lockdown, seccomp  # noqa: E402

Serve = Callable[[socket.socket], None]

_BIRTH_SECONDS = 30.0
_SPAWN_SECONDS = 110.0  # importing torch on a cold disk
WENT_WRONG = 70  # the exit code of a fork that failed before, or in, its service


class DeviceError(RuntimeError):
    """A worker cannot use its device; the text says why."""


@dataclass(frozen=True)
class _Child:
    judge: socket.socket
    number: int  # by which its judge knows it
    pid: int
    watch: int  # a descriptor of the process, readable once it has ended


class Nursery:
    """Bears forks, ends them, and reports how they ended.

    Args:
        judge: the control socket of the first judge; others come by it.
        settings: what the judge wants.
        serve: what a fork does once it is locked; None where workers are spawned.
    """

    def __init__(self, judge: socket.socket, settings: control.Settings, serve: Serve | None):
        self._judges = [judge]
        self._settings = settings
        self._serve = serve
        self._children: list[_Child] = []

    def run(self) -> None:
        """Serve until the last judge is gone, and leave no fork behind."""
        try:
            while self._judges:
                self._step()
        finally:
            self._end(self._children)

    def _step(self) -> None:
        watched = select.poll()
        judges = {judge.fileno(): judge for judge in self._judges}
        children = {child.watch: child for child in self._children}
        for descriptor in [*judges, *children]:
            watched.register(descriptor, select.POLLIN)
        for ready, _ in watched.poll():
            if ready in judges:
                self._obey(judges[ready])
            elif children[ready] in self._children:  # not just ended with its judge
                child = children[ready]
                status = self._bury(child)
                with contextlib.suppress(OSError):  # its judge may be leaving
                    control.send(child.judge, {"ended": child.number, "status": status})

    def _obey(self, judge: socket.socket) -> None:
        try:
            message, descriptors = control.receive(judge)
        except (EOFError, OSError):
            self._end([child for child in self._children if child.judge is judge])
            self._judges.remove(judge)
            judge.close()
            return
        if "judge" in message:
            self._judges.append(socket.socket(fileno=descriptors[0]))
        elif "fork" in message:
            with socket.socket(fileno=descriptors[0]) as worker:
                self._bear(judge, message["fork"], worker)
        else:
            for child in self._children:
                if (child.judge, child.number) == (judge, message["end"]):
                    os.kill(child.pid, signal.SIGKILL)  # else it ended before it was told to

    def _end(self, children: Sequence[_Child]) -> None:
        for child in list(children):
            os.kill(child.pid, signal.SIGKILL)
            self._bury(child)

    def _bury(self, child: _Child) -> int:
        _, status = os.waitpid(child.pid, 0)
        os.close(child.watch)
        self._children.remove(child)
        for left in Path(self._settings.scratch).glob(f"{lockdown.FOLDER}{child.pid}-*"):
            shutil.rmtree(left, ignore_errors=True)
        return os.waitstatus_to_exitcode(status)

    def _bear(self, judge: socket.socket, number: int, worker: socket.socket) -> None:
        ours, theirs = control.pair()
        with ours:
            first = os.fork()
            if first == 0:
                self._be_first(worker, theirs)
            theirs.close()
            ours.settimeout(_SPAWN_SECONDS if self._settings.spawn else _BIRTH_SECONDS)
            try:
                answer = self._raise(judge, number, ours, first)
            except (OSError, EOFError) as problem:
                answer = {"failed": f"it ended while it was born ({problem})"}
        with contextlib.suppress(OSError):
            if "report" in answer:
                control.send(judge, {"born": number, "report": answer["report"]})
            else:
                control.send(judge, {"failed": number, "why": answer["failed"]})

    def _raise(
        self, judge: socket.socket, number: int, cradle: socket.socket, first: int
    ) -> dict[str, Any]:
        """Take the second fork over from the first; what it reports once it is locked."""
        try:
            born = control.receive(cradle)[0]
        finally:
            os.kill(first, signal.SIGKILL)  # its work is done, or never will be
            os.waitpid(first, 0)
        if "pid" not in born:
            return born
        pid = born["pid"]
        self._children.append(_Child(judge, number, pid, os.pidfd_open(pid)))
        control.send(cradle, {"pid": pid})  # now it is ours, and may ask to die with us
        return control.receive(cradle)[0]

    def _be_first(self, worker: socket.socket, cradle: socket.socket) -> NoReturn:
        """In the first fork: take namespaces, fork again, and go."""
        try:
            for judge in self._judges:
                judge.detach()  # closed by number; the object must not close it a second time
            report: control.Report = {}
            lockdown.close_descriptors([worker.fileno(), cradle.fileno()])
            lockdown.leave_namespaces(report)
            second = os.fork()
            if second == 0:
                self._be_second(worker, cradle, report)
            control.send(cradle, {"pid": second})
        except BaseException:
            complain(cradle)
        finally:
            os._exit(WENT_WRONG)

    def _be_second(
        self, worker: socket.socket, cradle: socket.socket, report: control.Report
    ) -> NoReturn:
        """In the second fork: lock everything and serve, or become an interpreter that does."""
        try:
            pid = control.receive(cradle)[0]["pid"]
            os.setsid()  # Linux shares processors out by session: sixty threads get one share
            lockdown.let_go(report, [worker.fileno(), cradle.fileno()])
            if self._serve is None:
                become(worker, cradle, report, self._settings, pid)
            else:
                live(worker, cradle, report, self._settings, pid, self._serve)
        except BaseException:
            complain(cradle)
        finally:
            os._exit(WENT_WRONG)


def live(worker: socket.socket, cradle: socket.socket, report: control.Report,
         settings: control.Settings, pid: int, serve: Serve) -> None:  # fmt: skip
    """Lock everything, say so, let go of all but the worker's socket, and serve."""
    lockdown.lock_down(report, settings, pid)
    control.send(cradle, {"report": report})
    cradle.close()
    serve(worker)
    os._exit(0)


def become(worker: socket.socket, cradle: socket.socket, report: control.Report,
           settings: control.Settings, pid: int) -> NoReturn:  # fmt: skip
    """Give way to a fresh interpreter, which gets ready and then lives on the same sockets."""
    for end in (worker, cradle):
        end.set_inheritable(True)
    if report["mount-namespace"] == control.PRESENT:
        kernel.keep_mounting()  # exec takes capabilities away, and hiding /proc has to wait
    told = {"worker": worker.fileno(), "cradle": cradle.fileno(), "report": report}
    told |= {"settings": asdict(settings), "pid": pid}
    os.chdir(Path(__file__).parents[2])  # -m looks in the folder that it starts in
    module = ["-s", "-B", "-m", "grader.subject.spawned"]
    os.execv(sys.executable, [sys.executable, *module, json.dumps(told)])


def complain(cradle: socket.socket) -> None:
    """Say why a birth failed; once the cradle is closed nobody listens, and that is meant."""
    error = sys.exc_info()[1]
    known = isinstance(error, DeviceError)
    with contextlib.suppress(OSError):
        control.send(cradle, {"failed": str(error) if known else traceback.format_exc(limit=-3)})


def warm_up() -> None:
    """Import torch and pay for what is slow the first time, so that no fork has to."""
    import torch
    from torch import nn

    layer = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).double()
    x = torch.ones(2, 3, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.softmax(x @ x.transpose(-2, -1), -1).masked_fill(torch.eye(3) > 0, 0)
    (weights @ layer(x)).sum().backward()
    nn.functional.scaled_dot_product_attention(x, x, x)
    torch.einsum("bqd,bkd->bqk", x, x)


def warm_up_more() -> None:
    """Pay for gradcheck and optimizers, which import two seconds' worth of modules."""
    import torch

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(torch.tanh, (x,))
    torch.optim.Adam([x]).step()


def load(service: str) -> Serve:
    """The function that a fork runs, with what it needs warm.

    Its module may have a `warm()`, which is called here once, and `LEAN = True` if its forks need
    no more than tensors. A function that is `bare` needs no torch.
    """
    seccomp.warm()
    module_name, _, function = service.partition(":")
    module = importlib.import_module(module_name)
    serve: Serve = getattr(module, function)
    if getattr(serve, "bare", False):
        return serve
    warm_up()
    if not getattr(module, "LEAN", False):
        warm_up_more()
    getattr(module, "warm", lambda: None)()
    return serve


def _become(user: int) -> None:
    """Stop being root: what root may do, and what no limit binds, no fork should inherit."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def main(descriptor: int) -> None:
    """Get ready, say so, and serve."""
    judge = socket.socket(fileno=descriptor)
    message, _ = control.receive(judge)
    settings = control.Settings.of(message["settings"])

    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    if settings.become is not None:
        _become(settings.become)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # a new user forgets it
    os.chdir(settings.scratch)
    tempfile.tempdir = settings.scratch

    serve = None if settings.spawn else load(settings.service)
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        raise RuntimeError(f"{len(threads)} threads are running; a fork takes over only one")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # no fork may read or write this memory
    gc.collect()
    gc.freeze()  # a fork's collector then leaves our pages alone, and shared
    control.send(judge, {"ready": os.getpid()})
    Nursery(judge, settings, serve).run()
    os._exit(0)  # nothing to save, and torch takes its time to leave


if __name__ == "__main__":
    main(int(sys.argv[1]))
