"""Further checks of the unit `positional`: other sizes, and places far out in the table."""

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import (
    alone_as_in_batch,
    layout_does_not_matter,
    repeats,
    same_in_training,
)
from grader.judge.tolerance import FLOAT32_TABLE

SINES = "positional.PositionalEncoding"
LEARNED = "positional.LearnedPositionalEmbedding"
SHIFT = "positional.relative_shift_matrix"


# PositionalEncoding


def sines_of(subject, d_model, max_len):
    """A module, and the table that it keeps, wherever that has its axes of size 1."""
    layer = subject.positional.PositionalEncoding(d_model, max_len)
    table = layer.get("pe")
    expect([size for size in shape_of(table) if size != 1]).equals([max_len, d_model])
    return layer, table


def shape_of(found):
    """The shape, as a list; of what is no tensor, an empty one."""
    return list(found.shape) if isinstance(found, torch.Tensor) else []


@clause(SINES, 1)
@pytest.mark.parametrize("d_model, max_len", [(2, 5), (10, 7), (64, 512)])
def test_sines_of_other_sizes(subject, reference, d_model, max_len):
    """The sines are right for other widths and up to position 511"""
    layer, table = sines_of(subject, d_model, max_len)
    right = reference.call(layer.on(torch.zeros(1, max_len, d_model)))
    even = torch.arange(d_model) % 2 == 0
    expect(table.reshape(1, max_len, d_model), where=even).equals(right, within=FLOAT32_TABLE)


@clause(SINES, 1)
def test_default_table(subject):
    """Without max_len the table has 512 rows"""
    table = subject.positional.PositionalEncoding(6).get("pe")
    expect(shape_of(table)).equals([1, 512, 6])


@clause(SINES, 2)
@pytest.mark.parametrize("d_model, max_len", [(2, 5), (10, 7), (64, 512)])
def test_cosines_of_other_sizes(subject, reference, d_model, max_len):
    """The cosines are right for other widths and up to position 511"""
    layer, table = sines_of(subject, d_model, max_len)
    right = reference.call(layer.on(torch.zeros(1, max_len, d_model)))
    odd = torch.arange(d_model) % 2 == 1
    expect(table.reshape(1, max_len, d_model), where=odd).equals(right, within=FLOAT32_TABLE)


@clause(SINES, 3)
@pytest.mark.parametrize("batch, seq", [(1, 1), (4, 1), (5, 2), (2, 9)])
def test_rows_are_added_to_other_sizes(subject, draw, batch, seq):
    """Row t is added to position t, whatever the number of sentences and positions"""
    layer, table = sines_of(subject, 4, 9)
    x = draw.tensor(batch, seq, 4, scale=5.0)
    expect(layer(x)).equals(x + table.reshape(1, 9, 4)[:, :seq])


@clause(SINES, 3)
def test_nothing_is_random_or_kept(subject, draw):
    """The same call gives the same result twice, in training too"""
    layer = subject.positional.PositionalEncoding(4, 9).train()
    repeats(layer.on(draw.tensor(3, 5, 4)))


@clause(SINES, 3)
def test_rows_added_to_strided_tokens(subject, draw):
    """The same rows are added, however x lies in memory"""
    layer = subject.positional.PositionalEncoding(4, 9)
    layout_does_not_matter(layer.on(draw.tensor(3, 5, 4)), "x")


@clause(SINES, 3)
def test_training_adds_no_more(subject, draw):
    """In training, forward adds what it adds in evaluation"""
    layer = subject.positional.PositionalEncoding(4, 9)
    same_in_training(layer, layer.on(draw.tensor(3, 5, 4)))


@clause(SINES, 4)
def test_buffer_in_float64(subject, draw):
    """In a float64 module, forward adds what `pe` holds, as exact as it is"""
    layer, table = sines_of(subject, 6, 5)
    other = draw.tensor(1, 5, 6)
    layer.eval().load({"pe": other.view(table.shape)})
    expect(layer(torch.zeros(2, 5, 6, dtype=torch.float64))).equals(other.expand(2, 5, 6))


@clause(SINES, 5)
def test_nothing_is_trained_in_a_large_one(subject):
    """A module of any size has no parameters"""
    described = subject.positional.PositionalEncoding(10, 3).describe()
    expect(described["trained"]).equals([])
    expect(described["parameters"]).equals({})


@clause(SINES, 6)
def test_far_too_long_a_sentence(subject, draw):
    """Many positions too many raise an exception too"""
    layer = subject.positional.PositionalEncoding(4, 2)
    layer(draw.tensor(3, 2, 4))
    with subject.raises("Exception"):
        layer(draw.tensor(3, 8, 4))


# LearnedPositionalEmbedding


@clause(LEARNED, 2)
@pytest.mark.parametrize("batch, seq", [(1, 1), (4, 1), (5, 2), (2, 9)])
def test_learned_rows_of_other_sizes(subject, draw, batch, seq):
    """Row t is added to position t, whatever the number of sentences and positions"""
    layer = subject.positional.LearnedPositionalEmbedding(9, 4)
    state = draw.weights(layer)
    x = draw.tensor(batch, seq, 4)
    expect(layer.load(state).train()(x)).equals(x + state["embedding.weight"][:seq])


@clause(LEARNED, 2)
def test_learned_sentences_stay_apart(subject, draw):
    """A sentence alone is marked as it is among others"""
    layer = subject.positional.LearnedPositionalEmbedding(9, 4)
    alone_as_in_batch(layer.load(draw.weights(layer)).on(draw.tensor(3, 5, 4)), "x")


@clause(LEARNED, 2)
def test_learned_rows_in_training(subject, draw):
    """Row t is added in training as in evaluation, in float32 too, however x lies in memory"""
    layer = subject.positional.LearnedPositionalEmbedding(9, 4)
    layer.load(draw.weights(layer)).to(torch.float32)
    call = layer.on(draw.tensor(3, 5, 4, dtype=torch.float32))
    same_in_training(layer, call)
    layout_does_not_matter(call, "x")


@clause(LEARNED, 3)
def test_gradient_reaches_every_row(subject, draw):
    """With max_len positions, every row gets its gradient"""
    layer = subject.positional.LearnedPositionalEmbedding(4, 6)
    layer.load(draw.weights(layer))
    cotangent = draw.tensor(2, 4, 6)
    gradients = subject.vjp(layer.on(draw.tensor(2, 4, 6)), cotangent, wrt=["embedding.weight"])
    expect(gradients["embedding.weight"]).equals(cotangent.sum(0))


# relative_shift_matrix


def sines(first, d_model, count=5):
    pos = torch.arange(first, first + count, dtype=torch.float64).unsqueeze(1)
    angles = pos / 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@clause(SHIFT, 1)
@pytest.mark.parametrize("d_model, offset", [(2, 1), (6, 40), (12, 100), (10, -3)])
def test_rows_move_by_other_offsets(subject, d_model, offset):
    """pe[pos] @ M is pe[pos + offset], for other widths and offsets"""
    moved = sines(120, d_model) @ subject.positional.relative_shift_matrix(d_model, offset)
    expect(moved).equals(sines(120 + offset, d_model), within=FLOAT32_TABLE)


@clause(SHIFT, 2)
@pytest.mark.parametrize("first", [2048, 50_000])
def test_one_matrix_serves_far_out(subject, first):
    """The one M serves positions 2048 and 50 000"""
    moved = sines(first, 8) @ subject.positional.relative_shift_matrix(8, 17)
    expect(moved).equals(sines(first + 17, 8), within=FLOAT32_TABLE)


@clause(SHIFT, 3)
def test_steps_add_up(subject):
    """Seven steps on and three back are four on"""
    seven, three, four = (
        subject.positional.relative_shift_matrix(6, offset) for offset in (7, -3, 4)
    )
    rows = sines(5, 6)
    expect(rows @ seven @ three).equals(rows @ four, within=FLOAT32_TABLE)
