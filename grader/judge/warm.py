"""The warm process behind `grader watch`: it has imported torch and collected the public suite.

It reads a request a line on standard input, as `session` reads its one, and answers with the same
events, each with the number of its run. Started with `fork`, it gives every request a fork of its
own, which the next line ends, if it is still there. The fork is made beforehand and has rehearsed:
making it takes some 20 ms, and the first use of each page of memory in it as long again. Started
with `once`, it serves a single request itself, and whoever asks keeps a spare one. Behind that may
stand the student's folder, which is then read beforehand.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator

from grader.judge.session import Events, Session, answer

_IDLE_S = 0.3  # without a request, before the next fork is made: a run shall have the machine


def main() -> None:
    """Get warm, and serve until nobody asks any more."""
    requests = os.dup(0)
    events = Events()
    answer(lambda: _serve(requests, events), events)


def _serve(requests: int, events: Events) -> None:
    from grader import course as courses

    session = Session([unit.name for unit in courses.load().units])
    how, *paths = sys.argv[1:]
    path = paths[0] if paths else ""  # where the next run will read
    _read_ahead(session, path)
    session.rehearse()
    if how == "once":
        events("ready")
        _once(requests, session, events)
        return
    gc.collect()
    gc.freeze()  # or a fork's first collection would copy all of memory
    spares = [_Fork(session, events, requests)]  # one or none
    running: list[_Fork] = []  # the same
    events("ready")
    for line in _lines(requests):
        if line is None:
            _read_ahead(session, path)
            spares = spares or [_Fork(session, events, requests)]
            continue
        while running:
            running.pop().end()
        events.break_line()
        number, request = json.loads(line)
        if request is not None:
            path = request["path"]
            running = spares or [_Fork(session, events, requests)]
            spares = []
            running[0].ask(number, line)
    for fork in spares + running:
        fork.end()


def _read_ahead(session: Session, path: str) -> None:
    """Read a folder: what does not change until a run, the run need not read."""
    if path:
        with contextlib.suppress(Exception):  # it may be gone
            session.read(path)


def _once(end: int, session: Session, events: Events) -> None:
    """Serve the one request that comes."""
    with os.fdopen(end, "rb") as file:
        line = file.readline()
    if line:
        events.run, request = json.loads(line)
        session.serve(request, events)


def _lines(end: int) -> Iterator[bytes | None]:
    """The lines that come, and None when one has not come for a while."""
    rest = b""
    told = False
    while True:
        ready, _, _ = select.select([end], [], [], None if told else _IDLE_S)
        told = not ready
        if not ready:
            yield None
            continue
        found = os.read(end, 65536)
        if not found:
            return
        *lines, rest = (rest + found).split(b"\n")
        yield from lines


class _Fork:
    """A process for one run, in a group of its own; says ``gone`` when it is over."""

    def __init__(self, session: Session, events: Events, requests: int):
        theirs, self._request = os.pipe()
        self._events = events
        self._pid = events.fork()
        if self._pid == 0:
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            os.close(requests)
            os.close(self._request)
            answer(lambda: _wait(theirs, session, events), events)
        os.close(theirs)
        with contextlib.suppress(OSError):  # in both: neither may come too late
            os.setpgid(self._pid, self._pid)
        self._waits: threading.Thread | None = None

    def ask(self, number: int, line: bytes) -> None:
        """Hand it its request."""
        with contextlib.suppress(OSError):
            os.write(self._request, line + b"\n")
        self._waits = threading.Thread(target=self._bury, args=(number,), daemon=True)
        self._waits.start()

    def _bury(self, number: int) -> None:
        os.waitpid(self._pid, 0)
        with contextlib.suppress(OSError):  # what it has left behind
            os.killpg(self._pid, signal.SIGKILL)
        self._events("gone", run=number)

    def end(self) -> None:
        """End it, and all that it has started."""
        if self._waits is None or self._waits.is_alive():
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        if self._waits:
            self._waits.join()
        else:
            os.waitpid(self._pid, 0)
        os.close(self._request)


def _wait(request: int, session: Session, events: Events) -> None:
    """In a fork."""
    session.rehearse(lambda: bool(select.select([request], [], [], 0)[0]))
    _once(request, session, events)


if __name__ == "__main__":
    main()
