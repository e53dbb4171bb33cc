"""Lines that fit, in English and in Chinese; and a Chinese report in 80 columns."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from grader import course as courses
from grader.model import CheckResult, Outcome, Submission, say
from grader.report.language import Language
from grader.report.terminal import Terminal
from grader.report.wrapping import wrap
from grader.score import score

TEXTS = st.text(st.sampled_from("ab (`，。（“”）掩码的 \n"), max_size=80)


def lines(text: str, width: int) -> list[str]:
    return [line.plain for line in wrap(Text(text), width)]


def test_chinese_is_broken_between_its_characters() -> None:
    assert lines("第 1 条：很大的数取 exp 会怎样？", 24) == ["第 1 条：很大的数取 exp", "会怎样？"]


def test_english_is_broken_between_its_words() -> None:
    assert lines("Hello world this is long", 11) == ["Hello world", "this is", "long"]


@pytest.mark.parametrize(
    "text", ["他说：“你好，世界。”（然后走了）。", "用 `torch.tril`，然后（再）取反。"]
)
def test_no_line_begins_with_what_closes_or_ends_with_what_opens(text: str) -> None:
    for width in range(16, 40):
        for line in lines(text, width):
            assert line[0] not in "，。；：”）", line
            assert line[-1] not in "“（", line


@given(TEXTS, st.integers(4, 30))
def test_nothing_is_lost_and_every_line_fits(text: str, width: int) -> None:
    found = lines(text, width)
    assert "".join(found).replace(" ", "") == text.replace("\n", "").replace(" ", "")
    assert all(cell_len(line) <= width for line in found)


def test_a_chinese_report_fits_into_80_columns() -> None:
    course = courses.load()
    id = "attention.stable_softmax"
    long = say("Your weights equal those of a softmax over the queries.")
    results = [
        CheckResult(f"{id}/1/test_{n}", id, 1, "Large scores do no harm", outcome, (long,) * n)
        for n, outcome in enumerate([Outcome.PASSED, Outcome.WRONG_VALUE, Outcome.RAISED])
    ]
    written = io.StringIO()
    console = Console(file=written, width=80)
    submission = Submission("me", {})
    points = score(course, [id], results)
    Terminal(console, Language("zh"), True, "exercises").show(points, submission)
    told = written.getvalue().rstrip("\n").split("\n")
    assert "通过" in written.getvalue()
    assert all(cell_len(line) <= 80 for line in told if "make " not in line), told  # to be copied
