"""The sample class: what `grade` grades when no folder is named, and what its tests go by.

Each submission is an edit of the reference, made afresh, so the class cannot fall behind.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from grader import course as courses
from grader.judge import bank
from release import stubs

Files = dict[str, str]  # module name -> text


def write(folder: Path) -> list[str]:
    """Write the class into a folder; give back the submissions' names."""
    for name, make in CLASS.items():
        files = make(_reference())
        if name.endswith("-zip"):
            with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
                for file, text in files.items():
                    archive.writestr(f"exercises/{file}.py", text)
            continue
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / f"{file}.py").write_text(text, encoding="utf-8")
    return list(CLASS)


def _reference() -> Files:
    modules = bank.solution(courses.load()).modules
    return {name: module.text for name, module in modules.items()}


def _with(unit: str, *edits: tuple[str, str]) -> Callable[[Files], Files]:
    """The reference with texts of one unit replaced."""

    def make(files: Files) -> Files:
        for find, put in edits:
            if files[unit].count(find) != 1:
                raise ValueError(f"the sample class: {find!r} does not stand once in {unit}.py")
            files[unit] = files[unit].replace(find, put)
        return files

    return make


def _mistake(id: str) -> Callable[[Files], Files]:
    """The reference with one known mistake."""

    def make(files: Files) -> Files:
        mistake = next(m for m in bank.mistakes(courses.load()) if m.id == id)
        files[mistake.unit] = mistake.apply(files[mistake.unit])
        return files

    return make


def _stubs(files: Files) -> Files:
    course = courses.load()
    return {name: stubs.stub(name, text, course) for name, text in files.items()}


def _half(files: Files) -> Files:
    return _stubs(files) | {name: files[name] for name in ("attention", "masks")}


def _otherwise(files: Files) -> Files:
    """The last of the bank's variants for every unit."""
    for variant in bank.variants(courses.load()):
        unit = variant.id.split("/")[0]
        files[unit] = variant.modules[unit].text
    return files


def _each(line: str) -> Callable[[Files], Files]:
    """A line at the end of every module."""
    return lambda files: {name: f"{text}\n{line}\n" for name, text in files.items()}


def _rubbish(files: Files) -> Files:
    """Every exercise gives a text."""
    for unit, names in courses.load().definitions.items():
        files[unit] += f"\n\n{' = '.join(names)} = lambda *args, **kwargs: 'rubbish'\n"
    return files


_BODY = "    d_k = query.size(-1)\n"  # the first line of scaled_dot_product_attention

CLASS: dict[str, Callable[[Files], Files]] = {
    "ada-perfect": lambda files: files,
    "bai-perfect-zip": lambda files: files,
    "chen-written-otherwise": _otherwise,
    "dina-empty": lambda files: {},
    "emil-untouched": _stubs,
    "fang-half-done": _half,
    "gita-syntax-error": _with("attention", ("d_k = query.size(-1)", "d_k = query.size(-1")),
    "hana-softmax-over-queries": _with(
        "attention", ("torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=-2)")
    ),
    "ivan-no-scale": _with("attention", (" / math.sqrt(d_k)", "")),
    "jun-heads-not-transposed": _mistake("split-without-transpose"),
    "kofi-cosines-left-out": _mistake("sines-odd-columns-empty"),
    "lena-norm-first": _mistake("layer-pre-norm"),
    "ming-hang": _with("attention", (_BODY, f"{_BODY}    while True:\n        pass\n")),
    "nils-crash": _with(
        "attention", (_BODY, f"{_BODY}    import ctypes\n    ctypes.string_at(0)\n")
    ),
    "olga-walks-away": _with("attention", (_BODY, f"{_BODY}    import os\n    os._exit(0)\n")),
    "ping-warns": _each(
        "import sys, warnings\nwarnings.warn('old')\nprint('!' * 99, file=sys.stderr)"
    ),
    "qi-rubbish": _rubbish,
    "rosa-patches-torch": lambda files: {
        name: f"{text}\nimport torch.testing\n"
        "torch.testing.assert_close = torch.allclose = torch.equal = lambda *a, **k: True\n"
        "torch.Tensor.__eq__ = lambda *a: torch.ones(1, dtype=torch.bool)\n"
        for name, text in _stubs(files).items()
    },
}
