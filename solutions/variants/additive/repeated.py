"""The query repeated for every key, and both joined, as in many tutorials; batch-wise products; a
float mask of 0 and -1e9 that is added.
"""

import torch
from torch import nn

from .seq2seq import RNNDecoder


class AdditiveAttention(nn.Module):
    def __init__(self, d_query, d_key, d_attn):
        super().__init__()
        self.w_query = nn.Linear(d_query, d_attn, bias=False)
        self.w_key = nn.Linear(d_key, d_attn, bias=False)
        self.v = nn.Linear(d_attn, 1, bias=False)

    def forward(self, query, keys, mask=None):
        seq = keys.shape[1]
        query = query.unsqueeze(1).repeat(1, seq, 1)
        both = torch.cat((query, keys), dim=2)
        weight = torch.cat((self.w_query.weight, self.w_key.weight), dim=1)
        energy = torch.tanh(both @ weight.T)
        scores = self.v(energy).squeeze(2)
        if mask is not None:
            scores = scores + (1.0 - mask.to(scores.dtype)) * -1e9
        weights = torch.softmax(scores, dim=1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden, d_attn):
        super().__init__()
        self.attention = AdditiveAttention(d_query=d_hidden, d_key=d_hidden, d_attn=d_attn)
        self.decoder = RNNDecoder(vocab_size, d_embed, d_hidden)

    def forward(self, y_prev, s_prev, states, mask=None):
        if mask is None:
            mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        context, weights = self.attention(s_prev, states, mask)
        return (*self.decoder(y_prev, s_prev, context), weights)
