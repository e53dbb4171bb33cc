"""`grader calibrate`: show that every budget lies between right answers and known mistakes.

Each exercise and dtype gets a row in `docs/tolerances.csv`: the furthest right answer, and the
nearest mistake, which is the one that shows least, of those that show most there. The table is
evidence: the budgets themselves are few, and stand in `judge/tolerance.py` and beside the checks
that need another. Any hole is named, and the exit code is then not 0.
"""

from __future__ import annotations

import csv
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from grader import course as courses
from grader.classroom import hold_device
from grader.course import ROOT, Course, CourseError
from grader.judge.calibration import Calibration, Evidence
from grader.judge.suite import collect, suite_files
from grader.judge.tolerance import BUDGETS
from grader.subject.verdicts import short

TABLE = ROOT / "docs" / "tolerances.csv"
COLUMNS = ("exercise", "dtype", "device", "spread", "spread_budget", "answer",
           "nearest", "nearest_budget", "mistake")  # fmt: skip

MARGIN = 3.0  # a budget is so many times the furthest right answer; a mistake, so many budgets
ALIKE = 10.0  # bits differ between machines, and few secrets show less than many

Row = dict[str, str]


def rows(evidence: Evidence, device: str) -> list[Row]:
    """What was measured, as the table has it: numbers in two digits."""
    nearest = evidence.nearest()
    found = []
    for key, right in evidence.right.items():
        mistake = nearest.get(key)
        numbers = [right.distance, right.budget, right.who]
        numbers += [mistake.distance, mistake.budget, mistake.who] if mistake else [""] * 3
        texts = [n if isinstance(n, str) else f"{n:.2g}" for n in numbers]
        found.append(dict(zip(COLUMNS, [*key, device, *texts])))
    return found


def read(path: Path) -> list[Row]:
    """The committed rows."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, found: Sequence[Row], course: Course, replaced: Sequence[Row]) -> None:
    """Put rows into the table, in the place of others."""
    gone = [_key(row) for row in replaced]
    kept = [r for r in read(path) if r["exercise"] in course.exercises and _key(r) not in gone]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(sorted([*kept, *found], key=lambda row: in_order(course, _key(row))))


def in_order(course: Course, key: Sequence[str]) -> tuple[object, ...]:
    """By exercise as the course has them, and float64, float32, float16, bfloat16."""
    exercise, dtype, *device = key
    return list(course.exercises).index(exercise), *(-ord(letter) for letter in dtype), *device


def between(evidence: Evidence) -> Iterator[str]:
    """Where a budget does not lie between right answers and mistakes, with a margin each side."""
    for (exercise, dtype), right in evidence.right.items():
        if right.share * MARGIN > 1:
            yield (
                f"a budget is too narrow: {right.budget:.2g} is less than {MARGIN:g} times"
                f" {right.distance:.2g}, as far as {right.who} is off in {exercise}, {dtype}, with"
                f" secret {right.secret}"
            )
    for (exercise, dtype), mistake in evidence.nearest().items():
        if mistake.share < MARGIN:
            yield (
                f"a budget is too wide: {mistake.distance:.2g}, as far as mistake {mistake.who} is"
                f" off at most in {exercise}, {dtype}, is less than {MARGIN:g} times"
                f" {mistake.budget:.2g}"
            )
    for id, sight in evidence.caught.items():
        if not sight.share:
            yield f"mistake {id} is not caught at its clause with secret {sight.secret}"


def stale(found: Sequence[Row], committed: Sequence[Row]) -> Iterator[str]:
    """Where the committed rows are not what was measured, up to what machines and luck change."""
    old = {_key(row): row for row in committed}
    new = {_key(row): row for row in found}
    for key in sorted(old.keys() ^ new.keys()):
        row = "has a row that nothing gives" if key in old else "lacks a row"
        yield f"{TABLE.name} {row}: {', '.join(key)}; write it anew with --write"
    for key in old.keys() & new.keys():
        spread, was = _share(new[key], "spread"), _share(old[key], "spread")
        if spread > max(ALIKE * was, 0.01):
            yield (
                f"right answers come as far as {spread:.2g} budgets in {', '.join(key)};"
                f" {TABLE.name} says {was:.2g}"
            )
        nearest, was = _share(new[key], "nearest"), _share(old[key], "nearest")
        if nearest * ALIKE < was:
            yield (
                f"the nearest mistake is {nearest:.2g} budgets off in {', '.join(key)};"
                f" {TABLE.name} says {was:.2g}"
            )


def _key(row: Mapping[str, str]) -> tuple[str, str, str]:
    return row["exercise"], row["dtype"], row["device"]


def _share(row: Row, what: str) -> float:
    """In budgets; of no mistake, infinity."""
    return float(row[what]) / float(row[f"{what}_budget"]) if row[what] else math.inf


_this: Calibration  # in a process that measures one secret after another


def _measure(task: tuple[int, bool]) -> Evidence:
    return _this.measure(*task)


def _measured(calibration: Calibration, tasks: Sequence[tuple[int, bool]]) -> Iterator[Evidence]:
    """In as many processes as there are cores, where a process can fork safely."""
    global _this
    _this = calibration
    if sys.platform != "linux" or calibration.bench.device != "cpu":
        yield from map(_measure, tasks)
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        yield from pool.map(_measure, tasks)


def run(
    targets: Sequence[str], secrets: int, first: int, mistakes: int, device: str, writes: bool
) -> int:
    """Measure; 0 if every budget lies between and no secret shows a fault.

    Args:
        targets: units or exercises; all without any.
        secrets: how many.
        first: the number of the first one.
        mistakes: for how many of them the known mistakes run too.
        device: where submissions run.
        writes: put what was measured into the table, rather than compare.
    """
    started = time.monotonic()
    warnings.filterwarnings("ignore")
    if writes and not mistakes:
        raise CourseError("Without --mistakes there is no nearest one to write into the table.")
    hold_device(device)
    course = courses.load()
    chosen = course.select(targets)
    calibration = Calibration(course, collect(suite_files()), chosen, device)
    tasks = [(first + count, count < mistakes) for count in range(secrets)]
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    evidence = Evidence()
    for one in _with_progress(_measured(calibration, tasks), secrets, console):
        evidence.add(one)
    evidence.right = dict(sorted(evidence.right.items(), key=lambda r: in_order(course, r[0])))
    _show(console, evidence, secrets, min(mistakes, secrets))
    holes = [*evidence.false_failures, *between(evidence)]
    found = rows(evidence, device)
    committed = [r for r in read(TABLE) if r["exercise"] in chosen and r["device"] == device]
    if writes:
        write(TABLE, found, course, committed)
    else:
        holes += stale(found, committed)
    for hole in holes:
        console.print(f"hole: {hole}", style="red", soft_wrap=True, markup=False)
    seconds = time.monotonic() - started
    console.print(f"{len(holes)} holes, {seconds:.0f} s", style="red" if holes else "green")
    return 1 if holes else 0


def _with_progress(results: Iterator[Evidence], count: int, console: Console) -> Iterator[Evidence]:
    """A bar on a terminal, a plain line now and then elsewhere."""
    if console.is_terminal:
        yield from track(results, "secrets", count, console=console, transient=True)
        return
    for number, result in enumerate(results, 1):
        yield result
        if number % 50 == 0:
            print(f"{number} / {count} secrets", file=sys.stderr)


def _show(console: Console, evidence: Evidence, secrets: int, with_mistakes: int) -> None:
    nearest = evidence.nearest()
    table = Table(box=None, pad_edge=False)
    for name in ("exercise", "dtype", "right answers", "margin", "nearest mistake", "margin", ""):
        table.add_column(name, justify="left" if name in ("exercise", "dtype", "") else "right")
    for key, right in evidence.right.items():
        mistake = nearest.get(key)
        table.add_row(
            *key,
            f"{right.distance:.1e} of {right.budget:.0e}",
            f"{1 / right.share:.2g}" if right.share else "inf",
            f"{mistake.distance:.1e} of {mistake.budget:.0e}" if mistake else "none",
            f"{mistake.share:.2g}" if mistake else "",
            mistake.who if mistake else "",
        )
    console.print(table)
    seen = {dtype for _, dtype in evidence.right}
    if unseen := [short(dtype) for dtype in BUDGETS if short(dtype) not in seen]:
        console.print(f"none of these checks compares in {', '.join(unseen)}", style="dim")
    console.print(f"{secrets} secrets, {len(evidence.false_failures)} false failures")
    if evidence.caught:
        least = min(evidence.caught.values())
        caught = sum(sight.share > 0 for sight in evidence.caught.values())
        console.print(
            f"{with_mistakes} secrets, {caught} of {len(evidence.caught)} known mistakes caught"
            f" with each; the least plain is {least.who}, {least.share:.2g} budgets off"
        )
