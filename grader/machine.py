"""A student's machine, as the first part of `grader doctor` looks at it (see `checkup`).

With the standard library alone, and in a Python that is too old for the rest. Packages are tried in
a process of their own, since a broken one can end it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("numpy", "torch", "pytest", "rich", "safetensors", "watchfiles")

# What a Python says of its packages. It may be ended in the middle, so it says each thing at once.
_PROBE = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
def tell(**facts): print(json.dumps(facts), flush=True)
tell(python=sys.version.split()[0])
for name in sys.argv[1:]:
    tell(trying=name)
    try:
        found = importlib.import_module(name)
        tell(name=name, version=str(getattr(found, "__version__", "")))
        if name == "torch":
            found.ones(2).numpy()
            cuda = found.version.cuda
            tell(cuda=cuda, gpu=bool(cuda and found.cuda.is_available()))
    except BaseException as error:
        tell(name=name, error=f"{type(error).__name__}: {error}"[:300])
"""


@dataclass
class Machine:
    """What is looked at; a test puts something else in the place of a field."""

    root: Path = ROOT
    system: str = field(default_factory=platform.system)
    processor: str = field(default_factory=platform.machine)
    python: tuple[int, ...] = field(default_factory=lambda: tuple(sys.version_info[:3]))
    bits: int = 64 if sys.maxsize > 2**32 else 32
    libc: str = field(default_factory=lambda: platform.libc_ver()[0])
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    find: Callable[[str], str | None] = shutil.which
    executable: str = sys.executable

    @property
    def venv_python(self) -> Path:
        windows = self.system == "Windows"
        return self.root / ".venv" / ("Scripts/python.exe" if windows else "bin/python")

    @property
    def is_set_up(self) -> bool:
        records = self.root / ".venv" / "set-up"
        done = (records / "core").exists() and not (records / "unfinished").exists()
        return done and self.venv_python.exists()

    @property
    def is_stale(self) -> bool:
        """Whether what is needed has changed since .venv was set up."""
        made = (self.root / ".venv" / "set-up" / "core").stat().st_mtime
        needs = (self.root / name for name in ("pyproject.toml", "constraints.txt"))
        return any(path.exists() and path.stat().st_mtime > made for path in needs)

    @property
    def has_packages(self) -> bool:
        """Whether the Python that runs this has torch, .venv or not."""
        return self.executable == sys.executable and find_spec("torch") is not None

    def can_write(self, folder: Path) -> bool:
        try:
            with tempfile.TemporaryFile(dir=str(folder)):
                return True
        except OSError:
            return False

    def free(self) -> int:
        return shutil.disk_usage(self.root).free

    def translated(self) -> bool:
        """Whether Apple silicon runs an Intel build."""
        return _output(["sysctl", "-in", "sysctl.proc_translated"]) == "1"

    def packages(self) -> tuple[list[dict[str, Any]], int]:
        """What the Python that counts says of its packages, and its exit status."""
        python = str(self.venv_python) if self.venv_python.exists() else self.executable
        command = [python, "-c", _PROBE, *PACKAGES]
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=300,
                cwd=self.root,
            )
        except (OSError, subprocess.TimeoutExpired):
            return [], -1
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")], done.returncode

    def reaches(self, host: str, port: int) -> bool:
        try:
            socket.create_connection((host, port), timeout=4).close()
        except OSError:
            return False
        return True


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()
