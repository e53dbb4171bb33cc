"""0 and 1 are multiplied, summed and compared."""

import torch


def create_look_ahead_mask(seq_len):
    return torch.eye(seq_len).cumsum(dim=0).flip(1).cumsum(dim=1).flip(1).bool()


def create_padding_mask(token_ids, pad_id=0):
    return torch.sub(token_ids, pad_id).bool()


def combine_masks(padding_mask, look_ahead_mask):
    return torch.einsum("bk,qk->bqk", padding_mask.float(), look_ahead_mask.float()) > 0.5
