"""A peer: `nbgrader autograde` on a notebook with the attention exercise."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from grader.course import ROOT

_CLASS = 3

# nbgrader calls other programs by name
_SCRIPTS = str(Path(sys.executable).parent)
_WITH_SCRIPTS = os.environ | {"PATH": f"{_SCRIPTS}{os.pathsep}{os.environ.get('PATH', '')}"}


def seconds(folder: Path) -> float:
    """Seconds per submission.

    Args:
        folder: for the course; it is made.
    """
    source = folder / "source" / "attention" / "attention.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps(_notebook()), encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'bench'\n", encoding="utf-8"
    )
    _run(folder, "generate_assignment")
    for number in range(_CLASS):
        target = folder / "submitted" / f"s{number}" / "attention" / "attention.ipynb"
        target.parent.mkdir(parents=True)
        shutil.copy(source, target)
    return _run(folder, "autograde") / _CLASS


def _run(folder: Path, what: str) -> float:
    command = [sys.executable, "-m", "nbgrader", what, "attention", "--create"]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=_WITH_SCRIPTS, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"nbgrader {what} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started


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
