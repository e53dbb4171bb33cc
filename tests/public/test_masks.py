"""Checks of the unit `masks`."""

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import leaves_inputs_alone

LOOK_AHEAD = "masks.create_look_ahead_mask"
PADDING = "masks.create_padding_mask"
COMBINE = "masks.combine_masks"


# create_look_ahead_mask


@clause(LOOK_AHEAD, 1)
@pytest.mark.parametrize("seq_len", [5, 1])
def test_look_ahead_form(subject, seq_len):
    """The mask is bool, [seq_len, seq_len], from one position on"""
    subject.masks.create_look_ahead_mask(seq_len)


@clause(LOOK_AHEAD, 2)
@pytest.mark.parametrize("seq_len", [5, 1])
def test_past_and_self_are_seen(subject, reference, seq_len):
    """A position sees itself and all before it"""
    call = subject.masks.create_look_ahead_mask.on(seq_len)
    expected = reference.call(call)
    expect(call(), where=expected).equals(expected)


@clause(LOOK_AHEAD, 3)
@pytest.mark.parametrize("seq_len", [5, 2])
def test_future_is_hidden(subject, reference, seq_len):
    """A position sees nothing that comes after it"""
    call = subject.masks.create_look_ahead_mask.on(seq_len)
    expected = reference.call(call)
    expect(call(), where=~expected).equals(expected)


# create_padding_mask


def _tokens(draw, real, pad_id, low=0, high=9):
    """Token ids, any but `pad_id` where `real` is True and `pad_id` elsewhere."""
    ids = draw.integers(low, high - 1, *real.shape)
    ids = ids + (ids >= pad_id)
    return torch.where(real, ids, pad_id)


@clause(PADDING, 1)
def test_real_tokens_are_true(subject, draw):
    """Real tokens are True and padding is False"""
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()
    token_ids = _tokens(draw, real, 0)
    expect(subject.masks.create_padding_mask(token_ids)).equals(real)


@clause(PADDING, 1)
def test_one_sentence(subject, draw):
    """One sentence alone has a mask [1, seq]"""
    real = torch.tensor([[True, True, False]])
    expect(subject.masks.create_padding_mask(_tokens(draw, real, 0), 0)).equals(real)


@clause(PADDING, 2)
def test_padding_anywhere(subject, draw):
    """Padding is found at the front and between real tokens, too"""
    real = torch.tensor(
        [[0, 0, 1, 1, 1, 1], [1, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]]
    ).bool()
    token_ids = _tokens(draw, real, 0)
    expect(subject.masks.create_padding_mask(token_ids, 0)).equals(real)


@clause(PADDING, 3)
@pytest.mark.parametrize("pad_id", [3, 9, -1])
def test_any_pad_id(subject, draw, pad_id):
    """`pad_id` may be any number; where it is not 0, token 0 is a real one"""
    real = draw.mask(4, 6)
    token_ids = _tokens(draw, real, pad_id)
    token_ids[:, 0] = torch.tensor([0, 0, 8, pad_id])
    real[:, 0] = torch.tensor([True, True, True, False])
    expect(subject.masks.create_padding_mask(token_ids, pad_id)).equals(real)


@clause(PADDING, 4)
def test_token_ids_are_left_alone(subject, draw):
    """The token ids are the same after the call as before"""
    token_ids = _tokens(draw, draw.mask(3, 5), 4)
    leaves_inputs_alone(subject, subject.masks.create_padding_mask.on(token_ids, 4))


@clause(PADDING, 4)
def test_padding_mask_on_accelerator(subject, draw):
    """The mask lives where the token ids do"""
    token_ids = _tokens(draw, draw.mask(3, 5), 4)
    subject.on_accelerator(subject.masks.create_padding_mask.on(token_ids, 4))


# combine_masks


@clause(COMBINE, 1)
@pytest.mark.parametrize(("batch", "seq"), [(4, 4), (3, 5)], ids=["square", "oblong"])
def test_both_must_allow(subject, draw, reference, batch, seq):
    """A key is seen exactly where both masks allow it"""
    call = subject.masks.combine_masks.on(draw.mask(batch, seq), draw.mask(seq, seq))
    expect(call()).equals(reference.call(call))


@clause(COMBINE, 2)
def test_padding_may_look(subject, draw, reference):
    """As a query, a padding position sees what a real token there would see"""
    padding_mask = torch.tensor([[0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 0]]).bool()
    look_ahead_mask = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]).bool()
    call = subject.masks.combine_masks.on(padding_mask, look_ahead_mask)
    expect(call(), where=~padding_mask.unsqueeze(2)).equals(reference.call(call))


@clause(COMBINE, 3)
@pytest.mark.parametrize("batch", [1, 3])
def test_one_mask_for_each_sentence(subject, draw, reference, batch):
    """Each sentence has a mask of its own, bool [seq, seq]"""
    call = subject.masks.combine_masks.on(draw.mask(batch, 5), draw.mask(5, 5))
    expect(call()).equals(reference.call(call))


@clause(COMBINE, 4)
def test_masks_are_left_alone(subject, draw):
    """Both masks are the same after the call as before"""
    call = subject.masks.combine_masks.on(draw.mask(3, 5), draw.mask(5, 5))
    leaves_inputs_alone(subject, call)
