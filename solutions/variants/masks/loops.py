"""One entry at a time."""

import torch


def create_look_ahead_mask(seq_len):
    rows = [[key <= query for key in range(seq_len)] for query in range(seq_len)]
    return torch.tensor(rows)


def create_padding_mask(token_ids, pad_id=0):
    mask = torch.zeros(token_ids.shape, dtype=torch.bool, device=token_ids.device)
    for b, sentence in enumerate(token_ids.tolist()):
        for i, token in enumerate(sentence):
            mask[b, i] = token != pad_id
    return mask


def combine_masks(padding_mask, look_ahead_mask):
    masks = []
    for real in padding_mask:
        mask = look_ahead_mask.clone()
        mask[:, ~real] = False
        masks.append(mask)
    return torch.stack(masks)
