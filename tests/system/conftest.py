"""What the project's own tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from grader import course as courses
from grader.course import Course
from grader.model import Module, Submission

# The same examples on every run: a test that fails by chance tells nobody anything.
settings.register_profile("system", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("system")

# Some tests press Ctrl-C. What a shell starts in the background ignores it, and hands that on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As the Makefile does: texts then name commands in make's words.
os.environ["GRADER_CALLED_BY"] = "make"

Submit = Callable[..., Submission]


@pytest.fixture(scope="session")
def course() -> Course:
    return courses.load()


@pytest.fixture
def submit() -> Submit:
    """Makes a submission of units by name: ``submit(attention="x = 1")``."""

    def submit(id: str = "student", **texts: str) -> Submission:
        modules = {unit: Module(unit, text, f"{id}/{unit}.py") for unit, text in texts.items()}
        return Submission(id, modules)

    return submit


_BECOME = """
import os, sys
os.setgroups([]); os.setresgid(64999, 64999, 64999); os.setresuid(64999, 64999, 64999)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def as_ordinary_user() -> Callable[[Path, str], None]:
    """Runs a test module again, those tests that an expression picks, as somebody who is not root.

    Where the interpreter lies under /root, a mount namespace shows just that part of it.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("this run is an ordinary user's already")
    from grader.subject import jail

    needed = [Path(sys.base_prefix), Path(sysconfig.get_path("purelib")), jail.CHECKOUT]
    above = {folder for path in needed for folder in path.resolve().parents}
    closed = {folder for folder in above if not folder.stat().st_mode & 1} | {Path("/tmp")}
    view = [jail.find_bwrap(), "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    for folder in sorted(closed):
        view += ["--perms", "1777", "--tmpfs", str(folder)]
    for path in (path.resolve() for path in needed):
        if closed & set(path.parents):
            for parent in list(path.parents)[-2::-1]:
                view += ["--dir", str(parent)]
            view += ["--ro-bind", str(path), str(path)]

    def run(module: Path, picked: str) -> None:
        tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(module), "-k", picked]
        done = subprocess.run(
            [*view, "--chdir", str(jail.CHECKOUT), "--", sys.executable, "-c", _BECOME, *tests],
            env={"HOME": "/nowhere", "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
        )
        if "interpreter" in done.stderr and "Permission denied" in done.stderr:
            pytest.skip(f"an ordinary user cannot run this interpreter: {done.stderr}")
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        assert " passed" in done.stdout
        sys.stdout.write(done.stdout)

    return run
