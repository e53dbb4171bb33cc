"""Queries and keys each divided by a fourth root, heads as one more batch axis behind positions."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        assert self.d_k * num_heads == d_model, "the heads do not fit"
        self.w_v = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_q = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(num_heads * self.d_k, d_model)
        nn.init.xavier_uniform_(self.w_o.weight)
        self.softmax = nn.Softmax(dim=3)

    def split_heads(self, x, batch_size):
        x = x.reshape(batch_size, x.shape[1], self.num_heads, self.d_k)
        return torch.einsum("nshd->nhsd", x)

    def _slices(self, layer, x):
        return layer(x).reshape(*x.shape[:2], self.num_heads, self.d_k)

    def forward(self, queries, keys, values, mask=None):
        root = self.d_k**0.25
        q = self._slices(self.w_q, queries) / root
        k = self._slices(self.w_k, keys) / root
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = self.softmax(energy)
        out = torch.einsum("nhqk,nkhd->nqhd", attention, self._slices(self.w_v, values))
        return self.w_o(out.reshape(*queries.shape)), attention
