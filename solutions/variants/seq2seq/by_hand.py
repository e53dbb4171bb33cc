"""Nothing but the parameters of torch's modules is used; the weights cut in two where what they
read is joined; places by gather; decoding that always takes max_len steps and mends the ends after.
"""

import torch
import torch.nn.functional as F
from torch import nn


def rnn_step(x_t, h_prev, w_xh, w_hh, b):
    joined = torch.cat([x_t, h_prev], dim=1)
    return F.linear(joined, torch.cat([w_xh, w_hh]).T, b).tanh()


class RNNEncoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.cell = nn.RNNCell(d_embed, d_hidden)
        self.embedding = nn.Embedding(vocab_size, d_embed)

    def forward(self, tokens, lengths=None):
        cell = self.cell
        x = self.embedding.weight[tokens] @ cell.weight_ih.T + cell.bias_ih
        h = x.new_zeros(tokens.size(0), 1, cell.weight_hh.size(0))
        states = x.new_empty(0)
        for x_t in x.split(1, dim=1):
            h = torch.tanh(x_t + h @ cell.weight_hh.T + cell.bias_hh)
            states = torch.cat([states, h], dim=1) if states.numel() else h
        if lengths is None:
            lengths = torch.full_like(tokens[:, 0], tokens.size(1))
        last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.size(2))
        return states, states.gather(1, last).squeeze(1)


class RNNDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.out = nn.Linear(d_hidden, vocab_size)
        self.cell = nn.RNNCell(d_embed + d_hidden, d_hidden)
        self.embedding = nn.Embedding(vocab_size, d_embed)

    def forward(self, y_prev, s_prev, context):
        cell, d_embed = self.cell, self.embedding.embedding_dim
        w_y, w_c = cell.weight_ih[:, :d_embed], cell.weight_ih[:, d_embed:]
        one_hot = F.one_hot(y_prev, self.embedding.num_embeddings).to(context.dtype)
        total = one_hot @ self.embedding.weight @ w_y.T + context @ w_c.T + cell.bias_ih
        s_t = torch.tanh(total + F.linear(s_prev, cell.weight_hh, cell.bias_hh))
        return s_t @ self.out.weight.T + self.out.bias, s_t


def greedy_decode(decoder, context, bos_id, eos_id, max_len):
    y = context.new_full((context.size(0),), bos_id, dtype=torch.long)
    s, written = context, []
    for _ in range(max_len):
        logits, s = decoder(y, s, context)
        y = logits.max(dim=1).indices
        written.append(y)
    tokens = torch.stack(written).T
    ends = (tokens == eos_id).long().cumsum(dim=1)
    return torch.where(ends > 0, torch.full_like(tokens, eos_id), tokens)
