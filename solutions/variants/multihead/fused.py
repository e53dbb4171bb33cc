"""torch's own attention makes the output; the weights are computed apart."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model / num_heads != d_model // num_heads:
            raise AssertionError("heads of unequal width")
        self.num_heads = num_heads
        self.w_k = nn.Linear(d_model, d_model)
        self.w_q = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    @property
    def d_k(self):
        return self.w_q.out_features // self.num_heads

    def split_heads(self, x, batch_size):
        return x.unflatten(-1, (self.num_heads, self.d_k)).permute(0, 2, 1, 3).contiguous()

    def forward(self, query, key, value, mask=None):
        n = len(query)
        q = self.split_heads(F.linear(query, self.w_q.weight, self.w_q.bias), n)
        k = self.split_heads(F.linear(key, self.w_k.weight, self.w_k.bias), n)
        v = self.split_heads(F.linear(value, self.w_v.weight, self.w_v.bias), n)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        with torch.no_grad():  # to look at, not to learn from
            scores = q.matmul(k.mT).div(math.sqrt(self.d_k))
            if mask is not None:
                scores = scores + torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
            weights = F.softmax(scores, dim=-1)
        return self.w_o(heads.permute(0, 2, 1, 3).flatten(-2)), weights
