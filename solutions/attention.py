"""Attention: how does a position find what matters to it, wherever in the sequence that is?

A recurrent network hands on its knowledge from neighbour to neighbour, and much is lost on a long
way. With attention, each position asks a question (its query), every position answers with a label
(its key), and where the two fit, the content (the value) is taken over. One step leads from any
position to any other.

Notation: ``batch`` sentences; ``seq_q`` positions that ask, ``seq_k`` positions that are asked;
``d_k`` and ``d_v`` numbers in each key and each value. ``...`` stands for the leading axes: a
batch, or a batch and its heads. A mask is bool: True = may attend, False = hidden.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def stable_softmax(scores: Tensor, dim: int = -1) -> Tensor:
    """Turn scores into weights that sum to 1, without overflowing on the way.

    Written straight from the formula, exp(100) is infinite in float32 and inf / inf is NaN. Scores
    that all move by the same amount give the same weights: so move them to where exp is harmless.

    Args:
        scores: any real numbers, ``[...]``, float16, float32 or float64.
        dim: the axis along which the weights sum to 1.

    Returns:
        The weights, with the shape and the dtype of the scores.

    Contract:
        1. Along ``dim``, each weight is exp(score) divided by the sum of all exp(score).
        2. ``dim`` may be any axis, counted from either end; left out, it is the last.
        3. Scores up to 1e4 in size, of either sign, still give the right and finite weights, as
           exact as float32 arithmetic makes them, even where one row lies far above another.
        4. float16 scores give finite float16 weights, right up to float16's rounding.
        5. No ready-made softmax, log_softmax or attention is called.
        6. The gradient of this formula reaches the scores.
        7. The scores are left as they were.

    Source: Goodfellow, Bengio and Courville 2016, "Deep Learning", section 4.1.
    """
    ### BEGIN SOLUTION
    # Each row's own maximum: one for the whole tensor would push low rows down to 0 / 0.
    highest = scores.amax(dim=dim, keepdim=True)
    exps = torch.exp(scores - highest)  # at most 1, and exactly 1 somewhere in each row
    return exps / exps.sum(dim=dim, keepdim=True)
    ### END SOLUTION


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mix the values by how well each query matches each key.

    A dot product of d_k random numbers grows like sqrt(d_k). Undivided, the softmax would soon put
    all its weight on one key, where its gradient is almost zero and nothing more is learned.

    Args:
        query: what each position looks for, ``[..., seq_q, d_k]``, float32 or float64; without a
            mask, float16 too.
        key: what each position offers, ``[..., seq_k, d_k]``, the dtype of the query.
        value: what each position carries, ``[..., seq_k, d_v]``, the dtype of the query.
        mask: bool, True where a query may attend, broadcastable to ``[..., seq_q, seq_k]``.

    Returns:
        The mixed values ``[..., seq_q, d_v]`` and the weights ``[..., seq_q, seq_k]``, in the dtype
        of the query.

    Contract:
        1. The weights are softmax(query · key / sqrt(d_k)), taken over the keys, however large the
           scores; without a mask, this holds for float16 too.
        2. The output has one row per query: the sum of the values, each times its weight.
        3. Where a query sees at least one key, its hidden keys get weight 0 and the others share
           out 1 as if the hidden ones were not there.
        4. A query that sees no key leaves outputs, weights and gradients finite.
        5. 3-D and 4-D inputs both work, wherever they live, with any mask that broadcasts to the
           weights.
        6. The gradients of these formulas, through the output and through the weights, reach query,
           key and value.
        7. Query, key, value and mask are left as they were.

    Elsewhere:
        In torch.nn.MultiheadAttention, True hides. Here it shows, as in torch's own
        scaled_dot_product_attention: a mask then reads as "who sees whom", and two masks join by &.
        Some code adds an axis for the heads to the mask. Here the caller does, [batch, 1, seq_q,
        seq_k], so that heads may have masks of their own.
        A query that sees no key gets zeros from one code, an even mixture from another. Either will
        do: nobody reads that row. But NaN would spread from it to every gradient.
        Some drop weights in training. A function does not know whether it is trained, so this one
        drops none, and the weights that it returns are those that have mixed.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1.
    """
    ### BEGIN SOLUTION
    d_k = query.size(-1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)  # [..., seq_q, seq_k]
    if mask is not None:
        # Not -inf: a row of nothing else has no softmax, and its NaN would reach every gradient.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    # Over the last axis, the keys: each query shares out one unit of attention.
    weights = torch.softmax(scores, dim=-1)
    output = weights @ value  # [..., seq_q, d_v]
    return output, weights
    ### END SOLUTION


def self_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Let every position of a sequence look at all positions of the same sequence.

    Where do query, key and value come from? From the same token, by three learned matrices: what it
    looks for, what it can be found by, and what it tells. No position is nearer than another here:
    shuffle the tokens and the results come out shuffled alike.

    Args:
        x: the token vectors, ``[batch, seq, d_in]``, float32 or float64.
        w_q: makes the queries, ``[d_in, d_out]``.
        w_k: makes the keys, ``[d_in, d_out]``.
        w_v: makes the values, ``[d_in, d_out]``.
        mask: bool, True where a position may attend, broadcastable to ``[batch, seq, seq]``.

    Returns:
        The mixed values ``[batch, seq, d_out]`` and the weights ``[batch, seq, seq]``.

    Contract:
        1. The weights are those of scaled dot-product attention from queries x @ w_q to keys
           x @ w_k.
        2. The output mixes the values x @ w_v by these weights, and its gradient reaches x and the
           three matrices.
        3. A mask hides keys as it does in scaled_dot_product_attention; the mask, x and the
           matrices are left as they were.

    Elsewhere:
        A layer of attention often has biases, a matrix after the mixing and x added to the result.
        They come later, with the modules; here it is the mixing alone.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    ### BEGIN SOLUTION
    # One source, three views of it.
    query, key, value = x @ w_q, x @ w_k, x @ w_v  # each [batch, seq, d_out]
    return scaled_dot_product_attention(query, key, value, mask)
    ### END SOLUTION


def cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Let every position of one sequence look at all positions of another.

    So a decoder reads the sentence that it translates: it asks (query), the source answers (key,
    value). The two sequences may differ in length.

    Args:
        x: the vectors that ask, ``[batch, seq_q, d_in]``, float32 or float64.
        memory: the vectors that are asked, ``[batch, seq_k, d_in]``, the dtype of x.
        w_q: makes the queries, ``[d_in, d_out]``.
        w_k: makes the keys, ``[d_in, d_out]``.
        w_v: makes the values, ``[d_in, d_out]``.
        mask: bool, True where a position of x may attend to a position of memory, broadcastable to
            ``[batch, seq_q, seq_k]``.

    Returns:
        The mixed values ``[batch, seq_q, d_out]`` and the weights ``[batch, seq_q, seq_k]``.

    Contract:
        1. The weights are those of scaled dot-product attention from queries x @ w_q to keys
           memory @ w_k.
        2. The output mixes the values memory @ w_v by these weights, one row per position of x, and
           its gradient reaches x, memory and the three matrices.
        3. A mask hides positions of memory as keys are hidden in scaled_dot_product_attention; the
           mask, x, memory and the matrices are left as they were.

    Elsewhere:
        As in self_attention: no bias, no matrix after the mixing, nothing added to the result.

    Source: Vaswani et al. 2017, section 3.2.3; Bahdanau et al. 2015, section 3.1.
    """
    ### BEGIN SOLUTION
    # The one who asks is x; all that can be found and told is in memory.
    query = x @ w_q  # [batch, seq_q, d_out]
    key, value = memory @ w_k, memory @ w_v  # each [batch, seq_k, d_out]
    return scaled_dot_product_attention(query, key, value, mask)
    ### END SOLUTION
