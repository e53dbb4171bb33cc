"""torch's own function for the whole, with the weights of the four layers; True hides there."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads for {d_model} numbers")
        self.width, self.num_heads, self.d_k = d_model, num_heads, d_model // num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            self.add_module(name, nn.Linear(d_model, d_model))

    def split_heads(self, x, batch_size):
        return torch.stack(x.chunk(self.num_heads, dim=-1), dim=1)

    def forward(self, query, key, value, mask=None):
        batch, seq_q, seq_k = query.size(0), query.size(1), key.size(1)
        if mask is not None:
            mask = ~mask.expand(batch, self.num_heads, seq_q, seq_k).flatten(0, 1)
        output, weights = F.multi_head_attention_forward(
            query.transpose(0, 1),
            key.transpose(0, 1),
            value.transpose(0, 1),
            self.width,
            self.num_heads,
            in_proj_weight=None,
            in_proj_bias=torch.cat([self.w_q.bias, self.w_k.bias, self.w_v.bias]),
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=0.0,
            out_proj_weight=self.w_o.weight,
            out_proj_bias=self.w_o.bias,
            training=self.training,
            attn_mask=mask,
            use_separate_proj_weight=True,
            q_proj_weight=self.w_q.weight,
            k_proj_weight=self.w_k.weight,
            v_proj_weight=self.w_v.weight,
            average_attn_weights=False,
        )
        return output.transpose(0, 1), weights
