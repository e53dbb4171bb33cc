"""The sum before the norm by addcmul and baddbmm, a ReLU by maximum, dropout as a mask of ones;
a mask repeated for every head; the layers taken by name."""

import torch
from torch import nn

from .masks import create_padding_mask
from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class Relu(nn.Module):
    def forward(self, x):
        return torch.maximum(x, torch.zeros((), dtype=x.dtype, device=x.device))


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), Relu(), nn.Linear(d_ff, d_model)
        )
        self.dropout = nn.Dropout(p=dropout)
        self.self_attn = MultiHeadAttention(d_model, num_heads)

    def forward(self, x, mask=None):
        for norm, sublayer in ((self.norm1, self._look), (self.norm2, self._think)):
            kept = self.dropout(torch.ones_like(x))
            x = norm(torch.addcmul(x, kept, sublayer(x, mask)))
        return x

    def _look(self, x, mask):
        return self.self_attn(x, x, x, mask)[0]

    def _think(self, x, _mask):
        return self.feed_forward(x.flatten(0, 1)).view_as(x)


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
        self.num_heads, self.pad_id = num_heads, pad_id
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positional = PositionalEncoding(d_model, max_len)
        self.layers = nn.ModuleList(
            TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout)
            for _ in range(num_layers)
        )

    def forward(self, token_ids):
        real = create_padding_mask(token_ids, self.pad_id)
        mask = real[:, None, None].repeat(1, self.num_heads, real.size(1), 1)
        x = self.positional(self.embedding(token_ids))
        for _, layer in self.layers.named_children():
            x = layer(x, mask.clone())
        return x
