"""By torch.func, and by integer division upwards."""

import torch


def receptive_field(kernel_size, num_layers):
    return kernel_size * num_layers - (num_layers - 1)


def path_length(kind, seq_len, kernel_size=None):
    match kind:
        case "rnn":
            return seq_len - 1
        case "attention":
            return 1
        case "cnn" if kernel_size is not None and kernel_size > 1:
            return -(-(seq_len - 1) // (kernel_size - 1))
    raise ValueError("no path")


def sequential_steps(kind, seq_len):
    try:
        return dict(rnn=seq_len, cnn=1, attention=1)[kind]
    except KeyError as error:
        raise ValueError(f"no such kind: {kind}") from error


def influence(fn, x):
    jacobian = torch.func.jacrev(fn)(x)
    return jacobian.abs().amax(dim=(1, 3)) > 0
