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

from grader import intake, sample
from grader.course import Course
from grader.judge import bank
from release import nbgrader as course_folder
from release import notebooks
from release.leaks import LeakCheck

pytest.importorskip("jupytext", reason="needs the extra `notebooks`")
Gradebook = pytest.importorskip("nbgrader.api", reason="needs the extra `notebooks`").Gradebook
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the exchange, and walls"),
]

NAME = course_folder.ASSIGNMENT
UNITS = ("attention", "masks", "multihead")  # of which the assignment of these tests is made
SAMPLED = ("attention", "masks", "multihead", "positional", "encoder")
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
    warning = {"output_type": "stream", "name": "stderr", "text": "a warning"}
    source = "import warnings\nwarnings.warn('a warning')\nx = !ls\nopen('nothing')"
    loud = {"cell_type": "code", "execution_count": 3, "id": "loud", "metadata": {},
            "outputs": [warning], "source": source}  # fmt: skip
    kept = [cell for cell in book["cells"] if cell["id"] != "check-cross_attention"]
    book["cells"] = [loud, *kept, *copies]
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
    words = read_page(a_class.folder / "feedback" / "bai" / NAME / "attention.html")
    assert "Your weights equal those of a softmax over the queries." in words
    (mine,) = (e for e in results["bai"]["exercises"] if e["id"] == f"attention.{SDPA}")
    assert f"{mine['score']} / 14.0" in words
    loop = read_page(a_class.folder / "feedback" / "ming" / NAME / "attention.html")
    assert "a loop that never ends?" in loop
    hold_no_hidden_check(a_class, results)
    a_class.done("fetch_feedback", NAME, student="bai")
    fetched = list((a_class.homes / "bai").rglob("attention.html"))
    assert fetched
    assert "softmax over the queries" in fetched[0].read_text(encoding="utf-8")


def read_page(path: Path) -> str:
    """The words of a page."""
    return " ".join(re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8")).split())


def hold_no_hidden_check(a_class: Class, results: dict[str, Any]) -> None:
    """Neither its title nor what it found; but that one of clause n fails."""
    from grader.report.gradescope import public_checks

    public = public_checks()
    pages = {
        student: " ".join(
            read_page(path) for path in (a_class.folder / "feedback" / student).rglob("*.html")
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
                assert float("".join(cell["outputs"][-1]["data"]["text/plain"])) <= data["points"]
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


# ------------------------------------------------------------------------------------ one gradebook


def graded(folder: Path, out: Path, *words: str) -> dict[str, dict[str, str]]:
    """The class's grades by student, by the real command."""
    command = ["grade", str(folder), "--out", str(out), "--limit", "4", "--lang", "en", *words]
    subprocess.run([sys.executable, "-m", "grader", *command], check=True, capture_output=True)
    text = (out / "grades.csv").read_text(encoding="utf-8-sig")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return {row["submission"]: {k: v for k, v in row.items() if k != "notes"} for row in rows}


def as_notebooks(folder: Path, submitted: Path) -> None:
    """A class's modules, each as a notebook with a cell for each top-level part."""
    for path in sorted(folder.iterdir()):
        target = submitted / path.stem / NAME
        target.mkdir(parents=True)
        for unit, module in intake.read(path, COURSE.definitions).modules.items():
            cells = [notebooks._code(part) for part in re.split(r"\n\n\n+", module.text)]
            book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
            (target / f"{unit}.ipynb").write_text(json.dumps(book), encoding="utf-8")


def test_modules_and_notebooks_get_the_same_points(tmp_path: Path, course: Course) -> None:
    """The whole sample class, graded as both; and both end in nbgrader's gradebook alike."""
    global COURSE
    COURSE = course
    modules, submitted = tmp_path / "modules", tmp_path / "submitted"
    modules.mkdir()
    names = sample.write(modules)
    as_notebooks(modules, submitted)
    # The units in which somebody of the class has gone wrong, and what they stand on.
    units = [word for unit in SAMPLED for word in ("--only", unit)]
    first = graded(modules, tmp_path / "a", *units)
    second = graded(submitted, tmp_path / "b", "--assignment", NAME, *units)
    assert set(first) == set(second) | {"bai-perfect-zip"} == {*names}
    for name in first:
        assert second[name] == first[name]
    assert len({row["score"] for row in first.values()}) > 6, "a class of many scores"
    books = []
    for out in ("a", "b"):
        url = f"sqlite:///{tmp_path / out}.db"
        command = ["export", str(tmp_path / out), "--format", "nbgrader", "--db", url]
        subprocess.run([sys.executable, "-m", "grader", *command, "--assignment", NAME], check=True)
        with Gradebook(url) as gradebook:
            assignment = gradebook.find_assignment(NAME)
            books.append({one.student.id: one.score for one in assignment.submissions})
            assert assignment.max_score == float(first["ada-perfect"]["max_score"])
    assert books[0] == books[1] == {name: float(row["score"]) for name, row in first.items()}


def test_grades_of_modules_go_where_nbgrader_has_its_own(a_class: Class, tmp_path: Path) -> None:
    """Into the gradebook that `generate_assignment` made; what a person has given stays."""
    url = f"sqlite:///{a_class.folder / 'gradebook.db'}"
    folder = tmp_path / "modules" / "lin"
    folder.mkdir(parents=True)
    for unit in UNITS:
        (folder / f"{unit}.py").write_text(reference()[unit], encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()
    text = "submission,kind,target,value,reason\nlin,late,,0.5,a week\n"
    (out / "adjustments.csv").write_text(text, encoding="utf-8")
    words = [word for unit in UNITS for word in ("--only", unit)]
    row = graded(folder.parent, out, *words)["lin"]
    late = float(row["score"])
    assert 2 * late == float(row["max_score"])
    export = ["export", str(out), "--format", "nbgrader", "--db", url, "--assignment", NAME]
    for _ in range(2):
        subprocess.run([sys.executable, "-m", "grader", *export], check=True)
        with Gradebook(url) as gradebook:
            assert gradebook.find_submission(NAME, "lin").score == late
            grade = gradebook.find_grade("check-self_attention", "attention", NAME, "lin")
            assert grade.auto_score == 4
            assert not grade.needs_manual_grade
    with Gradebook(url) as gradebook:
        grade = gradebook.find_grade("check-self_attention", "attention", NAME, "lin")
        grade.manual_score = 1.0
        gradebook.db.commit()
    subprocess.run([sys.executable, "-m", "grader", *export], check=True)
    with Gradebook(url) as gradebook:
        grade = gradebook.find_grade("check-self_attention", "attention", NAME, "lin")
        assert (grade.manual_score, grade.needs_manual_grade) == (1.0, True)
        assert gradebook.find_submission(NAME, "lin").score == late - 3


@pytest.mark.browser
def test_the_formgrader_shows_the_scores(a_class: Class, tmp_path: Path) -> None:
    """Of a class that was graded, in a real browser."""
    from tests.system.browser import Browser, jupyter, until

    if not (a_class.folder / "autograded").exists():
        a_class.done("autograde", NAME)
    with Gradebook(f"sqlite:///{a_class.folder / 'gradebook.db'}") as gradebook:
        unit = gradebook.find_submission_notebook("attention", NAME, "bai")
        id, score, most = unit.id, unit.score, unit.max_score
        whole = {one.student.id: one.score for one in gradebook.find_assignment(NAME).submissions}
    with jupyter(a_class.folder, tmp_path) as address, Browser(tmp_path, 1200, 700) as browser:
        browser.open(f"{address}/formgrader/manage_submissions/{NAME}")
        for student, points in whole.items():
            until(lambda s=student, p=points: re.search(rf"{s}\b.*\b{p:g}\b", one_line(browser)))
        (table,) = browser.find("table.dataTable")
        browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", table)
        browser.picture("formgrader", tmp_path)
    with jupyter(a_class.folder, tmp_path / "again") as address, Browser(tmp_path / "2") as browser:
        browser.open(f"{address}/formgrader/submissions/{id}")
        until(lambda: "softmax over the queries" in one_line(browser))
        # Each cell's points stand as the hint of a box; they come after the text.
        boxes = until(lambda: (found := boxed(browser)) and all(found) and found)
        assert sum(float(box) for box in boxes) == score < most
        cell = next(c for c in browser.find(".nbgrader_cell") if f"check-{SDPA}" in c.text)
        browser.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", cell)
        browser.picture("formgrader-submission", tmp_path)


def boxed(browser: Any) -> list[str]:
    return [box.get_attribute("placeholder") for box in browser.find("input.score")]


def one_line(browser: Any) -> str:
    return " ".join(browser.text().split())
