"""Workers that are spawned and serve many submissions, as on a GPU; here they do so on the CPU."""

from __future__ import annotations

import json
import random
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from grader import cli, commands
from grader.course import Course
from grader.judge import bank
from grader.judge.suite import collect, suite_files
from grader.model import Module, Outcome, Submission
from grader.subject import leftovers
from grader.subject.faults import Fault
from grader.subject.host import Host
from grader.subject.leftovers import Before

linux = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
if sys.platform == "linux":
    from grader import grade
    from grader.grade import Options
    from grader.marker import Marked, Marker
    from grader.subject import jail
    from grader.subject.sandbox import JailError, Sandbox

# What stands at the end of a right attention.py.
ONCE = """
if "SEEN" in globals():
    raise RuntimeError("another submission's globals")
SEEN = True
"""
# Right for itself alone: whoever calls softmax from another module gets twice as much.
PATCH = """
import sys
_softmax = torch.softmax

def _of_mine(*args, **kwargs):
    mine = sys._getframe(1).f_globals is globals()
    return _softmax(*args, **kwargs) * (1 if mine else 2)

torch.softmax = _of_mine
"""
LIE = f"""{PATCH}
from grader.subject import leftovers
leftovers.Before.changes = lambda self: []
"""
END = """
_self_attention, _cross_attention = self_attention, cross_attention

def self_attention(x, *args, **kwargs):
    while x.dtype == torch.float32:
        pass
    return _self_attention(x, *args, **kwargs)

def cross_attention(x, *args, **kwargs):
    if x.dtype == torch.float32:
        import ctypes
        ctypes.string_at(0)
    return _cross_attention(x, *args, **kwargs)
"""
# In this order: each finds what those before it have left.
CLASS = {
    "perfect": "", "once": ONCE, "once more": ONCE, "lies": LIE, "after a lie": "",
    "patches": PATCH, "hangs and crashes": END, "after a crash": "",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """How a submission fared in a spawned worker and in forks."""

    spawned: Marked
    forked: Marked
    births: int  # of spawned workers
    kept: bool  # whether its last worker was handed back

    @property
    def lost(self) -> list[Outcome]:
        found = [result.outcome for result in self.spawned.results]
        return [outcome for outcome in found if outcome is not Outcome.PASSED]


def _submission(course: Course, name: str) -> Submission:
    right = bank.solution(course)
    text = right.modules["attention"].text + CLASS[name]
    return Submission(name, {"attention": Module("attention", text, "attention.py")})


@pytest.fixture(scope="module")
def runs(course: Course) -> dict[str, Run]:
    exercises = course.closure(course.select(["attention"]))

    suite = collect(suite_files(["attention"]), "of the tests")
    found = {}
    try:
        with Sandbox(spawn=True) as many, Sandbox() as forks:
            spawned = Marker(course, suite, many, exercises, check_limit_s=2.0)
            forked = Marker(course, suite, forks, exercises, check_limit_s=2.0)
            for name in CLASS:
                submission, before = _submission(course, name), many._next
                marked = spawned.mark(submission)
                births, kept = many._next - before, many._idle is not None
                found[name] = Run(marked, forked.mark(submission), births, kept)
            assert many.protections() == forks.protections()
    except JailError as problem:
        pytest.skip(str(problem))
    return found


@linux
@pytest.mark.slow
class TestInOneWorker:
    def test_results_are_those_of_forks_bit_for_bit(self, runs: dict[str, Run]) -> None:
        for name, run in runs.items():
            assert run.spawned.to_json() == run.forked.to_json(), name

    def test_whoever_is_right_keeps_every_point(self, runs: dict[str, Run]) -> None:
        for name in CLASS.keys() - {"hangs and crashes"}:
            assert not runs[name].lost, name

    def test_submissions_follow_each_other_in_one_process(self, runs: dict[str, Run]) -> None:
        assert [runs[name].births for name in ("perfect", "once", "once more")] == [1, 0, 0]
        assert runs["once more"].kept

    def test_who_changes_torch_ends_its_worker(self, runs: dict[str, Run]) -> None:
        assert not runs["patches"].kept

    def test_who_hides_it_costs_nobody_a_point(self, runs: dict[str, Run]) -> None:
        assert runs["lies"].kept
        assert runs["after a lie"].births == 1

    def test_a_hang_and_a_crash_cost_their_checks(self, runs: dict[str, Run]) -> None:
        run = runs["hangs and crashes"]
        assert run.lost == [Outcome.TIMEOUT, Outcome.CRASHED]
        assert run.births == 3
        assert not run.kept


@linux
def test_grade_by_spawned_workers(course: Course, tmp_path: Path) -> None:
    for name in ("ada", "bob"):
        (tmp_path / "class" / name).mkdir(parents=True)
        text = bank.solution(course).modules["attention"].text + f"\n# {name}\n"
        (tmp_path / "class" / name / "attention.py").write_text(text, encoding="utf-8")
    command = ["grade", str(tmp_path / "class"), "--out", str(tmp_path / "out"), "--spawn"]
    code = cli.main([*command, "--only", "attention.stable_softmax", "--jobs", "1", "--lang", "en"])
    assert code == commands.OK
    for name in ("ada", "bob"):
        result = json.loads((tmp_path / "out" / name / "result.json").read_text())
        assert result["score"] == result["max_score"]
        assert result["made_by"]["device"] == "cpu"
        assert "walls" in result["made_by"]["protections"]


# ---------------------------------------------------------------------------------- devices


@pytest.mark.parametrize(
    ("device", "words"), [("cuda", "no GPU here"), ("nonsense", "no device 'nonsense'")]
)
def test_a_device_that_is_not_there(
    device: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    out = tmp_path / "out"
    assert (
        cli.main(["grade", str(tmp_path), "--out", str(out), "--device", device])
        == commands.TROUBLE
    )
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert words in said[0]
    assert not out.exists()


@linux
def test_results_depend_on_the_device() -> None:
    keys = [grade.key(Options(["x"], device=device), "", ()) for device in ("cpu", "cuda")]
    assert keys[0] != keys[1]


@linux
def test_a_gpu_is_shown_to_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a GPU, there are only the words on bubblewrap's command line to look at."""
    if not list(Path("/dev").glob("nvidia*")):
        with pytest.raises(JailError, match="no GPU for workers"):
            jail.build(device="cuda")
    monkeypatch.setattr(jail, "_GPU_FILES", ("null",))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    try:
        jailed = jail.build(device="cuda")
    except JailError as problem:
        pytest.skip(str(problem))
    command = " ".join(jailed.command)
    assert "--dev-bind /dev/null /dev/null" in command
    assert "--ro-bind /sys /sys" in command
    assert "--setenv CUDA_VISIBLE_DEVICES 1" in command
    assert command.index("--dev /dev") < command.index("--dev-bind")
    assert jailed.devices == ["/dev/null"]
    assert "--dev-bind" not in jail.build().command


# A tensor on `meta` has a device that is not the CPU's, which is all that these need.
ELSEWHERE = """
import torch
from torch import nn

def where(x, xs=(), named=None):
    assert {x.device.type, xs[0].device.type, named["x"].device.type} == {"meta"}
    return x * 2

def back_home(x):
    return torch.zeros(3)

def mixed(x):
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two")

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.mask = torch.ones(3)

    def forward(self, x):
        assert self.linear.weight.device.type == "meta" != self.mask.device.type
        return self.linear(x)
"""


@pytest.fixture
def host() -> Host:
    modules = {"attention": Module("attention", ELSEWHERE, "attention.py")}
    return Host(Submission("student", modules), ["attention"], device="meta")


def test_arguments_are_moved(host: Host) -> None:
    x = torch.ones(3)
    arguments: dict[str, Any] = {"args": [x, (x,)], "kwargs": {"named": {"x": x}}}
    assert host.perform("accelerator", target=["attention", "where"], **arguments) is True
    assert x.device.type == "cpu"


def test_a_module_is_moved_when_it_is_made(host: Host) -> None:
    host.perform("make", target=["attention", "Layer"], args=[], kwargs={}, ref=-1)
    arguments: dict[str, Any] = {"args": [torch.ones(3)], "kwargs": {}}
    assert host.perform("accelerator", target=[-1, "forward"], **arguments) is True


@pytest.mark.parametrize(("name", "kind"), [("mixed", "device"), ("back_home", "device_result")])
def test_a_fault_of_device_is_one(host: Host, name: str, kind: str) -> None:
    with pytest.raises(Fault) as raised:
        host.perform("accelerator", target=["attention", name], args=[torch.ones(3)], kwargs={})
    assert raised.value.kind == kind
    assert raised.value.is_plausible()


# -------------------------------------------------------------------------------- leftovers


def test_what_is_left_behind_is_seen() -> None:
    done = threading.Event()
    before = Before()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leftovers, "_SHOWN_MOST", 10_000)  # what other tests leave is seen, too
        patch.setattr(torch, "relu", torch.sigmoid)
        patch.setattr(nn.Linear, "forward", nn.Identity.forward)
        patch.setattr(nn.functional.softmax, "__defaults__", (0, 0, 0))
        patch.setitem(sys.modules, "a_helper_of_mine", sys)
        patch.setattr(sys, "argv", [])
        patch.setenv("HELPER", "1")
        random.random()
        torch.set_default_dtype(torch.float64)
        hook = nn.modules.module.register_module_forward_hook(lambda *_: None)
        thread = threading.Thread(target=done.wait, daemon=True)
        thread.start()
        recursion = sys.getrecursionlimit()
        sys.setrecursionlimit(recursion + 1)
        with torch.device("meta"):
            found = before.changes()
        sys.setrecursionlimit(recursion)
        done.set()
        thread.join()
        hook.remove()
        torch.set_default_dtype(torch.float32)
    assert set(found) >= {
        "torch", "torch.nn.modules.linear.Linear", "torch.nn.functional.softmax", "sys.modules",
        "sys", "environment", "random", "dtype", "threads", "recursion", "modes",
        "torch.nn.modules.module._global_forward_hooks",
    }  # fmt: skip


def test_what_leaves_nothing_leaves_nothing() -> None:
    before = Before()
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    torch.softmax(nn.Linear(3, 4).double()(x), -1).sum().backward()
    # pytest's own plugins may have done something meanwhile.
    assert [name for name in before.changes() if name.startswith("torch")] == []
