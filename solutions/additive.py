"""Additive attention: what if the decoder could look back at the source, anew for every word?

In `seq2seq`, all that the decoder knows of the source is one vector, the same for every word that
it writes. Here the encoder's states are kept, one for each source token. Before every step, the
decoder asks with its own state, the query: which of them matter for the word that comes next? Each
gets a score; a softmax makes weights of the scores; the weighted sum of the states is the context
of this one step. The query is what makes it attention: without it, the sum would be the same at
every step, and the bottleneck would be back.

Notation: ``batch`` sentences, ``seq`` source tokens; ``d_query`` and ``d_key`` numbers in a query
and a key, ``d_attn`` in the vector where both meet. A mask is bool: True = may attend, False =
hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .seq2seq import RNNDecoder


class AdditiveAttention(nn.Module):
    """Score every key against the query by a small network; mix the keys by their scores.

    Query and key may differ in width, so each is mapped to ``d_attn`` numbers, and the two are
    added: hence the name. The tanh lets them work on each other. Without it, a score would be the
    sum of a part of the query and a part of the key; the query's part is the same for all keys, the
    softmax takes away what all have in common, and every query would get the same weights.

    Args:
        d_query: width of a query.
        d_key: width of a key.
        d_attn: width of the vector where they meet.

    Contract:
        1. ``w_query`` is nn.Linear(d_query, d_attn), ``w_key`` is nn.Linear(d_key, d_attn) and
           ``v`` is nn.Linear(d_attn, 1), all without bias, and nothing else is trained.
        2. The score of a key is v(tanh(w_query(query) + w_key(key))); the weights are the softmax
           of a sentence's scores over its keys.
        3. The context is the sum of the keys, each times its weight: keys are values too.
        4. Where a sentence has a visible key, its hidden keys get weight 0 and the others share out
           1 as if the hidden ones were not there.
        5. A sentence with every key hidden leaves context, weights and gradients finite.
        6. Each sentence attends by itself, whatever the sizes: one sentence, one key, or as many
           sentences as keys.
        7. The gradients of these formulas, through the context and through the weights, reach
           query, keys and every parameter, and the arguments are left as they were.

    Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
    Translate", section 3.1 and appendix A.1.2.
    """

    def __init__(self, d_query: int, d_key: int, d_attn: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.w_query = nn.Linear(d_query, d_attn, bias=False)
        self.w_key = nn.Linear(d_key, d_attn, bias=False)
        self.v = nn.Linear(d_attn, 1, bias=False)
        ### END SOLUTION

    def forward(
        self, query: Tensor, keys: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Let each sentence's query look at its keys.

        Args:
            query: what each sentence looks for, ``[batch, d_query]``, float32 or float64.
            keys: what each sentence may look at, ``[batch, seq, d_key]``.
            mask: bool, True where a key may be looked at, ``[batch, seq]``.

        Returns:
            The context ``[batch, d_key]`` and the weights ``[batch, seq]``.
        """
        ### BEGIN SOLUTION
        asked = self.w_query(query).unsqueeze(1)  # [batch, 1, d_attn]: the new axis meets every key
        offered = self.w_key(keys)  # [batch, seq, d_attn]
        # The axis that goes is named: a bare squeeze() would take a batch of one along.
        scores = self.v(torch.tanh(asked + offered)).squeeze(-1)  # [batch, seq]
        if mask is not None:
            # Not -inf: a row of nothing else has no softmax, and its NaN reaches every gradient.
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)  # over the keys of one sentence
        context = (weights.unsqueeze(1) @ keys).squeeze(1)  # [batch, d_key]
        return context, weights
        ### END SOLUTION


class AttentionDecoder(nn.Module):
    """The decoder of `seq2seq`, with a context that is drawn afresh at every step.

    Only one line is new, and the bottleneck is gone: however long the source, each of its words is
    one look away. The weights, laid row under row, show which source words each word came from.

    Args:
        vocab_size: how many different tokens there are.
        d_embed: width of a token's vector.
        d_hidden: width of the decoder's state, and of the encoder's states.
        d_attn: width of the vector where query and keys meet.

    Contract:
        1. ``attention`` is AdditiveAttention(d_hidden, d_hidden, d_attn), ``decoder`` is
           RNNDecoder(vocab_size, d_embed, d_hidden), and nothing else is trained.
        2. The query is s_prev, the state before the step, as in Bahdanau et al. (Luong et al. 2015
           ask with s_t, after it.) The keys are the encoder's states; the weights are returned.
        3. The context that the attention gives goes into the decoder's step, with y_prev and
           s_prev; what that gives, logits and s_t, is returned.
        4. A mask hides states as it hides keys from the attention.
        5. Each sentence is written by itself, and nothing is kept from one call to the next: the
           context is another as soon as s_prev is.
        6. The gradients of these formulas reach s_prev, the states and every parameter, and the
           arguments are left as they were.

    Source: Bahdanau et al. 2015, section 3.1, with the step of Cho et al. 2014.
    """

    def __init__(self, vocab_size: int, d_embed: int, d_hidden: int, d_attn: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.attention = AdditiveAttention(d_hidden, d_hidden, d_attn)
        self.decoder = RNNDecoder(vocab_size, d_embed, d_hidden)
        ### END SOLUTION

    def forward(
        self, y_prev: Tensor, s_prev: Tensor, states: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take one step: look, then write.

        Args:
            y_prev: each sentence's token before, ``[batch]``, int64.
            s_prev: the decoder's state before, ``[batch, d_hidden]``.
            states: the encoder's states, ``[batch, seq, d_hidden]``.
            mask: bool, True where the source has a real token, ``[batch, seq]``.

        Returns:
            The logits of the next token ``[batch, vocab_size]``, the state after
            ``[batch, d_hidden]``, and the weights ``[batch, seq]``.
        """
        ### BEGIN SOLUTION
        # Before the step, by the state that knows what has been written so far.
        context, weights = self.attention(s_prev, states, mask)
        logits, s_t = self.decoder(y_prev, s_prev, context)
        return logits, s_t, weights
        ### END SOLUTION
