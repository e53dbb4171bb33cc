"""Waves as complex numbers: a step along the sentence multiplies each by a number on the circle."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def frequencies(d_model):
    steps = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    return torch.exp2(-math.log2(10000) * steps)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        angles = torch.arange(max_len).double()[:, None] * frequencies(d_model)
        waves = torch.polar(torch.ones_like(angles), angles)
        table = torch.view_as_real(waves).flip(-1).reshape(1, max_len, d_model)
        self.register_buffer("pe", table)  # kept in float64, and rounded where it is added

    def forward(self, x):
        positions = torch.arange(x.size(1), device=x.device)
        return x + F.embedding(positions, self.pe[0]).to(x)


class LearnedPositionalEmbedding(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.embedding = nn.Embedding(num_embeddings=max_len, embedding_dim=d_model, sparse=True)
        self.register_buffer("positions", torch.arange(max_len).view(1, -1), persistent=False)

    def forward(self, x):
        return self.embedding(self.positions[:, : x.size(1)]) + x


def relative_shift_matrix(d_model, offset):
    turn = torch.polar(torch.ones(d_model // 2).double(), offset * frequencies(d_model))
    # What the rotation makes of each unit row is a row of the matrix.
    units = torch.eye(d_model, dtype=torch.float64).view(d_model, -1, 2).flip(-1).contiguous()
    turned = torch.view_as_real(torch.view_as_complex(units) * turn)
    return turned.flip(-1).reshape(d_model, d_model)
