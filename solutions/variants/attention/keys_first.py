"""Scores are kept [seq_k, seq_q]; what is returned are transposed views, in a named tuple."""

from typing import NamedTuple

import torch
from torch import Tensor


class Attended(NamedTuple):
    """What an attention gives."""

    output: Tensor
    weights: Tensor


def stable_softmax(scores: Tensor, dim: int = -1) -> Tensor:
    moved = scores.transpose(dim, 0)
    exps = (moved - moved.max(0).values).exp()
    return (exps / exps.sum(0)).transpose(dim, 0)


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = key @ query.mT / query.size(-1) ** 0.5  # [..., seq_k, seq_q]
    if mask is not None:
        hidden = ~torch.broadcast_to(mask, scores.mT.shape).mT
        scores[hidden] = torch.finfo(scores.dtype).min  # a tensor of our own
    weights = stable_softmax(scores, -2)
    both = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1).mT @ weights
    return Attended(both[..., :-1, :].mT, weights.mT)


def self_attention(x, w_q, w_k, w_v, mask=None):
    query, key, value = (torch.tensordot(x, matrix, dims=1) for matrix in (w_q, w_k, w_v))
    return scaled_dot_product_attention(query, key, value, mask)


def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    # Query and key meet in one matrix between them; the scale is that of d_out all the same.
    bridge = w_q @ w_k.T / w_q.size(1) ** 0.5
    query = x @ bridge * memory.size(-1) ** 0.5
    return scaled_dot_product_attention(query, memory, memory @ w_v, mask)
