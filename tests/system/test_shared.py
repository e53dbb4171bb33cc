"""What a student's module does to what it shares with the judge in `grader check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from grader.course import ROOT, Course
from grader.judge import bank
from grader.subject.faults import Fault
from grader.subject.host import Host
from grader.subject.shared import Shared

# unit -> a line at the end of the reference's module, and what the report names
MEDDLING = {
    "seq2seq": ("torch.equal = lambda one, other: True", "torch.equal"),
    "masks": ('import sys; sys.modules["torch"] = None', "sys.modules['torch']"),
    "positional": ("import builtins; del builtins.isinstance", "builtins.isinstance"),
    "troubleshooting": ("Tensor.shape = property(lambda self: 1 / 0)", "torch.Tensor.shape"),
    "efficiency": ('torch.set_default_device("meta")', "torch.get_default_device()"),
}
# What is added, shown otherwise, or one's own, is nobody else's business.
HARMLESS = """
torch.Tensor.mine = lambda self: self
torch.Tensor.__repr__ = lambda self: "a tensor"
torch.compile(stable_softmax)
torch.set_default_device("cpu")
torch.set_default_dtype(torch.float64)

def stable_softmax(scores, dim=-1, right=stable_softmax):
    torch.Tensor.cumsum = None  # who is imported next has not done it
    return right(scores, dim)
"""
# The same, done by a function when it is called: what a check needs then, and what it does not.
WHEN_CALLED = """
def _forward(self, query, key, value, mask=None, right=MultiHeadAttention.forward):
    import torch
    torch.Tensor.abs = None
    import builtins
    del builtins.isinstance
    return right(self, query, key, value, mask)
MultiHeadAttention.forward = _forward
"""
STAND_IN = "\nimport sys\nsys.modules[__name__] = 3\n"


@pytest.fixture(scope="module")
def units(course: Course, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Unit -> its exercises, of a run over modules that meddle, beside some that do not."""
    folder = tmp_path_factory.mktemp("student")
    endings = {unit: f"\n{line}\n" for unit, (line, _) in MEDDLING.items()}
    endings |= {"attention": HARMLESS, "limits": STAND_IN, "multihead": WHEN_CALLED}
    for unit, module in bank.solution(course).modules.items():
        text = module.text + endings.get(unit, "")
        (folder / f"{unit}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "grader", "check", "--json", "--path", str(folder)],
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"LANGUAGE": "en"},
        encoding="utf-8",
        timeout=300,
    )
    assert "Traceback" not in done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "graded"
    found: dict[str, list[Any]] = {}
    for exercise in result["exercises"]:
        found.setdefault(exercise["id"].partition(".")[0], []).append(exercise)
    return found


@pytest.mark.parametrize("unit", MEDDLING)
def test_who_changes_what_is_everyones_is_told(units, unit: str) -> None:
    needing = [e for e in units[unit] if e["score"] < e["max_score"]]
    assert needing == units[unit]
    (told,) = {check["message"] for e in needing for check in e["checks"] if check["message"]}
    assert told.startswith(f"Importing {unit}.py changes `{MEDDLING[unit][1]}`")


def test_so_is_who_does_it_when_called(units) -> None:
    checks = [check for e in units["multihead"] for check in e["checks"]]
    (told,) = {check["message"] for check in checks if check["outcome"] == "raised"}
    assert told.startswith("Your code changes `builtins.isinstance`, which everyone uses")


def test_the_others_are_unharmed(units) -> None:
    others = {e["id"]: e for e in units["attention"] + units["multihead"]}
    del others["multihead.MultiHeadAttention.forward"]
    assert all(e["score"] == e["max_score"] for e in others.values())


def test_a_module_that_puts_something_else_in_its_place(units) -> None:
    checks = [check for e in units["limits"] for check in e["checks"]]
    assert {check["outcome"] for check in checks} <= {"not_attempted", "blocked"}
    assert checks[0]["message"].startswith("There is no `")


def test_an_import_inside_of_a_watched_call_does_not_end_the_watch(submit) -> None:
    text = "def f(x):\n    from . import masks\n    return x.softmax(-1)\n"
    submission = submit(attention=text, masks="y = 1\n")
    host = Host(submission, ["attention", "masks"], around=Shared().importing)
    call = {"target": ["attention", "f"], "args": [torch.ones(2)], "kwargs": {}}
    with pytest.raises(Fault) as caught:
        host.perform("call", **call, forbidden=["_softmax"])
    assert caught.value.kind == "forbidden"
