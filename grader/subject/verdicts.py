"""From the host's faults to outcomes and words that a beginner understands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from grader.model import Message, Outcome, listed, say
from grader.subject import endings
from grader.subject.faults import Failure, Fault, Ref


def of(fault: Fault) -> Failure:
    """The verdict on a fault."""
    judge: Callable[[dict[str, Any]], tuple[Any, ...]] = _VERDICTS[fault.kind]
    outcome, *message = judge({**fault.detail, "line": fault.frames[-1] if fault.frames else ""})
    types = fault.detail.get("types", ())
    standin = fault.detail["text"] if _is_stub(fault.detail) else ""
    if "importing" in fault.detail:  # the call that may raise did not come to pass
        types = ()
    text = fault.detail["text"] if types else ""
    return Failure(outcome, *message, frames=fault.frames, types=types, standin=standin, text=text)


def describe(value: Any, depth: int = 2) -> Message:
    """A found value in a few words, without trusting its ``repr``."""
    if isinstance(value, Tensor):
        return say("a tensor {shape}", shape=list(value.shape))
    if isinstance(value, (tuple, list)):
        kind, count = type(value).__name__, len(value)
        if not value:
            return say("an empty {kind}", kind=kind)
        if isinstance(value, list) and all(isinstance(item, (bool, float)) for item in value):
            return say("a list of {count} numbers", count=count)
        if isinstance(value, list) and all(isinstance(item, list) for item in value):
            return say("a list of lists")
        inner = listed([describe(item, depth - 1) for item in value[:4]]) if depth else "..."
        return say("a {kind} of {count} ({inner})", kind=kind, count=count, inner=inner)
    if isinstance(value, Ref):
        return say("an object of class {type}", type=value.type_name)
    if value is None:
        return Message("None")
    return Message("{type} {value}", {"type": type(value).__name__, "value": shown(value)[:40]})


def shown(value: Any) -> str:
    """Its ``repr``, which may be the student's own, or of a number too long to be written out."""
    try:
        return repr(value)
    except Exception:
        return "(cannot be shown)"


def short(dtype: torch.dtype) -> str:
    """A dtype's name without the module."""
    return str(dtype).removeprefix("torch.")


def _is_stub(detail: Mapping[str, Any]) -> bool:
    """Raised by a stub, which says at most its name; torch says what it has no operator for."""
    is_kind = list(detail.get("types", ()))[:1] == ["NotImplementedError"]
    return is_kind and " " not in detail["text"]


def _raised(detail: dict[str, Any]) -> tuple[Any, ...]:
    types, text = detail["types"], detail["text"]
    if "MemoryError" in types or "can't allocate memory" in text:
        return Outcome.OUT_OF_MEMORY, say("Your code asked for more memory than there is.")
    if _is_stub(detail):
        return (Outcome.NOT_ATTEMPTED,)
    if "SyntaxError" in types:
        unread = replace(endings.NO_PYTHON, args={"text": text})
        return Outcome.RAISED, unread, *_advice(detail)
    lines: list[Message] = [
        say("Your code raised {type}: {text}", type=types[0], text=text)
        if text and text != "None"
        else say("Your code raised {type}.", type=types[0])
    ]
    return Outcome.RAISED, *lines, *_advice(detail)


def _advice(detail: dict[str, Any]) -> list[Message]:
    """What helps with an exception, if there is something."""
    text, line = detail["text"], detail["line"]
    if any(part in text for part in _SIZES_DIFFER):
        if re.search(r"\.T\b", line):
            return [_TURNED]
        return [_KEEPDIM if detail.get("reduces") is True else _PRINT_SHAPES]
    by_text = [help for part, help in _HELP_BY_TEXT.items() if part in text]
    by_type = [_HELP[name] for name in detail["types"] if name in _HELP]
    return (by_text + by_type)[:1]


_HELP = {
    "EOFError": say("Nobody is there to answer `input()`: take the values from the arguments."),
    "SystemExit": say("Take `exit()` out: it ends the whole program, not only your function."),
    "KeyboardInterrupt": say("Only Ctrl-C should raise that: take it out, or raise another."),
    "RecursionError": say("A function calls itself without end."),
    "ModuleNotFoundError": say("Import only torch, math and the course's own units."),
    "UnboundLocalError": say("A name is used on a path on which nothing was assigned to it."),
    "BdbQuit": say("Nobody is there to answer `breakpoint()`: print what you want to see."),
}

_SIZES_DIFFER = ("must match the size of tensor b", "Expected size for first two dimensions")
_TURNED = say("`.T` turns all axes round; `.transpose(-2, -1)` exchanges the last two.")
_KEEPDIM = say("Print both shapes. After a reduction along `dim`, `keepdim=True` keeps the axis.")
_PRINT_SHAPES = say("Print both shapes.")

# What beginners meet most, by a part of what torch or Python says.
_HELP_BY_TEXT = {
    "Boolean value of Tensor with more than one value": say(
        "A tensor is not one truth: ask `mask is not None`; combine masks by `&`, `|` and `~`."
    ),
    "shapes cannot be multiplied": say(
        "Print both shapes: in `a @ b`, a's last axis meets b's last but one."
    ),
    "doesn't match hidden0": say(
        "A cell takes one step of the whole batch: [batch, d_in] and [batch, d_hidden]."
    ),
    "torch.return_types": say("A `max` along `dim` gives values and indices: take `.values`."),
    "only one element tensors can be converted": say(
        "Functions of `math` take one number; for tensors there are torch.exp, torch.sqrt, ..."
    ),
    "but found element of type float": say("A size is an int: divide by `//`."),
    "before Module.__init__() call": say("Keep `super().__init__()` as the first line."),
    "have the same dtype": say(
        "The checks also pass float64: give tensors of your own `dtype=x.dtype`."
    ),
    "expected scalar type": say(
        "The checks also pass float64: give tensors of your own `dtype=x.dtype`."
    ),
    "Can't call numpy()": say("Stay with torch: numpy knows no gradient."),
    "modified by an inplace operation": say(
        "A tensor was changed in place (`-=`, `+=`, `x[...] = `): make a new one instead."
    ),
    "without overflow": say(
        "A dtype has limits, which `torch.finfo(dtype)` tells: float16 ends at 65504."
    ),
    "running_mean should contain": say(
        "A batch norm takes axis 1 for the features, and mixes sentences; the contract asks for"
        " nn.LayerNorm."
    ),
    "view size is not compatible": say(
        "`view` needs the numbers in their order in memory: `reshape`, or `contiguous()` first."
    ),
    "name 'np' is not defined": say("Work with torch, not with numpy, which knows no gradient."),
    "'torch.Size' object is not callable": say(
        "A shape is asked with square brackets: `x.shape[-1]`, or with `x.size(-1)`."
    ),
    "must be Tensor, not": say(
        "Functions of torch, such as `torch.sqrt`, take tensors; `math.sqrt` takes a number."
    ),
    "must be a 3D tensor": say(
        "`torch.bmm` takes three axes; `@` and `torch.matmul` take any number of them."
    ),
    "The shape of the mask": say(
        "`x[mask]` does not broadcast the mask; `masked_fill` and `torch.where` do."
    ),
    "invalid character '": say(
        "Code has ASCII signs: type it anew with an English keyboard, as `,` `:` `(` or `)`."
    ),
    "inconsistent use of tabs": say(
        "Indent with spaces alone: let the editor turn tabs into them."
    ),
    "from __future__ imports must": say("Put your own imports below that line."),
}


def _missing(detail: dict[str, Any]) -> tuple[Any, ...]:
    text = say("There is no `{name}` in {where}.", name=detail["name"], where=detail["where"])
    if detail["near"]:
        near = say(
            "Rename `{near}`, which stands in {where}, to `{name}`.",
            near=detail["near"][0],
            where=detail["where"],
            name=detail["name"],
        )
        return Outcome.NOT_ATTEMPTED, text, near
    unit, is_module, _ = detail["where"].partition(".py")
    if not is_module:  # but a class
        return Outcome.NOT_ATTEMPTED, text
    restore = say(
        "Write `{name}`, or get it back as it was given: `make reset ONLY={unit}.{name}`.",
        name=detail["name"],
        unit=unit,
    )
    return Outcome.NOT_ATTEMPTED, text, restore


def _no_unit(detail: dict[str, Any]) -> tuple[Any, ...]:
    text = say("There is no file {unit}.py.", unit=detail["unit"])
    if detail["near"]:
        rename = {"near": detail["near"][0], "unit": detail["unit"]}
        return Outcome.NOT_ATTEMPTED, text, replace(endings.RENAME, args=rename)
    restore = say(
        "Each unit lives in the file of its name; `make reset ONLY={unit}` brings a fresh one.",
        unit=detail["unit"],
    )
    return Outcome.NOT_ATTEMPTED, text, restore


def _attribute(detail: dict[str, Any]) -> tuple[Any, ...]:
    name, holder, kind = detail["name"], detail["holder"], detail["type"]
    if not holder:
        return Outcome.WRONG_VALUE, say(
            "Your class has no `{name}`. The contract names its attributes: set it in `__init__`.",
            name=name,
        )
    if kind == "NoneType" and holder.endswith("bias"):
        return Outcome.WRONG_VALUE, say(
            "`{name}` is None: `bias=False` leaves it out, and the contract asks for it.",
            name=holder,
        )
    if name == holder:
        return Outcome.WRONG_VALUE, say(
            "`{name}` should be a tensor; it is of the class {type}.", name=name, type=kind
        )
    return Outcome.WRONG_VALUE, say(
        "`{holder}` is of the class {type} and has no `{leaf}`. Make it as the contract says.",
        holder=holder,
        type=kind,
        leaf=name.removeprefix(f"{holder}."),
    )


def _state_shape(detail: dict[str, Any]) -> tuple[Any, ...]:
    expected, found = detail["expected"], detail["found"]
    line = say(
        "`{name}` should have shape {expected}; found {found}",
        name=detail["name"],
        expected=expected,
        found=found,
    )
    if found == expected or found != expected[::-1]:
        return Outcome.WRONG_SHAPE, line
    exchanged = say("The sizes are exchanged: look at the order in which you hand them on.")
    return Outcome.WRONG_SHAPE, line, exchanged


_VERDICTS = {
    "raised": _raised,
    "missing": _missing,
    "no_unit": _no_unit,
    "attribute": _attribute,
    "state_shape": _state_shape,
    "signature": lambda detail: (
        Outcome.RAISED,
        say(
            "Its arguments should be ({expected}); yours are {found}.",
            expected=", ".join(map(str, detail["takes"])),
            found=detail["found"],
        ),
    ),
    "not_callable": lambda detail: (
        Outcome.WRONG_VALUE,
        say(
            "`{name}` should be a function or a class; found {type}.",
            name=detail["name"],
            type=detail["type"],
        ),
    ),
    "not_module": lambda detail: (
        Outcome.WRONG_VALUE,
        say(
            "`{name}` should be a class derived from nn.Module; calling it gave {type}.",
            name=detail["name"],
            type=detail["type"],
        ),
    ),
    "forbidden": lambda detail: (
        Outcome.FORBIDDEN_CALL,
        say(
            "Your code calls `{operator}`, which this exercise does not allow: see its contract.",
            operator=detail["operators"][0].lstrip("_"),
        ),
    ),
    "shape": lambda detail: (
        Outcome.WRONG_SHAPE,
        say(
            "expected shape {expected}; found {found}",
            expected=detail["expected"],
            found=detail["found"],
        ),
    ),
    "no_tensor": lambda detail: (
        Outcome.WRONG_VALUE,
        say("It returned None. Is a `return` missing?")
        if detail["found"] == "NoneType"
        else say("A tensor should come back; found {found}.", found=detail["found"]),
    ),
    "strange": lambda detail: (
        Outcome.WRONG_VALUE,
        say("What came back cannot be judged: {text}", text=detail["text"]),
    ),
    "too_large": lambda detail: (
        Outcome.OUT_OF_MEMORY,
        say("What came back is too large to be judged: {text}", text=detail["text"]),
    ),
    "hung": lambda detail: (
        Outcome.TIMEOUT,
        endings.import_ran_on(detail["unit"]),
    ),
    "shared": lambda detail: (
        Outcome.RAISED,
        say(
            "Importing {unit}.py changes `{name}`, which everyone uses, the checks too. Take that"
            " out.",
            unit=detail["unit"],
            name=detail["name"],
        )
        if detail["unit"]
        else say(
            "Your code changes `{name}`, which everyone uses, the checks too. Take that out.",
            name=detail["name"],
        ),
    ),
    "device": lambda detail: (
        Outcome.WRONG_DEVICE,
        say("On an accelerator this fails: {text}", text=detail["text"]),
        say(
            "A tensor made in your code stays on the CPU unless you say `device=x.device`;"
            " one kept in a module moves with it only if it is a buffer or a parameter."
        ),
    ),
    "device_result": lambda detail: (
        Outcome.WRONG_DEVICE,
        say(
            "The inputs were on the accelerator, and what came back is on {device}.",
            device=detail["device"],
        ),
    ),
}
