"""Step by step: layers are added one by one, gradients are asked for one by one."""

import torch


def receptive_field(kernel_size, num_layers):
    seen = 1
    for _ in range(num_layers):
        seen += kernel_size - 1
    return seen


def path_length(kind, seq_len, kernel_size=None):
    if kind == "rnn":
        return len(range(1, seq_len))
    if kind == "attention":
        return 1
    if kind == "cnn":
        if not kernel_size or kernel_size == 1:
            raise ValueError("a convolution needs a kernel_size of 2 or more")
        layers = 1
        while receptive_field(kernel_size, layers) < seq_len:
            layers += 1
        return layers
    raise ValueError(kind)


def sequential_steps(kind, seq_len):
    if kind == "rnn":
        return seq_len
    elif kind == "cnn" or kind == "attention":
        return 1
    else:
        raise ValueError(f"unknown kind: {kind}")


def influence(fn, x):
    x = x.detach().clone().requires_grad_(True)
    y = fn(x)
    result = torch.zeros(y.size(0), x.size(0), dtype=torch.bool)
    for i in range(y.size(0)):
        for feature in range(y.size(1)):
            x.grad = None
            y[i, feature].backward(retain_graph=True)
            if x.grad is not None:
                result[i] |= x.grad.ne(0).any(dim=-1)
    return result
