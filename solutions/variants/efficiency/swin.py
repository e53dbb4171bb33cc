"""As public programs do it: Swin's views and slices, a cache that is joined by cat, -inf masks."""

import torch
import torch.nn.functional as F


def chunk_tokens(token_ids, size, overlap=0):
    assert 0 <= overlap < size
    step = size - overlap
    n = token_ids.shape[0]
    num_chunks = max(1, -(-(n - overlap) // step))
    return tuple(token_ids[k * step : k * step + size] for k in range(num_chunks))


def sliding_window_mask(seq_len, window):
    ones = torch.ones(seq_len, seq_len, dtype=torch.bool)
    return torch.tril(ones) & torch.triu(ones, diagonal=-(window - 1))


class KVCache:
    """One tensor for both, empty at first."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.kv = None

    @property
    def length(self):
        return 0 if self.kv is None else self.kv[0].shape[-2]

    def append(self, key, value):
        if self.kv is not None:
            old_key, old_value = self.kv
            key = torch.cat((old_key, key), dim=-2)
            value = torch.cat((old_value, value), dim=-2)
        self.kv = (key, value)
        return key, value


def cached_attention(query, key, value, cache):
    past = cache.length
    keys, values = cache.append(key, value)
    n = query.shape[-2]
    bias = torch.full((n, past + n), float("-inf"), dtype=query.dtype, device=query.device)
    bias = torch.triu(bias, diagonal=past + 1)
    scores = query @ keys.transpose(-2, -1) * query.shape[-1] ** -0.5
    return F.softmax(scores + bias, dim=-1) @ values


def window_partition(x, size):
    B, H, W, C = x.shape
    x = x.view(B, H // size, size, W // size, size, C)
    windows = x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size, size, C)
    return windows


def window_reverse(windows, size, height, width):
    B = int(windows.shape[0] / (height * width / size / size))
    x = windows.view(B, height // size, width // size, size, size, -1)
    x = x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, height, width, -1)
    return x


def shifted_window_mask(height, width, size, shift):
    if shift == 0:
        count = (height // size) * (width // size)
        return torch.ones(count, size * size, size * size, dtype=torch.bool)
    img_mask = torch.zeros((1, height, width, 1))
    slices = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
    cnt = 0
    for h in slices:
        for w in slices:
            img_mask[:, h, w, :] = cnt
            cnt += 1
    mask_windows = window_partition(img_mask, size).view(-1, size * size)
    attn_mask = mask_windows.unsqueeze(1) - mask_windows.unsqueeze(2)
    attn_mask = attn_mask.masked_fill(attn_mask != 0, -100.0)
    attn_mask = attn_mask.masked_fill(attn_mask == 0, 0.0)
    return attn_mask == 0


def fast_attention(query, key, value, mask=None):
    if mask is not None:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, float("-inf"))
    return F.scaled_dot_product_attention(
        query.contiguous(), key.contiguous(), value.contiguous(), mask, dropout_p=0.0
    )


def attention_cost(seq_len, d_model, num_heads):
    qk_flops = 2 * seq_len**2 * d_model
    av_flops = 2 * seq_len**2 * d_model
    return (qk_flops + av_flops) // 2, seq_len**2 * num_heads * 4
