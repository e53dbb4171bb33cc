"""Random weights in place of a loop over features: a chance that they cancel, there is none."""

import torch


def receptive_field(kernel_size, num_layers):
    seen = {0}
    for _ in range(num_layers):
        seen = {place - back for place in seen for back in range(kernel_size)}
    return len(seen)


def path_length(kind, seq_len, kernel_size=None):
    """The longest of the shortest paths, by walking."""
    backs = {
        "rnn": lambda: 1,
        "cnn": lambda: kernel_size - 1 if kernel_size else 0,
        "attention": lambda: seq_len,
    }
    if kind not in backs:
        raise ValueError(kind)
    back = backs[kind]()
    if back < 1:
        raise ValueError(kernel_size)
    place, steps = seq_len - 1, 0
    while place > 0:
        place -= back
        steps += 1
    return steps


def sequential_steps(kind, seq_len):
    if kind not in ("rnn", "cnn", "attention"):
        raise ValueError(kind)
    ready = [0] * seq_len
    for place in range(seq_len):
        waits_for = [ready[place - 1]] if kind == "rnn" and place else [0]
        ready[place] = max(waits_for) + 1
    return max(ready)


def influence(fn, x):
    leaf = x.clone().requires_grad_()
    y = fn(leaf)
    rows = []
    for output in y:
        (gradient,) = torch.autograd.grad(
            (output * (1 + torch.rand_like(output))).sum(),
            leaf,
            retain_graph=True,
            allow_unused=True,
        )
        gradient = torch.zeros_like(x) if gradient is None else gradient
        rows.append((gradient.abs() > 0).any(dim=1))
    return torch.stack(rows)
