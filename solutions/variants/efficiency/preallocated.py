"""A cache that grows by doubling, masks by position, windows by unfold and index."""

import torch
import torch.nn.functional as F
from torch import nn


def chunk_tokens(token_ids, size, overlap=0):
    if not (size > overlap >= 0):
        raise ValueError((size, overlap))
    pieces = [token_ids[:size]]
    rest = token_ids[size:]
    while len(rest):
        shared = pieces[-1][len(pieces[-1]) - overlap :]
        pieces.append(torch.cat([shared, rest[: size - overlap]]))
        rest = rest[size - overlap :]
    return pieces


def sliding_window_mask(seq_len, window):
    mask = torch.zeros(seq_len, seq_len)
    for back in range(min(window, seq_len)):
        mask += torch.diag(torch.ones(seq_len - back), -back)
    return mask > 0


class KVCache(nn.Module):
    """Room for more than there is, so that not every word copies everything."""

    def __init__(self):
        super().__init__()
        self.length = 0
        self.register_buffer("room_k", None, persistent=False)
        self.register_buffer("room_v", None, persistent=False)

    def append(self, key, value):
        start, end = self.length, self.length + key.shape[-2]
        self.room_k = self._grown(self.room_k, key, end)
        self.room_v = self._grown(self.room_v, value, end)
        self.room_k[..., start:end, :] = key
        self.room_v[..., start:end, :] = value
        self.length = end
        return self.room_k[..., :end, :], self.room_v[..., :end, :]

    def _grown(self, room, new, length):
        if room is None:
            return new.new_empty(*new.shape[:-2], 2 * length, new.shape[-1])
        if room.shape[-2] >= length:
            return room
        larger = room.new_empty(*room.shape[:-2], 2 * length, room.shape[-1])
        larger[..., : self.length, :] = room[..., : self.length, :]
        return larger

    def reset(self):
        self.length = 0
        self.room_k = self.room_v = None


def cached_attention(query, key, value, cache):
    offset = cache.length
    keys, values = cache.append(key, value)
    k_pos = torch.arange(keys.shape[-2], device=query.device).unsqueeze(0)
    q_pos = k_pos[:, offset:].mT
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=k_pos <= q_pos)


def window_partition(x, size):
    height, width = x.shape[1:3]
    if height % size or width % size:
        raise ValueError(f"{size} does not divide {height} x {width}")
    windows = x.unfold(1, size, size).unfold(2, size, size)  # [B, H/s, W/s, C, s, s]
    return windows.movedim(3, -1).flatten(0, 2)


def window_reverse(windows, size, height, width):
    rows, columns = height // size, width // size
    batch = windows.shape[0] // (rows * columns)
    x = windows.unflatten(0, (batch, rows, columns))
    strips = torch.cat(x.unbind(2), dim=3)  # [batch, rows, size, width, channels]
    return torch.cat(strips.unbind(1), dim=1)


def shifted_window_mask(height, width, size, shift):
    """By the pixels' own places: who is as far away as before the roll?"""
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    before = torch.stack([row, column], dim=-1)
    rolled = torch.roll(before, (-shift, -shift), (0, 1))

    def apart(places):
        cut = window_partition(places[None].float(), size).flatten(1, 2)
        return cut[:, :, None] - cut[:, None, :]

    return (apart(before) == apart(rolled)).all(dim=-1)


def fast_attention(query, key, value, mask=None):
    q, k, v = (t.unsqueeze(1) if t.ndim == 3 else t for t in (query, key, value))
    if mask is not None:
        shape = torch.broadcast_shapes(mask.shape, (*query.shape[:-1], key.shape[-2]))
        mask = mask.expand(shape)
        mask = mask.unsqueeze(1) if query.ndim == 3 else mask
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.squeeze(1) if query.ndim == 3 else out


def attention_cost(seq_len, d_model, num_heads):
    per_head = d_model // num_heads
    scores = seq_len * seq_len
    return num_heads * (scores * per_head + scores * per_head), num_heads * scores * 32 // 8
