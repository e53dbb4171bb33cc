"""Every text that a student sees is in the templates for translators, and translated."""

from __future__ import annotations

import ast
import re
import string
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("babel")

from babel.messages.catalog import Catalog

from grader.report.language import Language
from tools import catalogue

pytestmark = pytest.mark.filterwarnings("ignore")
DOMAINS = ("grader", "contracts")
TRANSLATIONS = [
    pytest.param(domain, path, id=f"{path.parts[-3]}-{domain}")
    for domain in DOMAINS
    for path in catalogue.translations(domain)
]


@cache
def templates() -> dict[str, Catalog]:
    return catalogue.templates()


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_template_is_up_to_date(domain: str) -> None:
    found = catalogue.texts(templates()[domain])
    kept = catalogue.texts(catalogue.read(catalogue.LOCALE / f"{domain}.pot"))
    assert not found - kept, "run: python -m tools.catalogue"
    assert not kept - found, "run: python -m tools.catalogue"


@pytest.mark.parametrize("folder", ["grader", "release", "tools"])
def test_no_text_stands_in_an_f_string(folder: str) -> None:
    """Before Python 3.12, what is called in one is not found."""
    for path in (catalogue.ROOT / folder).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        calls = [n for node in strings for n in ast.walk(node) if isinstance(n, ast.Call)]
        found = [c for c in calls if ast.unparse(c.func).split(".")[-1] in catalogue.KEYWORDS]
        assert not [c.lineno for c in found if isinstance(c.args[0], ast.Constant)], path


def test_every_brace_has_a_name() -> None:
    for text in catalogue.texts(templates()["grader"]):
        assert "{}" not in text


@pytest.mark.parametrize(("domain", "path"), TRANSLATIONS)
def test_nothing_is_left_untranslated(domain: str, path: Path) -> None:
    translated = catalogue.read(path)
    wanted = catalogue.texts(templates()[domain])
    missing = [text for text in wanted if text not in translated or not translated[text].string]
    assert not missing
    assert not catalogue.texts(translated) - wanted, "run: python -m tools.catalogue"
    assert not translated.obsolete, "run: python -m tools.catalogue"
    assert not [message.id for message in translated if message.id and message.fuzzy]


@pytest.mark.parametrize(("domain", "path"), TRANSLATIONS)
def test_translations_keep_what_is_filled_in(domain: str, path: Path) -> None:
    for message in catalogue.read(path):
        if message.id and domain == "grader":
            assert _fields(message.id) == _fields(message.string), message.id


@pytest.mark.parametrize(("domain", "path"), TRANSLATIONS)
def test_no_space_stands_between_chinese_characters(domain: str, path: Path) -> None:
    texts = [str(message.string) for message in catalogue.read(path) if message.id]
    assert not [text for text in texts if re.search(r"[\u4e00-\u9fff] [\u4e00-\u9fff]", text)]


@pytest.mark.parametrize(("domain", "path"), TRANSLATIONS)
def test_what_gettext_reads_is_up_to_date(domain: str, path: Path) -> None:
    assert path.with_suffix(".mo").read_bytes() == catalogue.compiled(catalogue.read(path))


def _fields(text: str) -> list[str]:
    try:
        return sorted(str(name) for _, name, *_ in string.Formatter().parse(text) if name)
    except ValueError:  # a text that is never filled in, with a brace of its own
        return []


def test_there_is_a_chinese_translation() -> None:
    assert {path.parts[-3] for path in catalogue.translations("grader")} == {"zh"}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("zh_CN.UTF-8", "尚未动手"),
        ("en:zh", "not attempted"),
        ("zh:en", "尚未动手"),
        ("fr:zh", "尚未动手"),
    ],
)
def test_the_first_language_that_there_is(
    wanted: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """English has no catalogue: it is what everything is written in."""
    monkeypatch.setenv("LANGUAGE", wanted)
    assert Language()("not attempted") == told
