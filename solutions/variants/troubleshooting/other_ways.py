"""Another way round everywhere: fused calls, comparisons of positions, autograd, backtracking."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def check_heads(d_model, num_heads):
    if num_heads > 0:
        width, rest = divmod(d_model, num_heads)
        if rest == 0:
            return width
    candidates = sorted(
        (h for h in range(1, d_model + 1) if d_model / h == d_model // h),
        key=lambda h: abs(h - num_heads),
    )
    words = [f"{h} heads of {d_model // h}" for h in candidates[:4]]
    smaller = max((h for h in candidates if h < num_heads), default=candidates[0])
    larger = min((h for h in candidates if h > num_heads), default=candidates[0])
    raise ValueError(
        f"{d_model} features, {num_heads} heads: no. Nearest: {smaller}, {larger}. {words}"
    )


def first_nonfinite(named_tensors):
    for name, tensor in named_tensors:
        sound = tensor == tensor
        if tensor.is_floating_point():
            sound = sound & (tensor.abs() != math.inf)
        flat = sound.reshape(-1)
        if flat.all():
            continue
        place = int((~flat).int().argmax())
        index = []
        for size in reversed(tensor.shape):
            place, rest = divmod(place, size)
            index.insert(0, rest)
        entry = tensor[tuple(index)]
        return (name, tuple(index), "nan" if entry != entry else "inf")
    return None


def safe_attention_weights(scores, mask=None):
    if mask is None:
        mask = scores.new_ones((), dtype=torch.bool)
    wide = scores if scores.dtype == torch.float64 else scores.float()
    wide = torch.where(mask, wide, torch.finfo(wide.dtype).min)
    exps = torch.where(mask, (wide - wide.amax(-1, keepdim=True)).exp(), 0.0)
    total = exps.sum(-1, keepdim=True)
    return (exps / torch.where(total > 0, total, 1.0)).to(scores.dtype)


def find_future_leaks(attention_fn, seq_len, d_model):
    """All experiments in one batch: sentence k + 1 has another token at k."""
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(seq_len, d_model, generator=generator, dtype=torch.float64)
    batch = x.repeat(seq_len + 1, 1, 1)
    for key in range(seq_len):
        batch[key + 1, key] = 2 * torch.randn(d_model, generator=generator, dtype=torch.float64)
    outputs = attention_fn(batch)
    moved = (outputs[1:] - outputs[:1]).abs().amax(-1) > 5e-5  # [key, query]
    return [(q, k) for q in range(seq_len) for k in range(q + 1, seq_len) if moved[k, q]]


class AddPositions(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        """The table is made anew where x is: nothing is kept that could stay behind."""
        at = {"device": x.device, "dtype": torch.float32}
        rates = torch.exp(
            torch.arange(0, self.d_model, 2, **at) * (-math.log(10000.0) / self.d_model)
        )
        angles = torch.outer(torch.arange(x.size(1), **at), rates)
        return x + torch.cat([torch.sin(angles), torch.cos(angles)], 1).to(x.dtype)


def causal_weights(scores):
    places = torch.arange(scores.size(-1), device=scores.device)
    future = places[None, :] > places[:, None]
    return torch.softmax(torch.where(future, -math.inf, scores), dim=-1)


def decoder_weights(scores, padding_mask):
    places = torch.arange(scores.size(-1), device=scores.device)
    hidden = (places[None, :] > places[:, None]) | ~padding_mask[:, None, :]
    weights = F.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
    return weights.masked_fill(hidden, 0.0)  # and of rows that see nothing, all


def attention_entropy(weights):
    positive = weights > 0
    logs = torch.where(positive, weights, torch.ones_like(weights)).log()
    return (weights * -logs).sum(-1)


def encoder_weights(scores, padding_mask):
    visible = padding_mask[:, None, None, :]
    lowest = scores.amin(-1, keepdim=True).detach()
    exps = (scores - scores.masked_fill(~visible, -math.inf).amax(-1, keepdim=True).detach()).exp()
    exps = torch.where(visible, exps, torch.zeros_like(lowest))
    return exps / exps.sum(-1, keepdim=True)


def scaled_scores(query, key):
    return torch.einsum("...qd,...kd->...qk", query * query.size(-1) ** -0.5, key)


def causal_self_attention(x, w_q, w_k, w_v):
    query, key, value = (torch.matmul(x, w) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class PreNormFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.outer = nn.Linear(d_ff, d_model)
        self.inner = nn.Linear(d_model, d_ff)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return torch.add(self.outer(self.inner(self.norm(x)).clamp(min=0)), x)


def fit_linear(features, targets, steps):
    """Backtracking: halve the rate until the step goes down far enough, then try a larger one."""
    weights = torch.zeros(features.size(1), dtype=features.dtype)

    def loss(w):
        return (features @ w - targets).square().mean()

    rate = 1.0
    for _ in range(steps):
        leaf = weights.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(leaf), leaf)
        now, slope = loss(weights), gradient.square().sum()
        rate *= 2
        while not loss(weights - rate * gradient) <= now - 0.5 * rate * slope:
            rate /= 2
            if rate < 1e-300:
                return weights
        weights = weights - rate * gradient
    return weights


def post_mortem():
    return dict(
        fit_linear="rate too high",
        PreNormFeedForward="residual lost",
        causal_self_attention="mask misplaced",
        scaled_scores="dtype too small",
        encoder_weights="fill not low enough",
        attention_entropy="zero times infinity",
        decoder_weights="nothing visible",
        causal_weights="made on the CPU",
        AddPositions="left behind",
    )
