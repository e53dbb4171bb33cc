"""Nothing but the parameters of torch's modules is used: products, norms and dropout by hand, one
token after the other in the feed-forward network."""

import torch
from torch import nn

from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model, 1e-8)
        self.norm2 = nn.LayerNorm((d_model,), 1e-8)
        self.feed_forward = nn.ModuleList([nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)])
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.dropout = dropout

    def _norm(self, norm, x):
        x = x - x.mean(dim=-1, keepdim=True)
        variance = x.pow(2).mean(dim=-1, keepdim=True)
        return x * (variance + norm.eps).rsqrt() * norm.weight + norm.bias

    def _drop(self, x):
        if not self.training or self.dropout == 0:
            return x
        if self.dropout == 1:
            return torch.zeros_like(x)
        kept = torch.empty_like(x).bernoulli_(1 - self.dropout)
        return x * kept / (1 - self.dropout)

    def _think(self, token):
        inner, outer = self.feed_forward
        hidden = (inner.weight @ token + inner.bias).clamp(min=0)
        return outer.weight @ hidden + outer.bias

    def forward(self, x, mask=None):
        attended, _ = self.self_attn(x, x, x, mask)
        x = self._norm(self.norm1, x + self._drop(attended))
        thought = torch.stack([torch.stack([self._think(t) for t in sentence]) for sentence in x])
        return self._norm(self.norm2, x + self._drop(thought))


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
        self.register_buffer("pad_id", torch.tensor(pad_id), persistent=False)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positional = PositionalEncoding(d_model, max_len)
        self.layers = nn.ModuleList()
        while len(self.layers) < num_layers:
            self.layers.append(TransformerEncoderLayerSimple(d_model, num_heads, d_ff, dropout))

    def forward(self, token_ids):
        places = torch.arange(token_ids.size(1), device=token_ids.device)
        x = self.embedding.weight[token_ids]
        x = x + self.positional.pe[0, places].to(x)  # whatever dtype the table is kept in
        for layer in self.layers:
            x = layer(x, token_ids.ne(self.pad_id)[:, None, None])
        return x
