"""`tools/set_up.py`: what it says before it costs minutes, and when it is done."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import ROOT
from tools import install

NEEDED = ("tools/__init__.py", "tools/set_up.py", "tools/install.py", "pyproject.toml",
          "grader/__init__.py", "grader/model.py", "grader/report/__init__.py",
          "grader/report/language.py", "grader/report/plain.py", "grader/report/usage.py",
          "grader/locale/zh/LC_MESSAGES/grader.mo")  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What is needed of it, without a .venv."""
    folder = tmp_path / "my course 学习"
    for name in NEEDED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def set_up(folder: Path, word: str, lang: str) -> subprocess.CompletedProcess[str]:
    """In a Python that has no packages at all."""
    command = [sys.executable, "-I", "-S", "tools/set_up.py", word]
    environment = os.environ | {"LANGUAGE": lang}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True,
                          encoding="utf-8", timeout=60)  # fmt: skip


REFUSED = {
    "foo": ["There is no extra 'foo'; there are:", "lab"],
    "TORCH=cup": ["'cup' is no build of torch", "cpu (small)", "'torch==2.8.0'"],
    "--torch=cup": ["'cup' is no build of torch"],
    "--torch=torch ==2.8.0": ["'==2.8.0' is no build of torch"],
}


@pytest.mark.parametrize("word", REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_made(checkout: Path, word: str) -> None:
    done = set_up(checkout, word, "en")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    for words in REFUSED[word]:
        assert words in done.stderr
    assert not (checkout / ".venv").exists()


IN_CHINESE = {
    "foo": (2, "没有叫 'foo' 的附加组件"),
    "--torch=cup": (2, "没有叫 'cup' 的 torch 版本"),
    "--nonsense": (2, "无法识别的参数：--nonsense"),
    "--help": (0, "建立 .venv，并安装所需的东西。"),
}


@pytest.mark.parametrize("word", IN_CHINESE)
def test_it_speaks_chinese_before_anything_is_installed(checkout: Path, word: str) -> None:
    done = set_up(checkout, word, "zh_CN.UTF-8")
    code, words = IN_CHINESE[word]
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
    assert not re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", done.stdout + done.stderr)


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
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_old_python_gets_a_sentence(python: str, name: str, lang: str) -> None:
    asked = [python, "-c", "import sys; print(sys.executable)"]
    if (
        not shutil.which(python)
        or (found := subprocess.run(asked, capture_output=True, text=True)).returncode
    ):
        pytest.skip(f"there is no {python}")
    command = [found.stdout.strip(), *FRONTS[name]]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "LANGUAGE": lang}
    environment["PYTHONIOENCODING"] = "utf-8"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 1
    words = {"en": "needs Python 3.10 or newer", "zh": "需要 Python 3.10 或更新的版本"}
    assert words[lang] in done.stderr
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


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
@pytest.mark.parametrize(("walls", "sets_up"), [("WALLS=yes", True), ("WALLS=", False)])
def test_the_doctor_tries_walls_once_they_are_set_up(walls: str, sets_up: bool) -> None:
    command = ["make", "--no-print-directory", "-n", "doctor", walls, "CONSTRAINTS=none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ("tools/set_up.py instructor" in done.stdout) == sets_up
    assert done.stdout.count("-m grader doctor") == 2
