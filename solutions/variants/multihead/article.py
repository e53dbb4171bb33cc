"""The way of the article: view, transpose, contiguous, view."""

import torch.nn as nn

from .attention import scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, "num_heads must divide d_model"
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def split_heads(self, x, batch_size):
        x = x.view(batch_size, -1, self.num_heads, self.d_k)
        return x.transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        batch_size = query.size(0)
        q = self.split_heads(self.w_q(query), batch_size)
        k = self.split_heads(self.w_k(key), batch_size)
        v = self.split_heads(self.w_v(value), batch_size)
        found, weights = scaled_dot_product_attention(q, k, v, mask)
        found = found.transpose(1, 2).contiguous().view(batch_size, -1, self.d_model)
        return self.w_o(found), weights
