"""The student bundle stands alone and is reproducible; platforms get a verdict or are told."""

from __future__ import annotations

import csv
import fnmatch
import gettext
import io
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader import adjustments
from grader import course as courses
from grader.course import ROOT, Course
from grader.judge import bank
from grader.report import github, gradebook, gradescope, lms
from grader.report.language import Language
from release import __main__ as command
from release import archive, build, catalogue, classroom, student
from release import gradescope as gradescope_bundle

ENGLISH = Language("en")


# -------------------------------------------------------------------------------- student bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    build.fill(folder, "student")
    return folder / "student"


def test_two_builds_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    build.fill(tmp_path, "student")
    second = tmp_path / "student"
    for path in second.rglob("*"):
        os.utime(path, (0, 0))
        if path.is_file():
            path.chmod(0o600)  # somebody else's umask
    archive.write(bundle, tmp_path / "a.zip", "x")
    archive.write(second, tmp_path / "b.zip", "x")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_a_zip_keeps_what_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "in" / "read").write_text("x\n")
    archive.write(tmp_path / "in", tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as made:
        modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in made.infolist()}
    assert modes == {"read": 0o644, "run": 0o755}


# Kind of file -> whether there must be one. `{unit}` stands for each unit.
KINDS = {
    "README.md": True, "README.zh.md": True, "AGENTS.md": True, "CLAUDE.md": True,
    "LICENSE": True, "Makefile": True, "course.toml": True, "pyproject.toml": True,
    "constraints.txt": True,
    ".gitignore": True, ".gitattributes": True,
    ".github/workflows/check.yml": True, ".devcontainer/devcontainer.json": True,
    "exercises/__init__.py": True, "exercises/{unit}.py": True,
    "tests/public/test_{unit}.py": True, "tests/public/answers/{unit}.safetensors": True,
    "tools/__init__.py": True, "tools/set_up.py": True, "tools/install.py": True,
    "tools/tell.py": True,
    "grader/judge/pytest.ini": True, "grader/*.py": True,  # which ones: the next test
    "grader/locale/zh/LC_MESSAGES/grader.mo": True,
    "grader/report/templates/*.html": True, "grader/report/templates/style.css": True,
    "grader/given/{unit}.txt": True,  # what `reset` gives back
    "exercises/{unit}.ipynb": True, "exercises/{unit}.zh.ipynb": True,
    "docs/hints/{unit}.toml": True, "docs/contracts/zh/{unit}.md": True,
}  # fmt: skip


def test_every_file_of_the_bundle_is_of_a_kind_that_students_need(
    bundle: Path, course: Course
) -> None:
    names = {path.relative_to(bundle).as_posix() for path in archive.files(bundle)}
    units = [unit.name for unit in course.units]
    patterns = {kind.format(unit=unit): must for kind, must in KINDS.items() for unit in units}
    known = {name for name in names if any(fnmatch.fnmatchcase(name, one) for one in patterns)}
    assert names == known
    missing = [one for one, must in patterns.items() if must and not fnmatch.filter(names, one)]
    assert missing == []


def test_every_translation_travels_compiled(bundle: Path) -> None:
    for path in (ROOT / "grader" / "locale").glob("*/LC_MESSAGES/grader.po"):
        compiled = (bundle / path.relative_to(ROOT)).with_suffix(".mo")
        assert compiled.exists(), f"{path}: run python -m tools.catalogue"


def test_students_get_the_translations_of_what_they_can_see(course: Course, tmp_path: Path) -> None:
    """Not of what only hidden checks say, nor of the causes that are theirs to find."""
    mistakes = {mistake.id: mistake for mistake in bank.mistakes(course)}
    cause = next(m for m in mistakes.values() if m.exercise == "troubleshooting.post_mortem")
    shown = mistakes["softmax-over-queries"]
    hidden = "Sizes that may differ may also agree"
    texts = {text.encode(): "译文".encode() for text in (cause.title, shown.title, "not graded")}
    head = b"Content-Type: text/plain; charset=UTF-8\n"
    made = catalogue.compiled({**texts, hidden.encode(): b"x", b"": head})
    with io.BytesIO(made) as file:
        assert gettext.GNUTranslations(file).gettext(cause.title) == "译文"
    with io.BytesIO(catalogue.for_students(made, course)) as file:
        left = gettext.GNUTranslations(file)
    assert left.gettext(shown.title) == left.gettext("not graded") == "译文"
    assert left.gettext(cause.title) == cause.title
    assert left.gettext(hidden) == hidden


def test_of_the_grader_only_what_checks_travels(bundle: Path) -> None:
    modules = {path.stem for path in (bundle / "grader").rglob("*.py")}
    assert {"check", "cli", "session", "host", "reference", "terminal", "github"} <= modules
    staffs = {"bank", "calibrate", "classroom", "grade", "gradebook", "gradescope", "jail", "lms",
              "marker", "mutants", "mutate", "pairs", "prove", "sample", "sandbox", "scribe",
              "standin", "validate", "walls", "wire", "worker"}  # fmt: skip
    assert not staffs & modules


def test_students_have_the_commands_that_work(bundle: Path) -> None:
    def commands(folder: Path) -> set[str]:
        said = subprocess.run(
            [sys.executable, "-m", "grader", "--help"], cwd=folder, capture_output=True, text=True
        ).stdout
        return set(re.findall(r"^    (\w+) ", said, re.M))

    assert commands(bundle) == set(student.COMMANDS)
    assert {"check", "grade", "validate", "export"} <= commands(ROOT)


def test_the_makefile_of_students_names_no_target_that_is_not_there(bundle: Path) -> None:
    text = (bundle / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.M))
    assert targets == {"help", "lab", "clean", "ask", *student.COMMANDS}
    assert not re.search(r"STAFF|SUBMISSIONS|instructor|release", text)
    assert "$(GRADING)" not in text


def test_students_install_seven_packages_in_known_versions(bundle: Path) -> None:
    project = student.tomllib.loads((bundle / "pyproject.toml").read_text("utf-8"))["project"]
    assert len(project["dependencies"]) == 7
    assert set(project["optional-dependencies"]) == {"lab"}, "what they may install besides"
    pins = re.findall(r"^([\w-]+)==", (bundle / "constraints.txt").read_text("utf-8"), re.M)
    seven = {"numpy", "pytest", "rich", "safetensors", "tomli", "torch", "watchfiles"}
    assert set(pins) == seven | {"jupyterlab", "jupytext", "matplotlib"}


def test_the_readmes_of_students_name_what_is_there(bundle: Path) -> None:
    for name in ("README.md", "README.zh.md"):
        text = (bundle / name).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)]+)\)", text):
            assert (bundle / link).exists(), f"{name}: {link}"
        for folder in re.findall(r"^\| `([\w/.]+)`", text, re.M):
            assert (bundle / folder).exists(), f"{name}: {folder}"
        named = re.findall(r"(?:`|^    )make ([a-z]+)", text, re.M)
        assert "check" in named
        assert set(named) <= {"clean", "lab", *student.COMMANDS}
        assert not re.search(r"solutions|nbgrader", text)
    english, chinese = ((bundle / n).read_text("utf-8") for n in ("README.md", "README.zh.md"))
    commands = r"`([^`\n]*(?:set_up|grader)[^`\n]*)`"
    assert re.findall(commands, english) == [
        c for c in re.findall(commands, chinese) if not c.startswith("PIP")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("make", [True, False], ids=["with make", "without make"])
def test_the_bundle_works_alone(bundle: Path, tmp_path: Path, make: bool) -> None:
    """Unpacked into an empty folder, in a fresh environment, as a student would."""
    archive.write(bundle, tmp_path / "student.zip", "before-transformers")
    place = tmp_path / "my course 学习"
    with zipfile.ZipFile(tmp_path / "student.zip") as made:
        made.extractall(place)
    folder = place / "before-transformers"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment = kept | {"LC_ALL": "C.UTF-8", "COLUMNS": "100"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=1500
        )

    check = (".venv/bin/python", "-m", "grader", "check")
    if make:
        first = run("make", "check", f"PYTHON={shlex.quote(sys.executable)}")
    else:
        made = run(sys.executable, "tools/set_up.py")
        assert made.returncode == 0, made.stderr
        first = run(*check)
    assert "Traceback" not in first.stdout + first.stderr
    assert first.returncode != 0, first.stderr
    assert re.search(r"0 of \d+ exercises passed", first.stdout), first.stdout + first.stderr
    assert "next: write `" in first.stdout
    # What is shipped is enough to earn points.
    solved = (ROOT / "solutions" / "masks.py").read_text(encoding="utf-8")
    (folder / "exercises" / "masks.py").write_text(solved, encoding="utf-8")
    second = run("make", "check", "ONLY=masks") if make else run(*check, "masks")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "masks.create_padding_mask" in second.stdout
    assert "Setting up" not in second.stderr
    wrong = solved.replace("torch.tril", "torch.triu")
    (folder / "exercises" / "masks.py").write_text(wrong, encoding="utf-8")
    third = run(*check, "masks", "--lang", "zh")
    assert third.returncode == 1
    assert re.search(r"掩码|下三角|上三角|位置", third.stdout), third.stdout


# ------------------------------------------------------------------------------------------ a build


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A release of one small part for students."""

    def part(text: str) -> None:
        write = lambda folder: (folder / "a.txt").write_text(text, encoding="utf-8")  # noqa: E731
        monkeypatch.setattr(
            build, "PARTS", {"student": build.Part(write, "student", for_students=True)}
        )

    return part


def test_a_leak_fails_the_build_and_nothing_is_zipped(
    small: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "dist"
    small("harmless")
    assert command.main(["build", "--out", str(out)]) == 0
    assert (out / "student.zip").exists()
    small((ROOT / "solutions" / "encoder.py").read_text(encoding="utf-8"))
    assert command.main(["build", "--out", str(out)]) == 1
    assert not (out / "student.zip").exists()
    assert "a.txt: solution encoder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["build", "student", "--out"], ["notebooks"]])
def test_what_is_missing_is_said_before_anything_is_written(
    words: list[str], tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    assert command.main([*words, str(tmp_path / "out")]) == 2
    assert "`make release`" in (said := capsys.readouterr().err)
    assert "jupytext" in said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(build.BuildError, match="something else"):
        build.build(tmp_path, ["student"])
    with pytest.raises(build.BuildError, match="no part 'nonsense'"):
        build.build(tmp_path / "new", ["nonsense"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# --------------------------------------------------------------------------------------- Gradescope


def _check(name: str, clause: int, outcome: str = "passed", message: str = "") -> dict[str, Any]:
    return {
        "id": f"attention.stable_softmax/{clause}/{name}",
        "clause": clause,
        "title": f"title of {name}",
        "outcome": outcome,
        "message": message,
        "frames": [],
        "mistake": None,
    }


def _result(*checks: dict[str, Any], status: str = "graded", score: float = 2.0) -> dict[str, Any]:
    clauses = [{"clause": n, "points": 1.0, "max_points": 1.0} for n in (1, 2)]
    for check in checks:
        if check["outcome"] != "passed":
            clauses[check["clause"] - 1]["points"] = 0.0
    exercise = {
        "id": "attention.stable_softmax",
        "score": score,
        "max_score": 2.0,
        "followed_through": False,
        "clauses": clauses,
        "checks": list(checks),
    }
    return {
        "schema": 1,
        "submission": "ada",
        "made_by": {"protections": ["walls"]},
        "status": status,
        "score": score,
        "max_score": 2.0,
        "exercises": [exercise],
        "notes": [],
    }


PUBLIC_CHECK, HIDDEN_CHECK = "test_softmax_formula[square]", "test_softmax_of_any_rank[1d]"


def test_clauses_become_tests_with_points() -> None:
    result = _result(
        _check(PUBLIC_CHECK, 1, "wrong_value", "too large"), _check(HIDDEN_CHECK, 2), score=1.0
    )
    made = gradescope.results(result, ENGLISH)
    first, second = made["tests"]
    assert made["score"] == first["score"] + second["score"] == 1.0
    assert first["max_score"] + second["max_score"] == 2.0
    assert (first["status"], second["status"]) == ("failed", "passed")
    assert first["visibility"] == "visible"
    assert "too large" in first["output"]
    assert made["stdout_visibility"] == "hidden"


def test_what_hidden_checks_say_is_for_course_staff() -> None:
    result = _result(
        _check(PUBLIC_CHECK, 1), _check(HIDDEN_CHECK, 2, "wrong_value", "secret words"), score=1.0
    )
    made = gradescope.results(result, ENGLISH)
    visible = json.dumps([t for t in made["tests"] if t["visibility"] == "visible"])
    hidden = json.dumps([t for t in made["tests"] if t["visibility"] == "hidden"])
    assert "secret words" not in visible
    assert "secret words" in hidden
    assert "only grading has" in made["tests"][1]["output"]


@pytest.mark.parametrize(
    "result",
    [
        _result(_check(PUBLIC_CHECK, 1), _check(HIDDEN_CHECK, 2, "grader_error", "our fault")),
        _result(_check(PUBLIC_CHECK, 1), _check(HIDDEN_CHECK, 2), status="ungraded"),
        {"status": "unreadable", "notes": ["a.zip cannot be read"]},
        {},
        {"status": "graded", "score": 2.0, "max_score": 2.0, "exercises": [], "notes": []},
    ],
    ids=["grader_error", "ungraded", "unreadable", "nothing", "graded without exercises"],
)
def test_no_verdict_is_no_grade(result: dict[str, Any], tmp_path: Path) -> None:
    made = gradescope.results(result, ENGLISH)
    assert made["score"] == 0
    assert all("score" not in test for test in made["tests"])
    assert "not a grade" in made["output"]
    assert [test["visibility"] for test in made["tests"]] == ["hidden"]
    assert made["extra_data"]["status"] == "ungraded"
    if "our fault" in json.dumps(result):
        assert "our fault" in made["tests"][0]["output"]


@pytest.fixture
def autograder(tmp_path: Path) -> Path:
    """Gradescope's folder, with a grader that is a script of our choice."""
    base = tmp_path / "autograder"
    (base / "source" / ".venv" / "bin").mkdir(parents=True)
    (base / "submission").mkdir()
    (base / "submission" / "masks.py").write_text("x = 1\n")
    template = ROOT / "release" / "template" / "gradescope" / "run_autograder"
    shutil.copy(template, base / "run_autograder")
    return base


def _run_with(base: Path, script: str, **settings: object) -> dict[str, Any]:
    python = base / "source" / ".venv" / "bin" / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    chosen = {"unsafe": False, "limit_s": 20, **settings}
    (base / "source" / "settings.json").write_text(json.dumps(chosen))
    subprocess.run([base / "run_autograder"], cwd=base, capture_output=True, timeout=60)
    made = json.loads((base / "results" / "results.json").read_text("utf-8"))
    assert isinstance(made, dict)
    return made


@pytest.mark.parametrize(
    "script, told",
    [
        ("sleep 30", "more than 1 seconds"),
        ("echo no walls here >&2; exit 2", "no walls here"),
        ("kill -9 $PPID", "ended from outside"),
        ('[ "$3" = grade ] && mkdir -p "$6/x" && echo "{}" > "$6/x/result.json"', "results.json"),
    ],
    ids=["out of time", "refused", "killed", "half a result"],
)
def test_results_are_written_whatever_happens(autograder: Path, script: str, told: str) -> None:
    made = _run_with(autograder, script, limit_s=1 if "sleep" in script else 20)
    assert made["score"] == 0
    assert made["extra_data"]["status"] == "ungraded"
    assert "not a grade" in made["output"]
    assert "不是成绩" in made["output"]
    (test,) = made["tests"]
    assert test["visibility"] == "hidden"
    assert told in test["output"] + made["output"]


def test_a_container_without_its_set_up_says_so(autograder: Path) -> None:
    (autograder / "source" / "settings.json").write_text('{"unsafe": false, "limit_s": 5}')
    subprocess.run([autograder / "run_autograder"], cwd=autograder, capture_output=True, timeout=60)
    made = json.loads((autograder / "results" / "results.json").read_text("utf-8"))
    assert "setup.sh has not finished" in made["tests"][0]["output"]


def test_walls_are_left_out_only_where_that_was_chosen(autograder: Path) -> None:
    script = f'echo "$@" >> {autograder}/said; exit 2'
    _run_with(autograder, script)
    _run_with(autograder, script, unsafe=True)
    first, second = (autograder / "said").read_text().splitlines()
    assert "--unsafe" not in first
    assert "--unsafe" in second


@pytest.mark.slow
def test_the_gradescope_bundle_grades_in_its_layout(tmp_path: Path) -> None:
    base = tmp_path / "autograder"
    (tmp_path / "made").mkdir()
    gradescope_bundle.write(tmp_path / "made")
    archive.write(tmp_path / "made", tmp_path / "gradescope.zip")
    with zipfile.ZipFile(tmp_path / "gradescope.zip") as made:
        assert {"setup.sh", "run_autograder"} <= set(made.namelist())
        made.extractall(base / "source")
    (base / "source" / ".venv").symlink_to(sys.prefix)  # in the place of setup.sh
    shutil.copy(base / "source" / "run_autograder", base / "run_autograder")
    (base / "run_autograder").chmod(0o755)
    (base / "submission").mkdir()
    text = (ROOT / "solutions" / "masks.py").read_text(encoding="utf-8")
    (base / "submission" / "masks.py").write_text(text.replace("torch.tril", "torch.triu"))
    done = subprocess.run(
        [base / "run_autograder"], cwd=base, capture_output=True, text=True, timeout=600
    )
    results = json.loads((base / "results" / "results.json").read_text("utf-8"))
    assert results["extra_data"]["status"] == "graded", (results, done.stdout, done.stderr)
    tests = {t["name"].split(":")[0]: t for t in results["tests"] if t["visibility"] == "visible"}
    right = tests["masks.create_padding_mask, 1"]
    wrong = tests["masks.create_look_ahead_mask, 2"]
    assert right["score"] == right["max_score"] > 0
    assert (wrong["score"], wrong["status"]) == (0, "failed")
    assert wrong["output"]
    assert 0 < results["score"] < sum(test.get("max_score", 0) for test in results["tests"])
    assert results["score"] == sum(test.get("score", 0) for test in results["tests"])


# ------------------------------------------------------------------------------------------- GitHub


def _points(tmp_path: Path, result: object, *options: str) -> tuple[int, str, str]:
    path, page = tmp_path / "result.json", tmp_path / "page.md"
    path.write_text(result if isinstance(result, str) else json.dumps(result), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "grader.report.github", str(path), "--lang", "en", *options],
        cwd=ROOT,
        env=os.environ | {"GITHUB_STEP_SUMMARY": str(page)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, page.read_text("utf-8")


def test_points_are_told_as_github_classroom_reads_them(tmp_path: Path) -> None:
    result = _result(_check(PUBLIC_CHECK, 1), _check("test_x", 2, "raised", "a | b"), score=1.0)
    code, said, page = _points(tmp_path, result, "--points")
    assert code == github.OPEN
    assert said.splitlines() == [
        "::notice title=Autograding complete::Points 1/2",
        '::notice title=Autograding report::{"totalPoints": 1.0, "maxPoints": 2.0}',
    ]
    assert "1 of 2 points" in page
    assert "`attention.stable_softmax` | 1 / 2 | title of test\\_x (an exception)" in page


@pytest.mark.parametrize(
    "result",
    [
        "",
        "{",
        "[]",
        {},
        _result(_check(PUBLIC_CHECK, 1), _check("test_x", 2), status="ungraded"),
        _result(_check(PUBLIC_CHECK, 1), _check("test_x", 2, "grader_error")),
        _result(),
    ],
    ids=["empty", "torn", "a list", "nothing", "ungraded", "grader_error", "no checks"],
)
def test_no_verdict_is_a_failure_and_reports_no_points(tmp_path: Path, result: object) -> None:
    code, said, page = _points(tmp_path, result, "--points")
    assert code == github.NO_VERDICT
    assert "Points" not in said
    assert "no verdict" in page


def test_all_passed_is_a_success(tmp_path: Path) -> None:
    code, said, _ = _points(tmp_path, _result(_check(PUBLIC_CHECK, 1), _check("x", 2)), "--points")
    assert code == github.PASSED
    assert "Points 2/2" in said


GRADES = """submission,status,score,max_score,masks.combine_masks,notes
hw-ada,graded,60,60,2,
hw-bob,graded,41.5,60,1,
hw-cyd,ungraded,,60,0,
hw-dan,unreadable,,,,broken zip
"""


def test_a_class_without_all_verdicts_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (tmp_path / "grades.csv").write_text(GRADES, encoding="utf-8-sig")  # as `gradebook` does
    assert github.main([str(tmp_path), "--lang", "en"]) == github.NO_VERDICT
    assert "2 of 4 submissions are graded" in capsys.readouterr().out
    assert github.main([str(tmp_path / "nothing"), "--lang", "en"]) == github.NO_VERDICT
    rows = list(csv.DictReader(io.StringIO(GRADES)))
    assert github.of_class(rows[:2], ENGLISH)[1] == github.PASSED
    assert github.of_class([], ENGLISH)[1] == github.NO_VERDICT
    states = [line.split("\t")[:2] for line in github.statuses(rows, ENGLISH)]
    assert states == [
        ["hw-ada", "success"],
        ["hw-bob", "failure"],
        ["hw-cyd", "error"],
        ["hw-dan", "error"],
    ]


def _steps(path: Path) -> list[str]:
    """The commands of a workflow's steps."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"^ +run: (?!\|)(.+)$", text, re.M)


def test_the_workflow_takes_checks_from_where_students_cannot_write() -> None:
    template = ROOT / "release" / "template"
    flow = template / "classroom" / "template" / ".github" / "workflows" / "classroom.yml"
    text = flow.read_text(encoding="utf-8")
    assert "working-directory: course" in text
    assert "repository: ${{ vars.COURSE_REPOSITORY }}" in text
    assert "secrets." not in text  # whatever a student's workflow can read, the student can read
    assert "continue-on-error" not in text
    assert _steps(flow)[-1].endswith("--points")  # its exit code is the job's


@pytest.fixture
def github_com(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `gh` that knows two repositories of an organisation, and writes down what it is told."""
    for name in ("hw-ada", "hw-bob", "other"):
        origin = tmp_path / "origin" / name
        origin.mkdir(parents=True)
        for day, text in (("2026-01-01", "early"), ("2026-03-01", "late")):
            (origin / "masks.py").write_text(text)
            when = f"{day}T12:00:00Z"
            dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
            git = [
                "git",
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b.c",
                "-c",
                "init.defaultBranch=main",
            ]
            for words in (["init", "-q"], ["add", "."], ["commit", "-qm", day]):
                subprocess.run([*git, *words], cwd=origin, check=True, env=os.environ | dates)
    (tmp_path / "bin").mkdir()
    gh = tmp_path / "bin" / "gh"
    gh.write_text(
        "#!/bin/bash\n"
        f'if [ "$1" = repo ]; then git clone -q "{tmp_path}/origin/${{3#*/}}" "$4"\n'
        f'elif [ "$2" = --paginate ]; then ls "{tmp_path}/origin"\n'
        f'else echo "$@" >> "{tmp_path}/told"; fi\n'
    )
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("OWNER", "org")
    return tmp_path


def test_the_private_workflow_collects_and_tells(github_com: Path) -> None:
    private = ROOT / "release" / "template" / "classroom" / "private"
    place = github_com / "place"
    place.mkdir()
    subprocess.run(
        ["bash", private / "collect.sh", "hw", "2026-02-01T00:00:00Z"], cwd=place, check=True
    )
    found = {
        path.name: (path / "masks.py").read_text() for path in (place / "submissions").iterdir()
    }
    assert found == {"hw-ada": "early", "hw-bob": "early"}
    (place / "grades").mkdir()
    head, ada, _, cyd, _ = GRADES.splitlines()
    rows = [head, ada, cyd.replace("cyd", "bob")]
    (place / "grades" / "grades.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    python = place / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    subprocess.run(["bash", private / "tell.sh"], cwd=place, check=True)
    told = (github_com / "told").read_text().splitlines()
    assert len(told) == 2
    assert "repos/org/hw-ada/statuses/" in told[0]
    assert "state=success" in told[0]
    assert "state=error" in told[1]


def test_no_repository_is_an_error(github_com: Path) -> None:
    private = ROOT / "release" / "template" / "classroom" / "private"
    done = subprocess.run(
        ["bash", private / "collect.sh", "nothing"], cwd=github_com, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "::error::" in done.stdout


def test_the_private_repository_holds_what_grading_needs(tmp_path: Path) -> None:
    classroom.write(tmp_path)
    private = tmp_path / "private"
    for name in ("Makefile", "collect.sh", "tests/hidden/test_masks.py", "solutions/masks.py"):
        assert (private / name).is_file()
    assert not (tmp_path / "template" / "solutions").exists()
    names = [path.name for path in tmp_path.rglob("*")]
    assert ".course-secret" not in names  # a secret of the repository, not a file in it


# ------------------------------------------------------------------------------- Canvas and Moodle


def _export(
    tmp_path: Path, platform: str, roster: str = "", grades: str = GRADES, **options: Any
) -> lms.Exported:
    (tmp_path / "grades.csv").write_text(grades, encoding="utf-8-sig")
    file = None
    if roster:
        file = tmp_path / "roster.csv"
        file.write_text(roster, encoding="utf-8-sig")
    return lms.export(
        tmp_path / "grades.csv",
        platform,
        file,
        options.get("column", "Course"),
        options.get("out_of"),
    )


CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Old (1)
    Points Possible,,,,,10
"Lovelace, Ada",101,s1,hw-ada,A,3
"Öz, Bob",102,s2,hw-bob,A,
"Nobody, Else",103,s3,else,A,
"""


def test_canvas_gets_what_its_importer_reads(tmp_path: Path) -> None:
    """Canvas takes a row for a header by columns 0, 1 and the last before the assignments, and a
    row for that of points by the words in its first cell.
    """
    made = _export(tmp_path, "canvas", CANVAS, column="Course (77)")
    header, possible, *students = csv.reader(io.StringIO(made.text))
    assert "Student" in header[0]
    assert "ID" in header[1]
    assert header[2:5] == ["SIS User ID", "SIS Login ID", "Section"]
    assert header[5:] == ["Course (77)"]
    assert "Points Possible" in possible[0]
    assert possible[5] == "60"
    assert students == [
        ["Lovelace, Ada", "101", "s1", "hw-ada", "A", "60"],
        ["Öz, Bob", "102", "s2", "hw-bob", "A", "41.5"],
    ]
    assert made.without_verdict == ["hw-cyd", "hw-dan"]
    assert made.strangers == []


def test_submissions_go_by_the_names_that_platforms_give_them(tmp_path: Path) -> None:
    grades = GRADES.replace("hw-ada", "lovelaceada_101_990_masks").replace("hw-bob", "zed")
    made = _export(tmp_path, "canvas", CANVAS, grades)
    assert [row[0] for row in csv.reader(io.StringIO(made.text))][2:] == ["Lovelace, Ada"]
    assert made.strangers == ["zed"]


def test_two_submissions_of_one_person_are_refused(tmp_path: Path) -> None:
    grades = GRADES.replace("hw-bob", "101")
    with pytest.raises(lms.ExportError, match="the same person"):
        _export(tmp_path, "canvas", CANVAS, grades)


WORKSHEET = """Identifier,Full name,Email address,Status,Grade,Maximum Grade
Participant 7,Ada Lovelace,ada@example.org,Submitted,,100.00
Participant 8,Bob Öz,bob@example.org,Submitted,,100.00
"""


def test_moodle_gets_its_worksheet_back_with_grades(tmp_path: Path) -> None:
    grades = GRADES.replace("hw-ada", "Ada Lovelace_7_assignsubmission_file")
    made = _export(
        tmp_path, "moodle", WORKSHEET, grades.replace("hw-bob", "bob@example.org"), out_of=100
    )
    header, *rows = csv.reader(io.StringIO(made.text))
    assert header == WORKSHEET.splitlines()[0].split(",")
    assert [row[4] for row in rows] == ["100", "69.17"]
    assert [row[0] for row in rows] == ["Participant 7", "Participant 8"]


@pytest.mark.parametrize(
    ("platform", "row", "name"),
    [
        ("canvas", '"Lovelace, Ada",1,,al,1', "Ada Lovelace"),
        ("canvas", '"李, 明",1,,lm,1', "李明"),
        ("canvas", '"明, 李",1,,lm,1', "李 明"),
        ("moodle", "Ada,Lovelace,a@b.org", "Ada Lovelace"),
        ("moodle", "明,李,a@b.org", "李明_77_assignsubmission_file"),
    ],
)  # fmt: skip
def test_a_name_is_one_in_either_order(tmp_path: Path, platform: str, row: str, name: str) -> None:
    head = {"canvas": "Student,ID,SIS User ID,SIS Login ID,Section",
            "moodle": "First name,Surname,Email address"}[platform]  # fmt: skip
    made = _export(tmp_path, platform, f"{head}\n{row}\n", GRADES.replace("hw-ada", name))
    assert made.strangers == ["hw-bob"]


def test_where_nobody_is_found_nothing_is_written(tmp_path: Path) -> None:
    roster = "First name,Surname,Email address\nEve,Noether,e@n.org\n"
    with pytest.raises(lms.ExportError, match=r"None of the 2 .*e@n\.org|Noether.*'hw-ada'"):
        _export(tmp_path, "moodle", roster)


def test_moodle_without_a_roster_goes_by_address_or_login(tmp_path: Path) -> None:
    made = _export(tmp_path, "moodle", grades=GRADES.replace("hw-ada", "ada@example.org"))
    rows = list(csv.DictReader(io.StringIO(made.text)))
    assert rows[0] == {"Email address": "ada@example.org", "Username": "", "Course": "60"}
    assert rows[1] == {"Email address": "", "Username": "hw-bob", "Course": "41.5"}


def test_a_file_that_is_no_roster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lms.ExportError, match="none of the columns"):
        _export(tmp_path, "canvas", "a,b\n1,2\n")
    with pytest.raises(lms.ExportError, match="Export it in English"):
        _export(tmp_path, "moodle", "名,姓氏,学号\n静,徐,S111\n")
    with pytest.raises(lms.ExportError, match="holds no grades"):
        _export(tmp_path, "canvas", CANVAS, "x,y\n1,2\n")


TWO = "Student,ID,SIS User ID,SIS Login ID,Section\n"


@pytest.mark.parametrize(
    "rows",
    [
        "Ada,1,s1,hw-ada,A\nAde,2,s2,hw-ada,A\n",
        "Ada,1,hw-ada,x,A\nAde,2,s2,hw-ada,A\n",
        "hw-ada,1,s1,x,A\nHW-Ada,2,s2,y,A\n",
    ],
    ids=["one login twice", "one's number, another's login", "one name twice"],
)
def test_nobody_gets_the_grade_of_whom_it_could_be_as_well(tmp_path: Path, rows: str) -> None:
    with pytest.raises(lms.ExportError, match="'hw-ada' is 2 persons in the roster"):
        _export(tmp_path, "canvas", TWO + rows)


@pytest.mark.parametrize(
    "rows",
    [
        "Ada,1,s1,hw-ada,A\nAda,1,s1,hw-ada,A\n",
        "Ada,1,s1,hw-ada,A\nhw-ada,2,s2,y,A\n",
    ],
    ids=["a row twice", "a login, and what another is called"],
)
def test_who_it_is_can_be_told(tmp_path: Path, rows: str) -> None:
    made = _export(tmp_path, "canvas", TWO + rows)
    assert [row[0] for row in csv.reader(io.StringIO(made.text))][2:] == ["Ada"]


def test_the_number_in_a_download_is_the_platform_s(tmp_path: Path) -> None:
    roster = TWO + "Ada,101,s1,a,A\nAde,2,101,b,A\n"
    grades = GRADES.replace("hw-ada", "lovelaceada_101_990_masks")
    made = _export(tmp_path, "canvas", roster, grades)
    assert [row[0] for row in csv.reader(io.StringIO(made.text))][2:] == ["Ada"]


@pytest.mark.parametrize("points", ["nan,60", "60,0", "x,60", "60,inf", ",60"])
def test_points_that_are_no_number_are_refused(tmp_path: Path, points: str) -> None:
    grades = f"submission,status,score,max_score\nada,graded,{points}\n"
    with pytest.raises(lms.ExportError, match="points"):
        _export(tmp_path, "canvas", grades=grades)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gbk"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_as_spreadsheets_save_it(
    tmp_path: Path, encoding: str, separator: str
) -> None:
    rows = "Student,ID,SIS Login ID\n李娜,103,lina\n"
    path = tmp_path / "roster.csv"
    path.write_bytes(rows.replace(",", separator).encode(encoding))
    (tmp_path / "grades.csv").write_text("submission,status,score,max_score\n李娜,graded,4,5\n")
    made = lms.export(tmp_path / "grades.csv", "canvas", path, "Week 1", None)
    assert "李娜,103,,lina,,4" in made.text
    rows = "submission,kind,target,value,reason\n李娜,late,,0.9,迟交一天\n"
    path.write_bytes(rows.replace(",", separator).encode(encoding))
    (line,) = adjustments.read(path, courses.load(), (), ["李娜"])
    assert line == adjustments.Adjustment("李娜", "late", "", 0.9, "迟交一天")


def test_a_roster_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lms.ExportError, match="cannot be read as a CSV file"):
        _export(tmp_path, "canvas", f"Student,ID\n{'x' * 200_000},1\n")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "＝1+1"])
def test_a_formula_in_a_name_stays_a_text(tmp_path: Path, name: str) -> None:
    in_grades = gradebook._cell(name)
    assert in_grades == f"'{name}"
    made = _export(tmp_path, "canvas", grades=GRADES.replace("hw-ada", in_grades))
    assert list(csv.reader(io.StringIO(made.text)))[2][0] == f"'{name}"
    roster = CANVAS.replace("hw-ada", name)
    found = _export(tmp_path, "canvas", roster, GRADES.replace("hw-ada", in_grades))
    assert found.strangers == []
