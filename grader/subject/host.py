"""The host stands beside the student's code and does what it is asked, one operation at a time.

It is the same object in `grader check` (called directly) and in a sandboxed worker (called through
a wire), so both bindings behave alike. It knows neither tests nor answers. What is not data stays
here and goes out as a `Ref`.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import linecache
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from grader.model import Submission, place
from grader.subject.across import Lent
from grader.subject.faults import Fault, Ref
from grader.subject.modules import Around, Finish, Namespace

Target = Sequence[Any]  # [unit, name] or [ref number, method]
Data = Any  # None, bool, int, float, str, dtype, tensor, Ref, and lists, tuples, dicts of them

_MAX_TEXT = 500
_MIXED = re.compile(r"on the (same|current) device")  # what torch says of tensors that are not
_REDUCTIONS = {"sum", "mean", "max", "amax"}


class Host:
    """Performs operations on one submission.

    Args:
        submission: the student's modules.
        units: the names of the course's units.
        on_import: told the name of a unit just before it is imported, and "" when that is over,
            for who watches for hangs.
        finish: see `Namespace`.
        around: see `Namespace`.
        device: where the student's code finds its arguments and modules.
    """

    def __init__(
        self,
        submission: Submission,
        units: Iterable[str],
        on_import: Callable[[str], None] = lambda unit: None,
        finish: Mapping[str, Finish] | None = None,
        device: str = "cpu",
        around: Around = contextlib.nullcontext,
    ):
        self._device = torch.device(device)
        self._submission = submission
        self._known = {*submission.modules, *(finish or ())}
        self._space = Namespace(submission, list(units), finish, around)
        self._paths = {module.path for module in submission.modules.values()}
        self._on_import = on_import
        self._units: dict[str, Any] = {}
        self._objects: dict[int, Any] = {}
        self._takes: list[str] = []
        self._held: dict[int, Any] = {}  # functions that take their arguments in order
        self._dtypes: dict[int, torch.dtype] = {}  # what a module's weights were loaded in
        # Where no Ctrl-C arrives, a KeyboardInterrupt is the student's own.
        self._undisturbed = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def perform(self, operation: str, takes: Sequence[str] = (), **arguments: Any) -> Data:
        """Do one operation; each is a method ``do_<operation>``.

        Args:
            operation: its name.
            takes: the names of a call's arguments in its contract, for the message.
            arguments: the operation's.

        Raises:
            Fault: the student's code is at fault; says how.
        """
        self._takes = list(takes)
        if "args" in arguments:
            arguments["args"] = [self._given(arg) for arg in arguments["args"]]
            named = arguments["kwargs"].items()
            arguments["kwargs"] = {name: self._given(arg) for name, arg in named}
        try:
            return getattr(self, f"do_{operation}")(**arguments)
        except BaseException as error:
            # Reading an attribute can run a property of theirs, and moving a module its `to`.
            if isinstance(error, Fault) or self._is_ctrl_c(error) or not self._frames(error):
                raise
            raise self._fault(error, getattr) from error

    # Operations.

    def do_begin(self, seed: int) -> None:
        """A check begins: nothing that is left from the one before it may matter."""
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed asks every kind of device
        if self._device.type == "cuda":
            torch.cuda.manual_seed(seed)
        self._objects.clear()
        self._dtypes.clear()

    def do_settle(self) -> None:
        """Nothing is left to do here; a wire has carried what was waiting."""

    def do_call(
        self,
        target: Target,
        args: Sequence[Data],
        kwargs: dict[str, Data],
        forbidden: Sequence[str],
    ) -> tuple[Data, list[int]]:
        """Call; give back the value and which arguments the call has changed."""
        theirs, named = _copies(args, kwargs, self._device)
        watch = Watch() if forbidden else contextlib.nullcontext()
        function = self._function(target)
        self._hold_order(function)
        with watch:
            value = self._guard(function, *theirs, **named)
        if isinstance(watch, Watch) and watch.seen & set(forbidden):
            raise Fault("forbidden", {"operators": sorted(watch.seen & set(forbidden))})
        changed = [
            position
            for position, (before, after) in enumerate(zip(args, theirs))
            if isinstance(before, Tensor) and not _same(before, after.cpu())
        ]
        return self._plain(value), changed

    def do_make(
        self,
        target: Target,
        args: Sequence[Data],
        kwargs: dict[str, Data],
        ref: int,
        module: bool = True,
    ) -> None:
        """Make an instance of a class, to be known by a number that the judge chooses: below 0.

        It must be a module where ``module`` says so.
        """
        function = self._function(target)
        self._hold_order(function)
        made = self._guard(function, *args, **kwargs)
        if module and not isinstance(made, nn.Module):
            raise Fault("not_module", {"name": target[1], "type": type(made).__name__})
        self._objects[ref] = made
        if self._device.type != "cpu" and isinstance(made, nn.Module):
            self._guard(made.to, self._device)

    def do_vjp(
        self,
        target: Target,
        args: Sequence[Data],
        kwargs: dict[str, Data],
        cotangent: Sequence[Tensor | None],
        inputs: Sequence[int],
        parameters: Sequence[str],
    ) -> list[Tensor | None]:
        """The product of a cotangent with the Jacobian: one gradient for each input and parameter.

        Inputs arrive as non-leaf aliases, so that ``x += ...`` behaves as it does in a model.
        """
        function = self._function(target)
        home = self._device
        leaves = {i: args[i].detach().to(home, copy=True).requires_grad_() for i in inputs}
        theirs, kwargs = _copies(args, kwargs, home)
        aliases = [leaves[i].clone() if i in leaves else arg for i, arg in enumerate(theirs)]
        module = self._objects[target[0]] if isinstance(target[0], int) else None
        wanted = [leaves[i] for i in inputs] + [_tensor_of(module, name, "") for name in parameters]

        def run() -> list[Tensor | None]:
            value = function(*aliases, **kwargs)
            parts = list(value) if isinstance(value, (tuple, list)) else [value]
            if not any(isinstance(part, Tensor) for part in parts):
                raise Fault("no_tensor", {"found": type(value).__name__})
            total = torch.zeros(())
            for part, weight in zip(parts, cotangent):
                if weight is None or not isinstance(part, Tensor):
                    continue
                if part.shape != weight.shape:
                    sizes = {"found": list(part.shape), "expected": list(weight.shape)}
                    raise Fault("shape", sizes)
                # Not by grad_outputs, for which torch imports sympy: half a second.
                total = total + (part * weight.to(part.device)).sum()
            trained = [tensor for tensor in wanted if tensor.requires_grad]  # none that is frozen
            if not (total.requires_grad and trained):
                return [None] * len(wanted)
            gradients = iter(torch.autograd.grad(total, trained, allow_unused=True))
            return [next(gradients) if tensor.requires_grad else None for tensor in wanted]

        with torch.enable_grad():
            gradients = self._guard(run, called=function)
        return [None if gradient is None else _dense(gradient) for gradient in gradients]

    def do_load(self, ref: int, state: dict[str, Tensor]) -> None:
        """Give a module the parameters and buffers that are named, and their dtype."""
        module = self._objects[ref]
        dtype = next(value.dtype for value in state.values() if value.is_floating_point())
        if self._dtypes.get(ref) != dtype:  # it goes through the whole module each time
            module.to(dtype)
            self._dtypes[ref] = dtype
        owners: dict[str, Any] = {}
        for name, value in state.items():
            owner_name, _, leaf = name.rpartition(".")
            if owner_name not in owners:
                owners[owner_name] = _walk(module, owner_name)
            owner = owners[owner_name]
            tensor = _tensor_of(owner, leaf, owner_name)
            if tensor.shape != value.shape:
                found, expected = list(tensor.shape), list(value.shape)
                raise Fault("state_shape", {"name": name, "found": found, "expected": expected})
            if tensor.dtype == dtype:
                tensor.data.copy_(value)
            elif isinstance(tensor, nn.Parameter):  # of a module in a plain list
                tensor.data = value.to(tensor.device, copy=True)
            else:  # a plain attribute; module.to() passes both by
                setattr(owner, leaf, value.to(tensor.device, copy=True))

    def do_mode(self, ref: int, training: bool) -> None:
        self._guard(self._objects[ref].train, training)

    def do_convert(self, ref: int, dtype: torch.dtype) -> None:
        self._guard(self._objects[ref].to, dtype)
        self._dtypes[ref] = dtype

    def do_set(self, ref: int, name: str, value: Data) -> None:
        """Set a plain attribute such as ``norm1.eps``."""
        owner_name, _, leaf = name.rpartition(".")
        owner = _walk(self._objects[ref], owner_name)
        if not hasattr(owner, leaf):
            raise _lacking(name, owner_name, owner)
        setattr(owner, leaf, value)

    def do_get(self, ref: int, name: str) -> Data:
        return self._plain(_walk(self._objects[ref], name))

    def do_describe(self, ref: int) -> dict[str, Data]:
        """What a module is made of: names with shapes, and the class of each submodule."""
        module: nn.Module = self._objects[ref]
        return {
            "parameters": {n: list(p.shape) for n, p in module.named_parameters()},
            "trained": [n for n, p in module.named_parameters() if p.requires_grad],
            "buffers": {n: list(b.shape) for n, b in module.named_buffers()},
            "modules": {n: _class_name(m) for n, m in module.named_modules()},
        }

    def do_accelerator(self, target: Target, args: Sequence[Data], kwargs: dict[str, Data]) -> bool:
        """Follow a call on the simulated accelerator; False where it was followed until data was
        needed, or had copied something to the CPU. Where this host has a real device, make the call
        there.

        Raises:
            Fault: "device", where operands on different devices meet.
        """
        if self._device.type != "cpu":
            theirs, named = _copies(args, kwargs, self._device)
            value = self._guard(self._function(target), *theirs, **named)
            self._hold_device(value, self._device)
            return True
        from grader.subject import devices  # its first use costs; most runs of one check need none

        if isinstance(target[0], int):
            module, function = self._objects[target[0]], None
        else:
            module, function = None, self._function(target)

        def run(*moved: Any, **moved_kwargs: Any) -> Any:
            if module is None:
                return function(*moved, **moved_kwargs)  # type: ignore[misc]
            twin, *rest = moved
            call = twin if target[1] == "forward" else getattr(twin, target[1])
            return call(*rest, **moved_kwargs)

        try:
            value, trace = self._guard(
                lambda: devices.on_accelerator(run, tuple(args), kwargs, module),
                called=self._function(target),
            )
        except Fault as fault:
            if "MixedDevices" not in fault.detail.get("types", ()):
                raise
            raise Fault("device", {"text": fault.detail["text"]}, fault.frames) from None
        if trace.completed:
            self._hold_device(value, devices.ACCELERATOR)
        return bool(trace.completed and not trace.fetched)

    # How it does them.

    def _given(self, value: Data) -> Any:
        """What the student's code is given for an argument: of a `Ref`, the object itself; of a
        function of the judge's, one that it finds alike in every process.
        """
        if isinstance(value, Ref):
            return self._objects[-value.number]  # the judge numbers from -1 down, see `do_make`
        return Lent.within(value) if callable(value) and not isinstance(value, Lent) else value

    def _hold_device(self, value: Any, device: torch.device) -> None:
        left = [tensor for tensor in _tensors(value) if tensor.device.type != device.type]
        if left:
            raise Fault("device_result", {"device": str(left[0].device)})

    def _hold_order(self, function: Callable[..., Any]) -> None:
        """A name of the contract stands in its place: elsewhere it would get another's value."""
        written = function.forward if isinstance(function, nn.Module) else function
        written = getattr(written, "__func__", written)
        if id(written) in self._held or not self._takes:
            return
        names = _places(function)
        if any(name in self._takes[:i] + self._takes[i + 1 :] for i, name in enumerate(names)):
            raise Fault("signature", {"found": _signature(function), "takes": self._takes})
        self._held[id(written)] = written

    def _guard(
        self,
        function: Callable[..., Any],
        *args: Any,
        called: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call into the student's code; what it raises becomes a Fault.

        Args:
            function: what is called, with ``args`` and ``kwargs``.
            called: the student's own function, where ``function`` is one of ours that calls it.
        """
        try:
            with self._space.active():
                return function(*args, **kwargs)
        except BaseException as error:
            if isinstance(error, Fault) or self._is_ctrl_c(error):
                raise
            raise self._fault(error, called or function) from error

    def _is_ctrl_c(self, error: BaseException) -> bool:
        return isinstance(error, KeyboardInterrupt) and not self._undisturbed

    def _fault(self, error: BaseException, function: Callable[..., Any]) -> Fault:
        frames = self._frames(error)
        text = error.msg if isinstance(error, SyntaxError) and error.msg else _text(error)
        if isinstance(error, ModuleNotFoundError):
            unit = (error.name or "").rpartition(".")[2]
            if unit in self._space.units and unit not in self._known:
                return self._no_unit(unit)
        wanted = re.match(r"cannot import name '(\w+)' from '(?:exercises\.)?(\w+)'", text)
        if isinstance(error, ImportError) and wanted and wanted[2] in self._known:
            names = re.findall(r"^(?:def|class) (\w+)", self._text_of(wanted[2]), re.M)
            detail = {
                "where": f"{wanted[2]}.py",
                "name": wanted[1],
                "near": _near(wanted[1], names),
            }
            return Fault("missing", detail)
        if isinstance(error, TypeError) and not frames and "argument" in text:
            return Fault("signature", {"found": _signature(function), "takes": self._takes})
        if self._device.type != "cpu" and _MIXED.search(text):
            return Fault("device", {"text": text}, frames)
        types = [base.__name__ for base in type(error).__mro__]
        detail = {"types": types, "text": text, "reduces": self._reduces(error)}
        return Fault("raised", detail, frames)

    def _reduces(self, error: BaseException) -> bool:
        """Whether the student's function that raised takes sums or the like along an axis."""
        stack = traceback.walk_tb(error.__traceback__)
        codes = [f.f_code for f, _ in stack if f.f_code.co_filename in self._paths]
        return bool(codes) and not _REDUCTIONS.isdisjoint(codes[-1].co_names)

    def _frames(self, error: BaseException) -> list[str]:
        if isinstance(error, SyntaxError) and error.filename in self._paths:
            line = (error.text or "").strip()
            return [f"{_place(error.filename, error.lineno or 0)}\n    {line}"]
        stack = traceback.extract_tb(error.__traceback__)
        return frame_texts(frame for frame in stack if frame.filename in self._paths)

    def _unit(self, unit: str) -> Any:
        if unit not in self._known:
            raise self._no_unit(unit)
        if unit not in self._units:
            self._on_import(unit)
            try:
                self._units[unit] = self._guard(self._space.module, unit)
            except Fault as fault:
                fault.detail = {**fault.detail, "importing": unit}
                raise
            finally:
                self._on_import("")
        return self._units[unit]

    def _text_of(self, unit: str) -> str:
        module = self._submission.modules.get(unit)
        return module.text if module else ""

    def _no_unit(self, unit: str) -> Fault:
        near = _near(f"{unit}.py", self._submission.strays)
        return Fault("no_unit", {"unit": unit, "near": near})

    def _function(self, target: Target) -> Callable[..., Any]:
        where, name = target
        if isinstance(where, int):
            owner = self._objects[where]
            if name == "forward":
                return owner  # type: ignore[no-any-return]  # by __call__, as everyone does
            file = type(owner).__name__
        else:
            owner = self._unit(where)
            file = f"{where}.py"
        function = getattr(owner, name, None)
        if function is None:
            names = getattr(owner, "__dict__", {})  # in place of a module may stand anything
            near = _near(name, [n for n in names if not n.startswith("_")] + dir(type(owner)))
            raise Fault("missing", {"where": file, "name": name, "near": near})
        if not callable(function):
            raise Fault("not_callable", {"name": name, "type": type(function).__name__})
        return function  # type: ignore[no-any-return]

    def _plain(self, value: Any, depth: int = 0) -> Data:
        """Data as it is, everything else as a `Ref`."""
        if value is None or isinstance(value, (bool, int, float, str, torch.dtype, Ref)):
            return value
        if isinstance(value, Tensor):
            return _dense(value)
        if isinstance(value, (list, tuple)) and depth < 8:
            items = [self._plain(item, depth + 1) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict) and depth < 8:
            return {str(key): self._plain(item, depth + 1) for key, item in value.items()}
        number = len(self._objects)
        self._objects[number] = value
        return Ref(number, type(value).__name__, isinstance(value, nn.Module))


def frame_texts(frames: Iterable[traceback.FrameSummary]) -> list[str]:
    """The student's lines, outermost first; of an endless recursion, the ends."""
    texts = [frame_text(frame) for frame in frames]
    return texts if len(texts) <= 8 else [*texts[:3], "...", *texts[-3:]]


def frame_text(frame: traceback.FrameSummary) -> str:
    """A line of the student's, as reports show it."""
    name = "" if frame.name == "<module>" else f", in {frame.name}"
    return f"{_place(frame.filename, frame.lineno or 0)}{name}\n    {frame.line}"


def _place(path: str, line: int) -> str:
    """A line of a file, of a notebook with its cell."""
    return f"{PurePath(path).name}, {place(linecache.getlines(path), line)}"


class _Rules:
    # Apart from the mode: a mode's own method is wrapped by torch, and so imports torch.compile.
    seen: set[str]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.seen.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


class Watch(_Rules, TorchDispatchMode):
    """Notes the operators that are called, whatever name they were called by.

    A mode is one thread's, so each thread that Python begins meanwhile gets one of its own.
    """

    def __init__(self, seen: set[str] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = set() if seen is None else seen

    def __enter__(self) -> Watch:
        threading.setprofile(self._begin_thread)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        threading.setprofile(None)

    def _begin_thread(self, *event: object) -> None:
        """Called in a new thread, before it runs anything of the student's."""
        sys.setprofile(None)
        super(Watch, Watch(self.seen)).__enter__()  # type: ignore[no-untyped-call]


def _copies(
    args: Sequence[Data], kwargs: dict[str, Data], device: torch.device
) -> tuple[list[Data], dict[str, Data]]:
    """Arguments for the student's code to spoil: the reference is asked about the same ones next.

    Each keeps its layout in memory, and what was one tensor still is one.
    """
    copies: dict[int, Tensor] = {}

    def own(value: Data) -> Data:
        if type(value) in (list, tuple):
            return type(value)(own(item) for item in value)
        if type(value) is dict:
            return {name: own(item) for name, item in value.items()}
        if not isinstance(value, Tensor):
            return value
        if id(value) not in copies:
            copies[id(value)] = _copy(value, device)
        return copies[id(value)]

    return [own(arg) for arg in args], {name: own(value) for name, value in kwargs.items()}


def _copy(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on a device that has the strides of the original too."""
    if tensor.is_contiguous():
        return tensor.to(device, copy=True)
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    memory = tensor.as_strided((size,), (1,), 0).to(device, copy=True)
    return memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _dense(tensor: Tensor) -> Tensor:
    """A plain tensor of numbers in memory, as it also comes through a wire.

    The gradient of ``nn.Embedding(..., sparse=True)`` is none; the checks can only compare such.

    Raises:
        Fault: it has no numbers, or too many: it is nested, say, or what `torch.func` left behind.
    """
    try:
        plain = tensor.detach()
        if plain.layout != torch.strided:
            plain = plain.to_dense()
        if plain.is_nested:
            raise TypeError("a nested tensor")
        return plain.as_subclass(Tensor).resolve_conj().resolve_neg()
    except Exception as error:
        raise Fault("strange", {"text": _text(error)}) from error


def _same(before: Tensor, after: Tensor) -> bool:
    if torch.equal(before, after):
        return True
    floats = before.shape == after.shape and before.is_floating_point()
    return floats and torch.equal(before.nan_to_num(), after.nan_to_num())  # NaN equals nothing


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _walk(owner: Any, name: str, holder: str = "") -> Any:
    """Follow a dotted name. ``feed_forward[0]`` is the first nn.Linear inside ``feed_forward``.

    Args:
        owner: where it begins.
        name: the way from there.
        holder: the way up to there.
    """
    whole = f"{holder}.{name}".lstrip(".")
    for part in filter(None, name.split(".")):
        try:
            if part.endswith("]"):
                holder, place = part[:-1].split("[")
                inside = getattr(owner, holder).modules()
                owner = [m for m in inside if isinstance(m, nn.Linear)][int(place)]
            elif part.isdigit():
                owner = owner[int(part)]
            else:
                owner = getattr(owner, part)
        except (AttributeError, IndexError, TypeError):
            raise _lacking(whole, holder, owner) from None
        holder = f"{holder}.{part}".lstrip(".")
    return owner


def _lacking(name: str, holder: str, owner: Any) -> Fault:
    return Fault("attribute", {"name": name, "holder": holder, "type": type(owner).__name__})


def _tensor_of(owner: Any, name: str, holder: str) -> Tensor:
    """The tensor to which a dotted name leads; see `_walk`."""
    tensor = _walk(owner, name, holder)
    if not isinstance(tensor, Tensor):
        whole = f"{holder}.{name}".lstrip(".")
        raise _lacking(whole, whole, tensor)
    return tensor


def _near(name: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, sorted(set(names) - {name}), n=2)


def _class_name(module: nn.Module) -> str:
    return type(module).__name__


def _text(error: BaseException) -> str:
    """The exception's text; its ``__str__`` may be the student's own."""
    try:
        return str(error)[:_MAX_TEXT]
    except BaseException:
        return "(its text could not be made)"


def _places(function: Callable[..., Any]) -> list[str]:
    """The names of what it takes by place, in order."""
    try:
        if isinstance(function, nn.Module):
            function = function.forward
        parameters = inspect.signature(function).parameters.values()
    except Exception:  # a signature of their own making
        return []
    by_place = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [parameter.name for parameter in parameters if parameter.kind in by_place]


def _signature(function: Callable[..., Any]) -> str:
    try:
        if isinstance(function, nn.Module):
            function = function.forward
        names = inspect.signature(function).parameters.values()
        plain = [name.replace(annotation=inspect.Parameter.empty) for name in names]
        return str(inspect.Signature(plain))
    except (TypeError, ValueError):
        return "(...)"
