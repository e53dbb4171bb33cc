"""The limits: what can a network not do in one step?

Two ways of reading a sequence are older than attention. A recurrent network goes through it word by
word, and keeps all that it knows in one state: it must wait for every word before it has the next.
A convolution reads all places at once, but only a few neighbours each: what is far apart meets many
layers later, or never. Here you count what they cannot do, and then look at it: which input moves
which output?

Notation: ``seq_len`` positions. ``kind`` is "rnn" (one recurrent layer), "cnn" (a stack of causal
convolutions: from one layer to the next, a position sees itself and the kernel_size - 1 before it)
or "attention" (one layer, no mask).

When ``influence`` works, see the three for yourself: ``python -m exercises.limits``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def receptive_field(kernel_size: int, num_layers: int) -> int:
    """Count the inputs that the last output of a stack of causal convolutions sees.

    Draw it: three layers, kernels of 3, and the lines from the last output down to the inputs.

    Args:
        kernel_size: how many neighbours each layer sees, itself counted; at least 1.
        num_layers: how many layers are stacked, at least 0; stride 1, no dilation.

    Returns:
        How many inputs, an int, where the sequence is long enough.

    Contract:
        1. One layer sees kernel_size inputs.
        2. Of the layer below, every further layer sees kernel_size neighbours, and so all that they
           saw. An input that is seen on several ways counts once.
        3. Where nobody looks aside, an output sees one input, its own: so it is without any layer,
           and with kernels of 1.

    Elsewhere:
        Some formulas count strides and dilation, too. With a dilation that doubles from layer to
        layer, as in WaveNet, the field doubles as well. Here there is neither.

    Source: Goodfellow, Bengio and Courville 2016, "Deep Learning", section 9.2.
    """
    ### BEGIN SOLUTION
    # The oldest input that a layer sees has, one layer below, kernel_size - 1 older neighbours.
    return 1 + num_layers * (kernel_size - 1)
    ### END SOLUTION


def path_length(kind: str, seq_len: int, kernel_size: int | None = None) -> int:
    """Count the steps by which the first position's knowledge comes to the last.

    On every step something is lost, on the way there and for the gradient on its way back. The
    shorter the path, the easier it is to learn what belongs together.

    Args:
        kind: "rnn", "cnn" or "attention".
        seq_len: the number of positions, at least 2.
        kernel_size: for "cnn" alone; whatever it is, the others pay no heed to it.

    Returns:
        How many steps, an int.

    Contract:
        1. "rnn": one step from each state to the next. Reading a word into the state of its own
           position is none.
        2. "cnn": the smallest number of layers with which the last output sees the first input.
        3. "attention": 1, however long the sequence.
        4. ValueError is raised for any other kind, and for "cnn" without a kernel_size or with one
           below 2, which never gets anywhere.

    Elsewhere:
        Some also count the step in which a word is read. Between two positions it makes no
        difference which one reads, so here it does not count.
        For convolutions, tables say n / k, or log n where kernels are stretched (dilated). Here the
        exact number is asked for, of a plain stack.

    Source: Vaswani et al. 2017, section 4 and table 1, "maximum path length", there as an order of
    growth.
    """
    ### BEGIN SOLUTION
    distance = seq_len - 1
    if kind == "rnn":
        return distance
    if kind == "attention":
        return 1
    if kind != "cnn" or kernel_size is None or kernel_size < 2:
        raise ValueError(f"no path: kind {kind!r}, kernel_size {kernel_size}")
    reach = receptive_field(kernel_size, 1) - 1  # how much further back one layer looks
    return math.ceil(distance / reach)
    ### END SOLUTION


def sequential_steps(kind: str, seq_len: int) -> int:
    """Count the steps of one layer that must wait for one another.

    A machine with a thousand cores helps only where a thousand things can be done at once. What can
    start right away, and what needs a result that is not there yet?

    Args:
        kind: "rnn", "cnn" or "attention".
        seq_len: the number of positions, at least 1.

    Returns:
        How many steps, an int, on a machine that has a core for everything that can be done at
        once. Computing one layer's output for one position is one step.

    Contract:
        1. "rnn": each state is made of an input and the state before it.
        2. "cnn": each output is made of inputs alone, which are all there from the start.
        3. "attention": each output is made of inputs alone, too, if of all of them.
        4. ValueError is raised for any other kind.

    Elsewhere:
        Some say that a sum of n numbers takes log n steps, since its parts can be summed at once.
        Here computing one output is one step, whatever goes into it: so the table of the paper has
        it.

    Source: Vaswani et al. 2017, section 4 and table 1, "sequential operations".
    """
    ### BEGIN SOLUTION
    steps = {"rnn": seq_len, "cnn": 1, "attention": 1}
    if kind not in steps:
        raise ValueError(f"kind is one of {', '.join(steps)}; got {kind!r}")
    return steps[kind]
    ### END SOLUTION


def influence(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Find out which inputs of a sequence move which outputs, by asking the gradients.

    A derivative that is not 0 is a path along which knowledge flows forward and learning flows
    back. This tells what a layer can see without reading its code, and finds leaks: in a model that
    guesses the next word, nothing may stand right of the diagonal.

    Args:
        fn: a function from ``[seq_in, d_in]`` to ``[seq_out, d_out]``, built of differentiable
            steps. There is no batch axis.
        x: the input at which to look, ``[seq_in, d_in]``, float32 or float64.

    Returns:
        bool ``[seq_out, seq_in]``: one row per output position, one column per input position.

    Contract:
        1. Entry [i, j] is True where, at x, the derivative of some feature of output i by some
           feature of input j is not 0; else it is False.
        2. One feature is enough. Features that cancel in a sum hide nothing: neither those of an
           output (as those of a softmax, which always sum to 1) nor those of an input.
        3. However small, and of either sign, a derivative counts: only exactly 0 is none.
        4. seq_out may differ from seq_in, and d_out from d_in. An output that no input moves has a
           row of False.
        5. x is left as it was.

    Elsewhere:
        Some sum the features and ask for one gradient: that is fast, and blind where they cancel.
        Some push an input and look what moves: that is blind to what is weak, and sees through
        gates that are shut at x.
        A module that wants a batch axis gets one: influence(lambda x: layer(x[None])[0], x).

    Source: Luo et al. 2016, "Understanding the Effective Receptive Field in Deep Convolutional
    Neural Networks", section 2, which looks at the size of these gradients.
    """
    ### BEGIN SOLUTION
    # Each feature by itself: were they summed, those of opposite sign would take each other away.
    slopes = torch.autograd.functional.jacobian(fn, x)  # [seq_out, d_out, seq_in, d_in]
    moves: Tensor = slopes != 0
    return moves.any(dim=3).any(dim=1)
    ### END SOLUTION


def main(seq_len: int = 8, d_model: int = 4) -> None:
    """Show what three real layers see: one row per output, one column per input."""
    rnn = nn.RNN(d_model, d_model)
    convolution = nn.Conv1d(d_model, d_model, kernel_size=3)
    attention = nn.MultiheadAttention(d_model, num_heads=2)

    def causal(x: Tensor) -> Tensor:
        padded = nn.functional.pad(x.T, (2, 0))  # before the first position, nothing
        return convolution(padded).T  # type: ignore[no-any-return]

    layers: dict[str, Callable[[Tensor], Tensor]] = {
        "nn.RNN": lambda x: rnn(x)[0],
        "nn.Conv1d": causal,
        "nn.Conv1d, nn.Conv1d": lambda x: causal(causal(x)),
        "nn.MultiheadAttention": lambda x: attention(x, x, x)[0],
    }
    for name, layer in layers.items():
        print(f"\n{name}")
        for row in influence(layer, torch.randn(seq_len, d_model)).tolist():
            print("  " + " ".join("#" if moves else "." for moves in row))


if __name__ == "__main__":
    main()
