"""The processes in which a student's code runs for `check` and `watch`, as these see them.

A child is asked once, gives lines, and ends. `Fresh` is a process of its own. Those of a `Warm` one
are forks of it or, where there is no safe fork, the spare that it has kept ready.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from grader.course import ROOT

# macOS has a fork, but what lies below torch there (Accelerate, libdispatch) may not be used in it.
FORKS = sys.platform == "linux"

Request = dict[str, Any]

# The threads are read when torch is imported: small tensors gain nothing from several.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"} | dict.fromkeys(_THREADS, "1")

_ENDING_S = 2.0  # in which a process that nobody asks any more has ended


class Child(Protocol):
    """One run.

    Attributes:
        lines: events as JSON; "" when there are no more.
    """

    lines: queue.Queue[str]

    def end(self) -> None:
        """End it, if it still runs."""

    def last_words(self) -> str:
        """What it left on standard error, if it is over."""


class Fresh:
    """A process for one request."""

    def __init__(self, request: Request):
        self.lines: queue.Queue[str] = queue.Queue()
        self._process = _Process("grader.judge.session", self.lines.put)
        self._process.send(request)
        self._process.finish()

    def end(self) -> None:
        self._process.end()

    def last_words(self) -> str:
        return self._process.last_words()


class Warm:
    """Keeps a process that has imported torch and collected the public suite.

    Args:
        ready: told when it has.
        forks: whether its runs may be forks.
        path: the student's folder, where it is known: what lies there is read beforehand.
    """

    def __init__(
        self,
        ready: Callable[[], None] = lambda: None,
        forks: bool = FORKS,
        path: Path | None = None,
    ):
        self._ready = ready
        self._forks = forks
        self._path = path
        self._closed = False
        self._server: _Server | None = None
        self._get_ready()

    def _get_ready(self) -> None:
        """See to it that there is one for the next run."""
        if not self._closed and (self._server is None or self._server.over):
            self._server = _Server(self._ready, self._forks, self._path, self._get_ready)

    def start(self, request: Request) -> Child:
        """Begin a run. Where runs are forks, the one before it ends."""
        self._get_ready()
        assert self._server, "it is closed"
        server = self._server
        if not self._forks:
            self._server = None  # the next starts when this run is over: it shall have the machine
        return server.begin(request)

    def close(self) -> None:
        """End it, and its run."""
        self._closed = True
        if self._server:
            self._server.close()


class _Server:
    """One warm process and its runs."""

    def __init__(
        self,
        ready: Callable[[], None],
        forks: bool,
        path: Path | None,
        ended: Callable[[], None],
    ):
        self._ready = ready
        self._forks = forks
        self._ended = ended
        self._is_ready = False
        self._runs: list[_Run] = []  # the first is number 0
        how = ["fork" if forks else "once", *([str(path.resolve())] if path else [])]
        self._process = _Process("grader.judge.warm", self._hear, *how)

    @property
    def over(self) -> bool:
        return not self._process.alive

    def begin(self, request: Request) -> _Run:
        run = _Run(self, len(self._runs))
        self._runs.append(run)
        self._process.send([run.number, request])
        return run

    def _hear(self, line: str) -> None:
        """Give a line to the run that it belongs to."""
        try:
            event: dict[str, Any] = json.loads(line) if line else {"event": "over"}
        except ValueError:  # who wrote it was ended in the middle of it
            return
        if event["event"] == "ready":
            self._is_ready = True
            self._ready()
        elif event["event"] == "over":
            for run in self._runs:
                run.lines.put("")
        elif event["run"] < len(self._runs):
            self._runs[event["run"]].lines.put("" if event["event"] == "gone" else line)

    def end(self, run: _Run) -> None:
        if not self._forks:
            self._process.end()
            self._ended()
        elif run is self._runs[-1]:
            self._process.send([run.number, None])

    def close(self) -> None:
        if self._is_ready:
            self._process.close()
        else:  # it has started nothing yet, and would first finish importing torch
            self._process.end()

    def last_words(self) -> str:
        return self._process.last_words()


class _Run:
    """A child of a warm process."""

    def __init__(self, server: _Server, number: int):
        self.lines: queue.Queue[str] = queue.Queue()
        self.number = number
        self._server = server

    def end(self) -> None:
        self._server.end(self)

    def last_words(self) -> str:
        return self._server.last_words()


class _Process:
    """A Python process of ours that reads and writes lines.

    Args:
        module: what it runs.
        hear: told every line, and "" when there are no more.
        arguments: of its command line. One that has some outlives a Ctrl-C, and is ended by us.
    """

    def __init__(self, module: str, hear: Callable[[str], None], *arguments: str):
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,  # or a torch.py that lies where the student is would be taken for torch
            env=os.environ | _ENVIRONMENT,
            encoding="utf-8",
            start_new_session=bool(arguments),
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) if arguments else 0,
        )
        self._hear = hear
        self._reads = threading.Thread(target=self._read, daemon=True)
        self._reads.start()

    def _read(self) -> None:
        out = self._process.stdout
        assert out
        with out:
            for line in out:
                self._hear(line)
        self._process.wait()
        self._hear("")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, value: Any) -> None:
        """Write a line, if somebody is there to read it."""
        assert self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()

    def finish(self) -> None:
        """Say that no more will come."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Let it end, and what it has started."""
        self.finish()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        self.end()

    def end(self) -> None:
        """End it now."""
        self._process.kill()
        self._process.wait()
        self.finish()
        self._reads.join()
        if self._process.stderr:
            self._process.stderr.close()

    def last_words(self) -> str:
        error = self._process.stderr
        if self.alive or error is None or error.closed:
            return ""
        return error.read()
