"""Notebooks: made from the one source, checked as modules are, and running from end to end."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from grader import intake
from grader.course import Course, CourseError, Unit
from grader.report.nbgrader import check_cell
from grader.subject.modules import PACKAGE
from release import __main__ as command
from release import notebooks, stubs, student
from release.leaks import LeakCheck

pytest.importorskip("jupytext", reason="needs the extra `notebooks`")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


def unit(course: Course, name: str) -> Unit:
    return next(unit for unit in course.units if unit.name == name)


def sources(book: dict[str, Any]) -> dict[str, str]:
    return {cell["id"]: cell["source"] for cell in book["cells"]}


# -------------------------------------------------------------------------------- as they are made


def test_notebooks_are_valid_and_the_same_each_time(course: Course, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        notebooks.write(tmp_path / name, course)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        nbformat.validate(nbformat.read(path, as_version=4))
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names >= {f"{unit.name}.ipynb" for unit in course.units}


def test_nobodys_work_is_written_over(course: Course, tmp_path: Path) -> None:
    (tmp_path / "masks.ipynb").write_text("my work", encoding="utf-8")
    assert command.main(["notebooks", str(tmp_path)]) == 0
    assert (tmp_path / "masks.ipynb").read_text(encoding="utf-8") == "my work"
    assert len(list(tmp_path.glob("*.ipynb"))) >= len(course.units)


def test_each_exercise_has_its_cell_and_its_check(course: Course) -> None:
    for one in course.units:
        book = notebooks.notebook(one, course)
        found = sources(book)
        ids = [cell["id"] for cell in book["cells"]]
        assert len(ids) == len(set(ids))
        checks = [text for id, text in found.items() if id.startswith("check-")]
        assert checks == [f'check("{exercise.id}")' for exercise in one.exercises]
        for exercise in one.exercises:
            written = found[notebooks.definition_id(exercise.name)]
            assert re.match(rf"(@.*\n)*(class|def) {exercise.name.split('.')[0]}\b", written)
            assert ids.index(notebooks.definition_id(exercise.name)) < ids.index(
                check_cell(exercise.id)
            )


def test_the_notebook_makes_the_module_that_the_stub_is(course: Course, tmp_path: Path) -> None:
    """As intake reads it: the same definitions, to the letter."""
    notebooks.write(tmp_path, course)
    read = intake.read_folder(tmp_path, course.definitions).modules
    given = stubs.stubs(course)
    for one in course.units:
        text = read[one.name].text
        for name in course.definitions[one.name]:
            pattern = rf"^(?:class|def) {name}\b.*?(?=^\S|\Z)"
            stub = re.search(pattern, given[f"{one.name}.py"], re.M | re.S)
            made = re.search(pattern, text, re.M | re.S)
            assert stub
            assert made
            assert made[0].strip() == stub[0].strip()


def test_students_get_no_solution(course: Course, tmp_path: Path) -> None:
    notebooks.write(tmp_path, course)
    assert LeakCheck(course).folder(tmp_path) == []
    solved = notebooks.to_text(notebooks.notebook(course.units[3], course, solved=True))
    assert LeakCheck(course).file("attention.ipynb", solved.encode()), "it sees none at all"


@pytest.mark.parametrize(
    "marks, said",
    [
        (["create_look_ahead_mask", "create_padding_mask"], "expected .*combine_masks.*found none"),
        (["create_padding_mask", "create_look_ahead_mask", "combine_masks"],
         "exercise 1: expected .*create_look_ahead_mask.*found create_padding_mask"),
        (["create_look_ahead_mask", "create_padding_mask", "combine_masks", "combine_masks"],
         "exercise 4: expected no exercise more, found combine_masks"),
    ],
    ids=["one is missing", "in another order", "one too many"],
)  # fmt: skip
def test_a_lesson_says_where_each_exercise_stands(
    course: Course, tmp_path: Path, marks: list[str], said: str
) -> None:
    text = "\n\n".join(f"Some prose.\n\n<!-- exercise: {mark} -->" for mark in marks)
    (tmp_path / "masks.md").write_text(text, encoding="utf-8")
    with pytest.raises(CourseError, match=said):
        notebooks.notebook(unit(course, "masks"), course, lessons=tmp_path)


def test_a_lesson_becomes_prose_and_code(course: Course, tmp_path: Path) -> None:
    (tmp_path / "masks.md").write_text(
        "# Masks\n\nWith $x^2$ in it.\n\n```python\nprint(1)\n```\n\nBefore.\n"
        "<!-- exercise: create_look_ahead_mask -->\nAfter.\n"
        "<!-- exercise: create_padding_mask -->\n\n<!-- exercise: combine_masks -->\n",
        encoding="utf-8",
    )
    book = notebooks.notebook(unit(course, "masks"), course, lessons=tmp_path)
    kinds = [(cell["cell_type"][0], cell["id"]) for cell in book["cells"]]
    assert [kind for kind, _ in kinds] == list("mcccmccmcccc")
    assert kinds[1:3] == [("c", "set-up"), ("c", "imports")]
    assert book["cells"][3]["source"] == "print(1)"
    assert book["cells"][4]["source"] == "Before."
    assert book["cells"][7]["source"] == "After."


# -------------------------------------------------------------------------------------- as they run


@pytest.fixture(scope="module")
def bundle(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What students have, in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("a student")
    student.write(folder, course)
    notebooks.write(folder / PACKAGE, course)
    return folder


def run(folder: Path, book: dict[str, Any], **options: Any) -> Any:
    """Execute a notebook as if it lay in the bundle's exercises/."""
    node = nbformat.from_dict(book)
    client = nbclient.NotebookClient(
        node, resources={"metadata": {"path": str(folder / PACKAGE)}}, **{"timeout": 300} | options
    )
    client.execute()
    return node


def said(cell: Any) -> str:
    shown = [o["data"]["text/plain"] for o in cell.outputs if o.output_type == "display_data"]
    assert len(shown) == 1
    return str(shown[0])


def checks(book: Any) -> dict[str, Any]:
    return {
        c.source: c for c in book.cells if c.cell_type == "code" and c.source.startswith("check(")
    }


def hold_solved(course: Course, one: Unit, bundle: Path) -> None:
    ran = checks(run(bundle, notebooks.notebook(one, course, solved=True)))
    assert len(ran) == len(one.exercises)
    for exercise in one.exercises:
        text = said(ran[f'check("{exercise.id}")'])
        points = f"{exercise.max_score:g} / {exercise.max_score:g}"
        assert re.match(rf"{re.escape(exercise.id)} +{points}\n", text), text


def test_a_solved_notebook_runs_and_passes(course: Course, bundle: Path) -> None:
    hold_solved(course, unit(course, "attention"), bundle)


@pytest.mark.slow
def test_all_solved_notebooks_run_and_pass(course: Course, bundle: Path) -> None:
    """One after the other, and saved, since they stand on each other."""
    folder = bundle / PACKAGE
    for one in course.units:
        hold_solved(course, one, bundle)
        text = notebooks.to_text(notebooks.notebook(one, course, solved=True))
        (folder / f"{one.name}.ipynb").write_text(text, encoding="utf-8")


def edited(book: dict[str, Any], cell: str, find: str, put: str) -> dict[str, Any]:
    """A notebook with one text of a cell replaced."""
    book = json.loads(json.dumps(book))
    (one,) = (c for c in book["cells"] if c["id"] == cell)
    assert one["source"].count(find) == 1
    one["source"] = one["source"].replace(find, put)
    return book


BODY = "    d_k = query.size(-1)\n"
SDPA = "scaled_dot_product_attention"


def test_a_check_says_what_make_check_says(
    course: Course, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from grader.__main__ import main

    solved = notebooks.notebook(unit(course, "attention"), course, solved=True)
    wrong = edited(solved, f"exercise-{SDPA}", "scores, dim=-1", "scores, dim=-2")
    wrong = edited(
        wrong, "exercise-self_attention", "    ### BEGIN", "    print('hello')\n    ### BEGIN"
    )
    ran = run(bundle, wrong)
    (tmp_path / "attention.ipynb").write_text(notebooks.to_text(wrong), encoding="utf-8")
    for name in (SDPA, "self_attention"):
        main(["check", f"attention.{name}", "--path", str(tmp_path), "--lang", "en"])
        expected = capsys.readouterr().out.split("\n\n0 of 1")[0]
        (cell,) = (c for c in ran.cells if c.id == f"check-{name}")
        assert said(cell) == expected
        assert [o.output_type for o in cell.outputs] == ["display_data"], "a number or a stream"
        assert "<pre" in cell.outputs[0]["data"]["text/html"]
    assert "Your weights equal those of a softmax over the queries." in said(
        next(c for c in ran.cells if c.id == f"check-{SDPA}")
    )


def test_make_check_sends_one_to_the_notebook(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from grader.__main__ import main

    book = notebooks.notebook(unit(course, "masks"), course)
    (tmp_path / "masks.ipynb").write_text(notebooks.to_text(book), encoding="utf-8")
    main(["check", "masks", "--path", str(tmp_path), "--lang", "en"])
    said = capsys.readouterr().out
    assert f"next: `create_look_ahead_mask` in {tmp_path}/masks.ipynb, then run" in said


def test_an_endless_loop_is_ended_and_said_where(course: Course, bundle: Path) -> None:
    book = notebooks.notebook(unit(course, "attention"), course, solved=True)
    book = edited(book, f"exercise-{SDPA}", BODY, f"{BODY}    while True:\n        pass\n")
    book["cells"] = [c for c in book["cells"] if not re.match("lesson|.*(self|cross)_", c["id"])]
    book = edited(book, f"check-{SDPA}", ")", ", limit=1)")
    ran = run(bundle, book)
    text = said(next(c for c in ran.cells if c.id == f"check-{SDPA}"))
    assert "0 / 14" in text
    (loop,) = (c for c in ran.cells if c.id == f"exercise-{SDPA}")
    line = loop.source.split("\n").index("    while True:") + 1
    place = re.search(rf"attention\.ipynb, In \[{loop.execution_count}\], line (\d+)", text)
    assert place, text
    assert int(place[1]) in (line, line + 1)
    assert "8 / 8" in said(next(c for c in ran.cells if c.id == "check-stable_softmax")), (
        "and after it"
    )


def test_an_interrupt_ends_a_check(course: Course, bundle: Path) -> None:
    book = notebooks.notebook(unit(course, "attention"), course, solved=True)
    book = edited(book, f"exercise-{SDPA}", BODY, f"{BODY}    while True:\n        pass\n")
    book["cells"] = [c for c in book["cells"] if not re.match("lesson|.*(self|cross)_", c["id"])]
    ran = run(bundle, book, timeout=6, interrupt_on_timeout=True, allow_errors=True)
    by_id = {c.id: c for c in ran.cells}
    errors = [o.ename for o in by_id[f"check-{SDPA}"].outputs if o.output_type == "error"]
    assert errors == ["KeyboardInterrupt"]
    assert "8 / 8" in said(by_id["check-stable_softmax"])


def code(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
            "source": source}  # fmt: skip


def test_the_last_run_of_a_cell_counts_whatever_else_ran(course: Course, bundle: Path) -> None:
    """Mended, and run again, as in Jupyter: by its id; the notebook's own trials do not matter."""
    kernel = """
        from types import SimpleNamespace
        import grader.notebook as nb
        ran = nb._kernel
        ran._cells.clear()
        for number, (cell, source) in enumerate([
            ("a", "import math\\nimport nowhere_at_all\\nx = open('nothing')"),
            ("b", "def stable_softmax(scores, dim=-1):\\n    return 1"),
            ("c", "def ((("),
            ("b", "def stable_softmax(scores, dim=-1):\\n    return math.e"),
        ], 1):
            ran._ran(cell, number, source)
        print(ran.modules())
    """
    book = notebooks.notebook(unit(course, "masks"), course)
    (set_up,) = (c for c in book["cells"] if c["id"] == "set-up")
    book["cells"] = [set_up, code(textwrap.dedent(kernel).strip())]
    printed = run(bundle, book).cells[1].outputs[0].text
    text = "# %% In [1]\nimport math\n\n# %% In [4]\n"
    text += "def stable_softmax(scores, dim=-1):\n    return math.e\n"
    assert eval(printed) == {"attention": text}


def test_a_unit_stands_on_the_notebook_beside_it(course: Course, bundle: Path) -> None:
    """The stub of the same name lies there, too."""
    folder = bundle / PACKAGE
    solved = notebooks.notebook(unit(course, "attention"), course, solved=True)
    kept = (folder / "attention.ipynb").read_text(encoding="utf-8")
    try:
        (folder / "attention.ipynb").write_text(notebooks.to_text(solved), encoding="utf-8")
        book = notebooks.notebook(unit(course, "multihead"), course, solved=True)
        book["cells"].append(
            code("import torch\nMultiHeadAttention(4, 2)(*[torch.ones(1, 2, 4)] * 3)[0].shape")
        )
        ran = run(bundle, book)
    finally:
        (folder / "attention.ipynb").write_text(kept, encoding="utf-8")
    text = said(next(c for c in ran.cells if c.id == "check-MultiHeadAttention-forward"))
    assert "11 / 11" in text
    assert ran.cells[-1].outputs[0]["data"]["text/plain"] == "torch.Size([1, 2, 4])"


def test_a_mistyped_name_is_answered_in_a_sentence(course: Course, bundle: Path) -> None:
    book = notebooks.notebook(unit(course, "attention"), course)
    (set_up,) = (c for c in book["cells"] if c["id"] == "set-up")
    book["cells"] = [set_up, code('check("atention.stable_softmx", lang="en")')]
    (output,) = run(bundle, book, allow_errors=True).cells[1].outputs
    assert output.output_type == "error"  # who runs all cells stops here
    (told,) = output.traceback
    assert told.startswith("There is no unit or exercise 'atention.stable_softmx'.")
    assert "Did you mean: attention.stable_softmax" in told
    assert "\n" not in told
