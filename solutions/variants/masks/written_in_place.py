"""Tensors of one's own are filled in place."""

import torch


def create_look_ahead_mask(seq_len):
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    rows, columns = torch.tril_indices(seq_len, seq_len)
    mask[rows, columns] = True
    return mask


def create_padding_mask(token_ids, pad_id=0):
    mask = torch.full_like(token_ids, True, dtype=torch.bool)
    mask[token_ids == pad_id] = False
    return mask


def combine_masks(padding_mask, look_ahead_mask):
    hidden = (~look_ahead_mask).repeat(padding_mask.size(0), 1, 1)
    hidden |= ~padding_mask.unsqueeze(1)
    return hidden.logical_not_()
