"""Results as programs read them: against published schemas, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as xml

import jsonschema
import pytest
import xmlschema

from grader.cli import main
from grader.course import ROOT, CourseError
from grader.model import Outcome, say
from grader.report import difference, formats, github, junit
from grader.report.plain import plain
from tests.system.made import ENGLISH, OTHER, SOFTMAX, result, unreadable, wrong

SCHEMA = json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
JENKINS = xmlschema.XMLSchema(str(Path(__file__).with_name("data") / "junit-10.xsd"))


def holds(data) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(data)


def every_outcome(course):
    """One of each outcome, over several submissions."""
    outcomes = list(Outcome)
    some = [outcomes[n : n + 7] for n in range(0, len(outcomes), 7)]
    return [
        result(course, f"s{n}", {c: wrong(c, o) for c, o in enumerate(group, 1)})
        for n, group in enumerate(some)
    ]


# The schema


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_results_hold_the_schema(course) -> None:
    for data in (*every_outcome(course), unreadable()):
        holds(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(schema=2),
        lambda data: data.update(status="zero"),
        lambda data: data.pop("digest"),
        lambda data: data.update(more=1),
        lambda data: data["exercises"][0].update(score=-1),
        lambda data: data["exercises"][0]["checks"][0].update(outcome="bad"),
        lambda data: data["exercises"][0]["checks"][0].pop("picture"),
        lambda data: data["exercises"][0]["clauses"][0].update(clause=0),
    ],
)
def test_the_schema_refuses_what_is_none(course, change) -> None:
    data = result(course)
    change(data)
    with pytest.raises(jsonschema.ValidationError):
        holds(data)


@pytest.mark.slow
def test_check_prints_what_the_schema_says(capsys) -> None:
    main(["check", "masks", "--path", str(ROOT / "exercises"), "--format", "json"])
    holds(json.loads(capsys.readouterr().out))


@pytest.mark.slow
@pytest.mark.parametrize(
    "format, begins", [("junit", "<?xml"), ("markdown", "## "), ("html", "<!DOCTYPE html>")]
)
def test_check_prints_every_format(capsys, format, begins) -> None:
    assert main(["check", "masks", "--path", str(ROOT / "exercises"), "--format", format]) == 1
    assert capsys.readouterr().out.startswith(begins)


# JUnit


def test_junit_is_what_jenkins_reads(course) -> None:
    JENKINS.validate(junit.render([*every_outcome(course), unreadable()]))


def test_junit_counts_and_says_why(course) -> None:
    failed = wrong(1, message=(say("T."), say("expected 1")), frames=("attention.py, line 7",))
    outcomes = {
        1: failed,
        2: wrong(2, Outcome.NOT_ATTEMPTED),
        3: wrong(3, Outcome.GRADER_ERROR),
        4: wrong(4, Outcome.BLOCKED),
    }
    root = xml.fromstring(junit.render([result(course, "ada", outcomes)]))
    suite = root[0]
    assert suite.get("name") == f"ada.{SOFTMAX}"
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "7", "failures": "1", "errors": "1", "skipped": "2"}
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "wrong_value"
    assert failure.text == "T.\nexpected 1\nattention.py, line 7"
    score = next(p for p in suite.iter("property") if p.get("name") == "score")
    assert float(score.get("value")) == sum(course.exercises[SOFTMAX].points[4:])


@pytest.mark.parametrize("text", ["<a> & ]]>", "\x00\x1b[2J", "\ud800", "\ufffe", "班\n\t"])
def test_junit_takes_any_text(course, text) -> None:
    failed = wrong(1, message=(say("{text}", text=text),), title=text)
    made = junit.render([result(course, text, {1: failed})])
    (failure,) = xml.fromstring(made.encode()).iter("failure")
    assert failure.text == plain(text)


def test_what_could_not_be_read_is_an_error_in_junit() -> None:
    (error,) = xml.fromstring(junit.render([unreadable()])).iter("error")
    assert error.text == "x.zip is no zip"


# Of a class


def fill(folder: Path, results) -> Path:
    for one in results:
        (folder / one["submission"]).mkdir(parents=True)
        text = json.dumps(one)
        (folder / one["submission"] / "result.json").write_text(text, encoding="utf-8")
    (folder / "grades.csv").touch()  # written last
    return folder


@pytest.mark.parametrize("format, file", [("junit", "junit.xml"), ("markdown", "summary.md")])
def test_a_class_is_exported(course, tmp_path, capsys, format, file) -> None:
    out = fill(tmp_path / "out", [result(course, "ada"), result(course, "bob_*", {1: wrong()})])
    assert main(["export", str(out), "--format", format]) == 0
    text = (out / file).read_text(encoding="utf-8")
    assert "ada" in text
    assert SOFTMAX in text
    assert ("bob_*" if format == "junit" else "# bob_\\*") in text


def test_what_was_tried_and_earned_nothing_has_a_cross(course, tmp_path) -> None:
    """A dot is for what was not begun."""
    numbers = range(1, len(course.exercises[SOFTMAX].points) + 1)
    results = [
        result(course, "tried", {n: wrong(n) for n in numbers}),
        result(course, "idle", {n: wrong(n, Outcome.NOT_ATTEMPTED) for n in numbers}),
    ]
    tried, idle = (github.of_result(one, ENGLISH)[0] for one in results)
    assert "| ✗ `" in tried
    assert "| · `" in idle


@pytest.mark.parametrize("format", ["canvas", "junit", "markdown"])
def test_on_a_full_disk_an_export_is_whole_or_not_there(course, tmp_path, format) -> None:
    resource = pytest.importorskip("resource")
    out = fill(tmp_path / "out", [result(course, f"student-{i}") for i in range(40)])
    rows = "".join(f"student-{i},graded,1,2\n" for i in range(400))
    (out / "grades.csv").write_text(f"submission,status,score,max_score\n{rows}")
    to = tmp_path / "exported"
    to.write_text("an earlier one")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, most))
    try:
        code = main(["export", str(out), "--format", format, "--to", str(to)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert code == 2
    assert to.read_text() == "an earlier one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported", "out"]


def test_a_name_in_a_summary_turns_nothing_round(course) -> None:
    both = [result(course, "rtl\u202e gpj.\nx"), result(course, "bob")]
    assert "# rtl\\? gpj\\. x\n" in formats.as_markdown(both, course, ENGLISH)


def test_a_folder_without_results_is_said(tmp_path) -> None:
    with pytest.raises(CourseError, match="holds no results"):
        formats.read(tmp_path)


DAMAGED = {
    "empty": lambda text: "",
    "cut off": lambda text: text[: len(text) // 2],
    "a list": lambda text: "[]",
    "another schema": lambda text: text.replace('"schema": 1', '"schema": 2'),
    "no points": lambda text: text.replace('"max_score"', '"most"'),
    "no clauses": lambda text: text.replace('"clauses"', '"paragraphs"'),
    "no name": lambda text: text.replace('"submission": "ada"', '"submission": 7'),
    "no bytes of a text": lambda text: "\udcff" + text,
}


def test_a_class_is_no_result_of_gradescopes_autograder(course, tmp_path, capsys) -> None:
    out = fill(tmp_path, [result(course), result(course, "bob")])
    assert main(["export", str(out), "--format", "gradescope"]) == 2
    assert "holds 2 submissions" in capsys.readouterr().err
    assert not (out / "results.json").exists()


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_result_that_is_damaged_is_named(course, tmp_path, capsys, damage) -> None:
    out, whole = (fill(tmp_path / name, [result(course)]) for name in ("out", "whole"))
    path = out / "ada" / "result.json"
    text = damage(path.read_text(encoding="utf-8"))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    for command in (
        ["export", str(out), "--format", "junit"],
        ["export", str(out), "--format", "markdown"],
        ["diff", str(whole), str(out)],
    ):
        assert main(command) == 2
        assert str(path) in capsys.readouterr().err
    assert main(["export", str(out), "--format", "gradescope"]) == 1
    made = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert made["extra_data"] == {"status": "ungraded"}


@pytest.mark.parametrize("format", ["junit", "markdown", "canvas", "nbgrader"])
def test_a_run_that_has_not_ended_is_not_exported(course, tmp_path, capsys, format) -> None:
    out = fill(tmp_path / "out", [result(course)])
    (out / "grades.csv").unlink()
    database = ["--db", "sqlite:///x.db", "--assignment", "x"] if format == "nbgrader" else []
    assert main(["export", str(out), "--format", format, *database]) == 2
    assert "or not to the end" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["ada"]


def test_a_number_that_is_none_is_told_so(tmp_path, capsys) -> None:
    for words in (["export", "x", "--format", "canvas", "--out-of"], ["grade", "--jobs"]):
        with pytest.raises(SystemExit):
            main([*words, "ten"])
        assert "'ten' is not a number" in capsys.readouterr().err


# What is different


def test_the_same_is_the_same(course, tmp_path, capsys) -> None:
    old, new = (fill(tmp_path / n, [result(course), unreadable()]) for n in ("old", "new"))
    assert main(["diff", str(old), str(new), "--lang", "en"]) == 0
    assert "0 submissions are different, of 2" in capsys.readouterr().out
    assert main(["diff", str(old), str(new), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True


def moved(tmp_path, old, new) -> difference.Move:
    found = difference.compare(fill(tmp_path / "old", [old]), fill(tmp_path / "new", [new]))
    (move,) = found.moves
    return move


@pytest.mark.parametrize(
    "change, why",
    [
        ({"digest": "0" * 16}, ["code"]),
        ({"course": "0" * 16}, ["course"]),
        ({"made_by": {"suite": "0" * 16}}, ["suite"]),
        ({"made_by": {"torch": "9"}}, ["versions"]),
        ({"made_by": {"protections": []}}, ["versions"]),
        ({"notes": ["Late."]}, ["adjustments"]),
        ({"digest": "0" * 16, "notes": ["Late."]}, ["code", "adjustments"]),
        ({}, ["unknown"]),
    ],
)
def test_who_moved_and_why(course, tmp_path, change, why) -> None:
    old, new = result(course), result(course, outcomes={2: wrong(2)})
    new["made_by"] |= change.pop("made_by", {})
    move = moved(tmp_path, old, new | change)
    assert move.why == why
    lost = course.exercises[SOFTMAX].points[1]
    assert move.by == -lost
    assert move.clauses == [difference.Change(f"{SOFTMAX}/2", lost, 0.0)]
    check = f"{SOFTMAX}/2/test_a"
    assert move.checks == [difference.Change(check, "passed", "wrong_value")]


def test_versions_alone_move_nobody(course, tmp_path) -> None:
    old, new = result(course), result(course)
    new["made_by"]["torch"] = "9"
    folders = (fill(tmp_path / n, [r]) for n, r in (("old", old), ("new", new)))
    assert difference.compare(*folders).moves == []


def test_who_came_who_left_and_who_has_no_verdict(course, tmp_path, capsys) -> None:
    old = fill(tmp_path / "old", [result(course, "ada"), result(course, "bob")])
    broken = result(course, "bob", {1: wrong(1, Outcome.GRADER_ERROR)})
    new = fill(tmp_path / "new", [broken, result(course, "eve\x1b[2J")])
    assert main(["diff", str(old), str(new), "--lang", "en"]) == 1
    said = capsys.readouterr().out
    whole = course.exercises[SOFTMAX].max_score + course.exercises[OTHER].max_score
    assert f"ada: {whole:g} -> not there" in said
    assert f"bob: {whole:g} -> ungraded" in said
    assert f"eve?[2J: not there -> {whole:g}" in said
    assert "3 submissions are different, of 1 that are in both" in said


def test_checks_are_told_up_to_five(course, tmp_path, capsys) -> None:
    old = fill(tmp_path / "old", [result(course)])
    new = fill(tmp_path / "new", [result(course, outcomes={n: wrong(n) for n in range(1, 8)})])
    main(["diff", str(old), str(new), "--lang", "en"])
    assert "and 2 more checks (--all names them)" in capsys.readouterr().out
    main(["diff", str(old), str(new), "--all", "--lang", "en"])
    assert capsys.readouterr().out.count("passed -> wrong_value") == 7


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 7}'])
def test_what_is_no_result_is_said(course, tmp_path, capsys, text) -> None:
    old, new = (fill(tmp_path / n, [result(course)]) for n in ("old", "new"))
    (new / "ada" / "result.json").write_text(text)
    assert main(["diff", str(old), str(new)]) == 2
    assert str(new / "ada" / "result.json") in capsys.readouterr().err
