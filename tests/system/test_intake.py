"""Whatever a student hands in is read, with a note where it was odd, and none of it is run."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grader import cells, intake
from grader.intake import IntakeError
from grader.model import Submission, place
from grader.report.language import Language

UNITS = ["attention", "masks"]
CODE = "def f(x):\n    # naïve café\n    return x\n"


def read(folder: Path, **files: bytes | str) -> Submission:
    """Write files (``attention_py`` is attention.py) and read the folder."""
    for name, content in files.items():
        blob = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_", ".")).write_bytes(blob)
    return intake.read_folder(folder, UNITS)


def notes(submission: Submission) -> str:
    return "\n".join(Language("en").render(note) for note in submission.notes)


def cell(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], **more}


def notebook(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def values(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "attention.py", "exec"), names)
    return names


# Files.


@pytest.mark.parametrize(
    "blob",
    [
        CODE.encode(),
        CODE.encode("utf-8-sig"),
        CODE.replace("\n", "\r\n").encode(),
        CODE.replace("\n", "\r").encode(),
        CODE.encode("utf-16"),
        b"\xfe\xff" + CODE.encode("utf-16-be"),
    ],
    ids=["UTF-8", "BOM", "CRLF", "CR", "UTF-16", "UTF-16 big-endian"],
)
def test_any_unicode_file_is_read_without_a_word(tmp_path: Path, blob: bytes) -> None:
    submission = read(tmp_path, attention_py=blob)
    assert submission.modules["attention"].text == CODE
    assert submission.notes == ()


def test_windows_1252_is_read_with_a_note(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_py=CODE.replace("\n", "\r\n").encode("cp1252"))
    assert submission.modules["attention"].text == CODE
    assert notes(submission) == (
        "attention.py is not UTF-8; it was read as Windows-1252. Save it as UTF-8."
    )


@pytest.mark.parametrize(
    "comment", ["# 缩放点积注意力：先算分数，再做 softmax", "# 朱镕基、囍", "# über, déjà, “so”"]
)
def test_what_windows_writes_is_known_by_its_language(tmp_path: Path, comment: str) -> None:
    chinese = "ü" not in comment
    text = f"{comment}\nx = 1\n"
    submission = read(tmp_path, attention_py=text.encode("gbk" if chinese else "cp1252"))
    assert submission.modules["attention"].text == text
    called = "GBK (GB18030)" if chinese else "Windows-1252"
    assert f"it was read as {called}. Save it as UTF-8." in notes(submission)


def test_what_is_no_text_is_read_as_nothing(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_py=CODE.encode("utf-16-le"))
    words = "attention.py is no text; it was not read. Save it as UTF-8."
    assert notes(submission) == words


def test_any_bytes_are_read_as_something(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_py=bytes(range(256)), masks_py=b"\xff\xfeo")
    assert set(submission.modules) == set(UNITS)
    told = ["attention.py is no text; it was not read.", "masks.py is not UTF-8; it was read as"]
    assert all(words in notes(submission) for words in told)


def test_a_huge_file_is_left_unread_with_a_note(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_py="#" * 1_000_001, masks_py="#" * 1_000_000)
    assert submission.modules["attention"].text == ""
    assert len(submission.modules["masks"].text) == 1_000_000
    assert notes(submission) == "attention.py is larger than a module can be; it was not read."


def test_stray_files_are_listed_and_not_read(tmp_path: Path) -> None:
    submission = read(
        tmp_path, attention_py=CODE, conftest_py="1 / 0", Masks2_py="", __init___py="", a_txt=""
    )
    assert set(submission.modules) == {"attention"}
    assert set(submission.strays) >= {"conftest.py", "Masks2.py"}
    assert "attention.py" not in submission.strays
    assert not any(stray.endswith(".txt") for stray in submission.strays)


def test_nothing_is_run(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_py="raise SystemExit", masks_py="((((")
    assert submission.modules["attention"].text == "raise SystemExit"
    assert submission.modules["masks"].text == "(((("


def test_an_empty_folder_is_a_submission_without_modules(tmp_path: Path) -> None:
    assert read(tmp_path).modules == {}


def test_a_folder_in_place_of_a_file_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "attention.py").mkdir()
    assert set(read(tmp_path, masks_py=CODE).modules) == {"masks"}


@pytest.mark.parametrize("name", ["none", "a file"])
def test_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(IntakeError, match="There is no folder") as caught:
        intake.read_folder(tmp_path / name, UNITS)
    assert name in str(caught.value)
    assert "--path" in str(caught.value)


def test_the_id_is_the_name_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ada 爱达"
    folder.mkdir()
    assert read(folder).id == "ada 爱达"
    monkeypatch.chdir(folder)
    assert intake.read_folder(Path(), UNITS).id == "ada 爱达"


# Notebooks.


def test_a_notebook_gives_its_definitions(tmp_path: Path) -> None:
    book = notebook(
        {"cell_type": "markdown", "source": "def g(: no code"},
        cell("import math\nSCALE = 2\nprint('hello')\n1 / 0"),
        cell(["def f(x):\n", "    return SCALE * math.floor(x)"]),
        cell("class A:\n    y: int = 3\n\nfor i in range(3):\n    f(i)"),
    )
    submission = read(tmp_path, attention_ipynb=book)
    names = values(submission.modules["attention"].text)
    assert names["f"](2.5) == 4
    assert names["A"].y == 3
    assert submission.notes == ()


@pytest.mark.parametrize(
    "source",
    [
        "%matplotlib inline\n!pip install torch\ndef f():\n    return 1",
        "%%time\ndef f():\n    return 1",
        "def f():\n    total = (7\n        % 2)\n    return total",
        'def f():\n    """Docs.\n    % of all\n    """\n    return f.__doc__.count("%")',
    ],
    ids=["magics", "a cell's magic", "a remainder", "a percent sign in a text"],
)
def test_magics_are_left_out_and_nothing_else(tmp_path: Path, source: str) -> None:
    submission = read(tmp_path, attention_ipynb=notebook(cell(source)))
    assert values(submission.modules["attention"].text)["f"]() == 1


@pytest.mark.parametrize("source", ["%%bash\nls -l *.py", "%%html\n<b>no</b>", "help?", "?help"])
def test_a_cell_that_is_not_python_spoils_no_other(tmp_path: Path, source: str) -> None:
    book = notebook(cell("def f():\n    return 1"), cell(source))
    submission = read(tmp_path, attention_ipynb=book)
    assert values(submission.modules["attention"].text)["f"]() == 1


def test_a_decorator_belongs_to_its_function(tmp_path: Path) -> None:
    source = "def twice(g):\n    return lambda: 2 * g()\n\n@twice\ndef f():\n    return 1"
    submission = read(tmp_path, attention_ipynb=notebook(cell(source)))
    assert values(submission.modules["attention"].text)["f"]() == 2


def test_a_syntax_error_stays_for_the_student_to_be_told(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_ipynb=notebook(cell("def f(:\n    return 1")))
    with pytest.raises(SyntaxError):
        ast.parse(submission.modules["attention"].text)


def test_cells_with_the_same_id(tmp_path: Path) -> None:
    book = notebook(cell("x = 1", id="same"), cell("y = 2", id="same"))
    names = values(read(tmp_path, attention_ipynb=book).modules["attention"].text)
    assert (names["x"], names["y"]) == (1, 2)


def test_half_a_character_in_a_cell_is_replaced(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_ipynb=notebook(cell("x = '\ud800'")))
    assert values(submission.modules["attention"].text)["x"] == "?"


def test_an_odd_escape_in_a_cell_warns_nobody(tmp_path: Path) -> None:
    submission = read(tmp_path, attention_ipynb=notebook(cell(r"x = '\d'")))
    assert r"'\d'" in submission.modules["attention"].text


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "3", "null", "{}", '{"cells": 3}', '{"cells": [3]}', '{"cells": [{}]}',
        '{"cells": [{"cell_type": "code"}]}', '{"cells": [{"cell_type": "code", "source": 3}]}',
        '{"cells": [{"cell_type": "code", "source": [3]}]}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_broken_notebook_is_met_with_a_note(tmp_path: Path, text: str) -> None:
    submission = read(tmp_path, attention_ipynb=text)
    assert submission.modules["attention"].text == ""
    assert notes(submission) == "attention.ipynb is not a notebook that can be read."


@pytest.mark.parametrize(
    "source", ["\0", "-" * 100_000 + "1", "x = " + "(" * 1000, "a" + ".b" * 50_000]
)
def test_a_cell_that_python_cannot_parse_crashes_nothing(tmp_path: Path, source: str) -> None:
    assert "attention" in read(tmp_path, attention_ipynb=notebook(cell(source))).modules


NAMES = {"attention": ["f", "A"], "masks": ["g"]}  # what is an exercise


def taken(tmp_path: Path, *sources: str) -> str:
    """The module that a notebook makes, where it is known which names are exercises."""
    (tmp_path / "attention.ipynb").write_text(notebook(*map(cell, sources)), encoding="utf-8")
    return intake.read_folder(tmp_path, NAMES).modules["attention"].text


@pytest.mark.parametrize(
    "trial",
    [
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()",
        "data = open('corpus.txt').read()",
        "lines = !ls -l\nx = %timeit -o f(1)",
        "if True:\n    !pip install nothing\n    y = 1 / 0",
        "try:\n    import google.colab\nexcept ImportError:\n    1 / 0",
        "for x in range(10**12):\n    loss = f(x)",
        "with open('no file') as file:\n    text = file.read()",
        "from matplotlib.pyplot import *",
        "def plot(x):\n    return plt.plot(f(x))\nfigure = plot(3)",
        "this is no Python",
        "%%bash\nls",
        "await something()",
        "assert f(2) == 3",
        "del math",
    ],
)  # fmt: skip
def test_what_no_exercise_uses_cannot_cost_one(tmp_path: Path, trial: str) -> None:
    text = taken(tmp_path, "import math", trial, "def f(x):\n    return math.floor(x)", trial)
    assert values(text)["f"](2.5) == 2
    assert set(values(text)) - {"__builtins__"} == {"math", "f"}


@pytest.mark.parametrize(
    "used",
    [
        "N = 2",
        "if True:\n    N = 2",
        "try:\n    import nowhere\nexcept ImportError:\n    N = 2",
        "N, M = 2, 3",
        "TABLE = [0]\nTABLE[0] = 2\nN = TABLE[0]",
        "def two():\n    return 2\nN = two()",
        "class Two:\n    pass\nTwo.value = 2\nN = Two.value",
        "from operator import *\nN = add(1, 1)",
        "N = 1\nN += 1",
        "N = (lambda: 2)()",
        "for N in (1, 2):\n    pass",
        "%matplotlib inline\nN = 2\n!ls",
        "%%time\nN = 2",
    ],
)
def test_what_an_exercise_uses_comes_along(tmp_path: Path, used: str) -> None:
    text = taken(
        tmp_path, used, "def f(x):\n    def inner():\n        return N * x\n    return inner()"
    )
    assert values(text)["f"](3) == 6


def test_a_local_name_is_no_use(tmp_path: Path) -> None:
    text = taken(tmp_path, "x = 1 / 0\nloss = 1 / 0", "def f(x):\n    loss = x\n    return loss")
    assert values(text)["f"](3) == 3


def test_an_exercise_may_be_assigned_and_mended(tmp_path: Path) -> None:
    text = taken(tmp_path, "f = lambda x: 1", "class A:\n    y = 1", "A.y = 2", "f = lambda x: 2")
    assert (values(text)["f"](0), values(text)["A"].y) == (2, 2)


def test_an_exercise_that_python_cannot_read_is_told_and_other_cells_are_noted(
    tmp_path: Path,
) -> None:
    text = taken(tmp_path, "def f(x:\n    return", "x = (")
    with pytest.raises(SyntaxError) as caught:
        compile(text, "attention.ipynb", "exec")
    assert place(text.split("\n"), caught.value.lineno or 0) == "code cell 1, line 1"
    said = notes(intake.read_folder(tmp_path, NAMES))
    assert said == "attention.ipynb: what is no Python was left out: code cell 2"


def test_a_line_is_known_by_its_cell(tmp_path: Path) -> None:
    text = taken(tmp_path, "import math\nprint(1)", "print()\n\n@math.cos\ndef f(x):\n    1 / 0\n")
    lines = text.split("\n")
    where = {line.strip(): place(lines, number) for number, line in enumerate(lines, 1)}
    assert where["import math"] == "code cell 1, line 1"
    assert where["@math.cos"] == "code cell 2, line 3"
    assert where["1 / 0"] == "code cell 2, line 5"
    assert place(CODE.split("\n"), 2) == "line 2", "a module's own lines"


def given(*cells_: str, **definitions: str) -> str:
    """A notebook that says how its definitions were handed out."""
    book = json.loads(notebook(*map(cell, cells_)))
    digests = {name: cells.digest(text) for name, text in definitions.items()}
    book["metadata"]["before_transformers"] = {"given": digests}
    return json.dumps(book)


STUB, DONE, MORE = ("def f(x):\n    raise NotImplementedError('f')", "def f(x):\n    return 1",
                    "def f(x):\n    return 2")  # fmt: skip


HALF = f"{DONE}\n\nclass A:\n    def g(self):\n        raise NotImplementedError('A')\n"


@pytest.mark.parametrize("book", ["", "{", notebook(), notebook(cell("import math\nx = 1"))])
def test_half_a_module_counts_more_than_a_notebook_without_any_of_it(
    tmp_path: Path, book: str
) -> None:
    (tmp_path / "attention.py").write_text(HALF, encoding="utf-8")
    (tmp_path / "attention.ipynb").write_text(book, encoding="utf-8")
    assert intake.read_folder(tmp_path, NAMES).modules["attention"].path.endswith("attention.py")


@pytest.mark.parametrize(
    "metadata", [[], 7, {"before_transformers": 7}, {"before_transformers": {"given": "x"}}]
)
def test_odd_metadata_costs_nothing(tmp_path: Path, metadata: object) -> None:
    book = json.loads(notebook(cell(DONE))) | {"metadata": metadata}
    submission = read(tmp_path, attention_ipynb=json.dumps(book))
    assert values(submission.modules["attention"].text)["f"](0) == 1


@pytest.mark.parametrize(
    ("module", "book", "value", "note"),
    [
        (STUB, DONE, 1, "in place of modules that are as they were given: attention.ipynb"),
        (DONE, STUB, 1, ""),
        (DONE, MORE, 1, "attention.py was read, which was changed most; attention.ipynb"),
        ("x = (", STUB, None, ""),
    ],
    ids=["the notebook", "the module", "both", "a module that is broken"],
)
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "their own"])
def test_of_module_and_notebook_the_one_that_was_worked_on_is_read(
    tmp_path: Path, module: str, book: str, value: int | None, note: str, ours: bool
) -> None:
    if not ours and module == DONE and book == MORE:
        note = ""  # nobody knows what they began with
    text = given(book, f=STUB) if ours else notebook(cell(book))
    submission = read(tmp_path, attention_py=module, attention_ipynb=text)
    if value is None:
        assert submission.modules["attention"].path.endswith("attention.py")
    else:
        assert values(submission.modules["attention"].text)["f"](0) == value
    assert note in notes(submission)
    assert bool(note) == bool(submission.notes)


# Archives, and folders within folders.


def archive(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in files.items():
            file.writestr(name.replace("__", "/").replace("_", "."), text)
    return path


@pytest.mark.parametrize("deep", ["", "exercises__", "ada__exercises__"])
def test_modules_may_lie_deeper(tmp_path: Path, deep: str) -> None:
    path = archive(tmp_path / "ada.zip", **{f"{deep}attention_py": CODE, "notes_txt": ""})
    submission = intake.read(path, UNITS)
    assert submission.id == "ada"
    assert submission.modules["attention"].text == CODE
    with zipfile.ZipFile(path) as file:
        file.extractall(tmp_path / "folder")
    assert intake.read(tmp_path / "folder", UNITS).modules["attention"].text == CODE


def test_paths_and_links_that_lead_out_lead_nowhere(tmp_path: Path) -> None:
    path = archive(tmp_path / "ada.zip", **{"..__masks_py": "stolen", "attention_py": CODE})
    submission = intake.read(path, UNITS)
    assert set(submission.modules) == {"attention"}
    assert notes(submission) == "Paths that lead out of it were left out: ../masks.py"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "ada"
    folder.mkdir()
    try:
        (folder / "attention.py").symlink_to(tmp_path / "secret")
    except OSError:
        pytest.skip("no links here")
    submission = intake.read(folder, UNITS)
    assert submission.modules == {}
    assert "Links are not followed: attention.py" in notes(submission)


def test_an_archive_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    path = archive(tmp_path / "ada.zip", attention_py=CODE * 50)
    blob = path.read_bytes()
    for spoiled in (b"", b"no zip", blob[:-30], blob[:45] + b"\xff" * 40 + blob[85:]):
        path.write_bytes(spoiled)
        with pytest.raises(IntakeError, match=r"ada\.zip cannot be read"):
            intake.read(path, UNITS)


def test_a_linked_folder_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "attention.py").write_text("secret")
    (tmp_path / "ada").mkdir()
    try:
        (tmp_path / "ada" / "exercises").symlink_to(tmp_path / "theirs")
    except OSError:
        pytest.skip("no links here")
    submission = intake.read(tmp_path / "ada", UNITS)
    assert submission.modules == {}
    assert "Links are not followed: exercises" in notes(submission)


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("attention.py")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as file:
        file.writestr(link, "/etc/passwd")
    submission = intake.read(tmp_path / "ada.zip", UNITS)
    assert submission.modules == {}
    assert "Links are not followed: attention.py" in notes(submission)


def test_a_folder_that_may_not_be_looked_into_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one earns a zero."""

    def scandir(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "ada").mkdir()
    monkeypatch.setattr("os.scandir", scandir)
    with pytest.raises(IntakeError, match=r"ada cannot be read: .*Permission denied"):
        intake.read(tmp_path / "ada", UNITS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ada.zip")
    with pytest.raises(IntakeError, match="neither a folder nor a zip"):
        intake.read(tmp_path / "ada.zip", UNITS)
    (tmp_path / "bai").mkdir()
    os.mkfifo(tmp_path / "bai" / "attention.py")
    assert intake.read(tmp_path / "bai", UNITS).modules == {}


def test_modules_are_found_among_a_hundred_thousand_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as file:
        for number in range(100_000):
            file.writestr(f"data/{number}.txt", b"")
        file.writestr("attention.py", CODE)
    assert intake.read(tmp_path / "ada.zip", UNITS).modules["attention"].text == CODE


def test_more_python_files_than_anyone_has_are_left(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as file:
        for number in range(3000):
            file.writestr(f"env/lib/{number}.py", b"")
        file.writestr("attention.py", CODE)
    submission = intake.read(tmp_path / "ada.zip", UNITS)
    assert submission.modules["attention"].text == CODE
    assert "more than 2000 Python files" in notes(submission)


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_modules_are_found_behind_more_python_files_than_anyone_has(
    form: str, tmp_path: Path
) -> None:
    """They were not, where the others come first in the order of names: a zero for right work."""
    path = tmp_path / "ada"
    (path / "work").mkdir(parents=True)
    for number in range(2001):
        (path / f"{number}.py").touch()
    (path / "work" / "attention.py").write_text(CODE, encoding="utf-8")
    if form == "zip":
        path = Path(shutil.make_archive(str(path), "zip", path))
    submission = intake.read(path, UNITS)
    assert submission.modules["attention"].text == CODE
    assert "more than 2000 Python files" in notes(submission)


def test_a_giant_table_of_contents_is_not_read(tmp_path: Path) -> None:
    """It is held in memory, whatever the archive's files hold."""
    path = archive(tmp_path / "ada.zip", attention_py=CODE)
    blob = bytearray(path.read_bytes())
    blob[-10:-6] = (17_000_000).to_bytes(4, "little")  # its size, in the last record
    path.write_bytes(bytes(17_000_000) + blob)
    with pytest.raises(IntakeError, match="table of contents has 17000000 bytes"):
        intake.read(path, UNITS)


def test_a_giant_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "attention.py").write_text("")
    os.truncate(tmp_path / "attention.py", 2 << 30)
    submission = intake.read(tmp_path, UNITS)
    assert "attention.py is larger than a module can be; it was not read." in notes(submission)


def test_a_notebook_may_hold_pictures(tmp_path: Path) -> None:
    picture = {"cell_type": "code", "source": "", "outputs": [{"image/png": "A" * 5_000_000}]}
    submission = read(tmp_path, attention_ipynb=notebook(cell("def f():\n    return 1"), picture))
    assert values(submission.modules["attention"].text)["f"]() == 1
    assert submission.notes == ()
    submission = read(tmp_path, attention_ipynb=notebook(cell(f"x = '{'a' * 1_000_000}'")))
    assert "larger than a module can be" in notes(submission)


def test_a_notebook_of_many_statements_holds_nobody_up(tmp_path: Path) -> None:
    began = time.monotonic()
    submission = read(tmp_path, attention_ipynb=notebook(cell("a = 1\n" * 100_000)))
    assert submission.modules["attention"].text.count("a = 1") == 100_000
    assert time.monotonic() - began < 30  # that of `ast` would take an hour


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("x = 'é'; y = 'ü'; print(x)", "x = 'é'; y = 'ü'"),
        (
            "@a\n@b(1,\n   2)\ndef f():\n    return 'é'  # so\n1 + 1",
            "@a\n@b(1,\n   2)\ndef f():\n    return 'é'",
        ),
        ("x = [\r\n  1,\r\n]\ry = 2", "x = [\n  1,\n]\ny = 2"),
        ("print(1); x = 2", "x = 2"),
        ("x = 'a\x0cb'\ny = 1", "x = 'a\x0cb'\ny = 1"),
        ("print(1)\n\nx = 1\nprint(x)\ny = 2\n", "\n\nx = 1\n\ny = 2"),
    ],
    ids=["accents", "decorators", "line ends", "after another", "form feed", "their lines"],
)
def test_a_statement_is_cut_out_where_it_ends(tmp_path: Path, source: str, kept: str) -> None:
    text = read(tmp_path, attention_ipynb=notebook(cell(source))).modules["attention"].text
    assert text == f"# %% code cell 1\n{kept}\n"


def test_modules_of_the_same_names_elsewhere_are_told(tmp_path: Path) -> None:
    for name in ("ada", "bai", "ada/deeper"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "attention.py").write_text(CODE)
    submission = intake.read(tmp_path, UNITS)
    assert submission.modules["attention"].path.endswith("ada/attention.py")
    assert submission.passed_by == ("bai", "ada/deeper")
    assert "./ada was read, ./bai, ./ada/deeper not" in notes(submission)


# A class.


def ids(folder: Path) -> list[str]:
    return [id for id, _ in intake.discover(folder)]


def test_nobody_is_called_as_another(tmp_path: Path) -> None:
    for name in ("grades.csv", "grades.csv-", "class.html", "ada"):
        (tmp_path / name).mkdir()
    for name in ("ada.zip", "bai.zip", "bai.ZIP"):
        (tmp_path / name).write_bytes(b"")
    found = ids(tmp_path)
    assert len(set(found)) == len(list(tmp_path.iterdir()))
    assert {"ada", "ada.zip", "bai"} <= set(found)
    assert not {"grades.csv", "class.html"} & set(found)


@pytest.mark.skipif(sys.platform != "linux", reason="names are text here")
def test_names_that_are_no_text_do_not_collide(tmp_path: Path) -> None:
    for name in (b"\xff", b"\xfe", b"\xff" * 255):
        (tmp_path / os.fsdecode(name)).mkdir()
    found = ids(tmp_path)
    assert len(set(found)) == 3
    for id in found:
        assert len(id.encode()) < 256, "a file could not have this name"


@pytest.mark.skipif(sys.platform != "linux", reason="names are text here")
def test_notes_are_text(tmp_path: Path) -> None:
    for name in (b"\xff", b"two\nlines", b"\x1b[2J", b"n" * 250):
        (tmp_path / os.fsdecode(name)).write_text("")
    words = notes(intake.read(tmp_path, UNITS))
    assert words.isprintable()
    assert len(words) < 300
    words.encode()


# What is there and cannot be read at all.

HUGE = "#" * 1_000_001


@pytest.mark.parametrize(
    ("files", "links", "unreadable"),
    [
        ({"attention_ipynb": "{"}, [], True),
        ({"attention_ipynb": "{", "masks_py": HUGE}, [], True),
        ({}, ["masks.py"], True),
        ({"attention_ipynb": "{"}, ["masks.py"], True),
        ({}, ["exercises"], True),
        ({"attention_ipynb": "{", "masks_py": CODE}, [], False),
        ({"attention_ipynb": "{", "attention_py": CODE}, [], False),
        ({"masks_py": CODE}, ["attention.py", "masks.ipynb"], False),
        ({"masks_py": ""}, [], False),
        ({"notes_txt": ""}, ["notes.py"], False),
        ({}, [], False),
    ],
)  # fmt: skip
def test_a_submission_is_unreadable_where_nothing_in_it_can_be_read(
    tmp_path: Path, files: dict[str, str], links: list[str], unreadable: bool
) -> None:
    (tmp_path / "ada").mkdir()
    for name in links:
        try:
            (tmp_path / "ada" / name).symlink_to(tmp_path / "theirs")
        except OSError:
            pytest.skip("no links here")
    submission = read(tmp_path / "ada", **files)
    assert submission.unreadable is unreadable
    assert submission.notes or not unreadable


def test_an_empty_folder_is_called_so(tmp_path: Path) -> None:
    (found,) = read(tmp_path).notes
    assert found.text == "No file was found in it."
