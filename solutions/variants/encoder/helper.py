"""A helper for what both sublayers share; F.dropout with a kept number; eps 1e-12; padding that
looks at itself alone; deep copies of one layer."""

import copy
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from .masks import create_padding_mask
from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.p = dropout
        self.feed_forward = nn.Sequential(
            OrderedDict(
                wide=nn.Linear(d_model, d_ff),
                relu=nn.ReLU(inplace=True),
                narrow=nn.Linear(d_ff, d_model),
            )
        )
        self.norm1, self.norm2 = (nn.LayerNorm(d_model, eps=1e-12) for _ in range(2))
        self.self_attn = MultiHeadAttention(d_model, num_heads)

    def _around(self, x, norm, sublayer):
        added = F.dropout(sublayer(x), p=self.p, training=self.training)
        return norm(x + added)

    def forward(self, x, mask=None):
        x = self._around(x, self.norm1, lambda y: self.self_attn(y, y, y, mask)[0])
        return self._around(x, self.norm2, self.feed_forward)


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
        self.pad_id = pad_id
        first = TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout)
        self.layers = nn.ModuleList([copy.deepcopy(first) for _ in range(num_layers)])
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positional = PositionalEncoding(d_model, max_len)

    def forward(self, token_ids):
        real = create_padding_mask(token_ids, pad_id=self.pad_id)
        mask = torch.einsum("bq,bk->bqk", real.int(), real.int()).bool().unsqueeze(1)
        mask = mask | torch.eye(mask.size(-1), dtype=torch.bool, device=mask.device)
        x = self.positional(self.embedding(token_ids))
        for layer in self.layers:
            x = layer(x, mask)
        return x
