"""Masks: who must not look at whom?

Two things must stay hidden. Sentences of different lengths are filled up with padding to make one
tensor, and padding means nothing. And a decoder that is trained to say the next word must not see
that word: it would copy it, score well, and fail as soon as it has to write by itself.

Notation: ``batch`` sentences of ``seq`` tokens. Every mask is bool: True = may attend, False =
hidden. In ``[seq, seq]`` the row is the query, who looks, and the column is the key, looked at.
"""

from __future__ import annotations

import torch
from torch import Tensor


def create_look_ahead_mask(seq_len: int) -> Tensor:
    """Hide the future, so that a position is predicted from what came before it alone.

    Args:
        seq_len: the number of positions, at least 1.

    Returns:
        The mask, bool ``[seq_len, seq_len]``; it may live on the CPU.

    Contract:
        1. The mask is bool, with one row per query and one column per key, from seq_len 1 on.
        2. A position sees itself and all before it: row i is True in the columns 0 to i.
        3. A position sees nothing that comes after it: row i is True in exactly i + 1 columns.

    Elsewhere:
        A mask of numbers, 0 where one may look and -inf where not, is added to the scores. A bool
        one can be joined with others by &, in any dtype of scores.
        Some hide the position itself too, or add an axis for the batch. Here a position always sees
        itself, so that no row is empty, and one mask serves every batch.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    # Your code here.
    raise NotImplementedError("masks.create_look_ahead_mask")


def create_padding_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """Tell real tokens from those that only fill a sentence up to the common length.

    Args:
        token_ids: the vocabulary's numbers, ``[batch, seq]``, int64.
        pad_id: the number that stands for padding.

    Returns:
        The mask, bool ``[batch, seq]``, True = a real token.

    Contract:
        1. In each sentence, real tokens are True and padding is False.
        2. Padding is found wherever it stands: at the end, at the front or between real tokens.
        3. ``pad_id`` may be any number; where it is not 0, token 0 is a real one.
        4. The token ids are left as they were, and the mask lives where they do.

    Elsewhere:
        In ``key_padding_mask`` of torch.nn.MultiheadAttention, True means padding. Here it means a
        real token, so that all masks of this course read alike.
        Some give [batch, 1, 1, seq] at once. Which axes are missing depends on who uses the mask,
        so here the user adds them.

    Source: "Attention Is All You Need" leaves it unsaid.
    """
    # Your code here.
    raise NotImplementedError("masks.create_padding_mask")


def combine_masks(padding_mask: Tensor, look_ahead_mask: Tensor) -> Tensor:
    """Hide padding and future at once, as a decoder needs it.

    For an attention with heads, the caller adds their axis: ``combine_masks(...).unsqueeze(1)``.

    Args:
        padding_mask: True = a real token, bool ``[batch, seq]``.
        look_ahead_mask: True where query (row) may see key (column), bool ``[seq, seq]``.

    Returns:
        The mask, bool ``[batch, seq, seq]``.

    Contract:
        1. Query i of sentence b sees key j exactly where padding_mask[b, j] and
           look_ahead_mask[i, j] are both True.
        2. Padding is hidden as a key only: as a query, a padding position sees what a real token in
           its place would see.
        3. The mask is bool, one [seq, seq] for each sentence after that sentence's own padding.
        4. Both masks are left as they were.

    Elsewhere:
        Some hide the rows of padding too, or fill rows that would see nothing. What such a row
        gives is never read, and that it stays finite is the attention's care: here they stay.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    # Your code here.
    raise NotImplementedError("masks.combine_masks")
