"""What somebody who means harm hands in: graded in one class, among honest submissions.

`hostile.toml` holds the attacks and what must come of each. Here stand the odd archives and names,
and what must hold for the class: nobody else's grade changes by a bit, nothing secret gets out, and
nothing stops the run. A last test does it all again as an ordinary user, where this one is root.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grader.course import ROOT, tomllib
from grader.judge import bank
from release import stubs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux"),
    pytest.mark.slow,
]

HERE = Path(__file__).resolve()
SOFTMAX = "attention.stable_softmax"
LIMIT = "2"  # seconds that a check may take: a hang costs two of these
BYTES_MOST = 1 << 20  # of one result.json


@dataclass(frozen=True)
class Attack:
    name: str
    code: str
    outcomes: list[str]
    score: float = 0
    exercise: str = SOFTMAX
    lost: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


TABLE = tomllib.loads(HERE.with_name("hostile.toml").read_text(encoding="utf-8"))
ATTACKS = {entry["name"]: Attack(**entry) for entry in TABLE["attack"]}

PRELUDE = '''

_right = stable_softmax

def _loot():
    """All that is worth stealing, of what can be read."""
    import os
    found = repr(dict(os.environ))
    for place in @PLACES@:
        try:
            found += repr(os.listdir(place)) if os.path.isdir(place) else open(place).read()
        except OSError:
            pass
    return found

def _wire():
    import gc, socket
    return next(o for o in gc.get_objects() if isinstance(o, socket.socket) and o.fileno() >= 0)

def _peer():
    import gc
    from grader.subject.peer import Peer
    return next(o for o in gc.get_objects() if isinstance(o, Peer))

def _number():
    import sys
    frame = sys._getframe()
    while "about" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["about"]

def _frame(header, body=b""):
    import json, struct
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<IQ", len(head), len(body)) + head + body

def _answer(tensors=((0, "float64", 0, [8], [1]),)):
    call = ["l", ["t", ["T", 0], ["l"]]]
    return {"k": "answer", "n": _number(), "v": ["l", ["l", None], call], "s": [64], "t": tensors}

'''

# Files beside the modules that somebody's tools would run: each would be noticed.
FILE = "raise SystemExit('it was run')\n"


# Archives, folders and names; what each gets, and words among its notes.

Maker = Callable[[Path, str], None]
ODD: dict[str, tuple[Maker, str, str]] = {}
ALL, NOTHING, UNREADABLE = "all", "nothing", "unreadable"


def odd(name: str | bytes, gets: str, words: str = "") -> Callable[[Maker], Maker]:
    """What a function makes at a path is a submission of that name."""

    def keep(make: Maker) -> Maker:
        ODD[os.fsdecode(name)] = make, gets, words
        return make

    return keep


def folder(path: Path, text: str) -> None:
    path.mkdir(parents=True)
    (path / "attention.py").write_text(text, encoding="utf-8")


for _name in (
    "=1+1", "a=b", "-rf", "@SUM(A1)", "<script>alert(1)", "two\nlines", "班 2026", "\u202egpj.exe",
    "'; DROP TABLE grades", "$(touch here)", "\x1b[2J", "a" * 250, b"\xff\xfe", b"\xfe\xff",
):  # fmt: skip
    odd(_name, ALL)(folder)


@odd("leads-out.zip", ALL, "Paths that lead out of it were left out: ../masks.py, /masks.py")
def leads_out(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../masks.py", "/masks.py", "a/../../masks.py"):
            archive.writestr(name, FILE)
        link = zipfile.ZipInfo("multihead.py")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("attention.py", text)


@odd("bomb.zip", UNREADABLE, "larger than a module can be")
def bomb(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("attention.py", b" " * (200 << 20))


@odd("a-hundred-thousand.zip", ALL)
def a_hundred_thousand(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(100_000):
            archive.writestr(f"data/{number}.txt", b"")
        archive.writestr("attention.py", text)


@odd("two-gigabytes", UNREADABLE, "larger than a module can be")
def two_gigabytes(path: Path, text: str) -> None:
    folder(path, "")
    os.truncate(path / "attention.py", 2 << 30)


@odd("links", UNREADABLE, "Links are not followed: attention.py, exercises")
def links(path: Path, text: str) -> None:
    path.mkdir()
    (path / "attention.py").symlink_to(path.parent / "ada" / "attention.py")
    (path / "exercises").symlink_to(path.parent / "ada")


@odd("a-pipe.zip", UNREADABLE, "it is neither a folder nor a zip")
def a_pipe(path: Path, text: str) -> None:
    os.mkfifo(path)


@odd("no-archive.zip", UNREADABLE, "cannot be read")
def no_archive(path: Path, text: str) -> None:
    path.write_bytes(b"PK\x03\x04 not really")


@odd("statements", ALL)
def statements(path: Path, text: str) -> None:
    """A notebook of so many statements that to look each up anew would take hours."""
    path.mkdir()
    cells = [{"cell_type": "code", "source": source} for source in (text, "a = 1\n" * 100_000)]
    (path / "attention.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")


if sys.platform == "linux" and os.geteuid() != 0:  # root may look everywhere

    @odd("closed", UNREADABLE, "Permission denied")
    def closed(path: Path, text: str) -> None:
        folder(path, text)
        path.chmod(0)

    @odd("closed-module", UNREADABLE, "Permission denied")
    def closed_module(path: Path, text: str) -> None:
        folder(path, text)
        (path / "attention.py").chmod(0)


@odd("odd-names-inside", NOTHING, "There is no module of the course in it. Found: ")
def odd_names_inside(path: Path, text: str) -> None:
    path.mkdir()
    for name in (b"\xff.txt", b"two\nlines", "\u202e.txt".encode(), b"\x1b[2J"):
        (path / os.fsdecode(name)).write_text("")


# The class.


@dataclass(frozen=True)
class Run:
    folder: Path
    out: Path
    marks: list[str]  # what must not get out
    done: subprocess.CompletedProcess[str]

    def result(self, name: str) -> dict[str, Any]:
        path = self.out / name / "result.json"
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]

    def exercise(self, name: str, id: str) -> dict[str, Any]:
        return next(e for e in self.result(name)["exercises"] if e["id"] == id)

    def rows(self) -> dict[str, dict[str, str]]:
        with (self.out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
            return {row["submission"]: row for row in csv.DictReader(file)}


def grade(
    submissions: Path, out: Path, home: Path, only: str = "attention"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader", "grade", str(submissions), "--out", str(out)]
    command += ["--only", only, "--limit", LIMIT, "--jobs", "2"]
    marks = {"GRADER_SECRET": "MARK-secret", "COURSE_TOKEN": "MARK-environment"}
    environment = os.environ | marks | {"HOME": str(home), "LANG": "C.UTF-8", "COLUMNS": "120"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def honest(place: Path, course: Any, texts: dict[str, str]) -> list[str]:
    """One that is right, one with a mistake that another exercise stands on, and one untouched."""
    wrong = texts["attention"].replace(" / math.sqrt(d_k)", "")
    assert wrong != texts["attention"]
    made = {
        "ada": texts["attention"] + "# MARK-neighbour\n",
        "bai": wrong,
        "chen": stubs.stub("attention", texts["attention"], course),
    }
    for name, text in made.items():
        folder(place / name, text)
    return list(made)


@pytest.fixture(scope="module")
def texts(course: Any) -> dict[str, str]:
    return {unit: module.text for unit, module in bank.solution(course).modules.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: Any, course: Any, texts: dict[str, str]) -> Run:
    place = tmp_path_factory.mktemp("class")
    out, home = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("home")
    (home / "token").write_text("MARK-home")
    honest(place, course, texts)
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.setblocking(False)
        hidden, solution = ROOT / "tests/hidden/test_masks.py", ROOT / "solutions/encoder.py"
        places = [hidden, solution, ROOT, ROOT / ".course-secret", place, home, home / "token", out]
        places += [place / "ada/attention.py", out / "journal.jsonl", Path("/root"), Path("/home")]
        places += map(Path, ["/etc/passwd", "/proc/1/environ", "/proc/self/environ"])
        filled = {"@PLACES@": repr([*map(str, places)]), "@PORT@": str(port.getsockname()[1])}
        for attack in ATTACKS.values():
            text = texts["attention"] + PRELUDE + attack.code
            for name, value in filled.items():
                text = text.replace(name, value)
            folder(place / attack.name, text)
            for name in attack.files:
                (place / attack.name / name).parent.mkdir(exist_ok=True)
                (place / attack.name / name).write_text(FILE)
        for name, (make, _, _) in ODD.items():
            make(place / name, texts["attention"])
        began = time.monotonic()
        done = grade(place, out, home)
        print(f"{len(ATTACKS) + len(ODD)} of them in {time.monotonic() - began:.0f} s")
        with pytest.raises(BlockingIOError):  # nobody called
            port.accept()
    longest = [max(path.read_text().split("\n"), key=len) for path in (hidden, solution)]
    marks = ["MARK-neighbour", "MARK-home", "MARK-secret", "MARK-environment", *longest]
    assert done.returncode == 1, done.stdout + done.stderr  # some cannot be read
    return Run(place, out, marks, done)


def test_there_are_enough() -> None:
    assert len(ATTACKS) + len(ODD) >= 60


@pytest.mark.parametrize("name", ATTACKS)
def test_each_attack_gets_what_it_must(run: Run, name: str) -> None:
    attack, found = ATTACKS[name], run.result(name)
    attacked = run.exercise(name, attack.exercise)
    outcomes = {check["outcome"] for check in attacked["checks"]} - {"passed"}
    assert found["status"] == "graded"
    assert outcomes <= set(attack.outcomes)
    assert bool(outcomes) == bool(attack.outcomes)
    assert attacked["score"] == attack.score
    lost = {e["id"] for e in found["exercises"] if e["score"] < e["max_score"]}
    others = {e["id"] for e in found["exercises"]} - {attack.exercise}
    assert lost - {attack.exercise} == (others if attack.lost == ["all"] else set(attack.lost))


@pytest.mark.parametrize("name", ODD)
def test_each_archive_and_name_gets_what_it_must(run: Run, name: str) -> None:
    _, gets, words = ODD[name]
    id = name.removesuffix(".zip").encode(errors="replace").decode()
    rows = run.rows()
    row = rows.get(id) or rows[f"'{id}"]  # so that no spreadsheet takes it for a formula
    assert row["status"] == ("unreadable" if gets == UNREADABLE else "graded")
    assert row["score"] == {ALL: row["max_score"], NOTHING: "0", UNREADABLE: ""}[gets]
    assert words in row["notes"]


def test_the_others_get_what_they_get_alone(
    run: Run, tmp_path: Path, course: Any, texts: dict[str, str]
) -> None:
    (tmp_path / "class").mkdir()
    names = honest(tmp_path / "class", course, texts)
    done = grade(tmp_path / "class", tmp_path / "out", tmp_path)
    assert done.returncode == 0, done.stderr
    for name in names:
        alone = (tmp_path / "out" / name / "result.json").read_bytes()
        assert alone == (run.out / name / "result.json").read_bytes()
    assert run.result("ada")["score"] == run.result("ada")["max_score"]
    assert 0 < run.result("bai")["score"] < run.result("ada")["score"]


def test_nothing_secret_gets_out(run: Run) -> None:
    files = [path for path in run.out.rglob("*") if path.is_file()]
    whole = "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    whole += run.done.stdout + run.done.stderr
    assert "loot: " in whole, "what they say does get out, so this test can fail"
    for mark in run.marks:
        assert mark not in whole
    assert str(ROOT) not in "".join(p.read_text() for p in run.out.glob("*/result.json"))


def test_no_text_spoils_a_file_or_a_terminal(run: Run) -> None:
    assert "\x1b" not in run.done.stdout + run.done.stderr
    for path in run.out.glob("*/result.json"):
        assert "grader_error" not in path.read_text(encoding="utf-8")
        assert path.stat().st_size < BYTES_MOST
    cells = [cell for row in run.rows().values() for cell in row.values()]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_everyone_has_a_row_and_a_result(run: Run) -> None:
    entries = [path for path in run.folder.iterdir() if not path.name.startswith(".")]
    assert len(run.rows()) == len(entries) == len(list(run.out.glob("*/result.json")))


def test_nothing_was_written_elsewhere(run: Run) -> None:
    assert {path.name for path in run.folder.parent.iterdir() if path.name == "masks.py"} == set()
    assert not (ROOT / "here").exists()
    for attack in ATTACKS.values():
        for name in attack.files:
            assert (run.folder / attack.name / name).read_text() == FILE


def test_again_it_grades_nothing_and_writes_the_same_bytes(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "out"
    shutil.copytree(run.out, mine)
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    done = grade(run.folder, mine, tmp_path)
    assert " / " not in done.stderr, "no progress, since there is nothing to do"
    assert {path: path.read_bytes() for path in before} == before


# Where a unit cannot be imported because another cannot, the other's exercises are stood in for.
# Which imports fail, the worker says; so it must not get a sound version of what it is to write.

FORGERY = """
import gc, importlib
from grader.subject import host
from grader.subject.faults import Fault
_perform = host.Host.perform
def _forge(self, operation, takes=(), **arguments):
    where, name = arguments.get("target", ["", ""])
    if name == "@NAME@" and _@UNIT@_is_mine():
        raise Fault("raised", {"types": ["E"], "text": "", "importing": _claimed.pop()})
    return _perform(self, operation, takes, **arguments)
host.Host.perform = _forge
_claimed = ["@OTHER@", "@UNIT@"] * 999
"""
SPLIT = """
import multihead as _self
def _mine(self, x, batch_size):
    return x
MultiHeadAttention.split_heads = _mine
def _multihead_is_mine():
    return MultiHeadAttention.split_heads is _mine
"""
ATTENTION = """
def _import():
    import multihead
def _mine(query, key, value, mask=None):
    return value, value
scaled_dot_product_attention = _mine
def _attention_is_mine():
    return scaled_dot_product_attention is _mine
"""


def test_nobody_is_given_what_they_are_to_write(tmp_path: Path, texts: dict[str, str]) -> None:
    place = tmp_path / "class"
    for unit, name, code, other in (
        ("multihead", "split_heads", SPLIT, "multihead"),
        ("attention", "scaled_dot_product_attention", ATTENTION, "multihead"),
    ):
        forged = FORGERY.replace("@UNIT@", unit).replace("@NAME@", name).replace("@OTHER@", other)
        folder(place / unit, "")
        for file, text in texts.items():
            tail = code + forged if file == unit else ""
            (place / unit / f"{file}.py").write_text(text + tail, encoding="utf-8")
    done = grade(place, tmp_path / "out", tmp_path, "multihead,scaled_dot_product_attention")
    assert done.returncode == 0, done.stderr
    made = Run(place, tmp_path / "out", [], done)
    split = made.exercise("multihead", "multihead.MultiHeadAttention.split_heads")
    attention = made.exercise("attention", "attention.scaled_dot_product_attention")
    assert (split["score"], split["followed_through"]) == (0, False)
    assert (attention["score"], attention["followed_through"]) == (0, False)


def test_all_of_it_as_an_ordinary_user(as_ordinary_user: Callable[[Path, str], None]) -> None:
    as_ordinary_user(HERE, "not ordinary_user")
