"""Sequence to sequence: how does one sentence become another, and what is lost on the way?

A translation is rarely as long as its source, and its words stand in another order. So one
recurrent network, the encoder, reads the whole source and keeps what it has understood in one
vector, the context; another, the decoder, writes the translation from that vector. It works, and it
has a bottleneck: a sentence of five words and one of fifty must fit into the same few numbers, and
of the first word only that is left which has survived every step since. This is why attention was
invented; the unit `additive` takes the bottleneck away.

Notation: ``batch`` sentences of ``seq`` tokens; ``d_embed`` numbers for each token, ``d_hidden`` in
each state. ``x_t`` is what is read at step t, ``h_t`` the encoder's state after it; ``y_prev`` is
the token written before, ``s_prev`` and ``s_t`` are the decoder's states before and after a step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def rnn_step(x_t: Tensor, h_prev: Tensor, w_xh: Tensor, w_hh: Tensor, b: Tensor) -> Tensor:
    """Read one token: mix what is new with what is known, and squash the sum.

    One step after another, always with the same weights, reads a sentence of any length. What was
    read first passes through w_hh and tanh at every step that follows: after twenty steps, hardly
    anything of it may be left, neither of what it said nor of the gradient that would teach it.

    Args:
        x_t: what is read now, ``[batch, d_in]``, float32 or float64.
        h_prev: the state before, ``[batch, d_hidden]``.
        w_xh: from what is read to the state, ``[d_in, d_hidden]``.
        w_hh: from the state to the state, ``[d_hidden, d_hidden]``.
        b: the bias, ``[d_hidden]``.

    Returns:
        The state after, ``[batch, d_hidden]``.

    Contract:
        1. h_t = tanh(x_t @ w_xh + h_prev @ w_hh + b). Vectors are rows, as everywhere in this
           course, so matrices stand on their right; torch.nn keeps the same matrices transposed.
        2. Each sentence is read by itself: its state is the same alone as in a batch of any size.
        3. The gradients of this formula reach x_t, h_prev, w_xh, w_hh and b.
        4. All five arguments are left as they were.

    Source: Elman 1990, "Finding Structure in Time"; Goodfellow, Bengio and Courville 2016, "Deep
    Learning", equations 10.8 and 10.9.
    """
    # Your code here.
    raise NotImplementedError("seq2seq.rnn_step")


class RNNEncoder(nn.Module):
    """Read a sentence from left to right; its context is the state in which that ends.

    Sentences of one batch end at different places, and the shorter ones are filled up with padding.
    The network would read on into it, so each sentence's context is taken where it ends.

    Args:
        vocab_size: how many different tokens there are.
        d_embed: width of a token's vector.
        d_hidden: width of a state.

    Contract:
        1. ``embedding`` is nn.Embedding(vocab_size, d_embed), ``cell`` is
           nn.RNNCell(d_embed, d_hidden), and nothing else is trained.
        2. Before the first token, the state is all 0. Then states[:, t] = cell(embedding of
           tokens[:, t], states[:, t - 1]), from left to right.
        3. Without ``lengths``, the context is the state after the last token.
        4. With ``lengths``, the context of a sentence of n tokens is the state after its n-th one,
           in whatever order the lengths stand. What ``states`` holds behind a sentence's end is
           free: some code zeroes it, some reads on.
        5. Each sentence is read by itself, and each call anew: neither other sentences, nor
           padding, however much of whatever token, nor an earlier call has a part in it.
        6. Wherever the module lives, forward works there: no tensor is left on the CPU.
        7. The gradients of these formulas reach ``embedding`` and ``cell``, through the states and
           through the context, and tokens and lengths are left as they were.

    Source: Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for
    Statistical Machine Translation", section 2.2, with a plain tanh cell; Sutskever et al. 2014,
    "Sequence to Sequence Learning with Neural Networks", section 2.
    """

    def __init__(self, vocab_size: int, d_embed: int, d_hidden: int) -> None:
        super().__init__()
        # Your code here.
        raise NotImplementedError("seq2seq.RNNEncoder")

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read the sentences.

        Args:
            tokens: the vocabulary's numbers, ``[batch, seq]``, int64, padding at the end.
            lengths: how many real tokens each sentence has, ``[batch]``, int64, from 1 to ``seq``,
                in any order; the longest may be shorter than ``seq``.

        Returns:
            The states ``[batch, seq, d_hidden]`` and the context ``[batch, d_hidden]``.
        """
        # Your code here.
        raise NotImplementedError("seq2seq.RNNEncoder")


class RNNDecoder(nn.Module):
    """Write one token: from the token before, the state, and the context of the source.

    The context goes in at every step, since a decoder that saw it only once would forget it while
    it writes. It is the same vector each time, whatever the next word is about.

    Args:
        vocab_size: how many different tokens there are.
        d_embed: width of a token's vector.
        d_hidden: width of a state, and of the context.

    Contract:
        1. ``embedding`` is nn.Embedding(vocab_size, d_embed), ``cell`` is
           nn.RNNCell(d_embed + d_hidden, d_hidden), ``out`` is nn.Linear(d_hidden, vocab_size), and
           nothing else is trained.
        2. s_t = cell(z, s_prev), where z is the embedding of y_prev followed by the context.
        3. The logits are out(s_t): scores, not probabilities; s_t alone goes in. (In Cho et al.
           the token before and the context go into the output once more.)
        4. Each sentence is written by itself, and nothing is kept from one call to the next.
        5. The gradients of these formulas reach s_prev, the context and every parameter, and
           the arguments are left as they were.

    Source: Cho et al. 2014, section 2.2, with a plain tanh cell.
    """

    def __init__(self, vocab_size: int, d_embed: int, d_hidden: int) -> None:
        super().__init__()
        # Your code here.
        raise NotImplementedError("seq2seq.RNNDecoder")

    def forward(self, y_prev: Tensor, s_prev: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step.

        Args:
            y_prev: each sentence's token before, ``[batch]``, int64.
            s_prev: the state before, ``[batch, d_hidden]``.
            context: what the encoder has understood, ``[batch, d_hidden]``.

        Returns:
            The logits of the next token ``[batch, vocab_size]`` and the state after
            ``[batch, d_hidden]``.
        """
        # Your code here.
        raise NotImplementedError("seq2seq.RNNDecoder")


def greedy_decode(
    decoder: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
    context: Tensor,
    bos_id: int,
    eos_id: int,
    max_len: int,
) -> Tensor:
    """Write a sentence: of all tokens always the likeliest, until it is the end.

    Nobody says what the right word before was, as in training; the decoder reads what it has
    written itself. And no word is ever taken back, though the best next word need not begin the
    best sentence: beam search, which follows several beginnings, was invented for that.

    Args:
        decoder: is called as ``decoder(y_prev, s_prev, context)`` and gives ``(logits, s_t)``, as
            RNNDecoder does. Only call it: any function with these arguments will do.
        context: what the encoder has understood, ``[batch, d_hidden]``.
        bos_id: the token that stands before the first one ("begin of sentence").
        eos_id: the token that ends a sentence ("end of sentence").
        max_len: how many tokens there may be, at least 1.

    Returns:
        The tokens, ``[batch, steps]``, int64, with ``steps`` from 1 to ``max_len``.

    Contract:
        1. The first step reads bos_id for every sentence, and its s_prev is the context itself, as
           in Sutskever et al. (Other code begins with zeros, or with a learned map of the context.)
        2. At every step, the token with the largest logit is written; it and the state that the
           decoder gave go into the next step. The context is the same at each.
        3. The result begins with the first token that was written, so bos_id does not stand before
           it. A sentence's first eos_id does stand in it, and all that follows in its row is
           eos_id, whatever the decoder says.
        4. A sentence goes on until its own eos_id, though others have ended before.
        5. There are at most max_len steps. Once all sentences have ended, steps may be left out, so
           that the longest sentence makes the width; or there are max_len, all the same.
        6. Wherever decoder and context live, decoding works there, and context is left as it was.

    Source: Sutskever et al. 2014, section 3.2, with a beam of one.
    """
    # Your code here.
    raise NotImplementedError("seq2seq.greedy_decode")
