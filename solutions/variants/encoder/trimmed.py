"""Columns of nothing but padding are cut off and given back as zeros; norms and Linears by their
functions; the layers folded over the tokens."""

import functools

import torch.nn.functional as F
from torch import nn

from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.ModuleList([nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)])
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = dropout

    def forward(self, x, mask=None):
        def add_norm(x, y, n):
            y = F.dropout(y, self.dropout, self.training)
            return F.layer_norm(x + y, n.normalized_shape, n.weight, n.bias, n.eps)

        x = add_norm(x, self.self_attn(x, x, x, mask)[0], self.norm1)
        up, down = self.feed_forward
        return add_norm(
            x, F.linear(F.relu(F.linear(x, up.weight, up.bias)), down.weight, down.bias), self.norm2
        )


class TransformerEncoder(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, d_ff, num_layers, max_len=512, dropout=0.1, pad_id=0
    ):
        super().__init__()
        self.pad_id = pad_id
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positional = PositionalEncoding(d_model, max_len)
        self.layers = nn.ModuleList(
            [
                TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout)
                for _ in range(num_layers)
            ]
        )

    def forward(self, token_ids):
        real = token_ids.ne(self.pad_id)
        length = int(real.any(0).nonzero().max()) + 1
        mask = real[:, None, None, :length]
        x = self.positional(self.embedding(token_ids[:, :length]))
        x = functools.reduce(lambda x, layer: layer(x, mask), self.layers, x)
        return F.pad(x, (0, 0, 0, token_ids.size(1) - length))
