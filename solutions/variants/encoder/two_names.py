"""Modules that go by two names: norms that live in a class for what both sublayers share, Linears
that are made first and joined afterwards."""

from torch import nn

from .masks import create_padding_mask
from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class AddAndNorm(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return self.norm(x + self.dropout(sublayer(x)))


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.around_attention = AddAndNorm(d_model, dropout)
        self.around_thought = AddAndNorm(d_model, dropout)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.feed_forward = nn.Sequential(self.linear1, nn.ReLU(), self.linear2)
        self.norm1, self.norm2 = self.around_attention.norm, self.around_thought.norm
        self.self_attn = MultiHeadAttention(d_model, num_heads)

    def forward(self, x, mask=None):
        x = self.around_attention(x, lambda y: self.self_attn(y, y, y, mask)[0])
        return self.around_thought(x, self.feed_forward)


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
        self.is_real = lambda ids: create_padding_mask(ids, pad_id)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positional = PositionalEncoding(d_model, max_len)
        self.first = TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout)
        self.layers = nn.ModuleList([self.first])
        for _ in range(num_layers - 1):
            layer = TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout)
            self.layers.append(layer)

    def forward(self, token_ids):
        mask = self.is_real(token_ids)[:, None, None, :]
        x = self.first(self.positional(self.embedding(token_ids)), mask)
        for layer in list(self.layers)[1:]:
            x = layer(x, mask)
        return x
