"""Work that may never end, or take its process with it: each piece in a forked process of its own.

A fork of a process that has imported torch costs some 20 ms, and finds all that was computed
before. The kernel holds it to its limits, so nobody has to watch a clock. Linux only.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

_MEMORY = 2 << 30  # bytes
_LOADED = 20  # so much slower may a machine be on which much else runs

Item = TypeVar("Item")
Given = TypeVar("Given")


@dataclass(frozen=True)
class Done(Generic[Item, Given]):
    """A piece of work that is over.

    Attributes:
        item: what it was done for.
        given: what it gave; None where a signal has ended it.
        signal: that signal's name.
        seconds: how long it took.
    """

    item: Item
    given: Given | None
    signal: str
    seconds: float


def in_forks(
    work: Callable[[Item], Given], items: Sequence[Item], jobs: int
) -> Iterator[Done[Item, Given]]:
    """Do ``work`` for each item, ``jobs`` at a time; what is over first comes first.

    Raises:
        RuntimeError: the work raised; its traceback is on standard error.
    """
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(items))
    running: dict[Connection, tuple[Item, BaseProcess, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                item = waiting.pop()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_do, args=(work, item, theirs))
                process.start()
                theirs.close()  # so that the pipe ends when the process does
                running[ours] = item, process, time.monotonic()
            ready = wait(list(running))
            for pipe in [pipe for pipe in running if pipe in ready]:
                item, ended, started = running.pop(pipe)
                given = _received(pipe)
                ended.join()
                code = ended.exitcode or 0
                if code > 0:
                    raise RuntimeError(f"the work for {item} failed")
                name = signal.Signals(-code).name if code else ""
                yield Done(item, given, name, time.monotonic() - started)
    finally:
        for _, left, _ in running.values():
            left.kill()


def _do(work: Callable[[Item], Given], item: Item, pipe: Connection) -> None:
    pipe.send(work(item))


def _received(pipe: Connection) -> Any:
    with pipe:
        try:
            return pipe.recv()
        except EOFError:  # it was ended before it could give anything
            return None


def confine(processor_s: int) -> None:
    """In a fork: let the kernel end it where it takes more (SIGXCPU), and refuse it much memory.

    What waits without end takes no processor time: an alarm ends it (SIGALRM).
    """
    import resource  # not on Windows

    import torch

    torch.set_num_threads(1)  # the others have stayed in the parent: who waits for them waits long
    resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    signal.alarm(_LOADED * processor_s)
