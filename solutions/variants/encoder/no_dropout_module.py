"""No dropout is made where there is none to do; sums in place of what nobody else holds; a mask
that gets its axes in the layer; the table made anew as a buffer that is not saved."""

from functools import reduce

import torch
from torch import nn

from .masks import create_padding_mask
from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout) if dropout > 0 else nn.Identity()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(
            nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU()),
            nn.Sequential(nn.Linear(d_ff, d_model), nn.Dropout(dropout)),
        )
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        if mask is not None:
            while mask.dim() < 4:
                mask = mask.unsqueeze(0)
        found, _weights = self.self_attn(x.clone(), x.clone(), x.clone(), mask)
        found = self.dropout(found).clone()
        found += x
        middle = self.norm1(found)
        return self.norm2(torch.add(middle, self.feed_forward(middle)))


class Positions(PositionalEncoding):
    def __init__(self, d_model, max_len):
        super().__init__(d_model, max_len)
        table = self.pe
        del self.pe
        self.register_buffer("pe", table, persistent=False)


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
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positional = Positions(d_model, max_len)
        sizes = d_model, num_heads, d_ff, dropout
        self.layers = nn.ModuleList(
            map(lambda _: TransformerEncoderLayerSimple(*sizes), [0] * num_layers)
        )
        self.pad_id = pad_id

    def forward(self, token_ids):
        seq = token_ids.shape[-1]
        real = create_padding_mask(token_ids, self.pad_id)
        everyone = torch.ones(seq, seq, dtype=torch.bool, device=token_ids.device)
        mask = (real[:, None, :] & everyone)[:, None]
        start = self.positional(self.embedding(token_ids))
        return reduce(lambda x, layer: layer(x, mask), self.layers, start)
