"""One number at a time, in plain Python, as the formulas stand in a book."""

import math

import torch


def _softmax_of_list(scores):
    top = max(scores, key=float)
    exps = [torch.exp(score - top) for score in scores]
    total = exps[0]
    for one in exps[1:]:
        total = total + one
    return [one / total for one in exps]


def stable_softmax(scores, dim=-1):
    rows = scores.movedim(dim, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    done = torch.stack([torch.stack(_softmax_of_list(list(row))) for row in flat])
    return done.reshape(rows.shape).movedim(-1, dim)


def _attend(query, key, value, mask):
    outputs, weights = [], []
    for i in range(query.shape[0]):
        visible = [j for j in range(key.shape[0]) if mask is None or mask[i, j]]
        row = [torch.zeros((), dtype=query.dtype) for _ in range(key.shape[0])]
        scores = [(query[i] * key[j]).sum() / math.sqrt(query.shape[1]) for j in visible]
        for j, weight in zip(visible, _softmax_of_list(scores) if visible else []):
            row[j] = weight
        output = torch.zeros(value.shape[1], dtype=value.dtype)
        for j in range(key.shape[0]):
            output = output + row[j] * value[j]
        outputs.append(output)
        weights.append(torch.stack(row))
    return torch.stack(outputs), torch.stack(weights)


def scaled_dot_product_attention(query, key, value, mask=None):
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    if query.dim() == 2:
        return _attend(query, key, value, mask)
    parts = [
        scaled_dot_product_attention(query[b], key[b], value[b], None if mask is None else mask[b])
        for b in range(query.shape[0])
    ]
    return torch.stack([part[0] for part in parts]), torch.stack([part[1] for part in parts])


def self_attention(x, w_q, w_k, w_v, mask=None):
    return cross_attention(x, x, w_q, w_k, w_v, mask)


def cross_attention(x, memory, w_q, w_k, w_v, mask=None):
    query = torch.stack([sentence @ w_q for sentence in x])
    key = torch.stack([sentence @ w_k for sentence in memory])
    value = torch.stack([sentence @ w_v for sentence in memory])
    return scaled_dot_product_attention(query, key, value, mask)
