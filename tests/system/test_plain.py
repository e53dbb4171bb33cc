"""What a student's code prints and raises must not act on whoever reads it: whatever the report."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as xml

import pytest
from rich.console import Console

from grader.model import Outcome, say
from grader.report import formats, html
from grader.report.plain import plain
from grader.report.terminal import Terminal
from grader.score import ExerciseScore
from tests.system.made import ENGLISH, SOFTMAX, result, wrong

ACTING = ["\x1b[2J", "\x1b]0;title\x07", "\x07", "\x08", "over\rwritten", "\x9b31m", "\x00", "\x7f",
          *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u200f", "\u2028",
          "\ufffe", "\ud800"]  # fmt: skip
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
                       "\ud800-\udfff\ufffe\uffff]")  # fmt: skip
KEPT = "乘法，注意 👩‍🔬 🏳️‍🌈 é naïve — ✓ می‌خواهم"


def failed(text: str):
    words = say("Your code raised {type}: {text}", type=f"E{text}", text=f"{text} {KEPT}")
    frame = f"attention.py, line 3, in f{text}\n    return '{text}'"
    return wrong(outcome=Outcome.RAISED, message=(words,), frames=(frame,), printed=f"{text}{KEPT}")


def reports(course, text: str) -> dict[str, str]:
    """Report -> what a reader gets."""
    check = failed(text)
    exercise = ExerciseScore(course.exercises[SOFTMAX], (check,))
    console = Console(width=200, file=io.StringIO())
    Terminal(console, ENGLISH, detailed=True).tell(exercise)
    one = result(course, f"ada{text}", outcomes={1: check}, notes=[say("{name}", name=text)])
    shown = {name: make([one], course, ENGLISH) for name, make in formats.FORMATS.items()}
    del shown["json"]  # for programs, which read escapes
    in_notebook, as_text = html.told([exercise], ENGLISH)
    shown |= {"terminal": console.file.getvalue(), "cell": in_notebook, "cell's text": as_text}
    return shown


@pytest.mark.parametrize("text", ACTING, ids=ascii)
def test_nothing_acts_on_the_reader(course, text: str) -> None:
    for name, shown in reports(course, text).items():
        assert not FORBIDDEN.search(shown), name
        shown.encode()
    xml.fromstring(reports(course, text)["junit"])


def test_what_people_write_stays(course) -> None:
    for name, shown in reports(course, "one\ttwo\nthree").items():
        if name != "markdown":  # which has titles alone
            assert KEPT.split()[0] in shown, name
            assert KEPT in shown, name
    assert plain(f"{KEPT}\n\tnext\r\n") == f"{KEPT}\n\tnext\n"


def test_what_was_there_can_be_read() -> None:
    assert plain("\x1b[2J\u202e") == r"\u001b[2J\u202e"
    assert plain(plain("\r")) == plain("\r") == r"\u000d"
