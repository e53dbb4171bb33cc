"""Minus infinity for what is hidden, and the NaN of a sentence that sees nothing taken out; keys
first, with the axes turned; attention and decoder made by a class that is shared.
"""

import torch
from torch import nn

from .seq2seq import RNNDecoder


class AdditiveAttention(nn.Module):
    def __init__(self, d_query, d_key, d_attn):
        super().__init__()
        make = self._linear
        self.w_key, self.w_query, self.v = (
            make(d_key, d_attn),
            make(d_query, d_attn),
            make(d_attn, 1),
        )

    @staticmethod
    def _linear(inputs, outputs):
        return nn.Linear(inputs, outputs, bias=False)

    def forward(self, query, keys, mask=None):
        turned = keys.transpose(0, 1)  # [seq, batch, d_key]
        scores = self.v(torch.tanh(self.w_key(turned) + self.w_query(query))).squeeze(-1).T
        if mask is not None:
            scores = torch.where(mask, scores, float("-inf"))
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
        context = torch.matmul(keys.mT, weights[..., None])[..., 0]
        return context, weights


class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden, d_attn):
        super().__init__()
        self.decoder = RNNDecoder(vocab_size, d_embed, d_hidden)
        self.attention = AdditiveAttention(d_hidden, d_hidden, d_attn)

    def forward(self, y_prev, s_prev, states, mask=None):
        looked = (
            self.attention(s_prev, states) if mask is None else self._look(s_prev, states, mask)
        )
        logits, s_t = self.decoder.forward(y_prev, s_prev, looked[0])
        return logits, s_t, looked[1]

    def _look(self, s_prev, states, mask):
        return self.attention(s_prev, states, mask=mask)
