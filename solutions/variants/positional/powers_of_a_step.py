"""A table grown row by row, and the matrix as a power of the matrix for one step."""

import torch
from torch import nn


def step(d_model):
    """The matrix that goes one position on."""
    tau = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    still = torch.diag(tau.cos().repeat_interleave(2))
    sines = torch.zeros(d_model - 1, dtype=torch.float64)
    sines[::2] = tau.sin()
    return still + torch.diag(sines, -1) - torch.diag(sines, 1)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        row = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(d_model // 2)
        table, one = [], step(d_model)
        for _ in range(max_len):
            table.append(row)
            row = row @ one
        self.register_buffer("pe", torch.stack(table)[None].float())

    def forward(self, x):
        return self.pe.index_select(1, torch.arange(x.size(1), device=self.pe.device)).add(x)


class LearnedPositionalEmbedding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)

    def forward(self, x):
        positions = torch.cumsum(torch.ones_like(x[0, :, 0]), dim=0).long() - 1
        return x + self.embedding(positions)[None]


def relative_shift_matrix(d_model, offset):
    return torch.linalg.matrix_power(step(d_model), offset)
