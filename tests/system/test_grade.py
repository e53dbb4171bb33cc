"""A class, graded: outcomes, follow-through, what is kept, and what is refused.

Marking costs seconds, so one run of one class serves most tests: the sample class, and submissions
of ours that import the broken attention in every way.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import jsonschema
import pytest
import torch

from grader import course as courses
from grader import sample
from grader.course import ROOT
from grader.grade import _first, read_class
from grader.intake import IntakeError
from grader.judge import bank, standin
from grader.judge.diagnose import Signature
from grader.judge.suite import collect
from grader.model import CheckResult, Outcome
from grader.report import difference, formats
from grader.subject import jail

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux"),
    pytest.mark.slow,
]

ATTENTION = "attention.scaled_dot_product_attention"
STANDS_ON_IT = [
    id
    for id in courses.load().exercises
    if id != ATTENTION and ATTENTION in courses.load().closure([id])
]
UNSCALED = (" / math.sqrt(d_k)", "")
IMPORTS = {
    "relative": "from .attention import scaled_dot_product_attention",
    "plain": "from attention import scaled_dot_product_attention",
    "package": "from exercises.attention import scaled_dot_product_attention",
    "module": "import attention\n\n\ndef scaled_dot_product_attention(*args):\n"
    "    return attention.scaled_dot_product_attention(*args)",
    "star": "from .attention import *",
}


def grade(submissions: Path | None, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader", "grade", "--out", str(out), *options]
    command += [str(submissions)] if submissions else []
    environment = os.environ | {
        "GRADER_SECRET": "of the tests",
        "COLUMNS": "120",
        "LANG": "C.UTF-8",
    }
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def reference(folder: Path, course, unit: str = "", *edits: tuple[str, str]) -> Path:
    """The reference as a submission, with texts of one unit replaced."""
    folder.mkdir(parents=True)
    for name, module in bank.solution(course).modules.items():
        text = module.text
        if name == unit:
            for find, put in edits:
                assert find in text
                text = text.replace(find, put)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def graded(tmp_path_factory, course):
    """The sample class and our own submissions, graded once: OUT, and what was printed."""
    folder = tmp_path_factory.mktemp("a class of 2026 班")
    sample.write(folder)
    for name, line in IMPORTS.items():
        broken = reference(folder / f"import-{name}", course, "attention", UNSCALED)
        text = (broken / "multihead.py").read_text(encoding="utf-8")
        assert IMPORTS["relative"] in text
        text = text.replace(IMPORTS["relative"], line)
        (broken / "multihead.py").write_text(text, encoding="utf-8")
    (reference(folder / "without-attention", course) / "attention.py").unlink()
    (reference(folder / "empty-attention", course) / "attention.py").write_text("")
    (folder / "broken.zip").write_bytes(b"PK\x03\x04 not really")
    (folder / "broken-notebook").mkdir()
    (folder / "broken-notebook" / "attention.ipynb").write_text('{"cells": [')
    (reference(folder / "half-broken", course) / "attention.py").write_text("#" * 5_000_000)
    _odd(folder, course)
    out = tmp_path_factory.mktemp("out")
    run = grade(folder, out)
    assert run.returncode == 1, run.stdout + run.stderr  # one cannot be read
    return folder, out, run


ODD = "def stable_softmax(scores, dim=-1):\n    raise ValueError({})\n"


def _odd(folder: Path, course) -> None:
    """What once stopped a class, or cost somebody else."""
    for name, text in {
        "half-a-character": r"'bad \ud800 text'",
        "escape-sequences": r"'\x1b]0;pwned\x07\x1b[2J'",
        "another-line-end": r"'a\u2028b\x85c'",
        "grades.csv": "'a name of ours'",
    }.items():
        (folder / name).mkdir()
        (folder / name / "attention.py").write_text(ODD.format(text), encoding="utf-8")
    (folder / "Same.zip").write_bytes(b"")
    (folder / "Same.ZIP").write_bytes(b"")
    (folder / "loose.py").write_text("x = 1")
    (folder / "list.txt").write_text("ada, bai")
    forger = reference(folder / "forger", course, "attention", UNSCALED)
    text = (forger / "attention.py").read_text(encoding="utf-8") + FORGERY
    (forger / "attention.py").write_text(text, encoding="utf-8")


def result(out: Path, name: str) -> dict:
    return json.loads((out / name / "result.json").read_text(encoding="utf-8"))


def rows(out: Path) -> dict[str, dict[str, str]]:
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["submission"]: row for row in csv.DictReader(file)}


def exercise(out: Path, name: str, id: str) -> dict:
    return next(e for e in result(out, name)["exercises"] if e["id"] == id)


def outcomes(out: Path, name: str, id: str) -> set[str]:
    return {check["outcome"] for check in exercise(out, name, id)["checks"]} - {"passed"}


# What each of the sample class gets


@pytest.mark.parametrize(
    "name", ["ada-perfect", "bai-perfect-zip", "chen-written-otherwise", "ping-warns"]
)
def test_right_ones_earn_everything(graded, name) -> None:
    _, out, _ = graded
    found = result(out, name)
    assert found["status"] == "graded"
    assert found["score"] == found["max_score"] > 0


@pytest.mark.parametrize(
    "name", ["dina-empty", "emil-untouched", "qi-rubbish", "rosa-patches-torch"]
)
def test_those_that_compute_nothing_earn_nothing(graded, name) -> None:
    _, out, _ = graded
    assert result(out, name)["score"] == 0


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("hana-softmax-over-queries", "softmax-over-queries"),
        ("jun-heads-not-transposed", "split-without-transpose"),
        ("kofi-cosines-left-out", "sines-odd-columns-empty"),
        ("lena-norm-first", "layer-pre-norm"),
    ],
)
def test_mistakes_are_named(graded, name, mistake) -> None:
    _, out, _ = graded
    named = {c["mistake"] for e in result(out, name)["exercises"] for c in e["checks"]}
    assert named - {None} == {mistake}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("ming-hang", "timeout"), ("nils-crash", "crashed"), ("olga-walks-away", "crashed")],
)
def test_what_takes_its_process_down_costs_its_exercise(graded, name, outcome) -> None:
    _, out, _ = graded
    assert outcomes(out, name, ATTENTION) == {outcome}
    lost = [e["id"] for e in result(out, name)["exercises"] if e["score"] < e["max_score"]]
    assert lost == [ATTENTION]


def test_a_syntax_error_costs_its_own_unit(graded) -> None:
    _, out, _ = graded
    found = result(out, "gita-syntax-error")["exercises"]
    assert {e["id"].split(".")[0] for e in found if e["score"] < e["max_score"]} == {"attention"}


def test_nothing_is_our_fault(graded) -> None:
    _, out, _ = graded
    for path in out.glob("*/result.json"):
        assert "grader_error" not in path.read_text(encoding="utf-8"), path


def test_what_cannot_be_read_is_said_and_graded_nothing(graded) -> None:
    _, out, run = graded
    assert rows(out)["broken"]["status"] == "unreadable"
    assert "broken.zip cannot be read" in rows(out)["broken"]["notes"]
    assert "broken: unreadable" in run.stdout
    found = rows(out)["broken-notebook"]
    reason = "attention.ipynb is not a notebook that can be read."
    assert (found["status"], found["score"], found["notes"]) == ("unreadable", "", reason)
    assert "broken-notebook: unreadable" in run.stdout
    assert reason in page(out, "broken-notebook")


def test_what_can_be_read_is_graded_beside_what_cannot(graded) -> None:
    _, out, _ = graded
    found = result(out, "half-broken")
    assert (found["status"], found["notes"]) == (
        "graded",
        ["attention.py is larger than a module can be; it was not read."],
    )
    lost = {e["id"] for e in found["exercises"] if e["score"] < e["max_score"]}
    assert lost == {e["id"] for e in found["exercises"] if e["id"].startswith("attention.")}


# Follow-through


@pytest.mark.parametrize("name", [f"import-{name}" for name in IMPORTS])
def test_one_mistake_costs_once(graded, name) -> None:
    _, out, _ = graded
    found = result(out, name)["exercises"]
    assert [e["id"] for e in found if e["score"] < e["max_score"]] == [ATTENTION]
    assert [e["id"] for e in found if e["followed_through"]] == STANDS_ON_IT


@pytest.mark.parametrize("name", ["without-attention", "empty-attention"])
def test_a_unit_that_was_not_handed_in_costs_once(graded, name) -> None:
    """As where each unit is an assignment of its own."""
    _, out, _ = graded
    found = result(out, name)["exercises"]
    lost = {e["id"] for e in found if e["score"] < e["max_score"]}
    assert lost == {e["id"] for e in found if e["id"].startswith("attention.")}
    assert all(e["score"] == 0 for e in found if e["id"] in lost)


def test_a_broken_method_costs_once(graded) -> None:
    _, out, _ = graded
    found = result(out, "jun-heads-not-transposed")["exercises"]
    lost = [e["id"] for e in found if e["score"] < e["max_score"]]
    assert lost == ["multihead.MultiHeadAttention.split_heads"]


# The table and the files


def test_the_table_names_everyone(graded) -> None:
    folder, out, run = graded
    listed = {p.stem if p.suffix.lower() == ".zip" else p.name for p in folder.iterdir()}
    assert {*rows(out)} >= listed - {"list.txt", "grades.csv"}
    for name in rows(out):
        assert name in run.stdout
    assert "not graded: 'list.txt' is neither a folder nor a zip" in run.stdout
    loose = rows(out)["loose.py"]
    assert loose["status"] == "unreadable"
    assert "put what it holds into a folder" in loose["notes"]


@pytest.mark.parametrize("name", ["half-a-character", "escape-sequences", "another-line-end"])
def test_hostile_texts_are_text(graded, name) -> None:
    _, out, _ = graded
    assert outcomes(out, name, "attention.stable_softmax") == {"raised"}
    message = exercise(out, name, "attention.stable_softmax")["checks"][0]["message"]
    assert "\x1b" not in message
    assert "Your code raised ValueError: " in message


def test_names_do_not_collide(graded) -> None:
    _, out, _ = graded
    assert "grades.csv-" in rows(out)
    assert len([name for name in rows(out) if name.startswith("Same")]) == 2


def test_columns_of_grades(graded, course) -> None:
    _, out, _ = graded
    row = rows(out)["ada-perfect"]
    assert list(row) == ["submission", "status", "score", "max_score", *course.exercises, "notes"]
    assert sum(float(row[id]) for id in course.exercises) == float(row["score"])


def test_a_spreadsheet_knows_that_it_is_utf_8(graded) -> None:
    _, out, _ = graded
    assert (out / "grades.csv").read_bytes().startswith(b"\xef\xbb\xbfsubmission,")


def test_a_result_holds_no_path_of_this_machine(graded) -> None:
    _, out, _ = graded
    text = (out / "gita-syntax-error" / "result.json").read_text(encoding="utf-8")
    assert str(ROOT) not in text


# Pages (test_pages.py has what can be tried without grading)


def page(out: Path, name: str) -> str:
    return (out / name / "report.html").read_text(encoding="utf-8")


HANA = "Your weights equal those of a softmax over the queries."


def test_everyone_has_a_page_and_the_class_has_one(graded) -> None:
    _, out, _ = graded
    names = set(rows(out))
    assert {path.parent.name for path in out.glob("*/report.html")} == names
    found = (out / "class.html").read_text(encoding="utf-8")
    for name in names:
        assert f'<a href="{quote(name, safe="")}/report.html">' in found
    assert HANA in found
    assert HANA in page(out, "hana-softmax-over-queries")


def test_a_page_says_no_more_than_the_result(graded) -> None:
    """What was printed may hold hidden inputs."""
    _, out, _ = graded
    journal = (out / "journal.jsonl").read_text(encoding="utf-8")
    assert "!!!!" in journal or "!!!!" not in page(out, "ping-warns")
    assert "!!!!" not in page(out, "ping-warns")
    assert "could not be read" in page(out, "broken")


def test_results_are_as_their_schema_says(graded) -> None:
    _, out, _ = graded
    schema = json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
    holds = jsonschema.Draft202012Validator(schema)
    results = formats.read(out)
    for found in results:
        holds.validate(found)
    assert {found["status"] for found in results} == {"graded", "unreadable"}


def test_pictures_are_of_public_checks_alone(graded) -> None:
    _, out, _ = graded
    public = {
        check.id for check in collect(sorted((ROOT / "tests/public").glob("test_*.py"))).checks
    }
    checks = [c for r in formats.read(out) for e in r.get("exercises", ()) for c in e["checks"]]
    drawn = {check["id"] for check in checks if check["picture"]}
    assert drawn
    assert drawn <= public
    assert [check for check in checks if check["picture"] and check["outcome"] == "passed"] == []


# Again, alone, adjusted


def test_again_grades_nothing_and_writes_the_same_bytes(graded) -> None:
    folder, out, _ = graded
    files = [*out.glob("*/result.json"), *out.glob("*/report.html")]
    files += [out / name for name in ("class.html", "grades.csv", "journal.jsonl")]
    before = {path: path.read_bytes() for path in files}
    run = grade(folder, out)
    assert " / " not in run.stderr, "no progress, since there is nothing to do"
    assert {path: path.read_bytes() for path in files} == before


def test_alone_is_as_in_class(graded, tmp_path) -> None:
    folder, out, _ = graded
    for name in ("ada-perfect", "hana-softmax-over-queries"):
        shutil.copytree(folder / name, tmp_path / "class" / name)
    grade(tmp_path / "class", tmp_path / "out", "--jobs", "1")
    for name in ("ada-perfect", "hana-softmax-over-queries"):
        alone = (tmp_path / "out" / name / "result.json").read_bytes()
        assert alone == (out / name / "result.json").read_bytes()


def test_killed_it_goes_on(course, tmp_path) -> None:
    for n in range(4):
        reference(tmp_path / "class" / f"s{n}", course, "masks", ('"""Masks', f'"""{n} Masks'))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "grader", "grade", str(tmp_path / "class")]
    command += ["--out", str(out), "--jobs", "1"]
    environment = os.environ | {"GRADER_SECRET": "of the tests"}
    running = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    journal = out / "journal.jsonl"
    deadline = time.monotonic() + 120
    while not journal.exists() or not journal.read_text().count("\n"):
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    first = journal.read_text().splitlines()
    journal.write_text(journal.read_text() + '{"key": "torn')  # and a line that was not finished
    run = grade(tmp_path / "class", out, "--jobs", "1")
    assert run.returncode == 0, run.stderr
    assert f" / {4 - len(first)} " in run.stderr
    assert {row["score"] for row in rows(out).values()} == {rows(out)["s0"]["max_score"]}


def test_what_changes_meanwhile_is_graded_the_next_time(course, tmp_path) -> None:
    for n in range(3):
        reference(tmp_path / "class" / f"s{n}", course, "masks", ('"""Masks', f'"""{n} Masks'))
    out, options = tmp_path / "out", ("--only", "masks", "--jobs", "1")
    command = [sys.executable, "-m", "grader", "grade", str(tmp_path / "class")]
    environment = os.environ | {"GRADER_SECRET": "of the tests"}
    command += ["--out", str(out), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as running:
        assert running.stderr.readline()  # the class is read, and one is done
        (tmp_path / "class" / "s2" / "masks.py").write_text("# begun anew")
        running.communicate()
    assert running.returncode == 1
    status = {name: (row["status"], row["notes"]) for name, row in rows(out).items()}
    assert status["s0"] == status["s1"] == ("graded", "")
    assert status["s2"] == ("unreadable", "s2 has changed meanwhile: grade again.")
    assert grade(tmp_path / "class", out, *options).returncode == 0
    assert {row["status"] for row in rows(out).values()} == {"graded"}


def test_a_twin_that_changes_takes_nobody_along(course, tmp_path) -> None:
    for name in ("a", "b"):
        reference(tmp_path / name, course)
    changed, whole = read_class(tmp_path, course)
    (tmp_path / "a" / "masks.py").write_text("# begun anew")
    assert _first([changed, whole], course).id == "b"
    with pytest.raises(IntakeError, match="a has changed meanwhile"):
        _first([changed], course)


def test_a_class_of_texts_is_not_held(course, tmp_path) -> None:
    for n in range(50):
        reference(tmp_path / f"s{n}", course, "masks", ('"""Masks', f'"""{n} Masks'))
    read_class(tmp_path, course)  # what is remembered of files is bounded
    tracemalloc.start()
    found = read_class(tmp_path, course)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 50
    assert held < 1000 * len(found)


def test_adjustments_without_grading_again(graded, tmp_path) -> None:
    folder, out, _ = graded
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    checks = exercise(out, "hana-softmax-over-queries", ATTENTION)["checks"]
    open_checks = [c["id"] for c in checks if c["outcome"] != "passed"]
    lines = ["submission,kind,target,value,reason"]
    lines += [
        "emil-untouched,override,masks.combine_masks,3,shown in class",
        "ada-perfect,late,,0.5,a day",
        "broken,override,,3,in person",
    ]
    lines += [f"*,void,{id},,unclear" for id in open_checks]
    (mine / "adjustments.csv").write_text("\n".join(lines), encoding="utf-8")
    run = grade(folder, mine)
    assert " / " not in run.stderr
    points = {name: float(row["score"] or 0) for name, row in rows(mine).items()}
    whole = float(rows(mine)["ada-perfect"]["max_score"])
    assert points["emil-untouched"] == 3
    assert points["ada-perfect"] == whole / 2
    assert "a day" in rows(mine)["ada-perfect"]["notes"]
    assert rows(mine)["broken"]["score"] == ""
    assert "has no effect: nothing of it was graded" in rows(mine)["broken"]["notes"]
    assert points["hana-softmax-over-queries"] == whole
    assert f'<p class="big">{whole / 2:g} of {whole:g} points</p>' in page(mine, "ada-perfect")
    assert "Late (a day): times 0.5." in page(mine, "ada-perfect")
    assert "set by hand" in page(mine, "emil-untouched")
    assert "Declared void: it counts as passed." in page(mine, "hana-softmax-over-queries")
    assert HANA not in (mine / "class.html").read_text(encoding="utf-8")
    moves = {move.submission: move for move in difference.compare(out, mine).moves}
    assert moves["ada-perfect"].why == ["adjustments"]
    assert moves["ada-perfect"].by == -whole / 2
    assert [change.new for change in moves["hana-softmax-over-queries"].checks] == [
        "passed" for _ in open_checks
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ada-perfect,raise,,1,", "kind 'raise' is not override, late or void"),
        ("ada-perfect,override,nowhere.f,1,", "there is no exercise 'nowhere.f'"),
        ("ada-perfect,late,,much,", "value 'much' is not a number"),
        ("ada-perfect,late", "value '' is not a number"),
        ("ada-perfect,late,,nan,", "value 'nan' is not between 0 and 1"),
        ("ada-perfect,override,masks.combine_masks,400,", "value '400' is not between 0 and"),
        ("nobody,late,,1,", "there is no submission 'nobody'"),
        ("ada-perfect,override,,16,", "value '16' is not between 0 and 15"),
        ("*,void,encoder.TransformerEncoder/1/t,,", "encoder.TransformerEncoder does not count"),
    ],
)
def test_adjustments_that_cannot_be_done(graded, tmp_path, line, said) -> None:
    folder, _, _ = graded
    text = f"submission,kind,target,value,reason\n{line}\n"
    (tmp_path / "adjustments.csv").write_text(text, encoding="utf-8")
    run = grade(folder, tmp_path, "--only", "masks")
    assert run.returncode == 2
    assert f"line 2: {said}" in run.stderr
    assert not (tmp_path / "grades.csv").exists()


def test_a_void_names_a_check_that_exists(graded, tmp_path) -> None:
    folder, out, _ = graded
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    check = exercise(out, "ada-perfect", ATTENTION)["checks"][0]["id"]
    text = f"submission,kind,target,value,reason\n*,void,{check}x,,\n"
    (mine / "adjustments.csv").write_text(text, encoding="utf-8")
    run = grade(folder, mine)
    assert run.returncode == 2
    assert f"there is no check '{check}x'; did you mean '{check}'?" in run.stderr
    assert (mine / "grades.csv").read_bytes() == (out / "grades.csv").read_bytes()


def test_what_takes_a_whole_unit_is_noted(course, tmp_path) -> None:
    """A name or a bracket may be set right by hand; whoever looks at the class must see it."""
    reference(tmp_path / "class" / "gina", course)
    reference(tmp_path / "class" / "dora", course)
    (tmp_path / "class" / "gina" / "masks.py").rename(tmp_path / "class" / "gina" / "masks_v2.py")
    (tmp_path / "class" / "dora" / "masks.py").write_text("def (", encoding="utf-8")
    grade(tmp_path / "class", tmp_path / "out", "--only", "masks attention")
    found = {name: row["notes"] for name, row in rows(tmp_path / "out").items()}
    assert found["gina"] == "masks_v2.py was not read: is it masks.py?"
    assert found["dora"] == "masks.py: Python cannot read it."


def test_some_are_graded_and_the_others_keep_what_they_have(small_class, tmp_path) -> None:
    out = tmp_path / "out"
    only = ["--only", "create_look_ahead_mask"]
    grade(small_class, out, *only, "--students", "a")
    assert rows(out).keys() == {"a"}
    grade(small_class, out, *only, "--students", "[bc]")
    assert rows(out).keys() == {"a", "b", "c"}
    before = (out / "grades.csv").read_bytes()
    grade(small_class, out, *only, "--students", "c")
    assert (out / "grades.csv").read_bytes() == before
    run = grade(small_class, out, *only, "--limit", "20", "--students", "c")  # all are outdated
    assert "as in an earlier run, if at all: a, b" in run.stdout
    assert (out / "grades.csv").read_bytes() == before
    run = grade(small_class, out, *only, "--students", "nobody*")
    assert run.returncode == 2
    assert "nobody here is called so" in run.stderr
    assert (out / "grades.csv").read_bytes() == before
    assert {path.parent.name for path in out.glob("*/report.html")} == {"a", "b", "c"}


def test_who_has_left_leaves_no_result(course, tmp_path) -> None:
    for name in ("ada", "bai", "chen"):
        reference(tmp_path / "class" / name, course)
    out = tmp_path / "out"
    grade(tmp_path / "class", out, "--only", "create_look_ahead_mask")
    for name in ("bai", "chen"):
        shutil.rmtree(tmp_path / "class" / name)
    (out / "chen" / "notes.txt").write_text("of the instructor's")
    (out / "else").mkdir()
    (out / "else" / "result.json").write_text("{}")  # none of ours
    before = (out / "journal.jsonl").read_bytes()
    grade(tmp_path / "class", out, "--only", "create_look_ahead_mask")
    assert {p.name for p in out.glob("*/*.*")} == {"result.json", "report.html", "notes.txt"}
    assert {path.parent.name for path in out.glob("*/result.json")} == {"ada", "else"}
    assert {path.parent.name for path in out.glob("*/report.html")} == {"ada"}
    assert not (out / "bai").exists()
    assert (out / "journal.jsonl").read_bytes() == before


def test_a_class_of_classes_is_said_to_be_one(course, tmp_path) -> None:
    for name in ("ada", "bai"):
        reference(tmp_path / "classes" / "2026" / name, course)
    run = grade(tmp_path / "classes", tmp_path / "out", "--only", "create_look_ahead_mask")
    assert "'2026' was taken for one student" in " ".join(run.stdout.split())
    assert "./ada was read, ./bai not" in rows(tmp_path / "out")["2026"]["notes"]


@pytest.mark.parametrize(
    ("submissions", "said"),
    [("nowhere", "There is no folder"), ("empty", "There is no submission in")],
)
def test_nothing_to_grade(tmp_path, submissions, said) -> None:
    (tmp_path / "empty").mkdir()
    run = grade(tmp_path / submissions, tmp_path / "out")
    assert run.returncode == 2
    assert said in run.stderr


def test_results_among_the_submissions_are_refused(graded) -> None:
    folder, _, _ = graded
    run = grade(folder, folder / "out")
    assert run.returncode == 2
    assert "Results would lie among the submissions" in run.stderr


@pytest.mark.parametrize(
    "option, value, words",
    [
        ("--limit", "0", "it must be a number of seconds above 0"),
        ("--limit", "nan", "'nan' is not a number"),
        ("--jobs", "0", "it must be 1 or more"),
    ],
)
def test_options_that_make_no_sense(graded, tmp_path, option, value, words) -> None:
    folder, _, _ = graded
    run = grade(folder, tmp_path / "out", option, value)
    assert run.returncode == 2
    assert words in run.stderr


def test_jobs_go_with_the_run(course, tmp_path) -> None:
    for n in range(6):
        reference(tmp_path / "class" / f"s{n}", course, "masks", ('"""Masks', f'"""{n} Masks'))
    command = [sys.executable, "-m", "grader", "grade", str(tmp_path / "class")]
    command += ["--out", str(tmp_path / "out"), "--jobs", "2"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    journal = tmp_path / "out" / "journal.jsonl"
    deadline = time.monotonic() + 120
    while not journal.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.kill()
    running.wait()
    time.sleep(1.0)
    run = grade(tmp_path / "class", tmp_path / "out")
    assert run.returncode == 0, run.stderr


@pytest.fixture
def small_class(course, tmp_path) -> Path:
    for name in "abc":
        reference(tmp_path / "class" / name, course, "masks", ('"""Masks', f'"""{name} Masks'))
    return tmp_path / "class"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_it_at_once(course, tmp_path, jobs) -> None:
    reference(tmp_path / "class" / "a", course)
    for name in "bcdefgh":
        hang = ("d_k = query.size(-1)", f"d_k = query.size(-1)\n    while {name!r}: pass")
        reference(tmp_path / "class" / name, course, "attention", hang)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "grader", "grade", str(tmp_path / "class")]
    command += ["--out", str(out), "--jobs", jobs, "--limit", "60", "--only", ATTENTION]
    running = subprocess.Popen(command, cwd=ROOT, start_new_session=True, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
    deadline = time.monotonic() + 120
    while not (out / "journal.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)
    began = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert time.monotonic() - began < 3
    assert running.returncode == 130
    assert said.endswith("Stopped. What was finished is kept.\n")
    assert "Traceback" not in said
    assert len((out / "journal.jsonl").read_text().splitlines()) == 1
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


def test_ctrl_c_while_it_starts(small_class, tmp_path) -> None:
    """Both import torch then; the run stops once that is done, and does not forget to."""
    command = [sys.executable, "-m", "grader", "grade", str(small_class), "--out"]
    command += [str(tmp_path / "out")]
    for seconds in (0.5, 1.0, 1.5, 2.0, 2.5):
        running = subprocess.Popen(command, cwd=ROOT, start_new_session=True, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        time.sleep(seconds)
        began = time.monotonic()
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=60)
        assert time.monotonic() - began < 10
        assert running.returncode == 130
        assert said == "\nStopped. What was finished is kept.\n"


def test_another_system_is_told_that_it_cannot_grade() -> None:
    """What asks the kernel is imported once the walls stand: Windows has no os.uname."""
    code = "import os; del os.uname; import grader.classroom"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def within(view: Sequence[str], folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Grade in a view of this machine."""
    place = [jail.find_bwrap(), "--bind", "/", "/", "--dev-bind", "/dev", "/dev", *view]
    command = [sys.executable, "-m", "grader", "grade", str(folder), "--out", str(out)]
    command += ["--only", "masks", "--jobs", "2"]
    return subprocess.run([*place, "--", *command], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("size", [1 << 12, 1 << 15, 1 << 16])
def test_a_full_disk_is_said_and_costs_nothing(small_class, tmp_path, size) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run = within(["--size", str(size), "--tmpfs", str(out)], small_class, out)
    assert run.returncode == 2, run.stdout
    assert "No space left on device" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_folder_that_cannot_be_written_is_said(small_class, tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run = within(["--ro-bind", str(out), str(out)], small_class, out)
    assert run.returncode == 2
    assert f"Results cannot be written to {out}: " in run.stderr
    assert "Traceback" not in run.stderr


def test_two_runs_on_one_folder_do_not_mix(graded, tmp_path) -> None:
    import fcntl

    folder, _, _ = graded
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = grade(folder, tmp_path)
    assert run.returncode == 2
    assert "Another run is writing" in run.stderr


# What a worker can ask of the judge


def test_a_worker_gets_the_answers_of_its_stand_ins_alone(graded) -> None:
    _, out, _ = graded
    assert exercise(out, "forger", "attention.self_attention")["score"] == 0


FORGERY = '''

def self_attention(x, w_q, w_k, w_v, mask=None):
    """Computes nothing: takes the way to the judge from a stand-in, and asks for this exercise."""
    stand_in = scaled_dot_product_attention
    names = stand_in.__code__.co_freevars
    cells = {n: c.cell_contents for n, c in zip(names, stand_in.__closure__ or ())}
    from grader.subject import across
    question = {"stand_in": "attention.self_attention", "init": None}
    return across.call(cells["ask"], question, [x, w_q, w_k, w_v, mask], {})
'''


@pytest.mark.parametrize(
    "question",
    [
        {"make": "multihead.MultiHeadAttention", "init": [[1 << 20, 1], {}]},
        {"make": "multihead.MultiHeadAttention", "init": [["512", 1], {}]},
        {"make": "encoder.TransformerEncoder", "init": [[100, 64, 1, 64, 1000], {}]},
        {"stand_in": ATTENTION, "init": None, "args": [], "kwargs": {}, "state": {},
         "tensors": [torch.ones(1).expand(1 << 20)]},
        {"stand_in": "multihead.MultiHeadAttention", "init": [[4, 2], {}], "tensors": [],
         "args": [], "kwargs": {}, "state": {}, "training": True,
         "plain": {"__class__.forward": 1}},
        {"stand_in": "os.system", "init": None, "tensors": [], "args": [], "kwargs": {},
         "state": {}},
    ],
    ids=["huge", "text", "deep", "expanded", "attribute", "elsewhere"],
)  # fmt: skip
def test_hostile_questions_are_refused(question) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, ImportError)):
        standin.answer(question)


@pytest.mark.parametrize("outcome", [Outcome.NOT_ATTEMPTED, Outcome.BLOCKED])
def test_no_mistake_is_looked_for_in_what_was_not_tried(outcome: Outcome) -> None:
    """What known mistakes give takes half a minute for the whole course, once a class."""
    from grader.marker import Marker

    marker = Marker.__new__(Marker)  # without all that it would need for that
    result = CheckResult("a.b/1/test_it", "a.b", 1, "It is so", outcome)
    marker._found = {result.id: Signature(1, outcome.value, None)}
    assert marker._diagnosed(result) is result
