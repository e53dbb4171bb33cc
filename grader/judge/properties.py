"""What right implementations have in common, whatever they compute.

Such properties catch almost every structural mistake, and none of scale: an exercise needs checks
of both kinds. Each function makes the call it is given again, with something changed, and compares
the student's results with one another; so none of them asks the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.draw import Draw
from grader.judge.expect import expect
from grader.judge.explain import number
from grader.model import Outcome, say
from grader.subject.faults import Failure
from grader.subject.proxy import Call, Module, Subject


def alone_as_in_batch(call: Call, *names: str) -> None:
    """A sample alone gives what it gives among others.

    Args:
        call: gives tensors ``[batch, ...]``.
        names: the arguments that have a batch axis, which comes first.
    """
    whole = parts(call())
    for sample in range(call[names[0]].size(0)):
        alone = call.but(**{name: call[name][sample : sample + 1] for name in names})
        for part, everyone in zip(parts(alone()), whole):
            expect(part).equals(everyone[sample : sample + 1])


def permutes_alike(
    call: Call, draw: Draw, axes: dict[str, Sequence[int]], results: Sequence[Any]
) -> None:
    """Tokens in another order give the same results in that order.

    Args:
        call: what is made twice.
        draw: draws the order.
        axes: argument -> the axes on which its tokens stand.
        results: for each part of the result, the axes on which its tokens stand; () where the order
            does not matter.
    """
    name, (axis, *_) = next(iter(axes.items()))
    order = draw.order(call[name].size(axis))
    shuffled = call.but(**{n: _reorder(call[n], along, order) for n, along in axes.items()})
    for part, plain, along in zip(parts(shuffled()), parts(call()), results):
        expect(part).equals(_reorder(plain, along, order))


def unmoved_by(call: Call, draw: Draw, name: str, where: Tensor, unmoved: Sequence[Any]) -> None:
    """Other content at some places of an argument moves nothing of what must not see it.

    Args:
        call: what is made twice.
        draw: draws the other content.
        name: the argument that changes, a floating tensor.
        where: bool, broadcastable to the argument: the places that change.
        unmoved: for each part of the result, bool, broadcastable to it: what must stay; None: all.
    """
    value: Tensor = call[name]
    other = torch.where(where, draw.tensor(*value.shape, dtype=value.dtype, scale=3.0), value)
    for part, plain, still in zip(parts(call.but(**{name: other})()), parts(call()), unmoved):
        expect(part, where=still).equals(plain)


def prefix_stands(
    call: Call, length: int, axes: dict[str, Sequence[int]], results: Sequence[Sequence[int]]
) -> None:
    """What comes later is not looked at: without it, the first positions give what they gave.

    Args:
        call: under a look-ahead mask, or made of positions that do not meet.
        length: how many positions are kept.
        axes: argument -> the axes on which positions stand, those of the mask too.
        results: for each part of the result, the axes on which positions stand.
    """
    short = call.but(**{n: _first(call[n], along, length) for n, along in axes.items()})
    for part, plain, along in zip(parts(short()), parts(call()), results):
        expect(part).equals(_first(plain, along, length))


def same_in_single_precision(call: Call, *names: str) -> None:
    """float32 arguments give float32 results, the same up to rounding.

    Args:
        call: float64, of a function; a module would have its weights converted.
        names: the arguments that have a floating dtype.
    """
    single = call.but(**{name: call[name].float() for name in names})
    for part, plain in zip(parts(single()), parts(call())):
        expect(part).has_dtype(torch.float32)
        expect(part).equals(plain, within=1e-4)


def same_in_training(layer: Module, call: Call) -> None:
    """In training, the result is that of evaluation.

    Args:
        layer: whose call it is; without dropout.
        call: what is made twice.
    """
    layer.eval()
    evaluated = parts(call())
    layer.train()
    for part, plain in zip(parts(call()), evaluated):
        expect(part).equals(plain)


def in_training(layer: Module, call: Call) -> None:
    """Put a layer into training; but where its results are random there, into evaluation.

    So what a check asks of training as well costs nobody who has but another dropout.

    Args:
        layer: whose call it is.
        call: what is made twice.
    """
    layer.train()
    if not all(torch.equal(*twice) for twice in zip(parts(call()), parts(call()))):
        layer.eval()


def layout_does_not_matter(call: Call, *names: str, turned: bool = True) -> None:
    """The same numbers in another memory layout give the same results.

    Args:
        call: what is made again, with gaps between the numbers and with axes in another order.
        names: the arguments whose layout changes.
        turned: False where ``view`` may be used, which bears gaps, but no other order of axes.
    """
    for layout in (_with_gaps, _turned)[: 1 + turned]:
        changed = call.but(**{name: layout(call[name]) for name in names})
        for part, plain in zip(parts(changed()), parts(call())):
            expect(part).equals(plain)


def leaves_inputs_alone(subject: Subject, call: Call) -> None:
    """The call changes none of its arguments."""
    call()
    if subject.changed:
        raise Failure(
            Outcome.WRONG_VALUE,
            say(
                "Your code changes its argument {names}, which the caller may still need."
                " `x += y`, `x[...] = y` and methods whose name ends in `_` write into x;"
                " `x + y` makes a new tensor.",
                names=", ".join(f"`{name}`" for name in subject.changed),
            ),
        )


def is_written_out(subject: Subject, call: Call, expected: Tensor) -> None:
    """The call does without what the exercise forbids, and gives what is expected all the same."""
    found = subject.written_out(call)
    try:
        expect(found).equals(expected)
    except Failure as failure:  # or it would read as if something forbidden had been found
        aside = say("Your code calls nothing that is forbidden; it is the value that is wrong.")
        failure.message = (aside, *failure.message)
        raise


def stays_on_accelerator(subject: Subject, call: Call) -> None:
    """The call works on an accelerator, and takes nothing from there to the CPU."""
    if not subject.on_accelerator(call):
        raise Failure(
            Outcome.WRONG_DEVICE,
            say(
                "On an accelerator, your code fetches numbers to the CPU (`.cpu()`, `.item()`,"
                " `.tolist()`, `if tensor:`), where the rest of the model is not."
            ),
        )


def lowers_the_loss(found: Tensor, start: Tensor, end: Tensor, least: Tensor, left: float) -> None:
    """Training has covered the way from the first loss to the least one, but for a small part.

    Args:
        found: the weights that were learned.
        start: the loss before.
        end: the loss with these weights.
        least: the least loss that there is.
        left: which part of the way may be left.
    """
    if not bool(end - least <= left * (start - least)):  # NaN is no such thing
        words = say(
            "The loss was {start} before and is {end} now; the least is {least}. At most {left} of"
            " the way may be left.",
            start=number(start),
            end=number(end),
            least=number(least),
            left=f"{left:.0%}",
        )
        raise Failure(Outcome.WRONG_VALUE, words, found=found)


def repeats(call: Call) -> None:
    """The same call gives the same bits twice: nothing is random, nothing is kept."""
    for first, second in zip(parts(call()), parts(call())):
        expect(second).equals(first, within=0.0)


def shared_out(weights: Tensor, mask: Tensor) -> Tensor:
    """The same weights where some keys are hidden: what these had, the visible ones share out.

    Args:
        weights: without a mask, ``[..., queries, keys]``.
        mask: bool, True where a key is visible; a row without one is given zeros.
    """
    seen = weights.double() * mask
    whole = seen.sum(-1, keepdim=True)
    return (seen / torch.where(whole == 0, 1, whole)).to(weights.dtype)


def broadcasts(call: Call) -> None:
    """A mask that fits by broadcasting does what the same mask does in the shape of the weights.

    Args:
        call: with a ``mask``; gives an output and weights.
    """
    output, weights = call()
    whole = call["mask"].expand(weights.shape).contiguous()
    for part, expected in zip((output, weights), call.but(mask=whole)()):
        expect(part).equals(expected)


def gradient_fits(
    subject: Subject, call: Call, draw: Draw, *names: str, of: Sequence[int] | None = None
) -> None:
    """The gradients are those of the values: held against a difference.

    Args:
        subject: whose call it is.
        call: float64, smooth at its arguments.
        draw: draws a random cotangent, since that of a sum is blind to a softmax, and a direction.
        names: the arguments to go by.
        of: the parts of the result that are differentiated; all by default.
    """
    cotangents = [draw.tensor(*part.shape) for part in parts(call())]
    if of is not None:
        cotangents = [c * (place in of) for place, c in enumerate(cotangents)]
    gradients = subject.vjp(call, cotangents, wrt=names)
    for name in names:
        direction = draw.tensor(*call[name].shape)

        def value(far: float, name: str = name, direction: Tensor = direction) -> Any:
            moved = call.but(**{name: call[name] + far * direction})()
            return sum((part * c).sum() for part, c in zip(parts(moved), cotangents))

        expect((gradients[name] * direction).sum()).equals(slope(value), within=2e-3)


def slope(value: Callable[[float], Any]) -> Any:
    """The slope at 0 of a smooth function, by five points: a softmax bends too much for three."""
    step = 2.0**-8  # not finer: who computes a softmax in float32 has values that exact, not more
    near, far = value(step) - value(-step), value(2 * step) - value(-2 * step)
    return (8 * near - far) / (12 * step)


def parts(value: Any) -> tuple[Any, ...]:
    """The parts of a result, also where it is one tensor."""
    return value if isinstance(value, tuple) else (value,)


def _reorder(tensor: Tensor, axes: Sequence[int], order: Tensor) -> Tensor:
    for axis in axes:
        tensor = tensor.index_select(axis, order)
    return tensor


def _first(tensor: Tensor, axes: Sequence[int], length: int) -> Tensor:
    for axis in axes:
        tensor = tensor.narrow(axis, 0, length)
    return tensor


def _with_gaps(tensor: Tensor) -> Tensor:
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def _turned(tensor: Tensor) -> Tensor:
    """As heads come out of a transpose: the first axis lies innermost."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)
