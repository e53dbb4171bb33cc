"""Parts in dictionaries under names of their own, with the contract's names beside them; every
sentence goes through the layers by itself."""

import torch
import torch.nn.functional as F
from torch import nn

from .masks import create_padding_mask
from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = nn.ModuleDict(
            {
                "c_fc": nn.Linear(d_model, d_ff),
                "act": nn.ReLU(),
                "c_proj": nn.Linear(d_ff, d_model),
                "dropout": nn.Dropout(dropout),
            }
        )
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.rate = dropout

    def forward(self, x, mask=None):
        shape = x.shape[-1:]
        found, _ = self.self_attn(x, x, x, mask)
        x = x + F.dropout(found, self.rate, self.training)
        x = F.layer_norm(x, shape, self.norm1.weight, self.norm1.bias, self.norm1.eps)
        thought = x
        for part in self.feed_forward.values():
            thought = part(thought)
        return F.layer_norm(
            x + thought, shape, self.norm2.weight, self.norm2.bias, self.norm2.eps
        )  # fmt: skip


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
        blocks = (
            TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout)
            for _ in range(num_layers)
        )
        self.parts = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, d_model),
                "wpe": PositionalEncoding(d_model, max_len),
                "h": nn.ModuleList(blocks),
            }
        )
        self.embedding, self.positional = self.parts["wte"], self.parts["wpe"]
        self.layers = self.parts["h"]

    def forward(self, token_ids):
        mask = create_padding_mask(token_ids, self.pad_id)
        start = self.parts["wpe"](F.embedding(token_ids, self.parts["wte"].weight))
        done = []
        for b in range(token_ids.size(0)):
            x = start[b : b + 1]
            for block in self.parts["h"]:
                x = block(x, mask[b].view(1, 1, 1, -1))
            done.append(x)
        return torch.cat(done)
