"""The real nbgrader, command by command, with our judge in it; and one gradebook for all."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.course import Course
from grader.judge import bank
from release import nbgrader as course_folder
from release import notebooks
from release.leaks import LeakCheck

pytest.importorskip("jupytext", reason="needs the extra `notebooks`")
pytest.importorskip("nbgrader", reason="needs the extra `notebooks`")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the exchange, and walls"),
]

NAME = course_folder.ASSIGNMENT
UNITS = ("attention", "masks", "multihead")  # of which the assignment of these tests is made
SDPA = "scaled_dot_product_attention"
BODY = "    d_k = query.size(-1)\n"

Book = dict[str, Any]


class Class:
    """A course folder, an exchange, and a home for each student."""

    def __init__(self, root: Path, course: Course):
        self.course = course
        self.folder = root / "course"
        self.homes = root / "homes"
        self.exchange = root / "exchange"
        self.exchange.mkdir()
        self.exchange.chmod(0o777)
        course_folder.write(self.folder, course)
        for path in (self.folder / "source" / NAME).glob("*.ipynb"):
            if path.stem not in UNITS:
                path.unlink()

    def nbgrader(
        self, *words: str, student: str = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        where = cwd or (self.homes / student if student else self.folder)
        where.mkdir(parents=True, exist_ok=True)
        options = [f"--Exchange.root={self.exchange}", f"--course={NAME}"]
        options = options if words[0] in EXCHANGING else []
        if student and options:  # all of them are this one user of the machine
            options.append(f"--student={student}")
        data = str(self.homes / student / ".jupyter")  # where nbgrader keeps what was submitted
        environment = os.environ | {"JUPYTER_DATA_DIR": data, "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            [sys.executable, "-m", "nbgrader", *words, *options],
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )

    def done(self, *words: str, student: str = "") -> str:
        ran = self.nbgrader(*words, student=student)
        assert ran.returncode == 0, f"{words}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

    def book(self, student: str, unit: str) -> Path:
        return self.homes / student / NAME / f"{unit}.ipynb"

    def write(self, student: str, texts: dict[str, str]) -> None:
        """Fill in a student's notebooks from modules."""
        for unit in UNITS:
            filled_in(self.book(student, unit), texts[unit])


EXCHANGING = {
    "release_assignment", "fetch_assignment", "submit", "collect", "release_feedback",
    "fetch_feedback", "list",
}  # fmt: skip


def filled_in(path: Path, text: str) -> None:
    book = json.loads(path.read_text(encoding="utf-8"))
    unit = next(u for u in COURSE.units if u.name == path.stem)
    source = notebooks._Source(unit, text)
    for cell in book["cells"]:
        if cell["id"].startswith("exercise-"):
            cell["source"] = source.definition(cell["id"].removeprefix("exercise-"))
    path.write_text(json.dumps(book), encoding="utf-8")


def reference() -> dict[str, str]:
    return {unit: bank.uncovered(m.text) for unit, m in bank.solution(COURSE).modules.items()}


def mistaken() -> dict[str, str]:
    texts = reference()
    assert texts["attention"].count("torch.softmax(scores, dim=-1)") == 1
    wrong = texts["attention"].replace("softmax(scores, dim=-1)", "softmax(scores, dim=-2)")
    return texts | {"attention": wrong}


def hanging() -> dict[str, str]:
    texts = reference()
    loop = f"{BODY}    while True:\n        pass\n"
    return texts | {"attention": texts["attention"].replace(BODY, loop)}


COURSE: Course


@pytest.fixture(scope="module")
def a_class(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    """Generated, released, fetched, solved, submitted and collected, all by nbgrader's commands."""
    global COURSE
    from grader import course as courses

    COURSE = courses.load()
    root = tmp_path_factory.mktemp("nbgrader class")
    a_class = Class(root, COURSE)
    a_class.done("generate_assignment", NAME)
    a_class.done("release_assignment", NAME)
    work = {"ada": reference(), "bai": mistaken(), "ming": hanging(), "zoe": reference()}
    for student, texts in work.items():
        a_class.done("fetch_assignment", NAME, student=student)
        a_class.write(student, texts)
    spoil(a_class.book("zoe", "attention"))
    for student in work:
        a_class.done("submit", NAME, student=student)
    a_class.done("collect", NAME, "--ExchangeCollect.check_owner=False")
    yield a_class
    shutil.rmtree(root, ignore_errors=True)


def spoil(path: Path) -> None:
    """What people and their editors do to a notebook, and what a right answer may come with."""
    book = json.loads(path.read_text(encoding="utf-8"))
    cells = {cell["id"]: cell for cell in book["cells"]}
    cells["exercise-self_attention"]["metadata"]["nbgrader"]["grade_id"] = "renamed"
    cells["check-stable_softmax"]["source"] = "1 / 0"
    del cells["exercise-cross_attention"]["metadata"]["nbgrader"]
    copies = [json.loads(json.dumps(cells[f"{kind}-{SDPA}"])) for kind in ("exercise", "check")]
    for copy in copies:
        copy["id"] = f"{copy['id']}-copy"
    loud = {"cell_type": "code", "execution_count": 3, "id": "loud", "metadata": {},
            "outputs": [{"output_type": "stream", "name": "stderr", "text": "a warning"}],
            "source": "import warnings\nwarnings.warn('a warning')\nx = !ls\nopen('nothing')"}  # fmt: skip
    kept = [cell for cell in book["cells"] if cell["id"] != "check-cross_attention"]
    book["cells"] = [loud, *kept[::-1][:0], *kept, *copies]
    path.write_text(json.dumps(book), encoding="utf-8")


def points(exported: str) -> dict[str, float]:
    rows = csv.DictReader(io.StringIO(exported))
    return {row["student_id"]: float(row["score"]) for row in rows}


def released_notebook(a_class: Class, unit: str) -> str:
    return (a_class.folder / "release" / NAME / f"{unit}.ipynb").read_text(encoding="utf-8")


def test_what_is_released_holds_stubs_and_no_secret(a_class: Class, course: Course) -> None:
    stub = released_notebook(a_class, "attention")
    assert 'raise NotImplementedError(\\"attention.stable_softmax\\")' in stub
    assert "YOUR CODE HERE" not in stub
    assert LeakCheck(course).folder(a_class.folder / "release") == []


def test_autograde_feedback_and_export(a_class: Class, course: Course) -> None:
    said = a_class.done("autograde", NAME)
    assert "exists multiple times" not in said
    a_class.done("generate_feedback", NAME)
    a_class.done("release_feedback", NAME)
    a_class.done("export", "--to", "grades.csv")
    found = points((a_class.folder / "grades.csv").read_text(encoding="utf-8"))
    exercises = [e for e in course.exercises.values() if e.unit in UNITS]
    most = sum(exercise.max_score for exercise in exercises)
    # Partial credit: one mistake costs the clauses that it breaks, once; a loop its exercise.
    results = {
        student: json.loads(
            (a_class.folder / "grades" / NAME / student / "result.json").read_text()
        )
        for student in found
    }
    assert found == {student: result["score"] for student, result in results.items()}
    assert found["ada"] == most
    assert found["zoe"] == most, "renamed, deleted and copied cells, a warning, foreign code"
    assert 0 < most - found["bai"] < 14
    assert found["ming"] == most - 14
    # Messages.
    page = (a_class.folder / "feedback" / "bai" / NAME / "attention.html").read_text("utf-8")
    words = " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert "Your weights equal those of a softmax over the queries." in words
    assert "3.0 / 14.0" in words
    loop = (a_class.folder / "feedback" / "ming" / NAME / "attention.html").read_text("utf-8")
    assert "still running after" in loop
    assert "attention.ipynb, code cell" in loop
    hold_no_hidden_check(a_class, results)
    a_class.done("fetch_feedback", NAME, student="bai")
    fetched = list((a_class.homes / "bai").rglob("attention.html"))
    assert fetched
    assert "softmax over the queries" in fetched[0].read_text(encoding="utf-8")


def hold_no_hidden_check(a_class: Class, results: dict[str, Any]) -> None:
    """Neither its title nor what it found; but that one of clause n fails."""
    from grader.report.gradescope import public_checks

    public = public_checks()
    pages = {
        student: " ".join(
            " ".join(re.sub(r"<[^>]+>", "", path.read_text("utf-8")).split())
            for path in (a_class.folder / "feedback" / student).rglob("*.html")
        )
        for student in results
    }
    checks = [c for r in results.values() for e in r["exercises"] for c in e["checks"]]
    names = {
        c["id"]: (c["id"].split(".")[0], c["id"].split("/", 2)[2].split("[")[0]) for c in checks
    }
    seen = {c["title"] for c in checks if names[c["id"]] in public}
    hidden = {c["title"] for c in checks if names[c["id"]] not in public} - seen
    assert len(hidden) > 50
    for title in hidden:
        shown = " ".join(title.replace("<", "&lt;").replace(">", "&gt;").split())
        assert not any(shown in page for page in pages.values()), title


def test_the_kernel_is_never_asked(a_class: Class) -> None:
    """What is in the autograded notebooks was put there by us, whatever the outputs were."""
    for path in (a_class.folder / "autograded").rglob("*.ipynb"):
        book = json.loads(path.read_text(encoding="utf-8"))
        for cell in book["cells"]:
            data = cell["metadata"].get("nbgrader", {})
            kinds = [output["output_type"] for output in cell.get("outputs", [])]
            if data.get("grade"):
                assert kinds[-2:] == ["display_data", "execute_result"]
                assert float(cell["outputs"][-1]["data"]["text/plain"]) <= data["points"]
            else:
                assert kinds == []


def test_validate_fails_where_a_check_fails(a_class: Class) -> None:
    for student, code in (("ada", 0), ("bai", 1)):
        folder = a_class.homes / student / NAME
        shutil.copyfile(a_class.folder / "nbgrader_config.py", folder / "nbgrader_config.py")
        (folder / "grading").symlink_to(a_class.folder / "grading")
        try:
            ran = a_class.nbgrader("validate", "attention.ipynb", student=student, cwd=folder)
        finally:
            (folder / "nbgrader_config.py").unlink()
            (folder / "grading").unlink()
        assert ran.returncode == code, ran.stdout + ran.stderr
        assert ("Success!" in ran.stdout) == (code == 0)
