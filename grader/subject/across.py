"""Functions that live on the other side of the gap, in the worker: callable, and differentiable.

The judge lends a worker functions of its own (the attention that a leak finder is to try, the
decoder that is to be driven) and stand-ins: where an exercise has lost points, what stands on it is
graded once more on a sound one. No text of the reference crosses; its values and gradients do.
"""

from __future__ import annotations

import builtins
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from grader.subject.devices import MixedDevices
from grader.subject.faults import Fault

Ask = Callable[[Any], Any]

_ENTRIES_MOST = 1 << 16  # of all tensors that a lent function is given: the worker chooses them
_TEXT_MOST = 500


class _Across(torch.autograd.Function):
    """A call of the other side, of first order. `torch.func` may transform it, too."""

    @staticmethod
    def forward(ask: Ask, request: dict[str, Any], *tensors: Tensor) -> Any:
        value = ask({**request, "tensors": [_here(tensor) for tensor in tensors]})
        away = [tensor.device for tensor in tensors if tensor.device.type != "cpu"]
        return _moved(value, away[0]) if away else value  # what crosses comes back on the CPU

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.ask, ctx.request, *tensors = inputs
        ctx.save_for_backward(*tensors)
        parts = output if isinstance(output, tuple) else (output,)
        flat = [p for p in parts if isinstance(p, Tensor) and not p.is_floating_point()]
        ctx.mark_non_differentiable(*flat)

    @staticmethod
    def backward(ctx: Any, *cotangent: Tensor) -> Any:
        own = ctx.saved_tensors
        gradients = _Back.apply(ctx.ask, ctx.request, len(own), *own, *cotangent)  # type: ignore[no-untyped-call]
        return None, None, *gradients

    @staticmethod
    def vmap(info: Any, in_dims: Any, ask: Ask, request: dict[str, Any], *tensors: Tensor) -> Any:
        return _one_by_one(
            lambda *one: _Across.apply(ask, request, *one),  # type: ignore[no-untyped-call]
            info.batch_size, in_dims[2:], tensors,
        )  # fmt: skip


class _Back(torch.autograd.Function):
    """The gradients of such a call: of the ``count`` tensors before the cotangents."""

    @staticmethod
    def forward(ask: Ask, request: dict[str, Any], count: int, *tensors: Tensor) -> Any:
        if any(map(torch._C._functorch.is_legacy_batchedtensor, tensors)):
            raise RuntimeError(
                "many gradients of this function cannot be asked for at once:"
                " leave out `vectorize=True` and `is_grads_batched=True`"
            )
        own, cotangent = [tensor.detach() for tensor in tensors[:count]], list(tensors[count:])
        gradients = ask({**request, "tensors": own, "cotangent": cotangent})
        return tuple(_moved(g, tensor.device) for g, tensor in zip(gradients, own))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *cotangent: Tensor) -> Any:
        raise RuntimeError("this function has first derivatives alone")

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, ask: Ask, request: dict[str, Any], count: int, *tensors: Tensor
    ) -> Any:
        def back(*one: Tensor) -> tuple[Tensor, ...]:
            gradients = _Back.apply(ask, request, count, *one)  # type: ignore[no-untyped-call]
            return tuple(torch.zeros_like(t) if g is None else g for g, t in zip(gradients, one))

        return _one_by_one(back, info.batch_size, in_dims[3:], tensors)


def _one_by_one(
    function: Callable[..., Any],
    count: int,
    axes: Sequence[int | None],
    tensors: Sequence[Tensor],
) -> tuple[Any, Any]:
    """Make a call for each sample of a batch; the axis of the batch comes first in what it gives.

    Args:
        function: is called with the tensors of one sample.
        count: how many samples there are.
        axes: of each tensor, the axis of the batch; None where all samples share it.
        tensors: what the batch is made of.
    """
    results = [
        function(*(t if a is None else t.select(a, i) for t, a in zip(tensors, axes)))
        for i in range(count)
    ]
    if isinstance(results[0], tuple):
        parts = tuple(map(torch.stack, zip(*results)))
        return parts, tuple(0 for _ in parts)
    return torch.stack(results), 0


def _here(tensor: Tensor) -> Tensor:
    """What crosses for a tensor; one of the simulated accelerator has a shape and no numbers."""
    return torch.zeros_like(tensor, device="cpu") if tensor.is_meta else tensor.detach()


def _moved(value: Any, device: torch.device) -> Any:
    """The value with its tensors on a device."""
    if isinstance(value, tuple):
        return tuple(_moved(part, device) for part in value)
    return value.to(device) if isinstance(value, Tensor) else value


def call(ask: Ask, what: dict[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any],
         state: Mapping[str, Tensor] | None = None) -> Any:  # fmt: skip
    """Call a function of the other side; gradients flow back through the gap.

    Args:
        ask: puts a question to the other side.
        what: names the function.
        args: data and tensors.
        kwargs: likewise.
        state: a module's parameters and buffers, by name.
    """
    request, tensors = _request(what, args, kwargs, state or {})
    if len({tensor.device.type for tensor in tensors if tensor.dim()}) > 1:
        raise MixedDevices("a call", tensors)
    return _Across.apply(ask, request, *tensors)  # type: ignore[no-untyped-call]


def _request(
    what: dict[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any], state: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Tensor]]:
    """A question without its tensors, each of which it names by its place among them."""
    tensors: list[Tensor] = []

    def take(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if not any(value is known for known in tensors):
            tensors.append(value)
        place = next(i for i, known in enumerate(tensors) if known is value)
        return {"place": place}

    request = {
        **what,
        "args": [take(arg) for arg in args],
        "kwargs": {name: take(arg) for name, arg in kwargs.items()},
        "state": {name: take(value) for name, value in state.items()},
    }
    return request, tensors


def answer(request: Mapping[str, Any], function: Callable[..., Any]) -> Any:
    """The other end of `call`: the value, or the gradients if a cotangent came.

    Args:
        request: what `call` has sent.
        function: is called as ``function(args, kwargs, state)``.
    """
    cotangent = request.get("cotangent")
    tensors = [
        tensor.detach().requires_grad_(cotangent is not None and tensor.is_floating_point())
        for tensor in request["tensors"]
    ]

    def put(value: Any) -> Any:
        return tensors[value["place"]] if isinstance(value, dict) and "place" in value else value

    args = [put(arg) for arg in request["args"]]
    kwargs = {name: put(arg) for name, arg in request["kwargs"].items()}
    state = {name: put(value) for name, value in request["state"].items()}
    with torch.set_grad_enabled(cotangent is not None):
        value = function(args, kwargs, state)
        if cotangent is None:
            return value
        parts = value if isinstance(value, tuple) else (value,)
        total = torch.zeros(())
        for part, weight in zip(parts, cotangent):
            if isinstance(part, Tensor) and part.requires_grad and isinstance(weight, Tensor):
                total = total + (part * weight).sum()
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        if not total.requires_grad or not wanted:
            return [None] * len(tensors)
        gradients = iter(torch.autograd.grad(total, wanted, allow_unused=True))
        return [next(gradients) if tensor.requires_grad else None for tensor in tensors]


# What the judge lends.


class Lent(nn.Module):
    """A function of the judge's, in the hands of the student's code.

    It passes for a module, so that `.eval()` and `.to(...)` do it no harm. What it raises is raised
    here, as if it had been called here.

    Args:
        ask: puts a question to the judge.
        what: names the function.
    """

    def __init__(self, ask: Ask, what: dict[str, Any]):
        super().__init__()
        self._ask, self._what = ask, what

    @classmethod
    def within(cls, function: Callable[..., Any]) -> Lent:
        """One of a judge in this process; all else is as through a wire."""
        return cls(lambda request: give(request, function), {})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return call(self._put, self._what, args, kwargs)

    def __deepcopy__(self, memo: Any) -> Lent:
        return self

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"this function is only to be called; it has no `{name}`")

    def _put(self, request: Any) -> Any:
        try:
            return self._ask(request)
        except Fault as fault:
            name, text = fault.detail["types"][0], fault.detail["text"]
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                raise kind(text) from None
            raise RuntimeError(f"{name}: {text}") from None


def give(request: Mapping[str, Any], function: Callable[..., Any]) -> Any:
    """The other end of `Lent`.

    Raises:
        Fault: what the function has raised; it was called with what it cannot take.
    """
    try:
        entries = sum(tensor.numel() for tensor in request["tensors"])
        if entries > _ENTRIES_MOST:
            raise ValueError(f"{entries} numbers are too many for this function")
        with _disable_current_modes():  # its operators are not the student's
            return answer(request, lambda args, kwargs, state: function(*args, **kwargs))
    except Exception as error:
        types = [kind.__name__ for kind in type(error).__mro__]
        text = re.sub(r"[\w.]*<locals>\.", "", str(error))[:_TEXT_MOST]
        raise Fault("raised", {"types": types, "text": text}) from error


# Stand-ins. `init` is what an instance was made with: its positional and its named arguments.


def function(ask: Ask, exercise: str) -> Callable[..., Any]:
    """A function that stands in for a student's: the judge's own answers."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return call(ask, {"stand_in": exercise, "init": None}, args, kwargs)

    return stand_in


def method(ask: Ask, exercise: str, cls: type) -> Callable[..., Any]:
    """A method that stands in for one of a student's class, whose instances from now on remember
    what they were made with.
    """
    original = cls.__init__  # type: ignore[misc]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_made_with", [args, kwargs])
        original(self, *args, **kwargs)

    def stand_in(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(ask, {"stand_in": exercise, "init": self._made_with}, args, kwargs)

    cls.__init__ = __init__  # type: ignore[misc]
    return stand_in


def module(ask: Ask, exercise: str) -> type[nn.Module]:
    """A class that stands in for a student's: parameters here, by their declared names, and the
    judge's own forward.
    """

    class StandIn(nn.Module):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__()
            self._made_with = [args, kwargs]
            made = ask({"make": exercise, "init": self._made_with})
            shells: dict[str, nn.Module] = {"": self}
            for name, kind in made["modules"].items():
                owner, _, leaf = name.rpartition(".")
                shells[name] = _shell(kind)
                shells[owner].add_module(leaf, shells[name])
            for name, tensor in made["parameters"].items():
                owner, _, leaf = name.rpartition(".")
                shells[owner].register_parameter(leaf, nn.Parameter(tensor))
            for name, tensor in made["buffers"].items():
                owner, _, leaf = name.rpartition(".")
                shells[owner].register_buffer(leaf, tensor)
            self._plain = list(made["plain"])
            for name, value in made["plain"].items():
                owner, _, leaf = name.rpartition(".")
                setattr(shells[owner], leaf, value)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            what = {
                "stand_in": exercise,
                "init": self._made_with,
                "plain": {name: operator.attrgetter(name)(self) for name in self._plain},
                "training": self.training,
            }
            state = dict(self.named_parameters()) | dict(self.named_buffers())
            return call(ask, what, args, kwargs, state)

    StandIn.__name__ = StandIn.__qualname__ = exercise.rpartition(".")[2]
    return StandIn


def object_of(ask: Ask, exercise: str, methods: Sequence[str]) -> type:
    """A class that stands in for a student's whose instances remember, and are no modules.

    The judge remembers nothing: each question tells all that was done before.

    Args:
        ask: puts a question to the judge.
        exercise: the class.
        methods: the names of its methods; what else is asked for is an attribute.
    """

    class StandIn:
        def __init__(self, *args: Any, **kwargs: Any):
            self._made_with = [args, kwargs]
            self._done: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name not in methods:
                request, tensors = self._question({"get": name})
                return ask({**request, "tensors": [tensor.detach() for tensor in tensors]})
            return lambda *args, **kwargs: self._do(name, args, kwargs)

        def _do(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._done.append((name, args, kwargs))
            request, tensors = self._question({})
            return _Across.apply(ask, request, *tensors)  # type: ignore[no-untyped-call]

        def _question(self, what: dict[str, Any]) -> tuple[dict[str, Any], list[Tensor]]:
            done = [[name, len(args), list(named)] for name, args, named in self._done]
            flat = [arg for _, args, named in self._done for arg in (*args, *named.values())]
            what = {"stand_in": exercise, "init": self._made_with, "done": done, **what}
            return _request(what, flat, {}, {})

    StandIn.__name__ = StandIn.__qualname__ = exercise.rpartition(".")[2]
    return StandIn


def _shell(kind: str) -> nn.Module:
    """A module of one of torch's classes, or of none, without what its constructor would make."""
    cls = getattr(nn, kind, nn.Module)
    shell: nn.Module = cls.__new__(cls)
    nn.Module.__init__(shell)
    return shell
