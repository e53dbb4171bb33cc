"""What a check sees of the student's code: ``subject.attention.stable_softmax(scores)``.

The proxy knows the course's table, so it enforces the declared return before a test sees it, and
turns the host's faults into verdicts. It does not know where the host is.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from grader.course import Course, Exercise
from grader.model import Outcome, Submission, say
from grader.subject import verdicts, written
from grader.subject.faults import Failure, Fault, Ref
from grader.subject.shapes import ANY, Sizes, bind, fits, resolve

Perform = Callable[..., Any]  # Host.perform, or a wire to one


@dataclass(frozen=True)
class Call:
    """A call that can be made, differentiated, tried on another device, or put to the reference."""

    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        return self.function._call(self)

    def __getitem__(self, name: str) -> Any:
        """An argument, by its name in the contract."""
        return self.function._bound(self)[name]

    def but(self, **changes: Any) -> Call:
        """The same call with other values for the arguments that are named."""
        bound = self.function._bound(self) | changes
        return Call(self.function, tuple(bound.values()), {})


@dataclass
class Raised:
    """An exception of the student's code, once it has been raised."""

    text: str = ""


class Subject:
    """The student's units, as attributes.

    Args:
        course: what each exercise takes and returns.
        perform: does one operation of the host.
        submission: whose code it is; without one, no text is looked at.

    Attributes:
        changed: the names of the arguments that the last call has changed.
    """

    def __init__(self, course: Course, perform: Perform, submission: Submission | None = None):
        self._course = course
        self._perform = perform
        self._submission = submission
        self.changed: list[str] = []
        self._made = 0
        self._verdict: Failure | None = None  # of a function that was lent

    def __getattr__(self, unit: str) -> _Unit:
        return _Unit(self, unit)

    def begin(self, seed: int) -> None:
        """A check begins."""
        self._made = 0
        self._verdict = None
        self.perform("begin", seed=seed)

    def next_number(self) -> int:
        """A number for an instance that is to be made: below 0, where the host counts from 0 up."""
        self._made += 1
        return -self._made

    def settle(self) -> None:
        """Let everything that was asked for have happened: what fails, fails now."""
        self.perform("settle")

    def perform(self, operation: str, **arguments: Any) -> Any:
        """Do one operation of the host; a fault becomes the verdict.

        Args:
            operation: see `Host.perform`.
            arguments: the operation's.
        """
        if "args" in arguments:
            arguments["args"] = tuple(map(self._given, arguments["args"]))
            named = arguments["kwargs"].items()
            arguments["kwargs"] = {name: self._given(value) for name, value in named}
        try:
            return self._perform(operation, **arguments)
        except Fault as fault:
            raise verdicts.of(fault) from fault
        finally:
            if self._verdict is not None:
                raise self._verdict

    def _given(self, value: Any) -> Any:
        """An argument as it goes to the host: an instance of the student's own goes by its number,
        and a function of the check's own runs here when the student's code calls it.

        A verdict in it is the check's, whatever that code makes of the exception that it meets.
        """
        if isinstance(value, Module):
            # Without its sign: a handle below 0 does not cross, since no host gives such a one.
            return Ref(-value.number, value.exercise.name, value.exercise.kind == "module")
        if not callable(value):
            return value

        def lent(*args: Any, **kwargs: Any) -> Any:
            try:
                return value(*args, **kwargs)
            except Failure as failure:
                self._verdict = self._verdict or failure
                raise

        return lent

    @contextlib.contextmanager
    def raises(self, *names: str) -> Iterator[Raised]:
        """Expect the calls within to raise one of these exceptions, by class name.

        What it said is known when the block is over.
        """
        self.settle()
        expected = " or ".join(names)
        raised = Raised()
        try:
            yield raised
            self.settle()
        except Failure as failure:
            if not failure.types or failure.standin:
                raise
            if not set(names) & set(failure.types):
                raise Failure(
                    Outcome.RAISED,
                    say("expected {expected} to be raised", expected=expected),
                    *failure.message,
                    frames=failure.frames,
                ) from None
            raised.text = failure.text
        else:
            raise Failure(
                Outcome.WRONG_VALUE,
                say("expected {expected} to be raised; nothing was", expected=expected),
            )

    def vjp(
        self, call: Call, cotangent: Tensor | Sequence[Tensor | None], wrt: Sequence[str]
    ) -> dict[str, Tensor]:
        """The gradients of a call, weighted by a cotangent for each part that it returns.

        Args:
            call: made by ``.on(...)``.
            cotangent: one tensor of the output's shape, or one (or None) for each part.
            wrt: names of arguments, or of parameters of the module.

        Returns:
            Name -> gradient.

        Raises:
            Failure: something in ``wrt`` receives no gradient.
        """
        request = vjp_request(call, cotangent, wrt)
        names, module = call.function._argument_names(), call.function.module
        gradients = dict(zip(sorted_wrt(call, wrt), self.perform("vjp", takes=names, **request)))
        shapes = self._course.state_shapes(module.exercise.id, module.sizes) if module else {}
        for name, gradient in gradients.items():
            if module and gradient is not None and name in shapes:  # else it is a forgery
                expect_shape(gradient, resolve(shapes[name], module.sizes))
            if gradient is None:
                raise Failure(
                    Outcome.WRONG_VALUE,
                    say(
                        "No gradient reaches `{name}`. Look for what cuts it off: `.detach()`,"
                        " `.data`, `.item()`, `torch.no_grad()`, or a result that isn't used.",
                        name=name,
                    ),
                )
        return {name: gradients[name] for name in wrt}

    def written_out(self, call: Call) -> Any:
        """Make a call in which what the exercise forbids is the verdict: an operator that runs, or
        a function that the source names.

        Elsewhere they are not looked for: using one costs the clause that forbids it, and no other.
        """
        value = call.function._call(call, forbidding=True)
        found = self._submission and forbidden_in(self._submission, call.function.exercise)
        if found:
            words = say(
                "Line {line} of your code names `{function}`, which this exercise does not allow:"
                " see its contract.",
                line=found.line,
                function=found.name,
            )
            raise Failure(Outcome.FORBIDDEN_CALL, words)
        return value

    def on_accelerator(self, call: Call) -> bool:
        """Make a call on the simulated accelerator; a fault of device is the verdict.

        Returns:
            False where the call was followed only until it needed data, or fetched some.
        """
        target, names = call.function.target, call.function._argument_names()
        return bool(
            self.perform(
                "accelerator", takes=names, target=target, args=call.args, kwargs=call.kwargs
            )
        )


def expect_shape(found: Tensor, expected: tuple[int, ...]) -> None:
    """Raise the verdict on another shape."""
    if tuple(found.shape) != expected:
        raise Failure(
            Outcome.WRONG_SHAPE,
            say(
                "expected shape {expected}; found {found}",
                expected=list(expected),
                found=list(found.shape),
            ),
        )


def forbidden_in(submission: Submission, exercise: Exercise) -> written.Named | None:
    """What an exercise forbids and its code names."""
    module = submission.modules.get(exercise.unit)
    if module is None or not exercise.forbidden:
        return None
    return written.find(module.text, exercise.name, exercise.forbidden)


def sorted_wrt(call: Call, wrt: Sequence[str]) -> list[str]:
    """Arguments first, then parameters: the order in which the host gives gradients."""
    takes = call.function.exercise.takes
    return [n for n in wrt if n in takes] + [n for n in wrt if n not in takes]


def vjp_request(
    call: Call, cotangent: Tensor | Sequence[Tensor | None], wrt: Sequence[str]
) -> dict[str, Any]:
    """The arguments of the host's operation ``vjp``."""
    names = list(call.function.exercise.takes)
    return {
        "target": call.function.target,
        "args": call.args,
        "kwargs": call.kwargs,
        "cotangent": [cotangent] if isinstance(cotangent, Tensor) else list(cotangent),
        "inputs": [names.index(name) for name in wrt if name in names],
        "parameters": [name for name in wrt if name not in names],
    }


@dataclass(frozen=True)
class _Unit:
    subject: Subject
    name: str

    def __getattr__(self, name: str) -> Function:
        exercise = self.subject._course.exercises.get(f"{self.name}.{name}")
        if exercise is None:
            raise AttributeError(f"course.toml has no exercise {self.name}.{name}")
        return Function(self.subject, exercise, [self.name, name])


@dataclass(frozen=True)
class Function:
    """A function, a class or a bound method of the student's."""

    subject: Subject
    exercise: Exercise
    target: list[Any]
    module: Module | None = None

    def on(self, *args: Any, **kwargs: Any) -> Call:
        """The call, not yet made."""
        return Call(self, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.on(*args, **kwargs)()

    def _call(self, call: Call, forbidding: bool = False) -> Any:
        names = self._argument_names()
        if self.module is None and self.exercise.is_class:
            return self._make(call)
        value, changed = self.subject.perform(
            "call",
            takes=names,
            target=self.target,
            args=call.args,
            kwargs=call.kwargs,
            forbidden=self.exercise.forbidden if forbidding else (),
        )
        self.subject.changed = [names[position] for position in changed]
        dtype = self._dtype(call)
        value = enforce(self.exercise, self._sizes(call), value, dtype)
        if dtype is None:
            for part in value if isinstance(value, tuple) else (value,):
                _hold_precision(part, self._bound(call).values())
        return value

    def _argument_names(self) -> Sequence[str]:
        makes = self.module is None and self.exercise.is_class
        return (self.exercise.init or ()) if makes else tuple(self.exercise.takes)

    def _bound(self, call: Call) -> dict[str, Any]:
        return dict(zip(self._argument_names(), call.args)) | call.kwargs

    def _sizes(self, call: Call) -> Sizes:
        sizes: Sizes = dict(self.module.sizes) if self.module else {}
        bound = self._bound(call)
        for name, value in bound.items():
            if isinstance(value, int):
                sizes[name] = value
            elif isinstance(value, Tensor) and self.exercise.takes.get(name):
                bind(self.exercise.takes[name], tuple(value.shape), sizes)
        return sizes

    def _dtype(self, call: Call) -> torch.dtype | None:
        rule = self.exercise.dtype
        if rule == "weights":
            return self.module.dtype if self.module else None
        bound = self._bound(call)
        if rule in bound:
            return bound[rule].dtype  # type: ignore[no-any-return]
        return getattr(torch, rule) if rule else None

    def _make(self, call: Call) -> Module:
        number = self.subject.next_number()
        self.subject.perform(
            "make",
            takes=self._argument_names(),
            target=self.target,
            args=call.args,
            kwargs=call.kwargs,
            ref=number,
            module=self.exercise.kind == "module",
        )
        return Module(self.subject, self.exercise, number, call, self._sizes(call))


@dataclass
class Module:
    """An instance of a student's class, which stays where the student's code is.

    Attributes:
        sizes: what the constructor's letters stand for.
        history: what has been done to it since; the reference's twin has the same done to it.
    """

    subject: Subject
    exercise: Exercise
    number: int
    made_by: Call
    sizes: Sizes
    dtype: torch.dtype = torch.float32
    history: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def _do(self, operation: str, **arguments: Any) -> Module:
        self.subject.perform(operation, ref=self.number, **arguments)
        self.history.append((operation, arguments))
        return self

    def load(self, state: dict[str, Tensor]) -> Module:
        """Give it these parameters and buffers, by their declared names, and their dtype."""
        self.dtype = next(v.dtype for v in state.values() if v.is_floating_point())
        return self._do("load", state=state)

    def train(self) -> Module:
        return self._do("mode", training=True)

    def eval(self) -> Module:
        return self._do("mode", training=False)

    def to(self, dtype: torch.dtype) -> Module:
        self.dtype = dtype
        return self._do("convert", dtype=dtype)

    def set(self, name: str, value: Any) -> Module:
        """Set a plain attribute, such as ``norm1.eps``."""
        return self._do("set", name=name, value=value)

    def get(self, name: str) -> Any:
        """An attribute: data or a tensor; what is neither comes as a `Ref`."""
        value = self.subject.perform("get", ref=self.number, name=name)
        if isinstance(value, Tensor) and value.is_complex():
            raise Failure(
                Outcome.WRONG_DTYPE,
                say(
                    "`{name}` should hold real numbers; it holds {found}",
                    name=name,
                    found=verdicts.short(value.dtype),
                ),
            )
        return value

    def describe(self) -> dict[str, Any]:
        """Parameters, buffers (name -> shape), trained (names), modules (name -> class name)."""
        return self.subject.perform("describe", ref=self.number)  # type: ignore[no-any-return]

    def method(self, name: str) -> Function:
        """A method; ``forward`` is the exercise's own where the table has none of that name."""
        exercises = self.subject._course.exercises
        exercise = exercises.get(f"{self.exercise.id}.{name}")
        if exercise is None:
            if name != "forward":
                raise AttributeError(f"course.toml has no exercise {self.exercise.id}.{name}")
            exercise = self.exercise
        return Function(self.subject, exercise, [self.number, name], self)

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.method(name)

    def on(self, *args: Any, **kwargs: Any) -> Call:
        return self.method("forward").on(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.on(*args, **kwargs)()


_PLAIN = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "str": str,
    "list": list,
    "dict": dict,
    "tuple or None": (tuple, type(None)),
    "list or tuple": (list, tuple),
}


def enforce(exercise: Exercise, sizes: Sizes, value: Any, dtype: torch.dtype | None) -> Any:
    """Hold what came back against what the table declares.

    Raises:
        Failure: wrong_value, wrong_shape, wrong_dtype or wrong_device, with what was expected.
    """
    if not exercise.returns:  # it is called for what it does
        return None
    if value is None and exercise.returns != ("tuple or None",):
        raise Failure(
            Outcome.WRONG_VALUE,
            say("`{name}` returned None. Is a `return` missing?", name=exercise.name),
        )
    count = len(exercise.returns)
    if count == 1:
        return _part(exercise, exercise.returns[0], sizes, value, dtype)
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise Failure(
            Outcome.WRONG_SHAPE,
            say(
                "`{name}` should return {count} parts, {shapes}; it returned {found}.",
                name=exercise.name,
                count=count,
                shapes=", ".join(f"[{shape}]" for shape in exercise.returns),
                found=verdicts.describe(value),
            ),
            found=value if isinstance(value, Tensor) else None,
        )
    if _exchanged(exercise.returns, sizes, value):
        first, *others = (f"[{spec}]" for spec in exercise.returns)
        raise Failure(
            Outcome.WRONG_SHAPE,
            say(
                "The results look exchanged: first comes {first}, then {others}.",
                first=first,
                others=", ".join(others),
            ),
            found=next(p for s, p in zip(exercise.returns, value) if not _fits(s, sizes, p)),
        )
    parts = zip(exercise.returns, value)
    return tuple(_part(exercise, spec, sizes, part, dtype) for spec, part in parts)


def _hold_precision(found: Any, given: Iterable[Any]) -> None:
    """Raise the verdict on a tensor coarser than float32 where nothing that was given is as coarse:
    a dtype has its tolerance, and would so let through what is wrong.
    """
    if not isinstance(found, Tensor) or not found.is_floating_point():
        return
    dtypes = [value.dtype for value in given if isinstance(value, Tensor)]
    floating = [torch.float32, *(dtype for dtype in dtypes if dtype.is_floating_point)]
    coarsest = max(floating, key=lambda dtype: torch.finfo(dtype).eps)
    if torch.finfo(found.dtype).eps > torch.finfo(coarsest).eps:
        raise Failure(
            Outcome.WRONG_DTYPE,
            say(
                "expected dtype {expected}; found {found}",
                expected=verdicts.short(floating[-1]),
                found=verdicts.short(found.dtype),
            ),
            found=found,
        )


def _exchanged(specs: Sequence[str], sizes: Sizes, parts: Sequence[Any]) -> bool:
    """Whether the parts have the expected shapes, and in another order only."""

    def fit(order: Sequence[Any]) -> bool:
        return all(_fits(spec, sizes, part) for spec, part in zip(specs, order))

    tensors = all(isinstance(part, Tensor) for part in parts) and not _PLAIN.keys() & set(specs)
    return tensors and not fit(parts) and any(map(fit, itertools.permutations(parts)))


def _fits(spec: str, sizes: Sizes, part: Tensor) -> bool:
    return fits(tuple(part.shape), resolve(spec, sizes))


def _part(
    exercise: Exercise, spec: str, sizes: Sizes, value: Any, dtype: torch.dtype | None
) -> Any:
    if spec in _PLAIN:
        if not isinstance(value, _PLAIN[spec]):  # type: ignore[arg-type]
            raise Failure(
                Outcome.WRONG_VALUE,
                say(
                    "expected {expected}; found {found}",
                    expected=spec,
                    found=verdicts.describe(value),
                ),
            )
        return value
    if not isinstance(value, Tensor):
        raise Failure(
            Outcome.WRONG_VALUE,
            say(
                "`{name}` should return a tensor [{shape}]; it returned {found}.",
                name=exercise.name,
                shape=spec,
                found=verdicts.describe(value),
            ),
        )
    expected = resolve(spec, sizes)
    if not fits(tuple(value.shape), expected):
        raise Failure(
            Outcome.WRONG_SHAPE,
            say(
                "expected shape [{letters}] = {expected}; found {found}",
                letters=spec,
                expected=str(list(expected)).replace(str(ANY), "?"),
                found=list(value.shape),
            ),
            found=value,
        )
    if value.device.type != "cpu":
        raise Failure(
            Outcome.WRONG_DEVICE,
            say(
                "expected a tensor on {expected}; found it on {found}",
                expected="cpu",
                found=str(value.device),
            ),
        )
    if dtype is not None and value.dtype != dtype:
        raise Failure(
            Outcome.WRONG_DTYPE,
            say(
                "expected dtype {expected}; found {found}",
                expected=verdicts.short(dtype),
                found=verdicts.short(value.dtype),
            ),
            found=value,
        )
    return value
