"""Sentences sorted by length, as for packing, each read only as far as it goes, and put back into
their order; numbers of Python's own; decoding sentence by sentence, without gradients.
"""

import torch
from torch import nn


def rnn_step(x_t, h_prev, w_xh, w_hh, b):
    rows = []
    for x, h in zip(x_t, h_prev):
        rows.append((w_xh.T @ x + w_hh.T @ h + b).tanh())
    return torch.stack(rows)


class RNNEncoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.d_hidden = d_hidden
        self.embedding = nn.Embedding(vocab_size, d_embed)
        self.cell = nn.RNNCell(d_embed, d_hidden)

    def forward(self, tokens, lengths=None):
        batch, seq = tokens.size()
        if lengths is None:
            lengths = torch.full((batch,), seq, device=tokens.device)
        lengths, order = lengths.sort(descending=True)
        embedded = self.embedding(tokens[order])
        h = torch.zeros_like(self.cell.bias_hh).repeat(batch, 1)
        outputs = []
        for t in range(seq):
            going = int((lengths > t).sum())
            if going:
                h = torch.cat([self.cell(embedded[:going, t], h[:going]), h[going:]])
            outputs.append(h * (lengths > t).unsqueeze(1))
        back = order.argsort()
        return torch.stack(outputs).transpose(0, 1)[back], h[back]


class RNNDecoder(nn.Module):
    def __init__(self, vocab_size, d_embed, d_hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        self.cell = nn.RNNCell(input_size=d_embed + d_hidden, hidden_size=d_hidden)
        self.out = nn.Linear(in_features=d_hidden, out_features=vocab_size)

    def forward(self, y_prev, s_prev, context):
        y = self.embedding(y_prev.unsqueeze(1)).squeeze(1)
        s_t = self.cell(torch.cat((y, context), 1), s_prev)
        return self.out(s_t.unsqueeze(1))[:, 0, :], s_t


@torch.no_grad()
def greedy_decode(decoder, context, bos_id, eos_id, max_len):
    decoder.eval()
    sentences = []
    for i in range(context.size(0)):
        c = context[i : i + 1]
        s, token, sentence = c, bos_id, []
        while len(sentence) < max_len:
            y = torch.tensor([token], device=c.device)
            logits, s = decoder(y, s, c)
            token = int(logits.argmax())
            sentence.append(token)
            if token == eos_id:
                break
        sentences.append(sentence)
    longest = max(map(len, sentences))
    rows = [sentence + [eos_id] * (longest - len(sentence)) for sentence in sentences]
    return torch.tensor(rows, device=context.device)
