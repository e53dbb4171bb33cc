"""Checks of the unit `positional`."""

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import leaves_inputs_alone
from grader.judge.tolerance import FLOAT32_TABLE

SINES = "positional.PositionalEncoding"
LEARNED = "positional.LearnedPositionalEmbedding"
SHIFT = "positional.relative_shift_matrix"


# PositionalEncoding


def sines_of(subject, d_model=8, max_len=11):
    """A module, and the table that it keeps, wherever that has its axes of size 1."""
    layer = subject.positional.PositionalEncoding(d_model, max_len)
    table = layer.get("pe")
    expect([size for size in shape_of(table) if size != 1]).equals([max_len, d_model])
    return layer, table


def shape_of(found):
    """The shape, as a list; of what is no tensor, an empty one."""
    return list(found.shape) if isinstance(found, torch.Tensor) else []


def right_table(reference, layer, d_model):
    """The right one: it is what is added to zeros."""
    return reference.call(layer.on(torch.zeros(1, 11, d_model)))


@clause(SINES, 1)
def test_table_has_a_row_for_each_position(subject):
    """The table is called `pe` and has the shape [1, max_len, d_model]"""
    table = subject.positional.PositionalEncoding(8, 11).get("pe")
    expect(shape_of(table)).equals([1, 11, 8])


@clause(SINES, 1)
@pytest.mark.parametrize("d_model", [10, 2])
def test_even_columns_are_sines(subject, reference, d_model):
    """Column 2i is sin(pos / 10000^(2i / d_model))"""
    layer, table = sines_of(subject, d_model)
    even = torch.arange(d_model) % 2 == 0
    right = right_table(reference, layer, d_model)
    expect(table.float().reshape(1, 11, d_model), where=even).equals(right)


@clause(SINES, 2)
@pytest.mark.parametrize("d_model", [10, 2])
def test_odd_columns_are_cosines(subject, reference, d_model):
    """Column 2i + 1 is the cosine of the same angle"""
    layer, table = sines_of(subject, d_model)
    odd = torch.arange(d_model) % 2 == 1
    right = right_table(reference, layer, d_model)
    expect(table.float().reshape(1, 11, d_model), where=odd).equals(right)


@clause(SINES, 3)
def test_rows_are_added_and_no_more(subject, draw):
    """Row t is added to position t, in evaluation as in training, and that is all"""
    layer, table = sines_of(subject)
    x = draw.tensor(3, 5, 8, dtype=torch.float32)
    marked = x + table.reshape(1, 11, 8)[:, :5]
    expect(layer.eval()(x)).equals(marked)
    expect(layer.train()(x)).equals(marked)


@clause(SINES, 3)
def test_gradient_reaches_the_tokens(subject, draw):
    """The gradient reaches x as it is"""
    layer = subject.positional.PositionalEncoding(6, 11).eval()
    cotangent = draw.tensor(3, 5, 6)
    gradients = subject.vjp(layer.on(draw.tensor(3, 5, 6)), cotangent, wrt=["x"])
    expect(gradients["x"]).equals(cotangent)


@clause(SINES, 4)
def test_table_is_a_buffer(subject):
    """`pe` is registered as a buffer"""
    buffers = subject.positional.PositionalEncoding(6, 11).describe()["buffers"]
    expect([name for name in buffers if name == "pe"]).equals(["pe"])


@clause(SINES, 4)
def test_the_buffer_is_what_is_added(subject, draw):
    """forward adds what `pe` holds now, in the dtype that it has now"""
    layer, table = sines_of(subject)
    other = draw.tensor(1, 11, 8, dtype=torch.float32)
    layer.eval().load({"pe": other.view(table.shape)})
    expect(layer(torch.zeros(1, 11, 8))).equals(other)
    layer.to(torch.float16)
    layer(torch.zeros(1, 11, 8, dtype=torch.float16))


@clause(SINES, 4)
def test_table_moves_to_the_accelerator(subject, draw):
    """`pe` moves along to an accelerator"""
    layer = subject.positional.PositionalEncoding(6, 11)
    subject.on_accelerator(layer.on(draw.tensor(3, 5, 6)))


@clause(SINES, 5)
def test_nothing_is_trained(subject):
    """The module has no parameters"""
    described = subject.positional.PositionalEncoding(6, 11).describe()
    expect(described["trained"]).equals([])
    expect(described["parameters"]).equals({})


@clause(SINES, 6)
def test_too_long_a_sentence(subject, draw):
    """max_len positions are served, and one more raises an exception"""
    layer = subject.positional.PositionalEncoding(6, 4)
    layer(draw.tensor(3, 4, 6))
    with subject.raises("Exception"):
        layer(draw.tensor(3, 5, 6))


@clause(SINES, 7)
def test_tokens_are_left_alone(subject, draw):
    """x is the same after the call as before"""
    layer = subject.positional.PositionalEncoding(6, 11)
    leaves_inputs_alone(subject, layer.on(draw.tensor(3, 5, 6)))


# LearnedPositionalEmbedding


def learned(subject, draw):
    """A layer of 11 rows, and its table."""
    layer = subject.positional.LearnedPositionalEmbedding(11, 6)
    state = draw.weights(layer)
    return layer.load(state), state["embedding.weight"]


@clause(LEARNED, 1)
def test_embedding_has_a_row_for_each_position(subject, draw):
    """`embedding` holds [max_len, d_model] trained numbers, and nothing else is trained"""
    described = learned(subject, draw)[0].describe()
    expect([described["parameters"][name] for name in described["trained"]]).equals([[11, 6]])


@clause(LEARNED, 2)
def test_learned_rows_are_added(subject, draw):
    """Row t of the table is added to the token at position t"""
    layer, table = learned(subject, draw)
    x = draw.tensor(3, 5, 6)
    expect(layer(x)).equals(x + table[:5])


@clause(LEARNED, 2)
def test_learned_leaves_tokens_alone(subject, draw):
    """x is the same after the call as before"""
    layer, _ = learned(subject, draw)
    leaves_inputs_alone(subject, layer.on(draw.tensor(3, 5, 6)))


@clause(LEARNED, 3)
def test_gradient_reaches_the_rows_in_use(subject, draw):
    """The gradient reaches x and the first seq rows, and no others"""
    layer, _ = learned(subject, draw)
    cotangent = draw.tensor(3, 5, 6)
    call = layer.on(draw.tensor(3, 5, 6))
    gradients = subject.vjp(call, cotangent, wrt=["x", "embedding.weight"])
    expect(gradients["x"]).equals(cotangent)
    in_use = torch.cat([cotangent.sum(0), torch.zeros(6, 6, dtype=torch.float64)])
    expect(gradients["embedding.weight"]).equals(in_use)


@clause(LEARNED, 4)
def test_positions_are_made_where_x_is(subject, draw):
    """On an accelerator, the indices are there too"""
    layer, _ = learned(subject, draw)
    subject.on_accelerator(layer.on(draw.tensor(3, 5, 6)))


# relative_shift_matrix


def sines(first, d_model, count=5):
    """Rows of the table from position `first` on, in float64."""
    pos = torch.arange(first, first + count, dtype=torch.float64).unsqueeze(1)
    angles = pos / 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@clause(SHIFT, 1)
def test_rows_move_by_offset(subject):
    """pe[pos] @ M is pe[pos + offset]"""
    moved = sines(0, 8) @ subject.positional.relative_shift_matrix(8, 3)
    expect(moved).equals(sines(3, 8), within=FLOAT32_TABLE)


@clause(SHIFT, 2)
@pytest.mark.parametrize("first", [0, 1000, 8000])
def test_one_matrix_serves_everywhere(subject, first):
    """The one M serves positions 0, 1000 and 8000"""
    moved = sines(first, 16) @ subject.positional.relative_shift_matrix(16, 9)
    expect(moved).equals(sines(first + 9, 16), within=FLOAT32_TABLE)


@clause(SHIFT, 3)
def test_no_step_moves_nothing(subject):
    """An offset of 0 leaves each row as it is"""
    moved = sines(2, 8) @ subject.positional.relative_shift_matrix(8, 0)
    expect(moved).equals(sines(2, 8), within=FLOAT32_TABLE)


@clause(SHIFT, 3)
def test_a_negative_step_goes_back(subject):
    """An offset of -5 undoes one of 5"""
    there = subject.positional.relative_shift_matrix(8, 5)
    back = subject.positional.relative_shift_matrix(8, -5)
    expect(sines(2, 8) @ back @ there).equals(sines(2, 8), within=FLOAT32_TABLE)
