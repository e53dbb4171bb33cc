"""Half of the scale on the query, half on the key; baddbmm adds the mask."""

import torch

from solutions.attention import *  # noqa: F403


def scaled_dot_product_attention(query, key, value, mask=None):
    root = query.size(-1) ** 0.25
    shape = torch.Size((*query.shape[:-1], key.shape[-2]))
    bias = torch.zeros(shape, dtype=query.dtype, device=query.device)
    if mask is not None:
        bias = bias.masked_fill(mask == False, -1e9)  # noqa: E712
    flat = [tensor.reshape(-1, *tensor.shape[-2:]) for tensor in (bias, query / root, key / root)]
    weights = torch.softmax(torch.baddbmm(flat[0], flat[1], flat[2].mT), -1).view(shape)
    return weights @ value, weights
