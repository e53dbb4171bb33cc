"""Heads folded into the batch axis for `bmm`, and one projection of stacked weights."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        if num_heads * (d_model // num_heads) != d_model:
            raise ValueError("d_model must be a multiple of num_heads")
        self.num_heads = int(num_heads)
        self.d_k = int(d_model / num_heads)
        self.layers = nn.ModuleDict({n: nn.Linear(d_model, d_model) for n in ("w_q", "w_k")})
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    @property
    def w_q(self):
        return self.layers["w_q"]

    @property
    def w_k(self):
        return self.layers["w_k"]

    def split_heads(self, x, batch_size):
        x = x.transpose(1, 2).reshape(batch_size, self.num_heads, self.d_k, x.size(1))
        return x.transpose(2, 3)

    def forward(self, query, key, value, mask=None):
        b, seq_q, _ = query.shape
        seq_k = key.shape[1]
        if query is key and key is value:
            layers = (self.w_q, self.w_k, self.w_v)
            weight = torch.cat([layer.weight for layer in layers])
            bias = torch.cat([layer.bias for layer in layers])
            projected = nn.functional.linear(query, weight, bias).chunk(3, dim=-1)
        else:
            projected = self.w_q(query), self.w_k(key), self.w_v(value)
        q, k, v = (self.split_heads(x, b).flatten(0, 1) for x in projected)
        scores = torch.bmm(q, k.transpose(1, 2))
        scores /= self.d_k**0.5
        if mask is not None:
            hidden = mask.logical_not().expand(b, self.num_heads, seq_q, seq_k)
            scores.masked_fill_(hidden.reshape(-1, seq_q, seq_k), torch.finfo(scores.dtype).min)
        exps = torch.exp(scores - scores.max(dim=-1, keepdim=True).values.detach())
        weights = exps / exps.sum(-1, keepdim=True)
        heads = torch.bmm(weights, v).reshape(b, self.num_heads, seq_q, self.d_k)
        joined = torch.cat(heads.unbind(1), dim=-1)
        return self.w_o(joined), weights.view(b, self.num_heads, seq_q, seq_k)
