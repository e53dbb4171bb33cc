"""`tools/set_up.py`: what it says before it costs minutes, and when it is done."""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import ROOT
from tools import install


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What is needed of it, without a .venv."""
    folder = tmp_path / "my course 学习"
    for name in ("tools/__init__.py", "tools/set_up.py", "tools/install.py", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


REFUSED = {
    "foo": ["There is no extra 'foo'; there are:", "lab"],
    "TORCH=cup": ["'cup' is no build of torch", "cpu (small)", "'torch==2.8.0'"],
    "--torch=cup": ["'cup' is no build of torch"],
    "--torch=torch ==2.8.0": ["'==2.8.0' is no build of torch"],
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_made(checkout: Path, word: str) -> None:
    command = [sys.executable, "tools/set_up.py", word]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    for words in REFUSED[word]:
        assert words in done.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(
    "torch",
    ["default", "cpu", "cu126", "torch", "torch==2.8.0", "torch==2.8.0 numpy<2", "torch>=2.4,<2.9",
     "./torch-2.8.0-cp312-none-any.whl", "https://example.org/torch-2.8.0.whl",
     "torch@https://example.org/t"],
)  # fmt: skip
def test_what_pip_understands_is_taken(torch: str) -> None:
    install.check_torch(torch)


def test_make_s_way_of_saying_it_is_understood() -> None:
    assert install.as_options(["lab", "TORCH=cpu"]) == ["lab", "--torch=cpu"]


@pytest.mark.parametrize("by_make", [True, False])
def test_it_ends_with_what_to_type_next(monkeypatch, tmp_path, capsys, by_make: bool) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(install, "BY_MAKE", by_make)
    monkeypatch.setattr(install, "requirements", lambda extras: {"core": ["torch"]})
    monkeypatch.setattr(install, "pip", lambda arguments, pinned: 0)
    install.RECORDS.mkdir(parents=True)
    install.UNFINISHED.touch()
    options = argparse.Namespace(extras=["lab"], constraints="none")
    for _ in ("something is done", "nothing is to do"):
        assert install.install(options) == 0
        said = capsys.readouterr().err
        assert (f"Type next: {install.PYTHON} -m grader check" in said) != by_make
        assert (f"{install.PYTHON} -m jupyter lab exercises" in said) != by_make


# In a Python that is too old.

FRONTS = {"tools/set_up.py": ["tools/set_up.py"], "grader/__main__.py": ["-m", "grader", "doctor"]}


@pytest.mark.parametrize("name", FRONTS)
def test_nothing_in_it_is_unreadable_for_python_2(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.Nonlocal)
    for node in ast.walk(tree):
        assert not isinstance(node, new), ast.dump(node)
        assert not (isinstance(node, ast.arg) and node.annotation), node.arg
        assert not (isinstance(node, ast.FunctionDef) and node.returns), node.name
    (ROOT / name).read_bytes().decode("ascii")


@pytest.mark.parametrize("name", FRONTS)
@pytest.mark.parametrize("python", ["python2.7", "python3.6", "python3.7"])
def test_an_old_python_gets_a_sentence(python: str, name: str) -> None:
    asked = [python, "-c", "import sys; print(sys.executable)"]
    if (
        not shutil.which(python)
        or (found := subprocess.run(asked, capture_output=True, text=True)).returncode
    ):
        pytest.skip(f"there is no {python}")
    command = [found.stdout.strip(), *FRONTS[name]]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "needs Python 3.10 or newer" in done.stderr
    assert "Error" not in done.stderr


# What make would pass over in silence, or refuse after minutes.

SLIPS = {
    "only=attention": "make check ONLY='attention'",
    "attention": "make check ONLY=attention",
    "masks attention": 'make check ONLY="masks attention"',
}


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
@pytest.mark.parametrize("words", SLIPS)
def test_make_says_how_it_is_written(words: str) -> None:
    command = ["make", "--no-print-directory", "-n", "check", *words.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{SLIPS[words]}.  Stop." in done.stderr
