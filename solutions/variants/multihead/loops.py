"""One head after the other, with slices, lists and `cat`; the Linears made in another order."""

import torch
from attention import scaled_dot_product_attention
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_k, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"{d_model} numbers cannot be shared out among {num_heads} heads")
        self.num_heads = num_heads
        self.width = d_model
        for name in ("w_o", "w_v", "w_k", "w_q"):
            setattr(self, name, nn.Linear(in_features=d_model, out_features=d_model, bias=True))

    def split_heads(self, x, batch_size=None):
        heads = []
        for h in range(self.num_heads):
            heads.append(x[:, :, h * self.d_k : (h + 1) * self.d_k])
        return torch.stack(heads, dim=1)

    def forward(self, query, key, value, mask=None):
        q = self.split_heads(self.w_q(query))
        k = self.split_heads(self.w_k(key))
        v = self.split_heads(self.w_v(value))
        batch, heads, seq_q, seq_k = q.shape[0], self.num_heads, q.shape[2], k.shape[2]
        if mask is not None:
            mask = mask.expand(batch, heads, seq_q, seq_k)
        outputs, weights = [], []
        for h in range(heads):
            its_mask = None if mask is None else mask[:, h]
            output, weight = scaled_dot_product_attention(q[:, h], k[:, h], v[:, h], its_mask)
            outputs.append(output)
            weights.append(weight)
        return self.w_o(torch.cat(outputs, dim=-1)), torch.stack(weights, 1)
