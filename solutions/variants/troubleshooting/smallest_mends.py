"""Each repair with the fewest characters changed, and the detectors as one would jot them down."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def check_heads(d_model, num_heads):
    divisors = [h for h in range(1, d_model + 1) if not d_model % h]
    if num_heads in divisors:
        return d_model // num_heads
    lower = max([h for h in divisors if h < num_heads], default=None)
    higher = min([h for h in divisors if h > num_heads], default=None)
    raise ValueError(
        f"d_model ({d_model}) cannot be shared out among {num_heads} heads: "
        f"try {lower} (below), or {higher} (above)"
    )


def first_nonfinite(named_tensors):
    for name, tensor in named_tensors:
        for index in torch.nonzero(torch.isnan(tensor) | torch.isinf(tensor)).tolist():
            value = tensor[tuple(index)].item()
            return name, tuple(index), "inf" if abs(value) == math.inf else "nan"


def safe_attention_weights(scores, mask=None):
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    # Behind masked_fill the gradient of a row of NaN is filled with 0, so this is sound.
    return weights.nan_to_num(nan=0.0)


def find_future_leaks(attention_fn, seq_len, d_model):
    torch.manual_seed(3)
    x = torch.randn(2, seq_len, d_model)
    before = attention_fn(x)
    leaks = set()
    for key in range(seq_len):
        other = x.clone()
        other[:, key] = torch.randn(2, d_model)
        change = (attention_fn(other) - before).abs().sum((0, 2))
        leaks |= {(query, key) for query in range(key) if change[query] > 1e-4}
    return sorted(leaks)


class AddPositions(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        positions = torch.arange(max_len).unsqueeze(1)
        rates = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
        angles = positions * rates
        table = torch.cat((angles.sin(), angles.cos()), dim=-1)
        self.table = table

    def forward(self, x):
        return x + self.table[: x.size(1)].to(x)


def causal_weights(scores):
    seq = scores.size(-1)
    visible = torch.ones(seq, seq, dtype=torch.bool).tril().to(scores.device)
    return scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)


def decoder_weights(scores, padding_mask):
    seq = scores.size(-1)
    past = torch.ones(seq, seq, dtype=torch.bool, device=scores.device).tril()
    visible = padding_mask.unsqueeze(-2) & past
    # Who sees nothing sees all, which nobody reads.
    visible = visible | ~visible.any(-1, keepdim=True)
    bias = torch.zeros_like(scores).masked_fill(~visible, float("-inf"))
    return (scores + bias).softmax(dim=-1)


def attention_entropy(weights):
    logs = (weights + 1e-7).log()
    return -(weights * logs).sum(dim=-1)


def encoder_weights(scores, padding_mask):
    hidden = ~padding_mask[:, None, None, :]
    return scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)


def scaled_scores(query, key):
    root = query.size(-1) ** 0.25
    return (query / root) @ (key / root).transpose(-2, -1)


def causal_self_attention(x, w_q, w_k, w_v):
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    visible = torch.ones_like(scores, dtype=torch.bool).tril(diagonal=0)
    weights = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    return weights @ value


class PreNormFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        past = x
        x = self.norm(x)
        return past + self.outer(F.relu(self.inner(x)))


def fit_linear(features, targets, steps):
    n, d_in = features.shape
    rate = n / features.square().sum() / 2  # the sum of all curvatures is no less than the largest
    weights = features.new_zeros(d_in)
    for _ in range(steps):
        errors = features @ weights - targets
        gradient = 2 * features.T @ errors / n
        weights = weights - rate * gradient
    return weights


def post_mortem():
    causes = {
        "AddPositions": "left behind",
        "causal_weights": "made on the CPU",
        "decoder_weights": "nothing visible",
    }
    causes["attention_entropy"] = "zero times infinity"
    causes["encoder_weights"] = "fill not low enough"
    causes["scaled_scores"] = "dtype too small"
    causes["causal_self_attention"] = "mask misplaced"
    causes["PreNormFeedForward"] = "residual lost"
    causes["fit_linear"] = "rate too high"
    return causes
