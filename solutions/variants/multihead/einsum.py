"""Everything by einsum, the split into slices included; no attention function is called."""

import torch
from torch import einsum, nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert not d_model % num_heads
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split_heads(self, x, batch_size):
        # Head h picks feature h * d_k + j as its feature j.
        width = self.num_heads * self.d_k
        pick = torch.eye(width, dtype=x.dtype, device=x.device)
        pick = pick.view(width, self.num_heads, self.d_k)
        return einsum("bsf,fhj->bhsj", x, pick)

    def _project(self, layer, x):
        weight = layer.weight.view(self.num_heads, self.d_k, -1)
        bias = layer.bias.view(self.num_heads, 1, self.d_k)
        return einsum("bsf,hjf->bhsj", x, weight) + bias

    def forward(self, query, key, value, mask=None):
        q = self._project(self.w_q, query) * self.d_k**-0.5
        k = self._project(self.w_k, key)
        v = self._project(self.w_v, value)
        scores = einsum("bhqj,bhkj->bhqk", q, k)
        if mask is not None:
            scores = torch.where(mask, scores, -1e9)
        weights = scores.softmax(-1)
        heads = einsum("bhqk,bhkj->bqhj", weights, v)
        out = einsum("bqhj,fhj->bqf", heads, self.w_o.weight.view(-1, self.num_heads, self.d_k))
        return out + self.w_o.bias, weights
