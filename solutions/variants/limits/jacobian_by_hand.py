"""The whole Jacobian at once, flat, by one gradient for each entry."""

import torch


def receptive_field(kernel_size, num_layers):
    if num_layers == 0:
        return 1
    return receptive_field(kernel_size, num_layers - 1) + kernel_size - 1


def path_length(kind, seq_len, kernel_size=None):
    if kind not in {"rnn", "cnn", "attention"}:
        raise ValueError(f"unknown kind {kind}")
    if kind == "rnn":
        kernel_size = 2
    if kind == "attention":
        kernel_size = seq_len
    if kernel_size is None or kernel_size < 2:
        raise ValueError(f"kernel_size {kernel_size}")
    return (seq_len - 1 + kernel_size - 2) // (kernel_size - 1)


def sequential_steps(kind, seq_len):
    if kind not in {"rnn", "cnn", "attention"}:
        raise ValueError(f"unknown kind {kind}")
    return seq_len if kind == "rnn" else 1


def influence(fn, x):
    with torch.enable_grad():
        flat = x.detach().flatten().requires_grad_()
        out = fn(flat.view_as(x))
        features = out.size(-1)
        rows = [
            torch.autograd.grad(entry, flat, retain_graph=True, materialize_grads=True)[0]
            for entry in out.flatten()
        ]
    table = torch.stack(rows).abs().sign()
    table = table.view(-1, features, x.size(0), x.size(1))
    return table.sum(dim=(1, 3)).bool()
