"""What checks draw: every size distinct, masks that never blind a row, the same bits everywhere."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from grader.course import Course
from grader.judge import bank
from grader.judge.draw import Draw
from grader.subject.host import Host
from grader.subject.proxy import Subject

ids = st.integers(0, 1 << 40).map("unit.exercise/1/test[{}]".format)
secrets = st.integers(0, 1 << 40).map(str)
sizes = st.integers(1, 6)
shapes = st.lists(sizes, min_size=1, max_size=3)


def everything(draw: Draw) -> list[Tensor]:
    """Something from each of the methods, in an order."""
    return [
        torch.tensor(draw.sizes(4)),
        draw.tensor(3, 4),
        draw.integers(0, 100, 5),
        draw.order(6),
        *draw.attention_inputs(3, 2),
        draw.mask(3, 5),
        draw.tokens(4, 5, 11),
    ]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(one, other, strict=True))


@given(ids, secrets)
def test_the_same_seed_gives_the_same_bits(check: str, secret: str) -> None:
    assert same(everything(Draw(check, secret)), everything(Draw(check, secret)))


@given(ids, secrets)
def test_another_secret_or_check_gives_other_bits(check: str, secret: str) -> None:
    plain = Draw(check).tensor(8)
    assert not torch.equal(plain, Draw(check, secret).tensor(8))
    assert not torch.equal(plain, Draw(check + "!").tensor(8))


def test_the_stream_is_frozen() -> None:
    """These are the numbers for good: recorded answers and a class's marks rest on them."""
    draw = Draw("attention.stable_softmax/1/test_softmax_formula[oblong]")
    assert draw.sizes(5) == (7, 3, 4, 5, 2)
    assert (draw.tensor(3) * 2**20).tolist() == [-1802035, -844897, -1204160]
    assert draw.integers(0, 1000, 4).tolist() == [162, 19, 977, 677]


@given(ids, st.integers(1, 6))
def test_sizes_are_distinct(check: str, count: int) -> None:
    drawn = Draw(check).sizes(count)
    assert len(drawn) == len(set(drawn)) == count
    assert all(2 <= size <= 7 for size in drawn)


@given(ids, st.lists(sizes, max_size=3), st.floats(0.1, 50))
def test_values_are_multiples_of_a_power_of_two(check: str, shape: list[int], scale: float) -> None:
    values = Draw(check).tensor(*shape, scale=scale)
    assert (values.dtype, list(values.shape)) == (torch.float64, shape)
    assert torch.equal(values * 2**20, (values * 2**20).round())


def test_values_are_normal() -> None:
    values = Draw("check").tensor(10_000, scale=3.0)
    assert abs(values.mean().item()) < 0.1
    assert abs(values.std().item() - 3) < 0.1


@given(ids)
def test_float32_holds_the_same_values(check: str) -> None:
    assert torch.equal(Draw(check).tensor(9, dtype=torch.float32).double(), Draw(check).tensor(9))


@given(ids, st.integers(2, 8))
def test_an_order_leaves_nothing_in_its_place(check: str, count: int) -> None:
    order = Draw(check).order(count)
    assert order.sort().values.tolist() == list(range(count))
    assert bool((order != torch.arange(count)).all())


@given(ids, st.lists(st.integers(2, 4), max_size=2, unique=True))
def test_attention_inputs_have_distinct_sizes(check: str, leading: list[int]) -> None:
    query, key, value = Draw(check).attention_inputs(*leading)
    leading = leading or [3]
    (*a, seq_q, d_k), (*b, seq_k, other_d_k), (*c, other_seq_k, d_v) = (
        tensor.shape for tensor in (query, key, value)
    )
    assert a == b == c == leading
    assert (other_d_k, other_seq_k) == (d_k, seq_k)
    assert len({*leading, seq_q, seq_k, d_k, d_v}) == len(leading) + 4


@given(ids, shapes, st.floats(0, 1))
def test_every_row_of_a_mask_sees_a_key_and_hides_one(
    check: str, shape: list[int], hidden: float
) -> None:
    mask = Draw(check).mask(*shape, hidden=hidden)
    assert (mask.dtype, list(mask.shape)) == (torch.bool, shape)
    assert bool(mask.any(-1).all())
    assert shape[-1] == 1 or bool((~mask).any(-1).all())


@given(ids, sizes, sizes, st.integers(2, 9), st.data())
def test_every_row_of_tokens_has_a_real_one(
    check: str, batch: int, seq: int, vocab_size: int, data: st.DataObject
) -> None:
    pad_id = data.draw(st.integers(0, vocab_size - 1))
    tokens = Draw(check).tokens(batch, seq, vocab_size, pad_id)
    assert (tokens.dtype, list(tokens.shape)) == (torch.int64, [batch, seq])
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size
    padding = tokens == pad_id
    assert not bool(padding.all(-1).any())
    assert seq == 1 or bool(padding.any(-1).all())


def test_tokens_are_never_the_padding_by_chance() -> None:
    """As many are padded as a mask hides, whatever the vocabulary."""
    few, many = (Draw("check").tokens(50, 9, size, pad_id=1) == 1 for size in (2, 1000))
    assert abs(int(few.sum()) - int(many.sum())) < 60


@pytest.mark.parametrize(
    ("unit", "name", "made_with"),
    [
        ("multihead", "MultiHeadAttention", (12, 3)),
        ("positional", "PositionalEncoding", (6, 9)),
        ("positional", "LearnedPositionalEmbedding", (9, 6)),
        ("encoder", "TransformerEncoderLayerSimple", (12, 3, 7)),
        ("encoder", "TransformerEncoder", (11, 12, 3, 7, 2, 9)),
    ],
)
def test_weights_have_the_declared_shapes(
    course: Course, unit: str, name: str, made_with: tuple[int, ...]
) -> None:
    units = [unit.name for unit in course.units]
    subject = Subject(course, Host(bank.solution(course), units).perform)
    module = getattr(getattr(subject, unit), name)(*made_with)
    weights = Draw("check").weights(module)
    assert set(weights) == set(course.state_shapes(f"{unit}.{name}", module.sizes))
    assert all(value.dtype == torch.float64 for value in weights.values())
    module.load(weights)  # raises where a shape doesn't fit
    for key, value in weights.items():
        assert torch.equal(module.get(key), value)
