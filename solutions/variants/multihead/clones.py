"""Copies of one Linear in a list, which have a second name each; the last weights are kept."""

import copy
import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.d_k = d_model // num_heads
        self.num_heads = num_heads
        self.linears = nn.ModuleList(copy.deepcopy(nn.Linear(d_model, d_model)) for _ in range(4))
        self.w_q, self.w_k, self.w_v, self.w_o = self.linears
        self.attn = None

    def split_heads(self, x, batch_size):
        return x.view(batch_size, -1, self.num_heads, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        q, k, v = [
            self.split_heads(linear(x), n)
            for linear, x in zip(self.linears, (query, key, value))
        ]  # fmt: skip
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        self.attn = torch.softmax(scores.float(), dim=-1).type_as(scores)
        x = torch.matmul(self.attn, v).transpose(1, 2).contiguous()
        return self.linears[-1](x.view(n, -1, self.num_heads * self.d_k)), self.attn
