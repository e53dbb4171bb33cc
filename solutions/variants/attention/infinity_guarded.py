"""-inf hides; a query that sees no key is let see all of them first."""

import torch

from solutions.attention import *  # noqa: F403


def stable_softmax(scores, dim=-1):
    with torch.no_grad():
        highest = scores.amax(dim, keepdim=True)
    exps = scores.sub(highest).exp_()
    return exps.div(exps.sum(dim, keepdim=True))


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = (query @ key.mT) * (1.0 / query.size(-1) ** 0.5)
    if mask is not None:
        mask = mask | ~mask.any(dim=-1, keepdim=True)
        scores.masked_fill_(~mask, -torch.inf)  # a tensor of our own
    weights = scores.softmax(-1)
    return weights @ value, weights
