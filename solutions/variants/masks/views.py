"""Results are views of larger or shared tensors, and not contiguous."""

import torch

_LONGEST = 64
_TRIANGLE = torch.ones(_LONGEST, _LONGEST, dtype=torch.bool).triu()


def create_look_ahead_mask(seq_len):
    return _TRIANGLE[:seq_len, :seq_len].T


def create_padding_mask(token_ids, pad_id=0):
    return token_ids.T.ne(pad_id).T


def combine_masks(padding_mask, look_ahead_mask):
    batch, seq = padding_mask.shape
    by_key = padding_mask.T[:, :, None] * look_ahead_mask.T[:, None, :]  # [key, batch, query]
    return by_key.permute(1, 2, 0).expand(batch, seq, seq)
