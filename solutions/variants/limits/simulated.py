"""Nothing is derived: real layers are built, and asked."""

import torch
from torch import nn


def receptive_field(kernel_size, num_layers):
    length = kernel_size * num_layers + 1
    x = torch.zeros(1, 1, length, requires_grad=True)
    out = x
    for _ in range(num_layers):
        out = nn.functional.conv1d(
            nn.functional.pad(out, (kernel_size - 1, 0)),
            torch.ones(1, 1, kernel_size) / kernel_size,
        )
    out[0, 0, -1].backward()
    return int((x.grad != 0).sum())


def path_length(kind, seq_len, kernel_size=None):
    step = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    places = torch.arange(seq_len)
    back = places[:, None] - places
    if kind == "rnn":
        step = (back == 0) | (back == 1)
    elif kind == "attention":
        step = ~step
    elif kind == "cnn" and kernel_size is not None and kernel_size >= 2:
        step = (back >= 0) & (back < kernel_size)
    else:
        raise ValueError("there is no path")
    reached, steps = step, 1
    while not reached[-1, 0]:
        reached = (reached.float() @ step.float()) > 0
        steps += 1
    return steps


def sequential_steps(kind, seq_len):
    if kind == "rnn":
        return sum(1 for _ in range(seq_len))
    if kind in {"cnn", "attention"}:
        return 1
    raise ValueError("kind must be rnn, cnn or attention")


def influence(fn, x):
    y, pull = torch.func.vjp(fn, x)
    basis = torch.eye(y.numel(), dtype=y.dtype).view(-1, *y.shape)
    (slopes,) = torch.func.vmap(pull)(basis)
    by_output = slopes.view(*y.shape, *x.shape)
    return torch.einsum("iajb->ij", by_output.ne(0).double()) > 0
