"""Further checks of the unit `multihead`: other sizes, and properties of every right answer."""

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import (
    alone_as_in_batch,
    gradient_fits,
    in_training,
    layout_does_not_matter,
    leaves_inputs_alone,
    permutes_alike,
    prefix_stands,
    repeats,
    same_in_single_precision,
    same_in_training,
    unmoved_by,
)

CLASS = "multihead.MultiHeadAttention"
SPLIT = "multihead.MultiHeadAttention.split_heads"
FORWARD = "multihead.MultiHeadAttention.forward"


def layer_of(subject, draw, d_model=12, num_heads=2, plain=()):
    """A layer with drawn weights; the Linears named in `plain` give back what they get."""
    layer = subject.multihead.MultiHeadAttention(d_model, num_heads)
    state = {name: 0.4 * value for name, value in draw.weights(layer).items()}
    for name in plain:
        state[f"{name}.weight"] = torch.eye(d_model, dtype=torch.float64)
        state[f"{name}.bias"] = torch.zeros(d_model, dtype=torch.float64)
    return layer.load(state).eval()


def inputs(draw, batch=3, seq_q=4, seq_k=5, d_model=12):
    return [draw.tensor(batch, seq, d_model) for seq in (seq_q, seq_k, seq_k)]


# The constructor


@clause(CLASS, 1)
@pytest.mark.parametrize("d_model, num_heads", [(6, 1), (15, 5), (4, 4)])
def test_weights_of_other_sizes(subject, draw, d_model, num_heads):
    """The four Linears are [d_model, d_model], however many heads there are"""
    layer = subject.multihead.MultiHeadAttention(d_model, num_heads)
    layer.load(draw.weights(layer))
    expect(len(layer.describe()["trained"])).equals(8)


@clause(CLASS, 2)
@pytest.mark.parametrize("d_model, num_heads", [(6, 1), (15, 5), (4, 4)])
def test_other_sizes_are_kept(subject, d_model, num_heads):
    """num_heads and d_k are right for any number of heads"""
    layer = subject.multihead.MultiHeadAttention(d_model, num_heads)
    found = {name: layer.get(name) for name in ("num_heads", "d_k")}
    expect(str(found)).equals(str({"num_heads": num_heads, "d_k": d_model // num_heads}))


@clause(CLASS, 3)
@pytest.mark.parametrize("d_model, num_heads", [(7, 2), (9, 6), (2, 3)])
def test_other_heads_that_do_not_divide(subject, d_model, num_heads):
    """No num_heads that leaves a remainder is accepted"""
    with subject.raises("ValueError", "AssertionError"):
        subject.multihead.MultiHeadAttention(d_model, num_heads)


# split_heads


@clause(SPLIT, 1)
@pytest.mark.parametrize("batch, seq, num_heads", [(1, 5, 4), (2, 7, 3), (4, 1, 6)])
def test_split_shape_of_other_sizes(subject, draw, batch, seq, num_heads):
    """The output is [batch, num_heads, seq, d_k] for any number of heads"""
    layer = subject.multihead.MultiHeadAttention(12, num_heads)
    layer.split_heads(draw.tensor(batch, seq, 12), batch)


@clause(SPLIT, 2)
@pytest.mark.parametrize("num_heads", [1, 3, 4, 12])
def test_slices_of_other_sizes(subject, draw, reference, num_heads):
    """Head h takes neighbouring features, however many heads there are"""
    layer = subject.multihead.MultiHeadAttention(12, num_heads)
    call = layer.split_heads.on(draw.tensor(2, 1, 12), 2)
    expect(call()).equals(reference.call(call))


@clause(SPLIT, 3)
@pytest.mark.parametrize("num_heads", [3, 6])
def test_positions_keep_their_order(subject, draw, num_heads):
    """Positions in another order come out in that order, in every head"""
    layer = subject.multihead.MultiHeadAttention(12, num_heads)
    call = layer.split_heads.on(draw.tensor(2, 5, 12), 2)
    permutes_alike(call, draw, {"x": [1]}, [[2]])


@clause(SPLIT, 3)
def test_split_of_strided_vectors(subject, draw):
    """Positions are not mixed either where x has gaps in memory"""
    layer = subject.multihead.MultiHeadAttention(12, 3)
    layout_does_not_matter(layer.split_heads.on(draw.tensor(4, 2, 12), 4), "x", turned=False)


@clause(SPLIT, 2)
def test_split_in_single_precision(subject, draw):
    """The features of a head keep their dtype"""
    layer = subject.multihead.MultiHeadAttention(12, 3)
    same_in_single_precision(layer.split_heads.on(draw.tensor(4, 2, 12), 4), "x")


@clause(SPLIT, 3)
def test_sentences_stay_apart(subject, draw):
    """No two sentences are mixed either: a change shows in its own alone"""
    layer = subject.multihead.MultiHeadAttention(12, 3)
    call = layer.split_heads.on(draw.tensor(4, 2, 12), 4)
    changed = torch.tensor([False, True, False, False])[:, None, None]
    unmoved_by(call, draw, "x", changed, [~changed[:, None]])


# forward


@clause(FORWARD, 1)
def test_projections_in_float32(subject, draw, reference):
    """float32 inputs give float32 results"""
    layer = layer_of(subject, draw, 6, 1, plain=["w_o"]).to(torch.float32)
    query, key, value = (x.float() for x in inputs(draw, d_model=6))
    call = layer.on(query, key, value)
    for found, expected in zip(call(), reference.call(call)):
        expect(found).equals(expected)


@clause(FORWARD, 1)
def test_layout_of_inputs(subject, draw):
    """Inputs that are not contiguous give the same results"""
    layout_does_not_matter(layer_of(subject, draw).on(*inputs(draw)), "query", "key", "value")


@clause(FORWARD, 2)
@pytest.mark.parametrize("num_heads", [1, 3, 4, 12])
def test_other_numbers_of_heads(subject, draw, reference, num_heads):
    """Each of 1, 3, 4 or 12 heads attends on its own slice"""
    layer = layer_of(subject, draw, 12, num_heads, plain=["w_q", "w_k"])
    x = draw.tensor(2, 5, 12)
    call = layer.on(x, x, x)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(FORWARD, 2)
def test_heads_do_not_see_other_slices(subject, draw):
    """One head's queries do not move the weights of another"""
    call = layer_of(subject, draw, 12, 3, plain=["w_q", "w_k"]).on(*inputs(draw))
    asked = torch.arange(12) // 4 == 1
    others = torch.tensor([True, False, True])[:, None, None]
    output_moves = torch.tensor([False])
    unmoved_by(call, draw, "query", asked, [output_moves, others])


@clause(FORWARD, 2)
def test_heads_in_training(subject, draw):
    """In training, heads give what they give in evaluation"""
    layer = layer_of(subject, draw)
    same_in_training(layer, layer.on(*inputs(draw), draw.mask(3, 1, 1, 5)))


@clause(FORWARD, 3)
@pytest.mark.parametrize("num_heads", [3, 4, 6])
def test_other_heads_are_joined_and_mixed(subject, draw, reference, num_heads):
    """The results of 3, 4 or 6 heads are joined in order, and w_o mixes them"""
    layer = layer_of(subject, draw, 24, num_heads, plain=["w_q", "w_k"])
    own = 40 * torch.eye(3, 24 // num_heads, dtype=torch.float64)
    query = own.repeat(2, 1, num_heads)
    key = torch.cat([own.roll(head, 0) for head in range(num_heads)], dim=1).repeat(2, 1, 1)
    call = layer.on(query, key, draw.tensor(2, 3, 24))
    expect(call()[0]).equals(reference.call(call)[0])


@clause(FORWARD, 4)
@pytest.mark.parametrize("batch, seq_q, seq_k", [(1, 1, 6), (2, 6, 1), (5, 3, 2)])
def test_other_lengths(subject, draw, batch, seq_q, seq_k):
    """One query or many, one key or many, one sentence or many"""
    call = layer_of(subject, draw).on(*inputs(draw, batch, seq_q, seq_k))
    alone_as_in_batch(call, "query", "key", "value")


@clause(FORWARD, 4)
def test_order_of_queries_and_keys(subject, draw):
    """Queries in another order give the same rows in that order; the order of keys is free"""
    call = layer_of(subject, draw).on(*inputs(draw))
    permutes_alike(call, draw, {"query": [1]}, [[1], [2]])
    permutes_alike(call, draw, {"key": [1], "value": [1]}, [[], [3]])


@clause(FORWARD, 5)
@pytest.mark.parametrize("shape", [(1, 1, 4, 5), (3, 1, 4, 5), (1, 2, 1, 5), (1, 5)])
def test_masks_of_other_shapes(subject, draw, shape):
    """A mask of any shape that broadcasts hides keys"""
    mask = draw.mask(*shape)
    call = layer_of(subject, draw).on(*inputs(draw))
    _, free = call()
    _, weights = call.but(mask=mask)()
    expect(weights, where=~mask).equals(0)
    visible = free * mask
    expect(weights).equals(visible / visible.sum(-1, keepdim=True))


@clause(FORWARD, 5)
def test_mask_of_three_axes(subject, draw):
    """A mask [num_heads, seq_q, seq_k] has one part for each head, whichever the sentence"""
    mask = draw.mask(2, 4, 5)
    _, weights = layer_of(subject, draw).on(*inputs(draw, batch=2), mask)()
    expect(weights, where=~mask).equals(0)


@clause(FORWARD, 5)
def test_mask_of_all_true(subject, draw):
    """A mask that hides nothing changes nothing"""
    call = layer_of(subject, draw).on(*inputs(draw))
    masked = call.but(mask=torch.ones(4, 5, dtype=torch.bool))
    for found, expected in zip(masked(), call()):
        expect(found).equals(expected)


@clause(FORWARD, 5)
def test_later_keys_hidden_from_every_head(subject, draw):
    """Under a look-ahead mask, the first positions give the same without the later keys"""
    x, mask = draw.tensor(3, 6, 12), torch.ones(6, 6, dtype=torch.bool).tril()
    call = layer_of(subject, draw).on(x, x, x, mask)
    positions = {"query": [1], "key": [1], "value": [1], "mask": [0, 1]}
    prefix_stands(call, 4, positions, [(1,), (2, 3)])


@clause(FORWARD, 5)
def test_hidden_keys_do_not_matter(subject, draw):
    """What stands at a hidden key does not show anywhere, in training either"""
    mask = draw.mask(3, 1, 1, 5)
    layer = layer_of(subject, draw)
    call = layer.on(*inputs(draw), mask)
    in_training(layer, call)
    hidden = ~mask[:, 0, 0, :, None]
    unmoved_by(call, draw, "key", hidden, [None, None])


@clause(FORWARD, 6)
def test_gradients_of_the_output(subject, draw, reference):
    """The gradients of the output are right, with a mask too"""
    call = layer_of(subject, draw).on(*inputs(draw), draw.mask(3, 1, 4, 5))
    names = ["query", "key", "value", "w_q.weight", "w_k.weight", "w_v.bias", "w_o.weight"]
    cotangents = draw.tensor(3, 4, 12), None  # whoever returns the weights detached may do so
    expected = reference.vjp(call, cotangents, wrt=names)
    for name, gradient in subject.vjp(call, cotangents, wrt=names).items():
        expect(gradient).equals(expected[name], within=3e-5)  # a softmax may be float32


@clause(FORWARD, 6)
def test_gradients_fit_values(subject, draw):
    """The gradients agree with how the output moves"""
    call = layer_of(subject, draw).on(*inputs(draw), draw.mask(3, 1, 4, 5))
    gradient_fits(subject, call, draw, "query", "key", "value", of=[0])


@clause(FORWARD, 6)
def test_one_input_three_times_is_left_alone(subject, draw):
    """An input that is query, key and value at once is left alone, too"""
    x = draw.tensor(3, 5, 12)
    leaves_inputs_alone(subject, layer_of(subject, draw).on(x, x, x))


@clause(FORWARD, 1)
def test_projections_of_each_call(subject, draw):
    """Each call projects its own inputs, in training too"""
    layer = layer_of(subject, draw)
    call, other = layer.on(*inputs(draw)), layer.on(*inputs(draw))
    expected = call()
    other()
    in_training(layer, other)
    for part, plain in zip(call(), expected):
        expect(part).equals(plain)


@clause(FORWARD, 2)
def test_same_call_twice(subject, draw):
    """The same call gives the same results twice, in training too"""
    repeats(layer_of(subject, draw).train().on(*inputs(draw)))
