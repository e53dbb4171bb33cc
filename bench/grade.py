"""Seconds per submission: `grade`, a fresh pytest process, and `nbgrader autograde`.

All in one run on one machine. The submissions are perfect and distinct: variants of the bank with a
comment of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from grader import course as courses
from grader.course import ROOT
from grader.judge import bank

CLASS = 20
_NBGRADER_CLASS = 3
_TIMES_FASTER_THAN_PYTEST = 8.0
_TIMES_FASTER_THAN_NBGRADER = 15.0
ATTENTION = "attention.scaled_dot_product_attention"

# nbgrader calls other programs by name
_SCRIPTS = str(Path(sys.executable).parent)
_WITH_SCRIPTS = os.environ | {"PATH": f"{_SCRIPTS}{os.pathsep}{os.environ.get('PATH', '')}"}


def run() -> bool:
    """Print the table; True if both ratios are within their budgets."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        submissions = _write_class(folder / "class")
        jobs = os.cpu_count() or 1
        grade_s, marking_s = _grade(folder / "class", folder / "out")
        alone_s, _ = _grade(folder / "class", folder / "alone", "--only", ATTENTION)
        peer = [sys.executable, "-m", "bench.peer_pytest"]
        pytest_s = sum(_seconds([*peer, str(one)]) for one in submissions) / CLASS
        nbgrader_s = _nbgrader(folder / "nbgrader")
    print(f"seconds per submission, {CLASS} distinct perfect ones, {jobs} jobs, start-up included")
    print(f"  hidden core suite    grade                   {grade_s:7.2f}")
    print(f"                       of it, marking          {marking_s:7.2f}  (one job's time)")
    print(f"                       fresh pytest process    {pytest_s:7.2f}")
    print(f"  attention alone      grade                   {alone_s:7.2f}")
    print(f"                       nbgrader autograde      {nbgrader_s:7.2f}")
    by_pytest, by_nbgrader = pytest_s / grade_s, nbgrader_s / alone_s
    print(f"times faster than fresh pytest                 {by_pytest:7.1f}"
          f"  (budget: {_TIMES_FASTER_THAN_PYTEST:g})")  # fmt: skip
    print(f"times faster than nbgrader                     {by_nbgrader:7.1f}"
          f"  (budget: {_TIMES_FASTER_THAN_NBGRADER:g})")  # fmt: skip
    return by_pytest >= _TIMES_FASTER_THAN_PYTEST and by_nbgrader >= _TIMES_FASTER_THAN_NBGRADER


def _write_class(folder: Path) -> list[Path]:
    course = courses.load()
    forms = [bank.solution(course), *bank.variants(course)]
    written = []
    for number in range(CLASS):
        mine = folder / f"student-{number:02}"
        mine.mkdir(parents=True)
        for unit, module in forms[number % len(forms)].modules.items():
            text = f"# {number}\n{module.text}"
            text = text if "from __future__" not in text else f"{module.text}\n# {number}\n"
            (mine / f"{unit}.py").write_text(text, encoding="utf-8")
        written.append(mine)
    return written


def _grade(submissions: Path, out: Path, *options: str) -> tuple[float, float]:
    """Seconds per submission: of the whole run, and of marking by the journal."""
    command = [sys.executable, "-m", "grader", "grade", str(submissions), "--out", str(out)]
    whole = _seconds([*command, *options]) / CLASS
    lines = (out / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert len(entries) == CLASS
    results = [json.loads(p.read_text(encoding="utf-8")) for p in out.glob("*/result.json")]
    assert all(r["score"] == r["max_score"] for r in results), "a perfect one lost points"
    return whole, sum(entry["seconds"] for entry in entries) / CLASS


def _seconds(command: Sequence[str], cwd: Path = ROOT) -> float:
    started = time.perf_counter()
    run = subprocess.run(command, cwd=cwd, env=_WITH_SCRIPTS, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{run.stdout}{run.stderr}")
    return time.perf_counter() - started


def _nbgrader(folder: Path) -> float:
    """Seconds per submission of `nbgrader autograde` on a notebook with the attention exercise."""
    source = folder / "source" / "attention" / "attention.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps(_notebook()), encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'bench'\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "nbgrader"]
    _seconds([*command, "generate_assignment", "attention", "--create"], cwd=folder)
    for number in range(_NBGRADER_CLASS):
        target = folder / "submitted" / f"s{number}" / "attention" / "attention.ipynb"
        target.parent.mkdir(parents=True)
        shutil.copy(source, target)
    run = [*command, "autograde", "attention", "--create"]
    return _seconds(run, cwd=folder) / _NBGRADER_CLASS


_TEST = """
import torch
for case in range(8):
    q, k, v = torch.randn(3, 4, 6), torch.randn(3, 5, 6), torch.randn(3, 5, 7)
    mask = torch.rand(3, 4, 5) > 0.3
    mask[..., 0] = True
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    scores = (q @ k.transpose(-2, -1) / 6**0.5).masked_fill(~mask, -1e9)
    torch.testing.assert_close(weights, torch.softmax(scores, -1))
    torch.testing.assert_close(output, weights @ v)
"""


def _notebook() -> dict[str, object]:
    """The attention module as a solution, and one graded cell that does less than our checks."""

    def cell(id: str, text: str, grade: bool) -> dict[str, object]:
        tags = {"grade": grade, "solution": not grade, "locked": grade, "grade_id": id,
                "schema_version": 3, "task": False, "cell_type": "code"}  # fmt: skip
        tags |= {"points": 10} if grade else {}
        return {"cell_type": "code", "id": id, "metadata": {"nbgrader": tags}, "source": text,
                "outputs": [], "execution_count": None}  # fmt: skip

    text = (ROOT / "solutions" / "attention.py").read_text(encoding="utf-8")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": [cell("answer", text, False), cell("test", _TEST, True)],
            "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
