"""The floor under marking a submission: the suite's own work in a process, and a fork."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader import course as courses
from grader.judge import bank, scribe
from grader.judge.reference import Live, Remembered
from grader.judge.suite import collect, suite_files
from grader.subject.host import Host

_ROUNDS = 5


@dataclass(frozen=True)
class Floor:
    """Seconds for what every check asks for, done by a host on the reference; and for one fork."""

    suite: float
    fork: float


def measure(chosen: Sequence[str]) -> Floor:
    """The medians of some rounds on these units."""
    torch.set_num_threads(1)
    course = courses.load()
    units = [unit.name for unit in course.units]
    reference = bank.solution(course)
    suite = collect(suite_files(chosen))
    answers = Remembered(Live(Host(reference, units)))
    perform = Host(reference, units).perform
    scripts = scribe.write(course, suite, suite.checks, perform, answers).values()

    def play() -> float:
        host = Host(reference, units)
        started = time.perf_counter()
        for script in scripts:
            for operation in script.operations:
                try:
                    host.perform(operation.name, **operation.arguments)
                except Exception:
                    assert operation.raises
        return time.perf_counter() - started

    return Floor(
        statistics.median(play() for _ in range(_ROUNDS)),
        statistics.median(_fork() for _ in range(_ROUNDS)),
    )


def _fork() -> float:
    started = time.perf_counter()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return time.perf_counter() - started
