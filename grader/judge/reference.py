"""What the right answer is: asked of the reference itself, or read from a recording.

Students do not receive the reference, so its answers travel instead. A check asks with the calls
that it made of the subject; a request is identified by the check and its ordinal within it, and by
a digest of everything that goes in, so that a stale recording is noticed and never believed.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from grader.judge.diagnose import Known, Signature
from grader.judge.tolerance import budget
from grader.subject.host import Host
from grader.subject.proxy import Call, Module, sorted_wrt, vjp_request

Request = dict[str, Any]


class StaleAnswers(Exception):
    """The recording is not of this question."""


class Reference:
    """What a check asks for the right answer.

    In whatever precision a call is, it is answered in float64 on the same rounded numbers, and the
    answer is rounded once: a student's error is measured from the truth, not from another error.

    Args:
        answer: answers a request; `Live` or `Recorded`.
    """

    def __init__(self, answer: Callable[[Request], Any]):
        self._answer = answer

    def call(self, call: Call) -> Any:
        """What the call should give: a tensor, or a tuple of the parts."""
        request = {"args": call.args, "kwargs": call.kwargs, "forbidden": ()}
        return self._ask(call, _request("call", call, request))

    def vjp(
        self, call: Call, cotangent: Tensor | Sequence[Tensor | None], wrt: Sequence[str]
    ) -> dict[str, Tensor]:
        """The gradients that `Subject.vjp` should give for the same arguments."""
        request = vjp_request(call, cotangent, wrt)
        gradients = self._ask(call, _request("vjp", call, request))
        return dict(zip(sorted_wrt(call, wrt), gradients))

    def _ask(self, call: Call, request: Request) -> Any:
        dtype = call.function._dtype(call)
        if dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return self._answer(request)
        request = _floats(request, torch.float64)
        if request["twin"]:  # after all else that was done to it, such as a rounding of its weights
            request["twin"]["history"].append(("convert", {"dtype": torch.float64}))
        return _floats(self._answer(request), dtype)


def _floats(value: Any, dtype: torch.dtype) -> Any:
    """The same, with its floating tensors in another dtype."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _floats(item, dtype) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_floats(item, dtype) for item in value)
    return value


def _request(operation: str, call: Call, arguments: dict[str, Any]) -> Request:
    """A request without handles: where a module is meant, how to make its twin."""
    function = call.function
    arguments.pop("target", None)
    request = {"operation": operation, "arguments": arguments}
    module = function.module
    if module is None:
        return request | {"target": list(function.target), "twin": None}
    return request | {"target": function.target[1], "twin": _recipe(module)}


def _recipe(module: Module) -> dict[str, Any]:
    made = module.made_by
    return {
        "target": list(made.function.target),
        "args": made.args,
        "kwargs": made.kwargs,
        "history": list(module.history),
    }


_TWIN = -1


class Live:
    """Answers from the reference's own code."""

    def __init__(self, host: Host):
        self._host = host

    def begin(self, check: str) -> None:
        """The twins of the check before have served."""
        self._host.perform("begin", seed=0)

    def __call__(self, request: Request) -> Any:
        target = request["target"]
        twin = request["twin"]
        if twin is not None:
            made = {name: twin[name] for name in ("target", "args", "kwargs")}
            self._host.perform("make", ref=_TWIN, **made)
            for operation, arguments in twin["history"]:
                self._host.perform(operation, ref=_TWIN, **arguments)
            target = [_TWIN, target]
        value = self._host.perform(request["operation"], target=target, **request["arguments"])
        return value[0] if request["operation"] == "call" else value


class Recorder:
    """Passes requests on and keeps what came back, check by check."""

    def __init__(self, answers: Live):
        self._answers = answers
        self._check = ""
        self.kept: dict[str, list[tuple[str, Any]]] = {}

    def begin(self, check: str) -> None:
        self._check = check
        self._answers.begin(check)

    def __call__(self, request: Request) -> Any:
        value = self._answers(request)
        self.kept.setdefault(self._check, []).append((fingerprint(request), value))
        return value


class Remembered:
    """Answers for a whole class: each question is put to the reference once."""

    def __init__(self, answers: Live):
        self._answers = answers
        self._check = ""
        self._known: dict[tuple[str, str], Any] = {}

    def begin(self, check: str) -> None:
        self._check = check
        self._answers.begin(check)

    def __call__(self, request: Request) -> Any:
        key = self._check, fingerprint(request)
        if key not in self._known:
            self._known[key] = self._answers(request)
        return self._known[key]


class Recorded:
    """Answers from the files that a `Recorder` filled.

    Args:
        folder: where ``<unit>.safetensors`` lie.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._recordings: dict[str, Recording] = {}
        self._check = ""
        self._ordinal = 0

    def begin(self, check: str) -> None:
        self._check, self._ordinal = check, 0

    def of(self, check: str) -> Recording:
        """The recording in which a check's answers stand."""
        unit = check.split(".")[0]
        if unit not in self._recordings:
            self._recordings[unit] = Recording.read(self._folder / f"{unit}.safetensors")
        return self._recordings[unit]

    def __call__(self, request: Request) -> Any:
        answers = self.of(self._check).answers.get(self._check, [])
        ordinal, self._ordinal = self._ordinal, self._ordinal + 1
        if ordinal >= len(answers) or answers[ordinal][0] != fingerprint(request):
            raise StaleAnswers(
                f"The recorded answers do not fit {self._check}, question {ordinal}."
                " The public suite has changed since they were recorded: run `make answers`."
            )
        return answers[ordinal][1]


class Recording:
    """One unit's recorded answers, and what each known mistake gives where it fails.

    Attributes:
        answers: check -> (fingerprint of the request, answer), in order.
        signatures: check -> (mistake, how it fails there).
        titles: mistake -> title and hint.
        given: repair -> its definition as students get it.
    """

    def __init__(
        self,
        answers: dict[str, list[tuple[str, Any]]],
        signatures: dict[str, list[tuple[str, Signature]]],
        titles: dict[str, tuple[str, str]],
        given: dict[str, str],
    ):
        self.answers = answers
        self.signatures = signatures
        self.titles = titles
        self.given = given

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a recording; a missing file is an empty one."""
        if not path.exists():
            return cls({}, {}, {}, {})
        blob = path.read_bytes()
        size = int.from_bytes(blob[:8], "little")
        index = json.loads(json.loads(blob[8 : 8 + size])["__metadata__"]["index"])
        tensors = load(blob)
        answers = {
            check: [(digest, _unpack(value, tensors)) for digest, value in kept]
            for check, kept in index["answers"].items()
        }
        signatures = {
            check: [
                (id, Signature(step, outcome, _unpack(found, tensors)))
                for id, step, outcome, found in kept
            ]
            for check, kept in index["signatures"].items()
        }
        titles = {id: (title, hint) for id, (title, hint) in index["titles"].items()}
        return cls(answers, signatures, titles, index["given"])

    @functools.cached_property
    def known(self) -> Known:
        """The signatures, ready to be compared with."""
        return Known(self.signatures, self.titles)

    def agrees_with(self, other: Recording) -> bool:
        """The same questions, and answers equal up to what another machine's libm may change."""
        return (
            self.titles == other.titles
            and self.given == other.given
            and _alike(self.answers, other.answers)
            and _alike(self.signatures, other.signatures)
        )

    def to_bytes(self) -> bytes:
        """The same recording gives the same bytes."""
        tensors: dict[str, Tensor] = {}
        index = {
            "answers": {
                check: [(digest, _pack(value, tensors)) for digest, value in kept]
                for check, kept in sorted(self.answers.items())
            },
            "signatures": {
                check: [(id, s.step, s.outcome, _pack(s.found, tensors)) for id, s in kept]
                for check, kept in sorted(self.signatures.items())
            },
            "titles": self.titles,
            "given": self.given,
        }
        metadata = {"index": json.dumps(index, ensure_ascii=False, sort_keys=True)}
        return bytes(save(tensors, metadata))


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Move tensors into ``tensors``, each once, and leave their names."""
    if isinstance(value, Tensor):
        blob = value.contiguous()
        name = fingerprint(blob)
        tensors.setdefault(name, blob.clone())
        return {"tensor": name}
    if isinstance(value, (list, tuple)):
        return [_pack(item, tensors) for item in value]
    return {"plain": value}


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return tuple(_unpack(item, tensors) for item in value)
    return tensors[value["tensor"]] if "tensor" in value else value["plain"]


def _alike(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        near = budget(mine.dtype)
        return (
            mine.shape == theirs.shape
            and mine.dtype == theirs.dtype
            and torch.allclose(mine.double(), theirs.double(), near, near, equal_nan=True)
        )
    if isinstance(mine, Signature) and isinstance(theirs, Signature):
        return mine.fits(theirs)
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(_alike(mine[k], theirs[k]) for k in mine)
    if isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))
    return bool(mine == theirs)


def fingerprint(value: Any) -> str:
    """A digest of plain data and tensors, the same on every machine."""
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()[:16]


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        digest.update(f"{value.dtype}{list(value.shape)}".encode())
        digest.update(value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for key in sorted(value):
            digest.update(f"{key}:".encode())
            _feed(digest, value[key])
    elif isinstance(value, (list, tuple)):
        digest.update(b"[")
        for item in value:
            _feed(digest, item)
        digest.update(b"]")
    elif callable(value):
        _feed(digest, _rests_on(value))
    else:
        digest.update(f"{value!r};".encode())


def _rests_on(function: Any) -> list[Any]:
    """What a check's own function is known by: its name, and what it has from the check around it.

    Not its lists: such a one is a log, which is fuller after the student's call than before.
    """
    if not inspect.isfunction(function):
        raise TypeError(f"{function!r:.80} goes to the reference; a `def` or a `lambda` can")
    around = inspect.getclosurevars(function).nonlocals
    kept = {name: value for name, value in around.items() if not isinstance(value, list)}
    return [function.__qualname__, function.__defaults__, kept]
