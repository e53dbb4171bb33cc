"""Seconds per submission: `grade`, a fresh pytest process, `nbgrader autograde`, and the floor.

All in one run on one machine, on the core units, start-up included. The submissions are perfect
and distinct: the reference and the core's variants in turn, each with a comment of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import floor, peer_nbgrader
from bench.peer_pytest import CORE
from grader import course as courses
from grader.course import ROOT
from grader.judge import bank

SMALL, CLASS, JOBS, LARGE = 20, 100, 300, 1000
_CURVE = (10, SMALL, CLASS, LARGE)
ATTENTION = "attention.scaled_dot_product_attention"

# times as many submissions a minute, and megabytes
_BUDGETS = {
    "fresh pytest, a class of 20": 8.0,
    "fresh pytest, a class of 1000": 15.0,
    "nbgrader, attention alone, 20": 15.0,
    "nbgrader, attention alone, 1000": 40.0,
    "one job, with two": 1.8,
}
_PSS_MB = 60.0


@dataclass(frozen=True)
class Run:
    """One `grade` of a class.

    Attributes:
        seconds: per submission, start-up included.
        marking: of it, per submission, what one job spent on marking.
        memory: MB of all its processes (proportional set size), the median over the run.
    """

    seconds: float
    marking: float
    memory: float


def run() -> bool:
    """Print the tables; True if everything is within its budget."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        submissions = _write_class(folder / "class", LARGE)
        curve = {n: _grade(folder, submissions[:n], CORE) for n in _CURVE}
        single, double, triple = (
            _grade(folder, submissions[:JOBS], CORE, "--jobs", jobs) for jobs in "123"
        )
        alone = {n: _grade(folder, submissions[:n], [ATTENTION]) for n in (SMALL, LARGE)}
        peer = [sys.executable, "-m", "bench.peer_pytest"]
        pytest_s = sum(_seconds([*peer, str(one)]) for one in submissions[:SMALL]) / SMALL
        nbgrader_s = peer_nbgrader.seconds(folder / "nbgrader")
    cores = os.cpu_count() or 1
    work = floor.measure(CORE)
    print(f"seconds per submission, distinct and perfect, start-up included, {cores} cores")
    for size, one in curve.items():
        print(f"  grade, a class of {size:5}         {one.seconds:7.3f}"
              f"   (marking: {one.marking:.3f} of one job; {one.memory:.0f} MB)")  # fmt: skip
    print(f"  grade, {JOBS}, one job            {single.seconds:7.3f}")
    print(f"  grade, {JOBS}, two jobs           {double.seconds:7.3f}")
    for size, one in alone.items():
        print(f"  grade, {size:4}, attention alone  {one.seconds:7.3f}")
    print(f"  fresh pytest process          {pytest_s:7.3f}")
    print(f"  nbgrader, attention alone     {nbgrader_s:7.3f}")
    print(f"  floor: the suite's own work   {work.suite:7.3f}   and a fork {work.fork:.3f}")
    print(f"marking, against the floor          {single.marking / (work.suite + work.fork):7.2f}")
    times = [
        pytest_s / curve[SMALL].seconds,
        pytest_s / curve[LARGE].seconds,
        nbgrader_s / alone[SMALL].seconds,
        nbgrader_s / alone[LARGE].seconds,
        single.seconds / double.seconds,
    ]
    print("times as many submissions a minute as")
    for (what, budget), found in zip(_BUDGETS.items(), times):
        print(f"  {what:32}  {found:6.1f}   (budget: {budget:g})")
    more = triple.memory - double.memory  # a single job marks in the process that reports
    growth = curve[LARGE].memory - curve[CLASS].memory
    print(f"memory of one more job              {more:7.0f} MB   (budget: {_PSS_MB:g})")
    print(f"memory, {LARGE} against {CLASS}           {growth:+7.0f} MB")
    fast = all(found >= budget for budget, found in zip(_BUDGETS.values(), times))
    return fast and more <= _PSS_MB


def _write_class(folder: Path, size: int) -> list[Path]:
    course = courses.load()
    core = (one for one in bank.variants(course) if one.id.startswith(CORE))
    forms = [bank.solution(course), *core]
    written = []
    for number in range(size):
        mine = folder / f"student-{number:04}"
        mine.mkdir(parents=True)
        for unit, module in forms[number % len(forms)].modules.items():
            text = f"{module.text}\n# {number}\n"
            (mine / f"{unit}.py").write_text(text, encoding="utf-8")
        written.append(mine)
    return written


def _grade(folder: Path, submissions: Sequence[Path], only: Sequence[str], *options: str) -> Run:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        chosen, out = Path(name, "chosen"), Path(name, "out")
        chosen.mkdir()
        for one in submissions:
            one.rename(chosen / one.name)
        command = [sys.executable, "-m", "grader", "grade", str(chosen), "--out", str(out)]
        command += [word for target in only for word in ("--only", target)]
        started = time.perf_counter()
        process = subprocess.Popen(
            [*command, *options], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        samples = []
        while process.poll() is None:
            samples.append(_memory(process.pid))
            time.sleep(1)
        seconds = time.perf_counter() - started
        for one in submissions:
            (chosen / one.name).rename(one)
        assert process.returncode == 0, "grading failed"
        lines = (out / "journal.jsonl").read_text(encoding="utf-8").splitlines()
        marking = [json.loads(line)["seconds"] for line in lines]
        results = [json.loads(p.read_text(encoding="utf-8")) for p in out.glob("*/result.json")]
    assert len(marking) == len(submissions)
    assert all(r["score"] == r["max_score"] for r in results), "a perfect one lost points"
    late = samples[len(samples) // 2 :]  # when all jobs are there
    return Run(seconds / len(submissions), statistics.mean(marking), statistics.median(late))


def _memory(root: int) -> float:
    """MB of a process and all below it, what is shared counted once; NaN where none may look."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for pid in family:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except PermissionError:
            return float("nan")
        except OSError:  # it has just ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started
