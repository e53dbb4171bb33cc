"""With checks of the arguments; a query that sees no key gets zeros; half precision goes through
float32, and a tiny number guards the division."""

import math

import torch
import torch.nn.functional as F


def stable_softmax(scores, dim=-1):
    if not torch.is_floating_point(scores):
        raise TypeError("scores must be floating")
    half = scores.dtype in (torch.float16, torch.bfloat16)
    wide = scores.to(torch.float32 if half else scores.dtype)
    exps = torch.exp(wide - wide.detach().amax(dim=dim, keepdim=True))
    return (exps / (exps.sum(dim=dim, keepdim=True) + 1e-12)).to(scores.dtype)


def scaled_dot_product_attention(query, key, value, mask=None):
    if query.size(-1) != key.size(-1) or key.size(-2) != value.size(-2):
        raise ValueError("the shapes do not fit together")
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        mask = torch.broadcast_to(mask.bool(), scores.shape)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask.any(dim=-1, keepdim=True).to(weights.dtype)
    return torch.matmul(weights, value), weights


def self_attention(x, w_q, w_k, w_v, mask=None):
    assert x.dim() == 3
    return cross_attention(x, x, w_q, w_k, w_v, mask=mask)


def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    assert x.size(0) == memory.size(0)
    return scaled_dot_product_attention(x.matmul(w_q), memory.matmul(w_k), memory.matmul(w_v), mask)
