"""Work for all cores."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def forked(
    work: Callable[[Task], Result], tasks: Sequence[Task], at_once: int = 1
) -> Iterator[Result]:
    """The result of each task, in order, from forks of this process, where it can fork safely.

    Args:
        work: a function of a module; what it needs besides its task lies there, too.
        tasks: what it is given, one by one.
        at_once: how many a process is handed at a time.
    """
    if sys.platform != "linux":
        yield from map(work, tasks)
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        yield from pool.map(work, tasks, chunksize=at_once)
