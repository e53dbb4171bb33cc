"""One entry at a time."""

import math

import torch
import torch.nn.functional as F


def chunk_tokens(token_ids, size, overlap=0):
    if overlap < 0 or overlap >= size:
        raise ValueError("overlap must be from 0 to size - 1")
    chunks, start = [], 0
    while True:
        chunks.append(token_ids[start : start + size])
        if start + size >= len(token_ids):
            return chunks
        start += size - overlap


def sliding_window_mask(seq_len, window):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for i in range(seq_len):
        mask[i, max(0, i - window + 1) : i + 1] = True
    return mask


class KVCache:
    """Keeps one position after another in lists."""

    def __init__(self):
        self.keys, self.values = [], []

    @property
    def length(self):
        return len(self.keys)

    def append(self, key, value):
        for i in range(key.size(-2)):
            self.keys.append(key[..., i, :])
            self.values.append(value[..., i, :])
        return torch.stack(self.keys, dim=-2), torch.stack(self.values, dim=-2)

    def reset(self):
        self.keys.clear()
        self.values.clear()


def cached_attention(query, key, value, cache):
    rows = []
    for i in range(query.size(-2)):
        keys, values = cache.append(key[..., i : i + 1, :], value[..., i : i + 1, :])
        scores = query[..., i : i + 1, :] @ keys.transpose(-2, -1) / math.sqrt(key.size(-1))
        rows.append(scores.softmax(-1) @ values)
    return torch.cat(rows, dim=-2)


def window_partition(x, size):
    batch, height, width, _ = x.shape
    assert height % size == 0, "windows must fit"
    assert width % size == 0, "windows must fit"
    windows = []
    for b in range(batch):
        for i in range(0, height, size):
            for j in range(0, width, size):
                windows.append(x[b, i : i + size, j : j + size])
    return torch.stack(windows)


def window_reverse(windows, size, height, width):
    per_picture = (height // size) * (width // size)
    x = windows.new_empty(len(windows) // per_picture, height, width, windows.size(-1))
    for number, window in enumerate(windows):
        b, place = divmod(number, per_picture)
        i, j = divmod(place, width // size)
        x[b, i * size : (i + 1) * size, j * size : (j + 1) * size] = window
    return x


def shifted_window_mask(height, width, size, shift):
    def came_round(place, length):
        return place >= length - shift

    masks = []
    for top in range(0, height, size):
        for left in range(0, width, size):
            pixels = [
                (came_round(top + i, height), came_round(left + j, width))
                for i in range(size)
                for j in range(size)
            ]
            masks.append([[one == other for other in pixels] for one in pixels])
    return torch.tensor(masks)


def fast_attention(query, key, value, mask=None):
    outputs = [
        F.scaled_dot_product_attention(
            query[..., i : i + 1, :],
            key,
            value,
            None if mask is None else mask[..., min(i, mask.size(-2) - 1), None, :],
        )
        for i in range(query.size(-2))
    ]
    return torch.cat(outputs, dim=-2)


def attention_cost(seq_len, d_model, num_heads):
    d_k = d_model // num_heads
    work = memory = 0
    for _ in range(num_heads):
        work += seq_len * seq_len * d_k  # scores
        memory += seq_len * seq_len * 4
        work += seq_len * d_k * seq_len  # values
    return work, memory
