"""The leak check finds what is planted, wherever it lies and however it is disguised."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import dis
import gzip
import io
import json
import marshal
import pickle
import py_compile
import struct
import tarfile
import textwrap
import urllib.parse
import xml.sax.saxutils
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course import ROOT, Course
from release import build, catalogue
from release.leaks import LeakCheck, compare, forms, secrets


@pytest.fixture(scope="module")
def check(course: Course) -> LeakCheck:
    return LeakCheck(course)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    build.fill(folder, "student")
    return folder / "student"


def _function(path: str, name: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    node = next(f for f in forms.functions(ast.parse(text)) if f.name == name)
    return ast.get_source_segment(text, node) or ""


def _body(path: str, name: str) -> str:
    """The statements alone, comments and layout gone."""
    node = ast.parse(_function(path, name)).body[0]
    assert isinstance(node, ast.FunctionDef)
    return "\n".join(map(ast.unparse, forms.code_of(node)))


ATTENTION = _function("solutions/attention.py", "scaled_dot_product_attention")
HIDDEN = _function("tests/hidden/test_attention.py", "test_sentence_of_padding_alone")
VARIANT = (ROOT / "solutions/variants/attention/online.py").read_text(encoding="utf-8")

# The same as `scaled_dot_product_attention`, with other names, brackets, quotes and comments.
RENAMED = '''
def helper(a, b, c, hide=None):
    """A little helper."""
    width = a.size(-1)  # how wide
    s = (
        a
        @ b.transpose(-2, -1)
        / math.sqrt(width)
    )
    if hide is not None: s = s.masked_fill(~hide, torch.finfo(s.dtype).min,)
    p: "Tensor" = torch.softmax(s, dim=-1)
    result = p @ c
    return result, p
'''


def test_the_bundle_has_none(check: LeakCheck, bundle: Path) -> None:
    assert check.folder(bundle) == []


def test_shipped_stubs_give_nothing_away(course: Course, bundle: Path) -> None:
    """Looked at by itself: an exercise to be written holds its contract, and nothing that works."""
    for id, exercise in course.exercises.items():
        unit, _, path = id.partition(".")
        if exercise.stub:
            continue
        tree: ast.AST = ast.parse((bundle / "exercises" / f"{unit}.py").read_text("utf-8"))
        for name in path.split("."):
            tree = next(n for n in ast.iter_child_nodes(tree) if getattr(n, "name", "") == name)
        for function in [tree] if isinstance(tree, ast.FunctionDef) else forms.functions(tree):
            assert isinstance(function, ast.FunctionDef)
            code = [n for n in forms.code_of(function) if "super().__init__" not in ast.unparse(n)]
            assert [type(node) for node in code] == [ast.Raise], f"{id}: {function.name}"


# ------------------------------------------------------------------------------------ where it lies


def _zip(*files: tuple[str, bytes], comment: bytes = b"") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        for name, data in files:
            archive.writestr(name, data)
    return made.getvalue()


def _tar(text: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:xz") as archive:
        info = tarfile.TarInfo("notes.txt")
        info.size = len(text.encode())
        archive.addfile(info, io.BytesIO(text.encode()))
    return made.getvalue()


def _pyc(text: str, folder: Path) -> bytes:
    (folder / "code.py").write_text(f"import math, torch\nfrom torch import Tensor\n{text}")
    return Path(py_compile.compile(str(folder / "code.py"), str(folder / "code.pyc"))).read_bytes()


_ONE_PIXEL = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)


def _png(
    *chunks: tuple[bytes, bytes],
    head: bytes = _ONE_PIXEL,
    pixels: bytes = b"\0\0",
    after: bytes = b"",
) -> bytes:
    whole = [(b"IHDR", head), (b"IDAT", zlib.compress(pixels)), *chunks, (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in whole
    )
    return b"\x89PNG\r\n\x1a\n" + body + after


def _notebook(source: str = "", output: str = "", metadata: object = None, html: str = "") -> bytes:
    cell = {
        "cell_type": "code",
        "id": "a",
        "metadata": {"kept": metadata},
        "source": source.splitlines(keepends=True),
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": output.splitlines(keepends=True)},
            {"output_type": "display_data", "metadata": {}, "data": {"text/html": [html]}},
        ],
        "execution_count": 1,
    }
    return json.dumps(
        {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    ).encode()


def _safetensors(metadata: dict[str, str], data: bytes, dtype: str = "U8") -> bytes:
    size = len(data) // {"U8": 1, "F64": 8}[dtype]
    entry = {"dtype": dtype, "shape": [size], "data_offsets": [0, len(data)]}
    head = json.dumps({"__metadata__": metadata, "a": entry}).encode()
    return struct.pack("<Q", len(head)) + head + data


def _git_object(text: str) -> bytes:
    return zlib.compress(b"blob %d\0" % len(text.encode()) + text.encode())


def _listing(text: str) -> str:
    return "\n".join(f"---> {n:3}     {line}" for n, line in enumerate(text.split("\n"), 10))


def _catalogue(text: str) -> bytes:
    head = b"Content-Type: text/plain; charset=UTF-8\n"
    return catalogue.compiled({b"": head, b"Passed": text.encode()})


def _pixels(text: str) -> bytes:
    """A grey picture, wider than high, whose every pixel is a letter."""
    data = text.encode()
    rows = [data[i : i + 64].ljust(64) for i in range(0, len(data), 64)]
    head = struct.pack(">IIBBBBB", 64, len(rows), 8, 0, 0, 0, 0)
    return _png(head=head, pixels=b"".join(b"\0" + row for row in rows))


def _traceback(text: str) -> bytes:
    """As Jupyter keeps it: in colours, with a margin."""
    lines = [f"\x1b[1;32m     {n}\x1b[0m {line}" for n, line in enumerate(text.split("\n"), 2)]
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["\n".join(lines)]}
    return json.dumps({"cells": [{"cell_type": "code", "outputs": [error], "source": ""}]}).encode()


def _in_two_cells(text: str) -> bytes:
    lines = text.splitlines(keepends=True)
    halves = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    cells = [{"cell_type": "raw", "source": half} for half in halves]
    return json.dumps({"cells": cells}).encode()


def _disassembled(text: str) -> str:
    made = io.StringIO()
    dis.dis(text, file=made)
    return made.getvalue()


def _uuencoded(data: bytes) -> bytes:
    lines = (binascii.b2a_uu(data[i : i + 45]) for i in range(0, len(data), 45))
    return b"begin 644 a\n" + b"".join(lines) + b"`\nend\n"


def _coloured(text: str) -> str:
    return "".join(f"<span class='k'>{c}</span>" if c in "=@~" else c for c in text)


def _paragraph(line: str) -> str:
    typeset = line.replace('"', "\u201d").replace("-", "\u2212")
    return f"<w:p><w:r><w:t>{xml.sax.saxutils.escape(typeset)}</w:t></w:r></w:p>"


LINES = ATTENTION.split("\n")
DATA = ATTENTION.encode()
B64 = base64.b64encode(DATA).decode()
BODY = _body("solutions/attention.py", "scaled_dot_product_attention")
ALIKE = str.maketrans("aceopxy", "асеорху")  # Cyrillic
STUB = (ROOT / "exercises" / "attention.py").read_text(encoding="utf-8")
RAISE = '    raise NotImplementedError("attention.scaled_dot_product_attention")\n'

PLACES: dict[str, tuple[str, bytes]] = {
    "as it is": ("exercises/attention.py", DATA),
    "in prose": ("README.md", f"So:\n\n    {ATTENTION}\n\nIt's that easy.".encode()),
    "with Windows line ends, in UTF-16": ("a.txt", "\r\n".join(LINES).encode("utf-16")),
    "behind a stub's raise": (
        "exercises/attention.py",
        STUB.replace(RAISE, RAISE + textwrap.indent(BODY, "    ") + "\n").encode(),
    ),
    "commented out": ("grader/score.py", "".join(f"# {line}\n" for line in LINES).encode()),
    "in a docstring": ("grader/score.py", f'def f():\n    """Help.\n\n{BODY}\n    """\n'.encode()),
    "in a string": ("tools/set_up.py", f"TEXT = {ATTENTION!r}\n".encode()),
    "in a list of lines": ("tools/set_up.py", f"TEXT = {LINES!r}\n".encode()),
    "in strings that are added": (
        "tools/set_up.py",
        ("TEXT = (" + " +\n".join(repr(f"{line}\n") for line in LINES) + ")\n").encode(),
    ),
    "in a list of letters": ("tools/set_up.py", f"TEXT = {list(ATTENTION)!r}\n".encode()),
    "in JavaScript": ("a.html", f"<script>let a = {json.dumps(ATTENTION)};</script>".encode()),
    "in an attribute of a drawing": (
        "a.svg",
        f"<svg><text aria-label={xml.sax.saxutils.quoteattr(ATTENTION)}/></svg>".encode(),
    ),
    "in a drawing, a line to a tag": (
        "a.svg",
        "".join(f"<tspan>{xml.sax.saxutils.escape(line)}</tspan>" for line in LINES).encode(),
    ),
    "in a document of a word processor": (
        "a.docx",
        _zip(("word/document.xml", "".join(_paragraph(line) for line in LINES).encode())),
    ),
    "in base64": ("course.toml", f'kept = "{B64}"'.encode()),
    "in base64, folded": ("a.txt", base64.encodebytes(DATA)),
    "in base64, twice": ("a.txt", base64.b64encode(B64.encode())),
    "in base85": ("a.txt", base64.b85encode(DATA)),
    "in hex": ("a.txt", DATA.hex().encode()),
    "by uuencode": ("a.txt", _uuencoded(DATA)),
    "as numbers": ("a.txt", str(list(DATA)).encode()),
    "as hexadecimal numbers": ("a.txt", ", ".join(map(hex, DATA)).encode()),
    "as bits": ("a.txt", " ".join(f"{byte:08b}" for byte in DATA).encode()),
    "percent-encoded": ("a.txt", urllib.parse.quote(ATTENTION).encode()),
    "packed, in base64": ("a.py", repr(base64.b64encode(zlib.compress(DATA))).encode()),
    "as a sum of letters": ("a.py", "+".join(f"chr({byte})" for byte in DATA).encode()),
    "a letter to a line": ("a.txt", "\n".join(ATTENTION).encode()),
    "a letter to a line, in a text": ("a.txt", ("It is:\n" + "\n".join(ATTENTION)).encode()),
    "spaced out": ("a.txt", " ".join(ATTENTION).encode()),
    "in letters that look alike": ("a.txt", ATTENTION.translate(ALIKE).encode()),
    "as a syntax tree": ("a.txt", ast.dump(ast.parse(ATTENTION)).encode()),
    "as a syntax tree, indented, in a text": (
        "a.txt",
        f"It's this:\n{ast.dump(ast.parse(ATTENTION).body[0], indent=1)}\n- no more".encode(),
    ),
    "as a syntax tree, in JSON": (
        "a.json",
        json.dumps({"kept": ast.dump(ast.parse(ATTENTION), False)}).encode(),
    ),
    "backwards": ("a.txt", ATTENTION[::-1].encode()),
    "by rot13": ("a.txt", codecs.encode(ATTENTION, "rot13").encode()),
    "in a traceback": ("log.txt", _listing(BODY).encode()),
    "in a diff": ("a.txt", "".join(f"+{line}\n" for line in LINES).encode()),
    "in a notebook's cell": ("notebooks/a.ipynb", _notebook(source=ATTENTION)),
    "in two cells of a notebook": ("notebooks/a.ipynb", _in_two_cells(ATTENTION)),
    "in a notebook's output": ("notebooks/a.ipynb", _notebook(output=ATTENTION)),
    "in a notebook's traceback": ("notebooks/a.ipynb", _traceback(BODY)),
    "in a notebook's metadata": ("notebooks/a.ipynb", _notebook(metadata={"x": [ATTENTION]})),
    "in a notebook's metadata, in base64": ("notebooks/a.ipynb", _notebook(metadata=B64)),
    "in a notebook, under a name that stands twice": (
        "notebooks/a.ipynb",
        f'{{"cells": [{{"source": {json.dumps(ATTENTION)}, "source": "x"}}]}}'.encode(),
    ),
    "in a notebook's HTML, coloured": ("notebooks/a.ipynb", _notebook(html=_coloured(ATTENTION))),
    "in a zip": ("a.zip", _zip(("a.txt", DATA))),
    "in a zip in a zip": ("a.zip", _zip(("b.zip", _zip(("a.txt", DATA))))),
    "in a zip's comment": ("a.zip", _zip(comment=DATA)),
    "behind a zip's end": ("a.zip", _zip(("a.txt", b"nothing")) + DATA),
    "in the name of a file in a zip": ("a.zip", _zip((BODY.replace("/", "//"), b"x"))),
    "in a tar": ("a.tar.xz", _tar(ATTENTION)),
    "in a gzip": ("a.gz", gzip.compress(DATA)),
    "in a git object": (".git/objects/ab/cdef", _git_object(ATTENTION)),
    "in a catalogue": ("grader/locale/zh/LC_MESSAGES/grader.mo", _catalogue(ATTENTION)),
    "in a PNG's text": ("a.png", _png((b"tEXt", b"Comment\0" + DATA))),
    "in a PNG's packed text": ("a.png", _png((b"zTXt", b"Comment\0\0" + zlib.compress(DATA)))),
    "behind a PNG": ("a.png", _png(after=DATA)),
    "in a PNG's private chunk": ("a.png", _png((b"prVt", DATA))),
    "in a PNG's pixels": ("a.png", _pixels(ATTENTION)),
    "in a recording's names": (
        "a.safetensors",
        _safetensors({"index": json.dumps({"given": ATTENTION})}, bytes(8)),
    ),
    "in a recording's bytes": ("a.safetensors", _safetensors({}, DATA)),
    "in a recording's bytes, packed": (
        "a.safetensors",
        _safetensors({}, b"\7" * 64 + zlib.compress(DATA)),
    ),
    "in a recording's numbers": (
        "a.safetensors",
        _safetensors({}, struct.pack(f"<{len(DATA)}d", *DATA), "F64"),
    ),
    "in a file's name": (base64.urlsafe_b64encode(zlib.compress(BODY.encode())).decode(), b"x"),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_solution_is_found(check: LeakCheck, place: str) -> None:
    found = [finding.what for finding in check.file(*PLACES[place])]
    assert any("solution attention: scaled_dot_product_attention" in what for what in found), found


@pytest.mark.parametrize(
    "make",
    [
        lambda f: _pyc(ATTENTION, f),
        lambda f: pickle.dumps({"kept": [1, 2, 3]}),
        lambda f: b"\x7fELF" + bytes(200),
        lambda f: bytes(range(256)) * 4,
        lambda f: _safetensors({}, bytes(64) + _pyc(ATTENTION, f)[16:]),
        lambda f: _safetensors({}, bytes(64) + pickle.dumps({"kept": [1, 2, 3]})),
        lambda f: _zip(("a.bin", bytes(range(256)))),
        lambda f: base64.b64encode(marshal.dumps(compile(ATTENTION, "", "exec"))),
        lambda f: _disassembled(ATTENTION).encode(),
    ],
    ids=["pyc", "pickle", "program", "numbers", "pyc among numbers", "pickle among numbers",
         "numbers in a zip", "code, marshalled, in base64", "disassembled"],
)  # fmt: skip
def test_what_cannot_be_read_may_not_ship(
    check: LeakCheck, tmp_path: Path, make: Callable[[Path], bytes]
) -> None:
    found = [finding.what for finding in check.file("a.bin", make(tmp_path))]
    assert any("may not ship" in what or "cannot read" in what for what in found), found


# ------------------------------------------------------------------------------ how it is disguised


@pytest.mark.parametrize(
    "text",
    [
        ATTENTION.replace("scaled_dot_product_attention", "helper"),
        ast.unparse(ast.parse(ATTENTION)),
        _body("solutions/attention.py", "scaled_dot_product_attention"),
        RENAMED,
        f"Wrong ( here: {RENAMED}",
        "class Helper:\n" + "\n".join(f"    {line}" for line in RENAMED.split("\n")),
    ],
    ids=["another name", "comments stripped", "the body alone", "renamed and laid out anew",
         "in a text that is no Python", "as a method"],
)  # fmt: skip
def test_a_disguised_solution_is_found(check: LeakCheck, text: str) -> None:
    found = [finding.what for finding in check.file("a.txt", text.encode())]
    assert any("scaled_dot_product_attention" in what for what in found), found


@pytest.mark.parametrize(
    "id", ["masks.create_padding_mask", "attention.self_attention", "seq2seq.rnn_step"]
)
def test_a_solution_of_one_line_is_found_under_its_name(check: LeakCheck, id: str) -> None:
    unit, name = id.split(".")
    function = _function(f"solutions/{unit}.py", name)
    found = [finding.what for finding in check.file("a.md", function.encode())]
    assert any(f"solution {unit}: {name}" in what for what in found), found


class _Renamed(ast.NodeTransformer):
    """Gives other names to everything that a function names itself, and to the function."""

    def __init__(self, function: ast.FunctionDef):
        parts = list(ast.walk(function))
        stored = {n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        taken = {part.arg for part in parts if isinstance(part, ast.arg) and part.arg != "self"}
        self._names = {name: f"v{i}" for i, name in enumerate(sorted(stored | taken))}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._names.get(node.arg, node.arg))


def test_each_solution_and_variant_is_found_and_so_it_is_with_other_names(
    course: Course, check: LeakCheck
) -> None:
    """All but those of a few nodes, which could be anybody's: `token_ids != pad_id`."""
    missed, missed_renamed = [], []
    for secret in secrets.collect(course).secrets:
        if secret.kind not in (secrets.SOLUTION, secrets.VARIANT):
            continue
        size = forms.shape_of(secret.function).size
        text = ast.unparse(secret.function)
        if not check.file("a.py", text.encode()):
            missed.append((size, secret.name))
        tree = ast.parse(text)
        function = next(forms.functions(tree))
        function.body = forms.code_of(function) or function.body
        function.name = "helper"
        renamed = ast.unparse(_Renamed(function).visit(tree))
        if not check.file("a.py", renamed.encode()):
            missed_renamed.append((size, secret.name))
    assert [one for one in missed if one[0] > 4] == []
    assert [one for one in missed_renamed if one[0] >= compare.LEAST] == []


def test_a_mended_repair_is_found_and_the_repair_as_given_is_not(
    course: Course, check: LeakCheck, bundle: Path
) -> None:
    given = (bundle / "exercises" / "troubleshooting.py").read_bytes()
    assert check.file("exercises/troubleshooting.py", given) == []
    for id, exercise in course.exercises.items():
        if exercise.stub and "." not in id.partition(".")[2]:
            name = id.partition(".")[2]
            text = (ROOT / "solutions" / "troubleshooting.py").read_text(encoding="utf-8")
            node = next(n for n in ast.parse(text).body if getattr(n, "name", "") == name)
            mended = ast.get_source_segment(text, node) or ""
            assert check.file("a.py", mended.encode()), id


def test_a_variant_is_found(check: LeakCheck) -> None:
    found = [finding.what for finding in check.file("a.py", VARIANT.encode())]
    assert any("variant attention/online" in what for what in found), found


@pytest.mark.parametrize(
    "text",
    [
        HIDDEN,
        f"The check {HIDDEN.split('(')[0].removeprefix('def ')} fails.",
        ast.unparse(ast.parse(HIDDEN)).replace("scores", "x").replace("test_softmax", "check_it"),
    ],
    ids=["as it is", "its name", "renamed"],
)
def test_a_hidden_check_is_found(check: LeakCheck, text: str) -> None:
    found = [finding.what for finding in check.file("result.json", text.encode())]
    assert any("hidden check" in what for what in found), found


def test_a_hidden_check_is_found_in_the_public_suite(check: LeakCheck, bundle: Path) -> None:
    public = (bundle / "tests/public/test_attention.py").read_text(encoding="utf-8")
    planted = f"{public}\n\n@clause(SOFTMAX, 3)\n{HIDDEN.replace('def test_', 'def test_more_')}\n"
    found = [
        finding.what for finding in check.file("tests/public/test_attention.py", planted.encode())
    ]
    assert any("hidden check" in what for what in found), found


@pytest.mark.parametrize(
    "make",
    [
        lambda find, put: f'find = "{find}"\nreplace = "{put}"\n',
        lambda find, put: json.dumps({"mistakes": {"edits": [[find, put]]}}),
        lambda find, put: f"`{find}` -> `{put}`",
        lambda find, put: f"softmax-unshifted,{find},{put}\n",
        lambda find, put: f"-    e = {find}\n+    e = {put}\n",
    ],
    ids=["as in the bank", "as JSON", "as an arrow", "as a table", "as a diff"],
)
def test_an_edit_of_a_known_mistake_is_found_and_its_words_are_not(
    check: LeakCheck, make: Callable[[str, str], str]
) -> None:
    text = make("torch.exp(scores - highest)", "torch.exp(scores)")
    found = [finding.what for finding in check.file("a.txt", text.encode())]
    assert any("known mistake softmax-unshifted" in what for what in found), found
    words = (
        "Your softmax takes exp of the scores as they are. exp(1000) is inf, and inf / inf is NaN."
    )
    assert check.file("a.txt", words.encode()) == []


def test_a_link_and_a_folder_of_ours_are_found(check: LeakCheck, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "a.txt").write_text("nothing")
    (tmp_path / "link").symlink_to(ROOT / "solutions" / "masks.py")
    found = {finding.path for finding in check.folder(tmp_path)}
    assert found == {"hidden/a.txt", "link"}


@pytest.mark.parametrize(
    "text",
    [
        "def softmax(x):\n    e = torch.exp(x)\n    return e / e.sum(-1, keepdim=True)\n",
        "A long hash: " + "0123456789abcdef" * 8,
        "model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))\n" * 5,
    ],
    ids=["a softmax as anybody writes it", "a digest", "ordinary torch"],
)
def test_harmless_text_is_left_alone(check: LeakCheck, text: str) -> None:
    assert check.file("a.txt", text.encode()) == []


def test_a_harmless_picture_is_left_alone(check: LeakCheck) -> None:
    picture = _png((b"tEXt", b"Software\0matplotlib"))
    assert check.file("a.png", picture) == []
    output = json.dumps({"image/png": base64.b64encode(picture).decode()})
    assert check.file("a.ipynb", output.encode()) == []
