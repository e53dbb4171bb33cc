"""A state that stands still behind a sentence's end, so that the last one is the context; None for
the first state; decoding for which ended sentences are taken out of the batch.
"""

import torch
from torch import nn


def rnn_step(x_t, h_prev, w_xh, w_hh, b):
    total = torch.addmm(b, x_t, w_xh)
    total = total.addmm(h_prev, w_hh)
    return 2 * torch.sigmoid(2 * total) - 1


class RNNEncoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        self.cell = nn.RNNCell(d_embed, d_hidden, nonlinearity="tanh")

    def forward(self, tokens, lengths=None):
        seq = tokens.shape[1]
        state, states = None, []
        for t, token in enumerate(tokens.unbind(dim=1)):
            new = self.cell(self.embedding(token), state)
            if lengths is not None and state is not None:
                new = torch.where((t < lengths).unsqueeze(1), new, state)
            state = new
            states.append(state.clone())
        return torch.cat([s[:, None, :] for s in states], dim=1).reshape(
            -1, seq, new.size(1)
        ), state


class RNNDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        self.cell = nn.RNNCell(d_embed + d_hidden, d_hidden)
        self.out = nn.Linear(d_hidden, vocab_size)

    def forward(self, y_prev, s_prev, context):
        read = torch.hstack((self.embedding(y_prev), context))
        state = self.cell(read, s_prev.clone())
        return self.out(state), state


def greedy_decode(decoder, context, bos_id, eos_id, max_len):
    batch = context.shape[0]
    tokens = torch.full((batch, max_len), eos_id, dtype=torch.int64, device=context.device)
    going = torch.arange(batch, device=context.device)
    y, s = torch.full_like(going, bos_id), context.clone()
    for t in range(max_len):
        logits, s = decoder(y, s, context[going])
        y = torch.topk(logits, 1).indices[:, 0]
        tokens[going, t] = y
        keep = y != eos_id
        going, y, s = going[keep], y[keep], s[keep]
        if going.numel() == 0:
            return tokens[:, : t + 1]
    return tokens
