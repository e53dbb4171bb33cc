"""numpy's table; positions from a list; each pair's turn fitted to a table by a pseudo-inverse."""

import numpy as np
import torch
from torch import nn


def angles(first, count, width):
    columns = np.arange(width) // 2 * 2
    return np.arange(first, first + count)[:, None] / np.power(10000, columns / width)


class PositionalEncoding(nn.Module):
    def __init__(self, width, length=512):
        super().__init__()
        table = angles(0, length, width)
        table[:, 0::2] = np.sin(table[:, 0::2])
        table[:, 1::2] = np.cos(table[:, 1::2])
        self.register_buffer("pe", torch.FloatTensor(table).unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)].clone().detach()


class LearnedPositionalEmbedding(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.embedding = nn.Embedding(length, width)
        nn.init.trunc_normal_(self.embedding.weight, std=0.02)

    def forward(self, x):
        positions = torch.tensor(list(range(self.embedding.num_embeddings)), device=x.device)
        rows = self.embedding(positions)[: x.shape[1]]
        return rows.unsqueeze(0).repeat(x.shape[0], 1, 1) + x


def relative_shift_matrix(width, offset):
    matrix = torch.zeros(width, width, dtype=torch.float64)
    here, there = (torch.from_numpy(angles(first, 400, width)[:, ::2]) for first in (0, offset))
    for pair in range(width // 2):
        now = torch.stack([here[:, pair].sin(), here[:, pair].cos()], dim=1)
        then = torch.stack([there[:, pair].sin(), there[:, pair].cos()], dim=1)
        place = slice(2 * pair, 2 * pair + 2)
        matrix[place, place] = torch.linalg.pinv(now) @ then
    return matrix
