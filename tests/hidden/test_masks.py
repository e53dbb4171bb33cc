"""Further checks of the unit `masks`, for grading."""

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import (
    alone_as_in_batch,
    layout_does_not_matter,
    leaves_inputs_alone,
    permutes_alike,
    repeats,
)

LOOK_AHEAD = "masks.create_look_ahead_mask"
PADDING = "masks.create_padding_mask"
COMBINE = "masks.combine_masks"


# create_look_ahead_mask


@clause(LOOK_AHEAD, 1)
@pytest.mark.parametrize("seq_len", [2, 3, 40])
def test_look_ahead_form_at_any_length(subject, seq_len):
    """The mask is bool, [seq_len, seq_len], for any length"""
    subject.masks.create_look_ahead_mask(seq_len)


@clause(LOOK_AHEAD, 2)
@pytest.mark.parametrize("seq_len", [2, 3, 11])
def test_past_is_seen_at_any_length(subject, seq_len):
    """Position i sees the columns 0 to i"""
    mask = subject.masks.create_look_ahead_mask(seq_len)
    rows, columns = torch.meshgrid(*[torch.arange(seq_len)] * 2, indexing="ij")
    expect(mask, where=columns <= rows).equals(torch.ones_like(mask))


@clause(LOOK_AHEAD, 2)
@pytest.mark.parametrize("seq_len", [1, 4])
def test_longer_mask_begins_with_shorter(subject, seq_len):
    """What a position sees is the same, however many come after it"""
    short = subject.masks.create_look_ahead_mask(seq_len)
    expect(subject.masks.create_look_ahead_mask(9)[:seq_len, :seq_len]).equals(short)


@clause(LOOK_AHEAD, 3)
@pytest.mark.parametrize("seq_len", [1, 3, 11])
def test_row_i_sees_so_many(subject, seq_len):
    """Row i is True in exactly i + 1 columns"""
    mask = subject.masks.create_look_ahead_mask(seq_len)
    expect(mask.sum(dim=1)).equals(torch.arange(1, seq_len + 1))


@clause(LOOK_AHEAD, 3)
def test_look_ahead_repeats(subject):
    """Asked again, row i is True in the same columns"""
    repeats(subject.masks.create_look_ahead_mask.on(6))


# create_padding_mask


@clause(PADDING, 1)
@pytest.mark.parametrize("shape", [(1, 1), (6, 1), (1, 5), (4, 4)])
def test_padding_mask_of_any_size(subject, draw, shape):
    """A batch and a sentence may be of any size"""
    token_ids = draw.integers(0, 2, *shape) * draw.integers(1, 50_000, *shape)
    expect(subject.masks.create_padding_mask(token_ids)).equals(token_ids.abs() > 0)


@clause(PADDING, 2)
def test_padding_by_chance(subject, draw):
    """Padding is found wherever it stands, and nothing else is"""
    real = draw.mask(5, 9)
    token_ids = torch.where(real, draw.integers(1, 7, 5, 9), 0)
    expect(subject.masks.create_padding_mask(token_ids)).equals(real)


@clause(PADDING, 2)
def test_sentences_padded_by_themselves(subject, draw):
    """Padding in other sentences does not matter"""
    token_ids = draw.tokens(4, 6, vocab_size=9)
    alone_as_in_batch(subject.masks.create_padding_mask.on(token_ids), "token_ids")


@clause(PADDING, 2)
def test_padding_follows_the_tokens(subject, draw):
    """Tokens in another order give a mask in that order, padding where it then stands"""
    call = subject.masks.create_padding_mask.on(draw.tokens(4, 6, vocab_size=9))
    permutes_alike(call, draw, {"token_ids": [1]}, [(1,)])


@clause(PADDING, 1)
def test_padding_of_strided_ids(subject, draw):
    """How the tokens lie in memory does not matter"""
    call = subject.masks.create_padding_mask.on(draw.tokens(4, 6, vocab_size=9))
    layout_does_not_matter(call, "token_ids")


@clause(PADDING, 3)
@pytest.mark.parametrize("pad_id", [1, 5, 30_000, -100])
def test_any_other_pad_id(subject, draw, pad_id):
    """`pad_id` may be any number, small or large"""
    real = draw.mask(4, 6)
    ids = draw.integers(0, 8, 4, 6)
    token_ids = torch.where(real, ids + (ids >= pad_id), pad_id)
    expect(subject.masks.create_padding_mask(token_ids, pad_id)).equals(real)


@clause(PADDING, 4)
def test_token_ids_without_pad_id_are_left_alone(subject, draw):
    """The token ids are left alone where `pad_id` is 0, too"""
    call = subject.masks.create_padding_mask.on(draw.tokens(3, 7, vocab_size=9))
    leaves_inputs_alone(subject, call)


# combine_masks


@clause(COMBINE, 1)
@pytest.mark.parametrize(("batch", "seq"), [(1, 1), (2, 6), (5, 2), (3, 3)])
def test_combined_at_any_size(subject, draw, batch, seq):
    """Query i of sentence b sees key j exactly where both masks say so"""
    padding_mask, look_ahead_mask = draw.mask(batch, seq), draw.mask(seq, seq)
    found = subject.masks.combine_masks(padding_mask, look_ahead_mask)
    expect(found).equals(
        torch.einsum("bj,ij->bij", padding_mask.long(), look_ahead_mask.long()) > 0
    )


@clause(COMBINE, 3)
def test_combined_without_padding(subject, draw):
    """Where nothing is padding, each sentence still has its mask, the look-ahead mask"""
    look_ahead_mask = draw.mask(5, 5)
    found = subject.masks.combine_masks(torch.ones(3, 5, dtype=torch.bool), look_ahead_mask)
    expect(found).equals(look_ahead_mask.expand(3, 5, 5))


@clause(COMBINE, 1)
def test_combined_row_without_key(subject):
    """A row that sees nothing stays so: it is the attention's care"""
    padding_mask = torch.tensor([[False, False, True], [False, True, True]])
    look_ahead_mask = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]]).bool()
    found = subject.masks.combine_masks(padding_mask, look_ahead_mask)
    expected = [[[0, 0, 0], [0, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 1, 0], [0, 1, 1]]]
    expect(found).equals(torch.tensor(expected).bool())


@clause(COMBINE, 1)
def test_combined_in_another_order(subject, draw):
    """Positions in another order in both masks give the combined mask in that order"""
    call = subject.masks.combine_masks.on(draw.mask(4, 5), draw.mask(5, 5))
    permutes_alike(call, draw, {"padding_mask": [1], "look_ahead_mask": [0, 1]}, [(1, 2)])


@clause(COMBINE, 1)
def test_combined_of_strided_masks(subject, draw):
    """How both masks lie in memory does not matter"""
    call = subject.masks.combine_masks.on(draw.mask(4, 5), draw.mask(5, 5))
    layout_does_not_matter(call, "padding_mask", "look_ahead_mask")


@clause(COMBINE, 2)
def test_padding_hides_columns_alone(subject, draw):
    """Where everything may be seen, each query sees just the real tokens"""
    padding_mask = draw.mask(3, 5)
    found = subject.masks.combine_masks(padding_mask, torch.ones(5, 5, dtype=torch.bool))
    expect(found).equals(padding_mask[:, None].expand(3, 5, 5))


@clause(COMBINE, 3)
def test_combined_sentences_by_themselves(subject, draw):
    """Padding in other sentences does not matter"""
    call = subject.masks.combine_masks.on(draw.mask(4, 5), draw.mask(5, 5))
    alone_as_in_batch(call, "padding_mask")


@clause(COMBINE, 4)
def test_masks_of_equal_size_are_left_alone(subject, draw):
    """Both masks are left alone where they have the same shape, too"""
    leaves_inputs_alone(subject, subject.masks.combine_masks.on(draw.mask(4, 4), draw.mask(4, 4)))
