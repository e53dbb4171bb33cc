"""`grader check` as a student meets it: what is printed, what it costs, and how it ends.

Importing torch takes seconds, so few runs serve many tests: all begin at once, two at a time, and a
test waits for the one that it looks at.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from grader import course as courses
from grader.course import ROOT, Course
from grader.judge import bank
from release import stubs

UNITS = [unit.name for unit in courses.load().units]

# Blunders, each put after the reference's code, where it takes its place. What is not named in a
# unit stays right.
ONE_BY_ONE = {
    "attention": """
def _softmax(scores, dim=-1, right=stable_softmax):
    print("I was here,", "乘")
    return right(scores, dim)
stable_softmax = _softmax
""",
    "masks": """
def create_look_ahead_mask(seq_len):
    torch.ones(seq_len, seq_len)

def create_padding_mask(token_ids, pad_id=0):
    print("looking at", list(token_ids.shape))
    return (token_ids != pad_id).float()

combine_mask = combine_masks
del combine_masks
""",
    "multihead": """
def split_heads(self, x, batch_size):
    heads = x.view(batch_size, -1)
    raise ValueError("no such heads")  # HERE
MultiHeadAttention.split_heads = split_heads
""",
    "positional": """
def forward(self, x, mask):
    return x
PositionalEncoding.forward = forward

def forward(self, x):
    return x + float(input("how much? "))
LearnedPositionalEmbedding.forward = forward

def relative_shift_matrix(d_model, offset):
    return torch.eye(d_model, dtype=torch.float64), offset
""",
}
WHOLE_FILES = {
    "attention": "\ndef more(:\n    return 1\n",
    "positional": """
class LearnedPositionalEmbedding(torch.nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = torch.nn.Embedding(max_len, d_model)

    def forward(self, x):
        return x + self.table.weight[: x.size(1)]

def relative_shift_matrix(d_model):
    return torch.eye(d_model)

def forward(self, x):
    return self(x)
PositionalEncoding.forward = forward
""",
}
DEADLY = {
    "attention": """
def stable_softmax(scores, dim=-1):
    while True:
        scores = scores + 1
""",
    "multihead": "\nMultiHeadAttention.w_q = property(lambda self: 1 // 0)\n",
    "masks": """
import os
import re
def create_look_ahead_mask(seq_len):
    os._exit(0)

def create_padding_mask(token_ids, pad_id=0):
    exit()
""",
    "positional": "\nwhile True:\n    pass\n",
    "limits": "\ndef influence(*args, **kwargs):\n    raise KeyboardInterrupt\n",
}
STRAYS = {
    "conftest.py": "raise SystemExit('conftest.py was run')",
    "pytest.ini": "[pytest]\naddopts = --nonsense\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--nonsense'\n",
    "torch.py": "raise SystemExit('torch.py was run')",
    "numpy.py": "raise SystemExit('numpy.py was run')",
    "rich.py": "raise SystemExit('rich.py was run')",
    "sitecustomize.py": "raise SystemExit('sitecustomize.py was run')",
    "test_attention.py": "raise SystemExit('test_attention.py was run')",
}


@dataclass(frozen=True)
class Run:
    """What became of one call of the command line."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """Its --json."""
        return json.loads(self.out)

    def checks(self, exercise: str) -> list[dict[str, Any]]:
        exercises = {entry["id"]: entry for entry in self.result["exercises"]}
        return exercises[exercise]["checks"]


def check(*arguments: str, cwd: Path = ROOT, **environment: str) -> Run:
    plain = {"PYTHONPATH": str(ROOT), "LANGUAGE": "en", "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "grader", "check", *arguments],
        capture_output=True,
        cwd=cwd,
        env=os.environ | plain | environment,
        encoding="utf-8",
        timeout=300,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def write(folder: Path, texts: dict[str, str]) -> str:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="module")
def folders(course: Course, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Students' folders, by what is in them."""
    home = tmp_path_factory.mktemp("students")
    solution = {f"{unit}.py": bank.solution(course).modules[unit].text for unit in UNITS}

    def after(endings: dict[str, str]) -> dict[str, str]:
        return solution | {f"{u}.py": solution[f"{u}.py"] + text for u, text in endings.items()}

    softmax = next(m for m in bank.mistakes(course) if m.id == "softmax-over-queries")
    one_by_one = after(ONE_BY_ONE)
    one_by_one["attention.py"] = softmax.apply(one_by_one["attention.py"])
    whole_files = after(WHOLE_FILES)
    whole_files["mask.py"] = whole_files.pop("masks.py")
    return {
        "stubs": write(home / "stubs", stubs.stubs(course)),
        "solution": write(home / "solution", solution),
        "one by one": write(home / "我的 作业 1", one_by_one | STRAYS),
        "whole files": write(home / "whole files", whole_files),
        "deadly": write(home / "deadly", after(DEADLY)),
    }


@pytest.fixture(scope="module")
def runs(folders: dict[str, str]) -> Iterator[dict[str, Future[Run]]]:
    def path(name: str) -> str:
        return f"--path={folders[name]}"

    odd = {"PYTEST_ADDOPTS": "--nonsense", "PYTHONWARNINGS": "always", "LC_ALL": "C"}
    with ThreadPoolExecutor(2) as pool:
        yield {
            "deadly": pool.submit(check, path("deadly"), "--json", "--limit=2"),
            "stubs": pool.submit(check, path("stubs")),
            "solution": pool.submit(check, path("solution")),
            "only": pool.submit(
                check,
                "masks",
                "attention.self_attention",
                "split_heads",
                path("solution"),
                "--json",
            ),
            "one by one": pool.submit(check, *UNITS, path("one by one"), **odd),
            "one by one json": pool.submit(check, path("one by one"), "--json", **odd),
            "one by one again": pool.submit(check, path("one by one"), "--json"),
            "inside": pool.submit(
                check, "masks", "--path=.", "--json", cwd=Path(folders["one by one"])
            ),
            "whole files": pool.submit(check, *UNITS, path("whole files")),
            "whole files json": pool.submit(check, path("whole files"), "--json"),
            "unknown": pool.submit(check, "atention.stable_softmx"),
            "nowhere": pool.submit(check, "--path", "no such folder"),
        }


RUNS = ["deadly", "stubs", "solution", "only", "one by one", "one by one json",
        "inside", "whole files", "whole files json"]  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_nothing_on_stderr_and_never_a_traceback(runs, name: str) -> None:
    run = runs[name].result()
    assert run.err == ""
    for dump in ("Traceback", "NotImplementedError:", "E   assert", "=====", "grader_error"):
        assert dump not in run.out
    assert "The grader failed" not in run.out, "run `python -m grader answers`"


# Nothing done, everything done.


def test_untouched_stubs(runs, course: Course) -> None:
    run = runs["stubs"].result()
    assert run.code == 1
    *lines, blank, points, upcoming, hint = run.out.splitlines()
    assert [line.split()[-1] for line in lines] == [
        "blocked" if exercise.needs else "attempted" for exercise in course.exercises.values()
    ]
    assert blank == ""
    assert points.startswith(f"0 of {len(course.exercises)} exercises passed, 0 of ")
    first = next(iter(course.exercises.values()))
    assert upcoming.startswith(f"next: write `{first.name}` in ")
    assert upcoming.endswith(f"{first.unit}.py, then: make check ONLY={first.id}")
    assert hint.startswith(f"a hint: make hint ONLY={first.id} ")


def test_the_solution(runs, course: Course) -> None:
    run = runs["solution"].result()
    assert run.code == 0
    *lines, _, points, _ = run.out.splitlines()
    wanted = [f"{e.id} {e.max_score:g} / {e.max_score:g}" for e in course.exercises.values()]
    assert [" ".join(line.split()) for line in lines] == wanted
    most = sum(exercise.max_score for exercise in course.exercises.values())
    count = len(course.exercises)
    assert points == f"{count} of {count} exercises passed, {most:g} of {most:g} points"


def test_only_what_was_asked_for_is_shown(runs) -> None:
    run = runs["only"].result()
    assert run.code == 0
    assert [exercise["id"] for exercise in run.result["exercises"]] == [
        "attention.self_attention",
        "masks.create_look_ahead_mask",
        "masks.create_padding_mask",
        "masks.combine_masks",
        "multihead.MultiHeadAttention.split_heads",
    ]


def test_an_unknown_target_lists_the_near_names(runs) -> None:
    run = runs["unknown"].result()
    assert (run.code, run.out) == (2, "")
    assert "no unit or exercise 'atention.stable_softmx'" in run.err
    assert "Did you mean: attention.stable_softmax" in run.err
    assert run.err.count("\n") == 1


def test_a_folder_that_is_not_there(runs) -> None:
    run = runs["nowhere"].result()
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("There is no folder 'no such folder'.")


# Blunders: exercise -> outcome of its failed checks, words of the message, words of the frames.

Blunder = tuple[str, list[str], list[str]]
BLUNDERS: dict[str, dict[str, Blunder]] = {
    "one by one json": {
        "masks.create_look_ahead_mask": (
            "wrong_value", ["`create_look_ahead_mask` returned None", "`return` missing"], []),
        "masks.create_padding_mask": ("wrong_dtype", ["expected dtype bool; found float32"], []),
        "masks.combine_masks": (
            "not_attempted",
            ["There is no `combine_masks` in masks.py.", "Rename `combine_mask`"], []),
        "multihead.MultiHeadAttention.split_heads": (
            "raised", ["Your code raised ValueError: no such heads"],
            ["multihead.py, line {HERE}, in split_heads", 'raise ValueError("no such heads")']),
        "positional.PositionalEncoding": (
            "raised", ["Its arguments should be (x); yours are (x, mask)."], []),
        "positional.LearnedPositionalEmbedding": (
            "raised", ["Your code raised EOFError", "Nobody is there to answer `input()`"],
            ["positional.py", "in forward", "input("]),
        "positional.relative_shift_matrix": (
            "wrong_value",
            ["should return a tensor [d_model d_model]; it returned a tuple of 2"], []),
    },
    "deadly": {
        "multihead.MultiHeadAttention": (
            "raised", ["Your code raised ZeroDivisionError"],
            ["multihead.py, line ", "property(lambda self: 1 // 0)"]),
        "masks.create_padding_mask": (
            "raised", ["Your code raised SystemExit", "Take `exit()` out"],
            ["masks.py, line ", "exit()"]),
        "limits.influence": (
            "raised", ["Your code raised KeyboardInterrupt", "Only Ctrl-C should raise that"],
            ["limits.py, line ", "raise KeyboardInterrupt"]),
    },
    "whole files json": {
        "attention.stable_softmax": (
            "raised", ["Python cannot read this file: invalid syntax"],
            ["attention.py, line ", "def more(:"]),
        "masks.combine_masks": (
            "not_attempted",
            ["There is no file masks.py.", "Rename mask.py to masks.py"], []),
        "positional.PositionalEncoding": (
            "raised", ["RecursionError", "A function calls itself without end."],
            ["positional.py", "return self(x)"]),
        "positional.LearnedPositionalEmbedding": (
            "wrong_value", ["Your class has no `embedding", "set it in `__init__`"], []),
        "positional.relative_shift_matrix": (
            "raised", ["Its arguments should be (d_model, offset); yours are (d_model)."], []),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "exercise"), [(name, id) for name, table in BLUNDERS.items() for id in table]
)
def test_a_blunder_is_answered(runs, folders, name: str, exercise: str) -> None:
    outcome, words, frames = BLUNDERS[name][exercise]
    run = runs[name].result()
    assert run.code == 1
    failed = [c for c in run.checks(exercise) if c["outcome"] != "passed"]
    first = next(c for c in failed if c["outcome"] == outcome)
    for word in words:
        assert word in first["message"]
    unit = Path(folders[name.removesuffix(" json")]) / f"{exercise.split('.')[0]}.py"
    here = unit.read_text(encoding="utf-8").split("# HERE")[0].count("\n") + 1 if frames else 0
    shown = "\n".join(first["frames"])
    for frame in frames:
        assert frame.format(HERE=here) in shown
    assert bool(frames) == bool(first["frames"])
    assert shown.count("\n") < 15
    assert not any("site-packages" in frame or "/" in frame.split("\n")[0] for frame in [shown])


def test_a_known_mistake_is_named(runs) -> None:
    checks = runs["one by one json"].result().checks("attention.scaled_dot_product_attention")
    first = next(c for c in checks if c["outcome"] != "passed")
    assert (first["outcome"], first["clause"]) == ("wrong_value", 1)
    assert first["mistake"] == "softmax-over-queries"
    title, hint, *difference = first["message"].splitlines()
    assert title == "Your weights equal those of a softmax over the queries."
    assert hint.startswith("Each query shares out one unit of attention")
    assert difference[0].startswith("expected ")
    assert title in runs["one by one"].result().out


def test_what_stands_on_it_is_blocked(runs) -> None:
    for exercise in ("attention.self_attention", "multihead.MultiHeadAttention.forward"):
        failed = [
            c for c in runs["one by one json"].result().checks(exercise) if c["outcome"] != "passed"
        ]
        assert {c["outcome"] for c in failed} == {"blocked"}
        assert failed[0]["message"].startswith("It stands on ")


def test_printing_costs_nothing(runs) -> None:
    checks = runs["one by one json"].result().checks("attention.stable_softmax")
    assert {c["outcome"] for c in checks} == {"passed"}


def test_what_a_failed_check_printed_is_shown(runs) -> None:
    out = runs["one by one"].result().out
    assert "your code printed:" in out
    assert "looking at [" in out
    assert "I was here" not in out


def test_a_blunder_as_it_is_printed(runs) -> None:
    out = runs["one by one"].result().out
    told = out.partition("masks.create_look_ahead_mask")[2]
    told = told.partition("masks.create_padding_mask")[0]
    assert " ".join(told.split()).startswith(
        "0 / 4 `create_look_ahead_mask` returned None. Is a `return` missing?"
    )
    assert "next: mend `scaled_dot_product_attention` in " in out
    assert out.count("`create_look_ahead_mask` returned None") == 1
    assert max(map(len, out.splitlines()[:-2])) <= 100


def test_one_reason_for_a_whole_file_is_told_once(runs) -> None:
    out = runs["whole files"].result().out
    told = out.partition("attention.self_attention")[0]
    assert told.count("Python cannot read this file") == 1
    assert "(for the reason that is given above)" in told
    assert re.search(r"^next: mend \S.*/attention\.py:\d+, then: ", out, re.M)
    assert re.search(r"^ +\S.*/attention\.py:\d+$", told, re.M)  # and where it is told, the same


# What lies beside a student's modules.


def test_stray_files_do_no_harm(runs) -> None:
    for name in ("one by one", "one by one json", "inside"):
        run = runs[name].result()
        assert "was run" not in run.out + run.err
        assert run.code == 1
    inside = runs["inside"].result()
    assert inside.result["submission"] == "我的 作业 1"
    whole = runs["one by one json"].result()
    for exercise in inside.result["exercises"]:
        assert exercise["checks"] == whole.checks(exercise["id"])


def test_two_runs_give_the_same_bytes(runs) -> None:
    assert runs["one by one json"].result().out == runs["one by one again"].result().out


# What takes its process down.


def test_an_endless_loop_costs_its_exercise_alone(runs) -> None:
    checks = runs["deadly"].result().checks("attention.stable_softmax")
    assert {c["outcome"] for c in checks} == {"timeout"}
    for tried in checks[:2]:
        assert tried["message"].startswith("It was still running after 2 seconds")
        assert tried["frames"][0].startswith("attention.py, line ")
        assert "in stable_softmax" in tried["frames"][0]
    assert {c["message"] for c in checks[2:]} == {"Not tried: two checks before it never ended."}


def test_os_exit_costs_its_exercise_alone(runs) -> None:
    checks = runs["deadly"].result().checks("masks.create_look_ahead_mask")
    assert {c["outcome"] for c in checks} == {"crashed"}
    assert "os._exit()" in checks[0]["message"]


def test_a_loop_outside_of_any_function(runs) -> None:
    for exercise in ("positional.PositionalEncoding", "positional.relative_shift_matrix"):
        checks = runs["deadly"].result().checks(exercise)
        assert {c["outcome"] for c in checks} == {"timeout"}
        for tried in checks:
            assert tried["message"].startswith("Importing positional.py did not come to an end")
            assert tried["frames"][0].startswith("positional.py, line ")


def test_the_rest_goes_on(runs) -> None:
    run = runs["deadly"].result()
    assert run.code == 1
    right = {e["id"] for e in run.result["exercises"] if e["score"] == e["max_score"]}
    assert {id for id in right if id.split(".")[0] in (*DEADLY, "encoder")} == {
        "attention.scaled_dot_product_attention",
        "attention.self_attention",
        "attention.cross_attention",
        "masks.combine_masks",
        "multihead.MultiHeadAttention.split_heads",
        "limits.receptive_field",
        "limits.path_length",
        "limits.sequential_steps",
    }


# The shape of --json.


def test_json_is_as_its_schema_says(runs, course: Course) -> None:
    schema = json.loads((ROOT / "docs" / "result.schema.json").read_text(encoding="utf-8"))
    holds = jsonschema.Draft202012Validator(schema)
    for name in ("one by one json", "deadly", "only"):
        result = runs[name].result().result
        holds.validate(result)
        assert result["suite"] == "public"
        for exercise in result["exercises"]:
            points = course.exercises[exercise["id"]].points
            assert [c["clause"] for c in exercise["clauses"]] == list(range(1, len(points) + 1))
            assert sum(c["points"] for c in exercise["clauses"]) == exercise["score"]
            for entry in exercise["checks"]:
                assert entry["id"].startswith(f"{exercise['id']}/{entry['clause']}/test_")
        assert result["score"] == sum(e["score"] for e in result["exercises"])
        assert result["max_score"] == sum(e["max_score"] for e in result["exercises"])
