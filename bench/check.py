"""How long a whole `check` takes, against `import torch` alone."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from bench.peer_pytest import CORE

_ROUNDS = 7
_BUDGET = 1.5


def run() -> bool:
    """Print both times and their ratio; True if it is within the budget."""
    importing = [sys.executable, "-c", "import torch"]
    checking = [sys.executable, "-m", "grader", "check", *CORE, "--path", "solutions"]
    _seconds(importing), _seconds(checking)  # the first time, files are read from the disk
    pairs = [(_seconds(importing), _seconds(checking)) for _ in range(_ROUNDS)]
    alone, whole = (statistics.median(times) for times in zip(*pairs))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"import torch                 {alone:6.2f} s   (median of {_ROUNDS})")
    print(f"grader check, five units     {whole:6.2f} s")
    print(f"ratio                        {ratio:6.2f}     (budget: {_BUDGET})")
    return ratio <= _BUDGET


def _seconds(command: Sequence[str]) -> float:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started
