"""A class for what surrounds a sublayer, copied; norms that are found by properties; arguments that
go by other names."""

import copy

from torch import nn

from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


def clones(module, number):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(number)])


class Sublayer(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return self.norm(x + self.dropout(sublayer(x)))


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w_2(self.w_1(x).relu())


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, size, heads, inner, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(size, heads)
        self.feed_forward = PositionwiseFeedForward(size, inner)
        self.sublayer = clones(Sublayer(size, dropout), 2)

    @property
    def norm1(self):
        return self.sublayer[0].norm

    @property
    def norm2(self):
        return self.sublayer[1].norm

    def forward(self, source, source_mask=None):
        x = self.sublayer[0](source, lambda y: self.self_attn(y, y, y, source_mask)[0])
        return self.sublayer[1](x, self.feed_forward)


class TransformerEncoder(nn.Module):
    def __init__(self, vocabulary, size, heads, inner, depth, longest=512, dropout=0.1, padding=0):
        super().__init__()
        self.padding = padding
        self.embedding = nn.Embedding(vocabulary, size)
        self.positional = PositionalEncoding(size, longest)
        self.layers = clones(TransformerEncoderLayerSimple(size, heads, inner, dropout), depth)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, source):
        source_mask = (source != self.padding).unsqueeze(-2).unsqueeze(1)
        x = self.positional(self.embedding(source))
        for layer in self.layers:
            x = layer(x, source_mask)
        return x
