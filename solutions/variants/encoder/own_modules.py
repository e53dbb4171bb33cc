"""A feed-forward class with its dropout at its end; one dropout for each place; eps 1e-6; a mask
for every query, and one that comes by name."""

import torch
import torch.nn.functional as F
from torch import nn

from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.linear2(F.relu(self.linear1(x))))


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.norm2 = nn.LayerNorm([d_model], eps=1e-6)
        self.norm1 = nn.LayerNorm([d_model], eps=1e-6)
        self.dropout1 = nn.Dropout(dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.self_attn = MultiHeadAttention(d_model=d_model, num_heads=num_heads)

    def forward(self, x, mask=None):
        attended = self.self_attn(x, x, x, mask)[0]
        x = self.norm1(self.dropout1(attended) + x)
        return self.norm2(self.feed_forward(x) + x)


class TransformerEncoder(nn.Module):
    def __init__(
        self,
        vocab_size,
        d_model,
        num_heads,
        d_ff,
        num_layers,
        max_len=512,
        dropout=0.1,
        pad_id=0,
    ):
        super().__init__()
        layers = []
        for _ in range(num_layers):
            layers.append(TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout))
        self.layers = nn.ModuleList(layers)
        self.positional = PositionalEncoding(d_model, max_len)
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.padding = pad_id

    def forward(self, token_ids):
        batch, seq = token_ids.shape
        real = torch.logical_not(token_ids == self.padding)
        mask = real.view(batch, 1, 1, seq).expand(batch, 1, seq, seq)
        x = self.positional(self.embedding(token_ids))
        for i in range(len(self.layers)):
            x = self.layers[i](x, mask=mask)
        return x
