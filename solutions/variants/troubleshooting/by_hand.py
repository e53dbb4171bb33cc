"""Loops and plain numbers, and wider dtypes on the way."""

import math

import torch
from torch import nn


def check_heads(d_model, num_heads):
    below = above = None
    for heads in range(1, d_model + 1):
        if d_model % heads:
            continue
        if heads == num_heads:
            return int(d_model / heads)
        if heads < num_heads:
            below = heads
        elif above is None:
            above = heads
    text = f"num_heads {num_heads} must divide d_model {d_model}"
    for heads in (below, above):
        if heads is not None:
            text += f"; num_heads={heads} would"
    raise ValueError(text)


def first_nonfinite(named_tensors):
    def search(value, index):
        if isinstance(value, list):
            for place, part in enumerate(value):
                found = search(part, (*index, place))
                if found:
                    return found
            return None
        if math.isfinite(value):
            return None
        return index, "nan" if math.isnan(value) else "inf"

    for name, tensor in named_tensors:
        found = search(tensor.tolist(), ())
        if found:
            return name, found[0], found[1]
    return None


def safe_attention_weights(scores, mask=None):
    wide = scores.double()
    if mask is not None:
        wide = torch.where(mask, wide, torch.zeros_like(wide))
        low = torch.where(mask, wide, torch.full_like(wide, -1e30))
    else:
        low = wide
    weights = torch.softmax(low, dim=-1)
    if mask is not None:
        weights = torch.where(mask, weights, torch.zeros_like(weights))
    return weights.type_as(scores)


def find_future_leaks(attention_fn, seq_len, d_model):
    """Pair by pair, each tried with three other tokens."""
    torch.manual_seed(0)
    leaks = []
    for query in range(seq_len):
        for key in range(query + 1, seq_len):
            sizes = []
            for _ in range(3):
                one = torch.randn(1, seq_len, d_model).double()
                two = one.clone()
                two[0, key] = torch.randn(d_model).double()
                sizes.append((attention_fn(one) - attention_fn(two))[0, query].abs().max())
            if max(sizes) > 2e-5:
                leaks.append((query, key))
    return leaks


class AddPositions(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        table = torch.zeros(max_len, d_model, dtype=torch.float64)
        half = d_model // 2
        for t in range(max_len):
            for i in range(half):
                angle = t / 10000 ** (2 * i / d_model)
                table[t, i] = math.sin(angle)
                table[t, half + i] = math.cos(angle)
        self.rows = nn.Parameter(table.float(), requires_grad=False)  # moves, and is not trained

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device)
        return x + nn.functional.embedding(positions, self.rows)


def causal_weights(scores):
    future = torch.triu(torch.ones_like(scores), diagonal=1)
    return torch.softmax(scores.masked_fill(future == 1, torch.finfo(scores.dtype).min), -1)


def decoder_weights(scores, padding_mask):
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    visible = padding_mask[:, None, :] & torch.ones_like(scores, dtype=torch.bool).tril()
    bias = torch.where(visible, 0.0, -1e30)  # added, but to numbers that leave room below
    return torch.softmax(wide + bias, dim=-1).to(scores.dtype)


def attention_entropy(weights):
    wide = weights.double()
    return -(wide * wide.clamp(min=1e-12).log()).sum(-1).to(weights.dtype)


def encoder_weights(scores, padding_mask):
    batch, heads, seq_q, seq_k = scores.shape
    mask = padding_mask.view(batch, 1, 1, seq_k).expand(batch, heads, seq_q, seq_k)
    wide = scores.double().masked_fill(~mask, -1e9)
    return wide.softmax(-1).to(scores.dtype)


def scaled_scores(query, key):
    if query.dtype == torch.float64:
        return query @ key.mT * query.size(-1) ** -0.5
    return (query.float() @ key.float().mT / query.size(-1) ** 0.5).to(query.dtype)


def causal_self_attention(x, w_q, w_k, w_v):
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    rows = []
    for t in range(x.size(1)):
        scores = (query[:, t : t + 1] * key[:, : t + 1]).sum(-1) / math.sqrt(w_q.size(1))
        rows.append((scores.softmax(-1).unsqueeze(-1) * value[:, : t + 1]).sum(1))
    return torch.stack(rows, 1)


class PreNormFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.norm, self.inner, self.outer = (
            nn.LayerNorm(d_model),
            nn.Linear(d_model, d_ff),
            nn.Linear(d_ff, d_model),
        )
        self.thinks = nn.Sequential(self.norm, self.inner, nn.ReLU(), self.outer)

    def forward(self, x):
        return x + self.thinks(x)


def fit_linear(features, targets, steps):
    """The same in a unit in which the largest singular value is 1."""
    size = torch.linalg.svdvals(features)[0]
    unit = features / size
    weights = torch.zeros_like(features[0])
    for _ in range(steps):
        weights = weights - unit.mT @ (unit @ weights - targets)
    return weights / size


def post_mortem():
    text = """
        AddPositions: left behind
        causal_weights: made on the CPU
        decoder_weights: nothing visible
        attention_entropy: zero times infinity
        encoder_weights: fill not low enough
        scaled_scores: dtype too small
        causal_self_attention: mask misplaced
        PreNormFeedForward: residual lost
        fit_linear: rate too high
    """
    return dict(line.strip().split(": ") for line in text.strip().splitlines())
