"""Einsum for every product, -1e9 for what is hidden, F.softmax; the decoder's step written out."""

import torch
import torch.nn.functional as F
from torch import nn

from .seq2seq import RNNDecoder


class AdditiveAttention(nn.Module):
    def __init__(self, d_query, d_key, d_attn):
        super().__init__()
        self.v = nn.Linear(d_attn, 1, bias=False)
        self.w_key = nn.Linear(d_key, d_attn, bias=False)
        self.w_query = nn.Linear(d_query, d_attn, bias=False)

    def forward(self, query, keys, mask=None):
        asked = torch.einsum("bq,aq->ba", query, self.w_query.weight)
        offered = torch.einsum("bsk,ak->bsa", keys, self.w_key.weight)
        met = torch.tanh(asked[:, None] + offered)
        energy = torch.einsum("bsa,oa->bs", met, self.v.weight)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e9)
        alpha = F.softmax(energy, dim=1)
        return torch.einsum("bs,bsk->bk", alpha, keys), alpha


class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden, d_attn):
        super().__init__()
        self.decoder = RNNDecoder(vocab_size, d_embed, d_hidden)
        self.attention = AdditiveAttention(d_hidden, d_hidden, d_attn)

    def forward(self, y_prev, s_prev, states, mask=None):
        context, alpha = self.attention(query=s_prev, keys=states, mask=mask)
        logits, s_t = self.decoder(y_prev=y_prev, s_prev=s_prev, context=context)
        return logits, s_t, alpha
