"""Made by numpy, and turned into tensors at the end."""

import numpy as np
import torch


def create_look_ahead_mask(seq_len):
    later = np.triu(np.ones((seq_len, seq_len)), k=1).astype("uint8")
    return torch.from_numpy(later) == 0


def create_padding_mask(token_ids, pad_id=0):
    return torch.from_numpy(np.not_equal(token_ids.cpu().numpy(), pad_id)).to(token_ids.device)


def combine_masks(padding_mask, look_ahead_mask):
    both = np.logical_and(padding_mask.numpy()[:, np.newaxis, :], look_ahead_mask.numpy())
    return torch.from_numpy(both)
