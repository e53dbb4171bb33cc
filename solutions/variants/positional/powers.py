"""float32 throughout, by `pow`; the buffer is not saved; too long a sentence fails an assertion."""

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        i = torch.arange(d_model // 2)
        rates = 1 / torch.pow(torch.tensor(10000.0), 2 * i / d_model)
        angles = torch.outer(torch.arange(max_len).float(), rates)
        pe = torch.empty(1, max_len, d_model)
        pe[..., ::2], pe[..., 1::2] = angles.sin(), angles.cos()
        self.register_buffer("pe", pe, persistent=False)
        self.register_buffer("rates", rates)

    def forward(self, x):
        assert x.shape[1] <= self.pe.shape[1], "the sentence is too long"
        return torch.add(x, self.pe.narrow(1, 0, x.shape[1]).to(dtype=x.dtype))


class LearnedPositionalEmbedding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, x):
        return x + self.embedding.weight[: x.size(1)]


def relative_shift_matrix(d_model, offset):
    """Made in float32, then converted."""
    angles = offset / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    blocks = [
        torch.stack([torch.stack([a.cos(), -a.sin()]), torch.stack([a.sin(), a.cos()])])
        for a in angles
    ]
    return torch.block_diag(*blocks).double()
