"""Positions and ids are compared by broadcasting."""

import torch


def create_look_ahead_mask(seq_len):
    position = torch.arange(seq_len)
    return position <= position.unsqueeze(1)


def create_padding_mask(token_ids, pad_id=0):
    return (token_ids < pad_id) | (token_ids > pad_id)


def combine_masks(padding_mask, look_ahead_mask):
    return torch.logical_and(padding_mask.unsqueeze(-2), look_ahead_mask)
