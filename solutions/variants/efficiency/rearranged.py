"""Everything by index and by reshape; the cache is a dict, and its mask is joined from two."""

import math

import torch
from torch.nn import functional


def chunk_tokens(token_ids, size, overlap=0):
    if overlap not in range(size):
        raise ValueError(f"overlap {overlap} for size {size}")
    n, step = token_ids.numel(), size - overlap
    count = 1 + math.ceil(max(0, n - size) / step)
    padded = functional.pad(token_ids, (0, count * step + overlap - n), value=-1)
    table = padded.unfold(0, size, step)
    lengths = [min(size, n - k * step) for k in range(count)]
    return [row[:length] for row, length in zip(table, lengths)]


def sliding_window_mask(seq_len, window):
    i = torch.arange(seq_len)
    return (i[None, :] <= i[:, None]) ^ (i[None, :] <= i[:, None] - window)


class KVCache:
    """A list of the pieces, joined when they are asked for."""

    def __init__(self):
        self.length = 0
        self.pieces = {"key": [], "value": []}

    def append(self, key, value):
        self.pieces["key"].append(key)
        self.pieces["value"].append(value)
        self.length += key.shape[-2]
        return tuple(torch.cat(pieces, -2) for pieces in self.pieces.values())

    def reset(self):
        self.__init__()


def cached_attention(query, key, value, cache):
    past, new = cache.length, key.shape[-2]
    keys, values = cache.append(key, value)
    seen = query.new_ones(new, past, dtype=torch.bool)
    causal = torch.tril(query.new_ones(new, new, dtype=torch.bool))
    mask = torch.hstack([seen, causal])
    scores = torch.einsum("...qd,...kd->...qk", query, keys) / query.shape[-1] ** 0.5
    scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    return torch.einsum("...qk,...kd->...qd", torch.softmax(scores, -1), values)


def window_partition(x, size):
    b, h, w, c = x.shape
    if (h % size, w % size) != (0, 0):
        raise IndexError("pixels would be left over")
    rows = x.reshape(b * h // size, size, w, c)  # strips of windows
    windows = rows.reshape(-1, size, w // size, size, c).swapaxes(1, 2)
    return windows.reshape(-1, size, size, c)


def window_reverse(windows, size, height, width):
    channels = windows.shape[-1]
    number = torch.arange(height * width // size**2 * size**2)
    order = window_partition(number.view(1, height, width, 1), size).flatten()
    pixels = windows.reshape(-1, height * width, channels)
    x = torch.empty_like(pixels)
    x[:, order] = pixels
    return x.view(-1, height, width, channels)


def shifted_window_mask(height, width, size, shift):
    def along(length):
        """[windows, size, size] of one axis."""
        round_ = (torch.arange(length) + shift >= length).view(-1, size)
        return round_[:, :, None] == round_[:, None, :]

    rows, columns = along(height), along(width)
    both = rows[:, None, :, None, :, None] & columns[None, :, None, :, None, :]
    return both.reshape(-1, size * size, size * size)


def fast_attention(query, key, value, mask=None):
    return torch._C._nn.scaled_dot_product_attention(query, key, value, mask, 0.0, False)


def attention_cost(seq_len, d_model, num_heads):
    pairs = math.prod([seq_len] * 2)
    return pairs * d_model * 2, pairs * num_heads * 4
