"""A simulated accelerator: shows device faults on a machine that has no GPU.

A model that was moved to a GPU works only where every tensor that it meets is there too. A mask
made by `torch.ones(n, n)` inside `forward` is born on the CPU, and CUDA refuses to combine the two.

Here torch's *meta* device plays the accelerator: a meta tensor has a shape, a dtype and a device,
but no data. A `TorchDispatchMode` sees every operator just before it runs, below `nn.functional`
and autograd, and does two things:

1. It applies CUDA's rule: operands share a device, except for CPU operands without axes.
2. It runs the operator on the CPU, on dummies in the operands' shapes, and passes on a meta tensor
   in the result's shape. (torch has kernels for meta, but not for every operator, and the first
   one called imports sympy and torch.compile, which takes a second.)

So values are unknown, and code that asks for one (`.item()`, `if mask.any()`) can be followed no
further. A copy on the CPU (`ids.cpu()`) is followed: it holds values that mean nothing, and is
refused like any other CPU tensor where it meets the accelerator's. Code that asks for CUDA by name
(`if x.is_cuda:`) misses every other accelerator, ours too.

Source: the checks in TensorIterator.cpp, TensorAdvancedIndexing.cpp and native_functions.yaml.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

ACCELERATOR = torch.device("meta")

_COPIES = {"_to_copy", "copy_", "fill_"}  # made to cross devices
_NO_SCALARS = {"embedding", "index_select", "gather", "stack"}  # refuse even a 0-dim CPU operand


class MixedDevices(RuntimeError):
    """Operands on two devices met; a RuntimeError to the student's code, as CUDA's is.

    Attributes:
        operator: its name in ATen, such as "add" or "embedding".
        devices: "accelerator" or "cpu", for each operand in order.
    """

    def __init__(self, operator: str, operands: list[Tensor]):
        self.operator = operator
        self.devices = tuple("cpu" if operand.is_cpu else "accelerator" for operand in operands)
        super().__init__(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"accelerator and cpu! (in {operator}, of {', '.join(self.devices)})"
        )


class NeedsData(BaseException):
    """A value was asked of a tensor without data; not for the student's `except Exception`."""


@dataclass(frozen=True)
class Trace:
    """How far a call was followed: to its end, or (`completed` False) until data was needed.

    Attributes:
        completed: whether it was followed to its end.
        fetched: whether something was copied to the CPU.
    """

    completed: bool
    fetched: bool = False


def on_accelerator(
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    module: nn.Module | None = None,
) -> tuple[Any, Trace]:
    """Make a call with everything that it is given moved to the accelerator.

    Args:
        call: a function; or a module or a module's method, of which a moved copy is called.
        args: tensors and modules (copied) are moved, also inside lists, tuples and dicts.
        kwargs: likewise.
        module: if given, its moved copy is the first argument, as in
            `on_accelerator(MultiHeadAttention.split_heads, (x,), module=mha)`.

    Returns:
        What came back, on whichever device it is; None where the call was not followed to its end.

    Raises:
        MixedDevices: the fault sought.
        Exception: what else the student's code raised; it says nothing about devices.
    """
    mode = _SimulatedAccelerator()
    moved: dict[int, tuple[Any, Any]] = {}

    def move(thing: Any) -> Any:
        if id(thing) not in moved:  # attention(x, x, x) must still see one tensor
            there = thing.detach() if isinstance(thing, Tensor) else _copy(thing)
            moved[id(thing)] = thing, there.to(ACCELERATOR)
            if isinstance(thing, nn.Module):
                mode.left_behind |= {_address(t) for t in [*thing.parameters(), *thing.buffers()]}
        return moved[id(thing)][1]

    if isinstance(call, MethodType) and isinstance(call.__self__, nn.Module):
        call = MethodType(call.__func__, move(call.__self__))
    call, args, kwargs = _replace((call, args, dict(kwargs or {})), move)
    if module is not None:
        args = (move(module), *args)
    try:
        with _Readings(mode), mode:
            return call(*args, **kwargs), Trace(completed=True, fetched=mode.fetched)
    except NeedsData:
        return None, Trace(completed=False)
    except MixedDevices:
        raise
    except Exception as error:
        if mode.stale:  # its cause may be a value that means nothing: an index, a length
            return None, Trace(completed=False)
        # Some ask for data without an operator: x.numpy(), f"{loss:.2f}", torch.tensor([loss]).
        # torch then says "meta", a word that a student's code has no cause to use.
        if re.search(r"\bmeta\b|Tensor\.__format__", str(error)):
            return None, Trace(completed=False)
        raise


class _Rules:
    # Apart from the mode: a mode's own method is wrapped by torch, and so imports torch.compile.

    def __init__(self) -> None:
        super().__init__()
        self.stale = False  # a CPU tensor was filled from the accelerator: its values mean nothing
        self.fetched = False  # by a copy that went to the CPU
        self.left_behind: set[int] = set()  # memory of the modules of which copies were moved

    def __torch_dispatch__(
        self: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled():  # only there do composite operators arrive whole
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func.is_view or torch.Tag.inplace_view in func.tags:
            return func(*args, **kwargs)  # all about shape, and nothing that meta imports for
        name = func.overloadpacket.__name__
        operands = _tensors((args, kwargs))
        away = any(map(_away, operands))
        target = kwargs.get("device")
        if away:
            if "_pack" in name or "_assert" in name:
                raise NeedsData(name)  # a packed sequence's lengths are on the CPU, rightly
            if _mixes(name, args, kwargs, operands):
                if any(not _away(t) and _address(t) in self.left_behind for t in operands):
                    raise NeedsData(name)  # a closure still holds the original: not the student's
                raise MixedDevices(name, operands)
            if name == "_to_copy" and target not in (None, ACCELERATOR):
                self.stale = self.fetched = True
                return _on_dummies(func, args, kwargs, operands)
            if not _away(operands[0]) and (name in _COPIES or name == "index_put_"):
                self.stale = True
        if (away or self.stale) and _shaped_by_values(func, name, args, operands, self.stale):
            raise NeedsData(name)
        if target == ACCELERATOR or (away and target is None):
            result = _on_dummies(func, args, kwargs, operands)
            result = _replace(result, lambda tensor: tensor.to(ACCELERATOR))
        else:
            result = func(*args, **kwargs)
        if isinstance(result, (bool, int, float)) and (away or self.stale):
            raise NeedsData(name)
        return result


class _SimulatedAccelerator(_Rules, TorchDispatchMode):
    pass


class _Readings(TorchFunctionMode):
    """Sees what reads a tensor's values by no operator, or by that of a copy."""

    def __init__(self, rules: _Rules):
        super().__init__()
        self.rules = rules

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        reads = func in (Tensor.tolist, Tensor.numpy, Tensor.__array__)
        if reads and (self.rules.stale or _away(args[0])):
            raise NeedsData(func.__name__)
        return func(*args, **(kwargs or {}))


def _mixes(name: str, args: Any, kwargs: dict[str, Any], operands: list[Tensor]) -> bool:
    """Whether CUDA would refuse these operands, of which one at least is on the accelerator."""
    if name in _COPIES:
        return False
    if name == "index":  # x[indices] may have its indices on the CPU; not the other way round
        return not _away(args[0])
    if name.startswith("index_put"):  # x[indices] = value moves indices, and a 0-dim value
        return args[2].dim() > 0 and _away(args[0]) != _away(args[2])
    written = _tensors([kwargs.get("out"), args[:1] if name.endswith("_") else None])
    may_stay = [
        t.dim() == 0 and name not in _NO_SCALARS and all(t is not w for w in written)
        for t in operands
    ]
    return not all(_away(t) or free for t, free in zip(operands, may_stay, strict=True))


def _shaped_by_values(func: Any, name: str, args: Any, operands: list[Tensor], stale: bool) -> bool:
    """Whether the shapes that this operator makes or wants depend on values that are unknown."""
    if not name.startswith("index"):
        return torch.Tag.dynamic_output_shape in func.tags
    masks = [t for t in operands[1:] if t.dtype in (torch.bool, torch.uint8)]
    fits_any = name.startswith("index_put") and args[2].numel() == 1
    return not fits_any and any(_away(mask) or stale for mask in masks)


def _on_dummies(func: Any, args: Any, kwargs: dict[str, Any], operands: list[Tensor]) -> Any:
    """Run an operator on the CPU, with dummies for what is on the accelerator."""
    dummies: dict[int, Tensor] = {}
    for operand in filter(_away, operands):
        size = operand.untyped_storage().nbytes() // operand.element_size()
        make = torch.ones if operand.is_floating_point() else torch.zeros  # weights, indices: valid
        dummy = make(size, dtype=operand.dtype)
        dummies[id(operand)] = dummy.as_strided(operand.shape, operand.stride())

    def here(operand: Tensor) -> Tensor:
        return dummies.get(id(operand), operand)

    home = {"device": torch.device("cpu")} if "device" in kwargs else {}
    return func(*_replace(args, here), **{**_replace(kwargs, here), **home})


def _away(tensor: Tensor) -> bool:
    return tensor.device == ACCELERATOR


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return []
    return [tensor for part in value for tensor in _tensors(part)]


def _replace(value: Any, swap: Callable[[Any], Any]) -> Any:
    """The value with each of its tensors and modules swapped."""
    if isinstance(value, (Tensor, nn.Module)):
        return swap(value)
    if type(value) in (list, tuple):
        return type(value)(_replace(part, swap) for part in value)
    if isinstance(value, dict):
        return {key: _replace(part, swap) for key, part in value.items()}
    return value


def _copy(module: nn.Module) -> nn.Module:
    """A deep copy, also of a module that keeps what it computed (`self.weights = weights`)."""
    kept = _tensors([list(vars(part).values()) for part in module.modules()])
    return copy.deepcopy(module, {id(t): t.detach() for t in kept if not t.is_leaf})
