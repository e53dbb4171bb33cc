"""What torch has ready: its own causal mask, isin, where."""

import torch
from torch import nn


def create_look_ahead_mask(seq_len):
    return nn.Transformer.generate_square_subsequent_mask(seq_len).isfinite()


def create_padding_mask(token_ids, pad_id=0):
    return torch.isin(token_ids, torch.tensor([pad_id], device=token_ids.device), invert=True)


def combine_masks(padding_mask, look_ahead_mask):
    batch, seq = padding_mask.shape
    keys = padding_mask.repeat_interleave(seq, dim=0).view(batch, seq, seq)
    return torch.where(keys, look_ahead_mask, torch.zeros_like(keys))
