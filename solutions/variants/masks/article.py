"""As in the article: what lies above the diagonal is 1, and 0 may be seen."""

import torch


def create_look_ahead_mask(seq_len):
    mask = torch.triu(torch.ones(seq_len, seq_len), diagonal=1)
    return mask == 0


def create_padding_mask(token_ids, pad_id=0):
    return ~(token_ids == pad_id)


def combine_masks(padding_mask, look_ahead_mask):
    return padding_mask[:, None, :] & look_ahead_mask[None, :, :]
