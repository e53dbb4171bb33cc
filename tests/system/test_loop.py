"""`hint`, `compare`, `progress`, `reset` and `submit`, as a student meets them.

The state that checks leave is written here by hand, so that nothing imports torch; one test runs
the whole way with real checks.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from grader import cli, given, hints, intake, state
from grader.course import ROOT, Course, CourseError
from grader.definitions import digest, names_of, spans
from grader.desk import Desk
from grader.model import CheckResult, Outcome
from grader.report.calling import Spoken, as_called
from grader.report.language import Language
from grader.report.terminal import Terminal
from grader.score import score
from release import notebooks

ENGLISH = Language("en")
HINTS = """
[stable_softmax]
hints = ["What may be subtracted?", "Clause 3: a maximum of shape [..., 1].", "Nearly the line."]
compare = "It subtracts the {maximum} along `dim`, so that exp never overflows."

[self_attention]
hints = ["One.", "Two.", "Three."]
compare = "One call."
"""


@dataclass(frozen=True)
class Run:
    """What became of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Run]


@pytest.fixture
def folder(tmp_path: Path, course: Course) -> Path:
    """A student's folder with the stubs."""
    folder = tmp_path / "我的 作业" / "exercises"
    folder.mkdir(parents=True)
    for unit in course.units:
        shutil.copy(ROOT / "exercises" / f"{unit.name}.py", folder)
    return folder


@pytest.fixture
def grader(folder: Path, tmp_path: Path, monkeypatch, capsys) -> Command:
    """Runs a command in this process, on that folder, as in a bundle."""
    monkeypatch.setattr(given, "FOLDER", tmp_path / "given")
    monkeypatch.setattr(hints, "FOLDER", tmp_path / "hints")
    for name in ("given", "hints"):
        (tmp_path / name).mkdir()
    for path in folder.glob("*.py"):
        shutil.copy(path, tmp_path / "given" / f"{path.stem}.txt")
    (tmp_path / "hints" / "attention.toml").write_text(HINTS, encoding="utf-8")
    monkeypatch.setenv("LANGUAGE", "en")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Run:
        code = cli.main([*words, "--path", str(folder)])
        out, err = capsys.readouterr()
        return Run(code, out, err)

    return run


def stands(folder: Path, course: Course, **standings: str) -> None:
    """Leave what a check would leave: ``stable_softmax="passed"``."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    found, now = state.read(folder), time.time()
    for name, standing in standings.items():
        (id,) = course.select([name])
        points = course.exercises[id].max_score if standing == "passed" else 1.0
        found.results[id] = state.Kept(digest(course, id, texts), points, standing, now)
    assert found.write(folder)


# Hints.


def test_a_ladder_of_three_that_remembers_where_one_is(grader: Command) -> None:
    first, second, third, again, further = (
        grader("hint", "stable_softmax").out,
        grader("hint", "stable_softmax").out,
        grader("hint", "stable_softmax").out,
        grader("hint", "stable_softmax", "--again").out,
        grader("hint", "stable_softmax").out,
    )
    assert "1 of 3: What may be subtracted?" in first
    assert "2 of 3" not in first
    assert first.rstrip().endswith("another one: make hint ONLY=attention.stable_softmax")
    assert "2 of 3: Clause 3" in second
    assert "3 of 3" not in second
    assert "3 of 3: Nearly the line." in third
    assert "another one" not in third
    assert third.rstrip().endswith("now: make check ONLY=attention.stable_softmax")
    assert third == again == further
    assert "1 of 3: One." in grader("hint", "self_attention").out


def test_again_does_not_climb(grader: Command) -> None:
    assert grader("hint", "stable_softmax").out == grader("hint", "stable_softmax", "--again").out
    assert "2 of 3" in grader("hint", "stable_softmax").out


def test_a_unit_s_hint_is_that_of_its_first_open_exercise(grader, folder, course) -> None:
    assert "attention.stable_softmax" in grader("hint", "attention").out
    stands(folder, course, stable_softmax="passed", scaled_dot_product_attention="passed")
    assert "attention.self_attention" in grader("hint", "attention").out


def test_a_spoiled_memory_starts_the_ladder_anew(grader: Command, folder: Path) -> None:
    grader("hint", "stable_softmax")
    (folder / state.NAME).write_text("{ what")
    assert "2 of 3" not in grader("hint", "stable_softmax").out


def test_where_nothing_can_be_written_a_hint_says_so(grader, folder, monkeypatch) -> None:
    monkeypatch.setattr(state, "_replace", lambda *_: False)
    run = grader("hint", "stable_softmax")
    assert "1 of 3" in run.out
    assert "cannot be remembered" in run.out


def test_an_exercise_without_hints(grader: Command) -> None:
    run = grader("hint", "combine_masks")
    assert (run.code, run.err) == (1, "")
    assert "There are no hints for masks.combine_masks yet." in run.out


SPOILED = {
    "two hints": ('[stable_softmax]\nhints = ["a", "b"]\ncompare = "c"', "stable_softmax needs"),
    "an empty hint": ('[stable_softmax]\nhints = ["a", "", "c"]\ncompare = "c"', "a list of 3"),
    "no comparison": ('[stable_softmax]\nhints = ["a", "b", "c"]', "and `compare`"),
    "one key more": (
        '[stable_softmax]\nhints = ["a", "b", "c"]\ncompare = "c"\nhint = "d"', "it has hints, "),
    "no exercise": ('[softmax]\nhints = ["a", "b", "c"]\ncompare = "c"', "no exercise 'softmax'"),
    "no quotes": (
        '[MultiHeadAttention.forward]\nhints = ["a", "b", "c"]\ncompare = "c"',
        "no exercise 'MultiHeadAttention'"),
    "no table": ("[[", "attention.toml cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_a_file_of_hints_that_is_wrong_says_where(tmp_path, course, name: str) -> None:
    text, words = SPOILED[name]
    (tmp_path / "attention.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CourseError, match=words.replace("[", r"\[")) as raised:
        hints.load(course, "attention", tmp_path)
    assert "docs/hints/attention.toml" in str(raised.value)


def test_an_exercise_without_hints_is_a_hole_once_there_are_any(tmp_path, course) -> None:
    assert hints.holes(course, tmp_path) == []
    (tmp_path / "attention.toml").write_text(HINTS, encoding="utf-8")
    told = {"attention.stable_softmax", "attention.self_attention"}
    assert hints.holes(course, tmp_path) == [id for id in course.exercises if id not in told]


def test_what_the_course_says_is_whole(course: Course) -> None:
    assert hints.holes(course) == []


# Comparing.


def test_a_comparison_waits_until_the_exercise_has_passed(grader, folder, course) -> None:
    stands(folder, course, stable_softmax="open")
    run = grader("compare", "stable_softmax")
    assert run.code == 1
    assert "Not yet: attention.stable_softmax." in run.out
    assert "make hint ONLY=attention.stable_softmax" in run.out
    assert "subtracts" not in run.out
    stands(folder, course, stable_softmax="passed")
    run = grader("compare", "stable_softmax")
    assert run.code == 0
    assert "It subtracts the {maximum} along `dim`" in run.out
    assert grader("compare").code == 0  # it has told something, and nothing more was asked for
    assert grader("compare", "attention").code == 1


# Progress.


def test_progress_before_anything_was_checked(grader: Command, course: Course) -> None:
    run = grader("progress")
    assert run.code == 0
    assert "not checked yet" in run.out
    assert f"0 of {len(course.exercises)}" in run.out
    first = next(iter(course.exercises.values()))
    assert f"then: make check ONLY={first.id}" in run.out.splitlines()[-1]


def test_progress_from_the_last_checks(grader, folder: Path, course: Course) -> None:
    stands(folder, course, stable_softmax="passed", scaled_dot_product_attention="open",
           self_attention="blocked", cross_attention="not_attempted")  # fmt: skip
    run = grader("progress", "attention")
    rows = [" ".join(line.split()) for line in run.out.splitlines()]
    points = course.exercises["attention.stable_softmax"].max_score
    assert rows[0] == f"attention ✓✗-· 1 of 4 {points + 3:g} of 30 points"
    assert f"✓ stable_softmax {points:g} / {points:g}" in rows
    assert "✗ scaled_dot_product_attention 1 / 14" in rows
    assert "- self_attention stands on one that is unfinished" in rows
    assert "· cross_attention not attempted" in rows
    assert "make check ONLY=attention.scaled_dot_product_attention" in rows[-1]


def test_one_goes_on_where_one_was(grader, folder: Path, course: Course) -> None:
    assert "seq2seq.rnn_step" in grader("hint").out
    stands(folder, course, stable_softmax="passed")
    assert "ONLY=attention.scaled_dot_product_attention" in grader("progress").out
    assert "attention.scaled_dot_product_attention" in grader("hint").out
    stands(folder, course, create_look_ahead_mask="open")
    assert "masks.create_look_ahead_mask" in grader("hint").out


def test_what_has_changed_since_is_said_to_be_stale(grader, folder: Path, course: Course) -> None:
    stands(folder, course, stable_softmax="passed", self_attention="passed")
    path = folder / "attention.py"
    stub = 'raise NotImplementedError("attention.stable_softmax")'
    path.write_text(path.read_text("utf-8").replace(stub, "return scores"), "utf-8")
    run = grader("progress", "attention")
    assert run.out.startswith("attention   ~?✓?   1 of 4")
    assert "~ changed since it was checked" in run.out
    assert "those of the last check" in run.out
    assert run.out.splitlines()[-1].startswith("next: `stable_softmax` in ")


def test_what_nobody_has_begun_is_not_stale(grader, folder: Path, course: Course) -> None:
    """Though what it stands on has changed."""
    stands(folder, course, scaled_dot_product_attention="open", self_attention="blocked")
    path = folder / "attention.py"
    stub = 'raise NotImplementedError("attention.scaled_dot_product_attention")'
    assert stub in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace(stub, "return query, key"), "utf-8")
    assert grader("progress", "attention").out.startswith("attention   ?~-?")


def test_all_passed(grader, folder: Path, course: Course) -> None:
    stands(folder, course, **{e.id: "passed" for e in course.exercises.values()})
    run = grader("progress")
    assert "333 of 333 points" in run.out
    assert run.out.splitlines()[-1] == "All of this has passed."


def test_progress_imports_no_torch() -> None:
    code = (
        "import sys; from grader import cli; cli.main(['progress']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False", done.stderr


# Reset.

TOUCHED = {
    "attention.stable_softmax": "return scores  # mine",
    "attention.self_attention": "return x, x  # mine too",
    "multihead.MultiHeadAttention": "self.w_q = 1  # mine",
    "multihead.MultiHeadAttention.forward": "return query, query  # mine too",
}


def touch(folder: Path) -> dict[str, str]:
    """Write something in some exercises; give back all texts."""
    for id, code in TOUCHED.items():
        path = folder / f"{id.split('.')[0]}.py"
        stub = f'raise NotImplementedError("{id}")'
        text = path.read_text("utf-8")
        assert stub in text
        path.write_text(text.replace(stub, code) + "\n\ndef helper():\n    return 3\n", "utf-8")
    return texts(folder)


def texts(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in folder.glob("*.py")}


@pytest.mark.parametrize("id", TOUCHED)
def test_only_that_definition_is_replaced(grader: Command, folder: Path, id: str) -> None:
    before = touch(folder)
    unit, code = id.split(".")[0], TOUCHED[id]
    run = grader("reset", id)
    after = texts(folder)
    assert run.code == 0
    raises = f'raise NotImplementedError("{id}")'
    assert after == before | {unit: before[unit].replace(code, raises)}
    (kept,) = (folder.parent / ".kept").iterdir()
    assert kept.read_text("utf-8") == before[unit]
    assert str(kept) in run.out


def test_a_whole_unit(grader: Command, folder: Path) -> None:
    fresh = texts(folder)
    before = touch(folder)
    grader("reset", "attention")
    assert texts(folder) == before | {"attention": fresh["attention"]}


def test_what_is_as_it_was_given_is_not_kept(grader: Command, folder: Path) -> None:
    before = texts(folder)
    for target in ("attention", "stable_softmax"):
        run = grader("reset", target)
        assert "as " in run.out
        assert "is kept" not in run.out
    assert texts(folder) == before
    assert not (folder.parent / ".kept").exists()


def test_twice_in_a_second_keeps_both(grader: Command, folder: Path) -> None:
    touch(folder)
    grader("reset", "stable_softmax")
    grader("reset", "attention")
    assert len(list((folder.parent / ".kept").iterdir())) == 2


def test_a_file_that_python_cannot_read(grader: Command, folder: Path) -> None:
    fresh = texts(folder)["attention"]
    stub = 'raise NotImplementedError("attention.stable_softmax")'
    (folder / "attention.py").write_text(fresh.replace(stub, "return (scores"), "utf-8")
    grader("reset", "stable_softmax")
    assert texts(folder)["attention"] == fresh


def test_a_definition_that_is_gone_comes_back(grader, folder: Path, course: Course) -> None:
    fresh = texts(folder)
    for id in ("attention.self_attention", "multihead.MultiHeadAttention.split_heads"):
        unit, _, name = id.partition(".")
        rows = fresh[unit].split("\n")
        del rows[slice(*spans(fresh[unit], names_of(course, unit))[name])]
        (folder / f"{unit}.py").write_text("\n".join(rows), "utf-8")
        grader("reset", id)
        text = texts(folder)[unit]
        compile(text, unit, "exec")
        assert given.as_given(course, unit, text, fresh[unit]) == [
            f"{unit}.{name}" for name in names_of(course, unit)
        ]


@pytest.mark.parametrize("text", ["", "\n \n", None])
def test_an_empty_or_missing_file_becomes_the_whole_module(grader, folder: Path, text) -> None:
    fresh = texts(folder)["attention"]
    (folder / "attention.py").unlink()
    if text is not None:
        (folder / "attention.py").write_text(text)
    grader("reset", "stable_softmax")
    assert texts(folder)["attention"] == fresh


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "gbk"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_however_a_file_is_coded_the_rest_of_it_stays(
    grader: Command, folder: Path, encoding: str, newline: str
) -> None:
    touch(folder)
    path = folder / "attention.py"
    before = path.read_text("utf-8").encode("ascii", "ignore").decode() + "# café\n"
    path.write_bytes(before.replace("\n", newline).encode(encoding))
    assert grader("reset", "stable_softmax").code == 0
    unread = path.read_bytes()
    encodings = [encoding, "utf-8"]  # where the stub has letters that the file's code has not
    for each in encodings:
        try:
            after = unread.decode(each).replace("\r\n", "\n")
            break
        except UnicodeDecodeError:
            continue
    code = TOUCHED["attention.stable_softmax"]
    assert after.count("def stable_softmax") == 1
    assert code not in after
    assert after.endswith("# café\n")
    compile(after, "attention.py", "exec")


@pytest.mark.parametrize("most", [1000, 7000])
def test_on_a_full_disk_nothing_is_lost(
    grader: Command, folder: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the copy, or as far as the module."""
    resource = pytest.importorskip("resource")
    path = folder / "attention.py"
    path.write_bytes(b"X = 1\n" * (most // 7))
    before = path.read_bytes()
    _, highest = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = most // 2 if most == 1000 else 6500
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, highest))
    try:
        run = grader("reset", "attention")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (highest, highest))
    assert run.code == 2
    assert path.read_bytes() == before
    kept = list((folder.parent / ".kept").iterdir())
    assert all(copy.read_bytes() == before for copy in kept)
    assert not list(folder.glob(".*"))


def test_line_ends_stay_what_they_were(grader: Command, folder: Path) -> None:
    touch(folder)
    path = folder / "attention.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    grader("reset", "stable_softmax")
    found = path.read_bytes()
    assert found.count(b"\r\n") == found.count(b"\n") > 50
    assert b"# mine too" in found


def test_a_notebook_s_cell_is_reset(grader, folder: Path, course: Course) -> None:
    """Of two forms, the one that was worked on."""
    notebooks.write(folder)
    path = folder / "multihead.ipynb"
    before = json.loads(path.read_text("utf-8"))
    other = json.loads(json.dumps(before))
    id = "multihead.MultiHeadAttention.split_heads"
    (cell,) = [c for c in other["cells"] if f'NotImplementedError("{id}")' in "".join(c["source"])]
    text = "".join(cell["source"]).replace("raise NotImplementedError", "return print")
    assert text.count("return print") == 3
    cell["source"] = text
    other["cells"].append({"cell_type": "code", "source": "%time 1", "metadata": {}, "outputs": []})
    path.write_text(json.dumps(other), "utf-8")
    assert grader("reset", "split_heads").code == 0
    (found,) = [
        "".join(c["source"])
        for c in json.loads(path.read_text("utf-8"))["cells"]
        if "def split_heads" in "".join(c["source"]) and c["cell_type"] == "code"
    ]
    assert found.count("return print") == 2
    assert f'raise NotImplementedError("{id}")' in found
    run = grader("reset", "multihead")
    assert run.code == 0
    after = json.loads(path.read_text("utf-8"))
    assert after["cells"][:-1] == before["cells"]
    assert len(list((folder.parent / ".kept").glob("multihead-*.ipynb"))) == 2
    assert "multihead.ipynb" in run.out


def test_a_notebook_without_the_exercise(grader: Command, folder: Path) -> None:
    (folder / "attention.py").unlink()
    path = folder / "attention.ipynb"
    for text, words in (
        ('{"cells": []}', "No cell of attention.ipynb defines stable_softmax"),
        ("{}", "attention.ipynb is not a notebook that can be read."),
    ):
        path.write_text(text)
        run = grader("reset", "stable_softmax")
        assert run.code == 2
        assert words in run.err
        assert path.read_text() == text


def test_nothing_named_changes_nothing(grader: Command, folder: Path) -> None:
    before = touch(folder)
    assert grader("reset").code == 2
    assert texts(folder) == before


def test_without_a_bundle_stubs_come_from_the_solutions(course: Course) -> None:
    assert not given.FOLDER.exists()
    found = given.modules(course)
    for unit in course.units:
        path = ROOT / "exercises" / f"{unit.name}.py"
        assert found[unit.name] == path.read_text(encoding="utf-8")


# Ways to say what is meant.


@pytest.mark.parametrize(
    "target",
    ["ONLY=masks", "masks.py", "exercises/masks.py", "exercises.masks", "exercises\\masks.ipynb",
     "exercises/masks.zh.ipynb", "Masks"],
)  # fmt: skip
def test_a_unit_may_be_named_as_its_file_is(course: Course, target: str) -> None:
    assert course.select([target]) == course.select(["masks"])
    assert course.select(["ONLY=masks.combine_masks"]) == ["masks.combine_masks"]


def test_without_make_commands_are_named_as_they_were_called(
    grader: Command, folder: Path, course: Course, monkeypatch
) -> None:
    monkeypatch.delenv("GRADER_CALLED_BY")
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    python = ".venv/bin/python" if os.name != "nt" else r".venv\Scripts\python.exe"
    last = grader("progress").out.splitlines()[-1]
    assert last.endswith(f"then: {python} -m grader check seq2seq.rnn_step")
    assert f"{python} -m grader progress --check" in grader("progress").out
    assert f"{python} -m grader reset ..." in grader("reset").out
    stands(folder, course, stable_softmax="passed")
    report = ending(Desk(course, folder), "attention.stable_softmax", Spoken("zh"))
    assert report.endswith(f"{python} -m grader check attention.scaled_dot_product_attention")
    monkeypatch.setattr(sys, "prefix", "elsewhere")
    assert as_called("a `make doctor`.") == "a `python -m grader doctor`."
    # What sets up is said otherwise.
    assert as_called("set up: make check TORCH=cpu") == "set up: make check TORCH=cpu"


def test_the_language_may_stand_first(grader: Command, folder: Path, capsys) -> None:
    assert cli.main(["--lang", "zh", "progress", "--path", str(folder)]) == 0
    assert "下一步" in capsys.readouterr().out
    assert grader("progress", "--lang", "zh-CN").out == grader("progress", "--lang", "zh").out


def test_a_language_that_there_is_not(grader: Command, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        grader("progress", "--lang", "fr")
    assert end.value.code == 2
    assert "there is no 'fr'; there are en, zh" in capsys.readouterr().err


# Submit.


def test_what_is_packed_is_what_will_be_read(grader, folder: Path, tmp_path, course) -> None:
    before = touch(folder)
    (folder / "__init__.py").write_text("")
    (folder / "notes.txt").write_text("secret")
    (folder / "utils.py").write_text("X = 1")
    run = grader("submit", "--out", "mine.zip")
    assert run.code == 0
    out = tmp_path / "mine.zip"
    with zipfile.ZipFile(out) as archive:
        names = archive.namelist()
        manifest = json.loads(archive.read("manifest.json"))
    units = [unit.name for unit in course.units]
    assert names == ["manifest.json", *(f"{unit}.py" for unit in units)]
    assert [file["name"] for file in manifest["files"]] == names[1:]
    read = intake.read(out, units)
    assert {unit: module.text for unit, module in read.modules.items()} == {
        unit: before[unit] for unit in units
    }
    assert read.notes == ()
    untouched = [id for id in course.exercises if id not in TOUCHED]
    assert manifest["not_attempted"] == untouched
    assert f"not attempted: {len(untouched)} of {len(course.exercises)}" in run.out
    assert str(out) in run.out
    assert "utils.py is no module of the course and was not packed" in " ".join(run.out.split())


def test_a_file_that_is_nearly_called_so_is_to_be_renamed(grader: Command, folder: Path) -> None:
    (folder / "masks.py").rename(folder / "Mask.py")
    out = " ".join(grader("submit").out.split())
    assert "Rename Mask.py to masks.py" in out


def test_an_empty_file_and_untouched_ones_are_told(grader: Command, folder: Path) -> None:
    touch(folder)
    (folder / "masks.py").write_text("\n")
    run = grader("submit", "--out", "mine.zip")
    assert run.code == 0
    told = " ".join(run.out.split())
    assert "masks.py is empty: its exercises will count as not attempted." in told
    assert "make reset ONLY=masks" in told
    (line,) = (line for line in run.out.splitlines() if line.startswith("as they were given: "))
    units = line.partition(": ")[2].split(", ")
    assert "seq2seq" in units
    assert not {"masks", *(id.split(".")[0] for id in TOUCHED)} & set(units)


def test_what_does_not_pass_is_told_before_it_is_handed_in(grader, folder: Path, course) -> None:
    touch(folder)
    passed, wrong, *others = TOUCHED
    stands(folder, course, **{passed: "passed", wrong: "open"})
    told = " ".join(grader("submit", "--out", "mine.zip").out.split())
    of_all = f"of {len(course.exercises)} exercises"
    assert f"not passed at the last check: 1 {of_all} ({wrong})" in told
    unchecked = f"{len(others)} {of_all} ({', '.join(others)})"
    assert f"not checked as they stand (`make check` does): {unchecked}" in told


def test_the_same_work_gives_the_same_bytes(grader, folder: Path, tmp_path: Path) -> None:
    grader("submit", "--out", "one.zip")
    grader("submit", "--out", "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_notebooks_are_packed_as_they_are(grader, folder: Path, tmp_path: Path) -> None:
    (folder / "attention.py").unlink()
    cell = {"cell_type": "code", "source": "def stable_softmax(scores):\n    return scores\n"}
    (folder / "attention.ipynb").write_text(json.dumps({"cells": [cell]}))
    (folder / "masks.py").unlink()
    run = grader("submit", "--out", "mine.zip")
    assert run.code == 0
    with zipfile.ZipFile(tmp_path / "mine.zip") as archive:
        assert archive.read("attention.ipynb") == (folder / "attention.ipynb").read_bytes()
        assert "masks.py" not in archive.namelist()
    assert "masks.py is not there" in run.out


def test_nothing_to_hand_in(grader: Command, folder: Path, tmp_path: Path) -> None:
    for path in folder.glob("*.py"):
        path.unlink()
    run = grader("submit", "--out", "mine.zip")
    assert run.code == 2
    assert "There is nothing to hand in" in run.err
    assert list(tmp_path.glob("*.zip*")) == []


@pytest.mark.parametrize("name", ["exercises/attention.py", "exercises", "."])
def test_nothing_but_a_zip_is_written_over(
    grader: Command, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    before = touch(folder)
    run = grader("submit", "--out", name)
    assert run.code == 2
    assert "is no zip" in run.err
    assert texts(folder) == before
    (folder.parent / "empty.zip").touch()  # as a full disk leaves it
    for _ in range(2):
        assert grader("submit", "--out", "empty.zip").code == 0


def test_a_zip_that_did_not_arrive_whole_is_noticed(grader, folder, tmp_path, monkeypatch) -> None:
    from grader import submit

    write = submit._write
    monkeypatch.setattr(
        submit, "_write", lambda out, contents: write(out, contents | {"masks.py": b"# half of it"})
    )
    run = grader("submit", "--out", "mine.zip")
    assert run.code == 2
    assert "is not what lies in" in run.err


# What comes next, once what was asked for has passed.


def ending(desk: Desk, id: str, language: Language = ENGLISH) -> str:
    """The report's line that says what comes next after an exercise that has passed."""
    checks = [
        CheckResult(f"{id}/{n}/test", id, n, "It holds", Outcome.PASSED)
        for n, _ in enumerate(desk.course.exercises[id].points, 1)
    ]
    console = Console(file=(written := io.StringIO()), width=100)
    scores = score(desk.course, [id], checks)
    terminal = Terminal(console, language, True, "exercises")
    desk.remember(scores.exercises)
    terminal.show(scores, desk.submission, desk.upcoming())
    begins = language("next: {words}", words="")
    return next((line for line in written.getvalue().split("\n") if line.startswith(begins)), "")


def test_the_next_exercise_is_of_the_same_unit_first(folder: Path, course: Course) -> None:
    def after(id: str) -> str:
        return ending(Desk(course, folder), id)

    second = "attention.scaled_dot_product_attention"
    stands(folder, course, stable_softmax="passed")
    assert after("attention.stable_softmax") == (
        "next: write `scaled_dot_product_attention` in exercises/attention.py, then:"
        f" make check ONLY={second}"
    )
    stands(folder, course, scaled_dot_product_attention="open")
    assert after("attention.stable_softmax").startswith("next: mend `scaled_dot_product_attention`")
    # One that was passed over comes before the next unit.
    stands(folder, course, self_attention="passed", cross_attention="passed")
    assert after("attention.cross_attention").endswith(f"ONLY={second}")
    stands(folder, course, scaled_dot_product_attention="passed")
    assert after("attention.cross_attention").endswith("ONLY=masks.create_look_ahead_mask")
    # Those before it come last, and what was written since is to be checked.
    stands(folder, course, **{e.id: "passed" for e in course.exercises.values()})
    stands(folder, course, rnn_step="not_attempted")
    assert after("attention.cross_attention").endswith("ONLY=seq2seq.rnn_step")
    path = folder / "seq2seq.py"
    stub = 'raise NotImplementedError("seq2seq.rnn_step")'
    path.write_text(path.read_text("utf-8").replace(stub, "return h_prev"), "utf-8")
    assert after("attention.cross_attention") == (
        "next: see how `rnn_step` in exercises/seq2seq.py stands: make check ONLY=seq2seq.rnn_step"
    )
    stands(folder, course, **{e.id: "passed" for e in course.exercises.values()})
    assert after("attention.cross_attention") == ""


def test_check_progress_and_hint_name_the_same_exercise(
    grader, folder: Path, course: Course
) -> None:
    attention = [id for id in course.exercises if id.startswith("attention.")]
    stands(folder, course, **dict.fromkeys(attention, "passed"))
    (next_one,) = re.findall(r"ONLY=(\S+)", ending(Desk(course, folder), attention[-1]))
    assert next_one == "masks.create_look_ahead_mask"
    assert grader("progress").out.rstrip().endswith(f"ONLY={next_one}")
    assert grader("progress", "attention").out.rstrip().endswith(f"ONLY={next_one}")
    assert next_one in grader("hint").out
    # What was asked for last, though it is not the first; where that is blocked, what blocks it.
    stands(folder, course, combine_masks="open")
    assert grader("progress").out.rstrip().endswith("ONLY=masks.combine_masks")
    stands(folder, course, self_attention="blocked", scaled_dot_product_attention="open")
    stands(folder, course, self_attention="blocked")
    assert grader("progress").out.rstrip().endswith("ONLY=attention.scaled_dot_product_attention")


# With real checks.


def test_a_student_goes_all_the_way(folder: Path, course: Course, tmp_path: Path) -> None:
    def run(*words: str) -> Run:
        done = subprocess.run(
            [sys.executable, "-m", "grader", *words, "--path", str(folder)],
            cwd=ROOT,
            env=os.environ | {"LANGUAGE": "en", "COLUMNS": "100"},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def lines(words: Sequence[str]) -> list[str]:
        return [" ".join(line.split()) for line in words]

    shutil.copy(ROOT / "solutions" / "masks.py", folder)
    assert run("check", "masks").code == 0
    assert "masks ✓✓✓ 3 of 3 15 of 15 points" in lines(run("progress", "masks").out.splitlines())
    assert run("compare", "masks").code == 0
    assert run("compare", "stable_softmax").code == 1  # which has checked it
    assert "· stable_softmax not attempted" in lines(run("progress", "attention").out.splitlines())
    assert run("reset", "combine_masks").code == 0
    assert "masks ✓✓~ 2 of 3" in lines(run("progress", "masks").out.splitlines())[0]


def test_what_cannot_be_read_is_said_before_it_is_handed_in(grader: Command, folder: Path) -> None:
    for path in folder.glob("*.py"):
        path.unlink()
    (folder / "attention.ipynb").write_text("{")
    run = grader("submit", "--out", "mine.zip")
    assert run.code == 0
    assert "attention.ipynb is not a notebook that can be read." in run.out
    assert "is empty" not in run.out
    (folder / "attention.ipynb").unlink()
    try:
        (folder / "attention.py").symlink_to(folder.parent / "attention.py")
    except OSError:
        pytest.skip("no links here")
    run = grader("submit", "--out", "mine.zip")
    assert run.code == 2
    assert "There is nothing to hand in" in run.err
    assert "Links are not followed: attention.py" in run.err
