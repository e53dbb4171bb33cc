"""The layer in the way of the article, line by line; the encoder in the same style."""

import torch.nn as nn

from .masks import create_padding_mask
from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super(TransformerEncoderLayerSimple, self).__init__()  # noqa: UP008
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)
        )
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        found, _ = self.self_attn(x, x, x, mask)
        x = x + self.dropout(found)
        x = self.norm1(x)
        thought = self.feed_forward(x)
        x = x + self.dropout(thought)
        x = self.norm2(x)
        return x


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
        super(TransformerEncoder, self).__init__()  # noqa: UP008
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positional = PositionalEncoding(d_model, max_len)
        self.layers = nn.ModuleList(
            [
                TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout)
                for _ in range(num_layers)
            ]
        )
        self.pad_id = pad_id

    def forward(self, token_ids):
        mask = create_padding_mask(token_ids, self.pad_id).unsqueeze(1).unsqueeze(2)
        x = self.embedding(token_ids)
        x = self.positional(x)
        for layer in self.layers:
            x = layer(x, mask)
        return x
