"""One key after the other, and a softmax of sums of exps in which the hidden ones have no part: a
sentence that sees no key gets weights of 0.
"""

import torch
from torch import nn

from .seq2seq import RNNDecoder


class AdditiveAttention(nn.Module):
    def __init__(self, d_query, d_key, d_attn):
        super().__init__()
        self.w_query = nn.Linear(d_query, d_attn, False)
        self.w_key = nn.Linear(d_key, d_attn, False)
        self.v = nn.Linear(d_attn, 1, False)

    def forward(self, query, keys, mask=None):
        asked = self.w_query(query)
        scores = [self.v((asked + self.w_key(key)).tanh()) for key in keys.unbind(1)]
        scores = torch.cat(scores, dim=1)
        exps = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
        if mask is not None:
            exps = exps * mask
        weights = exps / exps.sum(dim=1, keepdim=True).clamp(min=1e-30)
        context = torch.zeros_like(keys[:, 0])
        for t in range(keys.size(1)):
            context = context + weights[:, t : t + 1] * keys[:, t]
        return context, weights


class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden, d_attn):
        super().__init__()
        self.attention = AdditiveAttention(d_hidden, d_hidden, d_attn)
        self.decoder = RNNDecoder(vocab_size, d_embed, d_hidden)

    def forward(self, y_prev, s_prev, states, mask=None):
        parts = self.decoder
        context, weights = self.attention(s_prev, states, mask)
        s_t = parts.cell(torch.cat([parts.embedding(y_prev), context], -1), s_prev)
        return parts.out(s_t), s_t, weights
