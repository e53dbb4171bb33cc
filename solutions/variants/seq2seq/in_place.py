"""Results written into tensors that were made before, sequence first; arguments by name; a set of
the sentences that have ended.
"""

import torch
from torch import nn


def rnn_step(x_t, h_prev, w_xh, w_hh, b):
    h_t = torch.einsum("bi,ih->bh", x_t, w_xh)
    h_t += torch.einsum("bj,jh->bh", h_prev, w_hh)
    h_t += b
    return h_t.tanh_()


class RNNEncoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.embedding = nn.Embedding(num_embeddings=vocab_size, embedding_dim=d_embed)
        self.cell = nn.RNNCell(d_embed, d_hidden)

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return torch.zeros(batch, self.cell.hidden_size, dtype=weight.dtype, device=weight.device)

    def forward(self, tokens, lengths=None):
        hidden = self.init_hidden(tokens.size(0))
        embedded = self.embedding(tokens.t())
        outputs = hidden.new_zeros(tokens.size(1), *hidden.shape)
        for t in range(tokens.size(1)):
            hidden = self.cell(embedded[t], hidden)
            outputs[t] = hidden
        outputs = outputs.permute(1, 0, 2)
        if lengths is None:
            return outputs, outputs[:, -1, :]
        ends = torch.arange(tokens.size(1), device=tokens.device) == (lengths - 1).unsqueeze(1)
        return outputs, outputs[ends]


class RNNDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        self.cell = nn.RNNCell(d_embed + d_hidden, d_hidden)
        self.out = nn.Linear(d_hidden, vocab_size)

    def forward(self, y_prev, s_prev, context):
        embedded = self.embedding(y_prev)
        read = embedded.new_empty(embedded.size(0), self.cell.input_size)
        read[:, : embedded.size(1)] = embedded
        read[:, embedded.size(1) :] = context
        s_t = self.cell(read, s_prev)
        return self.out(s_t), s_t


def greedy_decode(decoder, context, bos_id, eos_id, max_len):
    batch = len(context)
    result = torch.zeros(batch, max_len, dtype=torch.long, device=context.device).fill_(eos_id)
    previous = torch.ones(batch, dtype=torch.long, device=context.device) * bos_id
    state, ended = context, set()
    for step in range(max_len):
        logits, state = decoder(y_prev=previous, s_prev=state, context=context)
        previous = torch.softmax(logits, dim=-1).argmax(dim=-1)
        for i in range(batch):
            if i not in ended:
                result[i, step] = previous[i]
                if previous[i].item() == eos_id:
                    ended.add(i)
        if len(ended) == batch:
            break
    return result[:, : step + 1]
