"""Number by number with `math`, and the matrix as the one that fits a long table best."""

import math

import torch
from torch import nn


def wave(pos, column, d_model):
    angle = pos / 10000 ** ((column - column % 2) / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


def rows(first, count, d_model):
    return [[wave(p, c, d_model) for c in range(d_model)] for p in range(first, first + count)]


class PositionalEncoding(nn.Module):
    pe: torch.Tensor

    def __init__(self, d_model, max_len=512):
        super().__init__()
        self.max_len = max_len
        self.register_buffer("pe", torch.tensor([rows(0, max_len, d_model)]))

    def forward(self, x):
        seq = x.shape[1]
        if not seq <= self.max_len:
            raise IndexError(seq)
        table = self.pe.squeeze(0)[:seq]
        return torch.stack([sentence + table for sentence in x])


class LearnedPositionalEmbedding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)

    def forward(self, x):
        marked = x.clone()
        for t in range(x.size(1)):
            index = torch.tensor(t).to(x.device)
            marked[:, t] += self.embedding(index)
        return marked


def relative_shift_matrix(d_model, offset):
    here = torch.tensor(rows(0, 2000, d_model), dtype=torch.float64)
    there = torch.tensor(rows(offset, 2000, d_model), dtype=torch.float64)
    return torch.linalg.lstsq(here, there).solution
