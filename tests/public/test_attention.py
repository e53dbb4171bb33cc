"""Checks of the unit `attention`."""

import math

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import (
    broadcasts,
    gradient_fits,
    is_written_out,
    leaves_inputs_alone,
    shared_out,
)

SOFTMAX = "attention.stable_softmax"
ATTENTION = "attention.scaled_dot_product_attention"
SELF = "attention.self_attention"
CROSS = "attention.cross_attention"


# stable_softmax


@clause(SOFTMAX, 1)
@pytest.mark.parametrize(
    ("shape", "scale"), [((4, 4), 1.0), ((3, 5), 1.0), ((3, 5), 6.0)],
    ids=["square", "oblong", "far-apart"],
)  # fmt: skip
def test_softmax_formula(subject, draw, reference, shape, scale):
    """Each weight is exp(score) divided by the sum of all exp(score)"""
    call = subject.attention.stable_softmax.on(draw.tensor(*shape, scale=scale), -1)
    weights = call()
    expect(weights).sums_to(1)
    expect(weights).equals(reference.call(call))


@clause(SOFTMAX, 2)
@pytest.mark.parametrize("dim", [0, -2])
def test_softmax_along_any_axis(subject, draw, reference, dim):
    """The weights sum to 1 along `dim`, whichever axis it is"""
    call = subject.attention.stable_softmax.on(draw.tensor(2, 3, 4), dim)
    expect(call()).equals(reference.call(call))


@clause(SOFTMAX, 2)
def test_softmax_default_is_last_axis(subject, draw, reference):
    """Without `dim`, the weights sum to 1 along the last axis"""
    call = subject.attention.stable_softmax.on(draw.tensor(3, 4, 2))
    expect(call()).equals(reference.call(call))


@clause(SOFTMAX, 3)
def test_softmax_of_large_scores(subject, draw, reference):
    """Scores as large as 1e4 give the right and finite weights"""
    scores = draw.tensor(4, 5, scale=3.0)
    scores[0] += 10_000
    scores[1] -= 10_000
    scores[2] *= 1000  # large scores of either sign in one row
    call = subject.attention.stable_softmax.on(scores, -1)
    expect(call()).equals(reference.call(call), within=1e-3)  # float32 is that exact at 1e4


@clause(SOFTMAX, 3)
def test_softmax_of_large_scores_along_first_axis(subject, draw, reference):
    """Large scores do no harm along the first axis either"""
    scores = draw.tensor(4, 3, 2, scale=3.0)
    scores[:, 0, 0] += 10_000  # each column lies at a height of its own
    scores[:, 1, 1] -= 10_000
    scores[1, 2] = 9999.5
    call = subject.attention.stable_softmax.on(scores, 0)
    expect(call()).equals(reference.call(call), within=1e-3)  # float32 is that exact at 1e4


@clause(SOFTMAX, 4)
def test_softmax_of_half_precision(subject, draw):
    """float16 gives finite, right weights, even where exp overflows"""
    scores = draw.tensor(3, 5, scale=3.0) - torch.tensor([[0.0], [0.0], [15.0]])
    scores[0] = 12 - scores[0].abs()  # below 16, where float16 begins to count in 64ths
    scores[0, 2] = 12.0  # and exp(12) is over: float16 ends at 65504
    scores = scores.half()
    weights = subject.attention.stable_softmax(scores, -1)
    expect(weights).is_finite()
    expect(weights).equals(torch.softmax(scores.double(), -1).half())


@clause(SOFTMAX, 5)
def test_softmax_is_written_out(subject, draw, reference):
    """No ready-made softmax does the work"""
    call = subject.attention.stable_softmax.on(draw.tensor(3, 5), -1)
    is_written_out(subject, call, reference.call(call))


@clause(SOFTMAX, 6)
def test_softmax_gradient(subject, draw, reference):
    """The gradient reaches the scores"""
    call = subject.attention.stable_softmax.on(draw.tensor(3, 5), -1)
    cotangent = draw.tensor(3, 5)
    expected = reference.vjp(call, cotangent, wrt=["scores"])
    expect(subject.vjp(call, cotangent, wrt=["scores"])["scores"]).equals(expected["scores"])


@clause(SOFTMAX, 7)
def test_softmax_leaves_scores_alone(subject, draw):
    """The scores are the same after the call as before"""
    leaves_inputs_alone(subject, subject.attention.stable_softmax.on(draw.tensor(3, 5), -1))


# scaled_dot_product_attention


@clause(ATTENTION, 1)
@pytest.mark.parametrize("leading", [(3,), (2, 3)], ids=["3d", "4d"])
def test_weights(subject, draw, reference, leading):
    """The weights are softmax(query · key / sqrt(d_k)) over the keys"""
    call = subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(*leading))
    _, weights = call()
    expect(weights).sums_to(1)
    expect(weights).equals(reference.call(call)[1])


@clause(ATTENTION, 1)
def test_weights_of_a_sequence_with_itself(subject, draw, reference):
    """Where query, key and value are one, every query still weighs all keys"""
    x = draw.tensor(3, 5, 4)
    call = subject.attention.scaled_dot_product_attention.on(x, x, x)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(ATTENTION, 1)
def test_weights_of_large_scores(subject, draw, reference):
    """Scores in the thousands do no harm"""
    query, key, value = draw.attention_inputs(3)
    call = subject.attention.scaled_dot_product_attention.on(40 * query, 40 * key, value)
    _, weights = call()
    expect(weights).equals(reference.call(call)[1], within=1e-3)  # a scale may be float32


@clause(ATTENTION, 1)
def test_weights_in_half_precision(subject, draw):
    """Without a mask, float16 gives the same weights, up to rounding"""
    query, key, value = draw.attention_inputs(3, dtype=torch.float16)
    _, weights = subject.attention.scaled_dot_product_attention(query, key, value)
    scores = query.double() @ key.double().transpose(-2, -1) / math.sqrt(query.size(-1))
    expect(weights).equals(torch.softmax(scores, -1).half())


@clause(ATTENTION, 2)
def test_output_mixes_values(subject, draw):
    """Each output row is the sum of the values, each times the weight that is returned"""
    query, key, value = draw.attention_inputs(3)
    output, weights = subject.attention.scaled_dot_product_attention(query, key, value)
    expect(output).equals(weights @ value)


@clause(ATTENTION, 2)
def test_output_of_as_many_queries_as_keys(subject, draw):
    """Where there are as many queries as keys, each query still mixes by its own weights"""
    query, key, value = (draw.tensor(3, 4, size) for size in (6, 6, 5))
    output, weights = subject.attention.scaled_dot_product_attention(query, key, value)
    expect(output).equals(weights @ value)


@clause(ATTENTION, 3)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_hidden_keys_get_no_weight(subject, draw, dtype):
    """A hidden key gets weight 0, and the visible ones share out 1"""
    query, key, value = draw.attention_inputs(3, dtype=dtype)
    mask = draw.mask(3, query.size(1), key.size(1))
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    _, weights = call()
    expect(weights, where=~mask).equals(0)
    expect(weights).sums_to(1)
    expect(weights).equals(shared_out(call.but(mask=None)()[1], mask))


@clause(ATTENTION, 3)
def test_hidden_values_are_not_mixed_in(subject, draw):
    """The output is a mixture of the visible values alone"""
    query, key, value = draw.attention_inputs(3)
    mask = draw.mask(3, query.size(1), key.size(1))
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    output, _ = call()
    expect(output).equals(shared_out(call.but(mask=None)()[1], mask) @ value)


@clause(ATTENTION, 3)
def test_hidden_key_that_fits_best(subject, draw):
    """A hidden key gets weight 0, even where it fits best of all"""
    query, key, value = draw.attention_inputs(3)
    mask = draw.mask(1, key.size(1))
    query, key = query + 30, torch.where(mask.mT, key - 30, key + 30)
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    _, weights = call()
    expect(weights, where=~mask).equals(0)
    seen = mask[0]
    _, without = call.but(key=key[:, seen], value=value[:, seen], mask=None)()
    expect(weights[..., seen]).equals(without, within=1e-3)


@clause(ATTENTION, 3)
def test_rows_are_queries_and_columns_keys(subject, draw):
    """Row i of the mask says which keys query i may see"""
    x = draw.tensor(3, 4, 6)  # as many queries as keys: a mask turned round would fit, too
    mask = draw.mask(3, 4, 4)
    call = subject.attention.scaled_dot_product_attention.on(x, draw.tensor(3, 4, 6), x, mask)
    _, weights = call()
    expect(weights).equals(shared_out(call.but(mask=None)()[1], mask))


@clause(ATTENTION, 3)
def test_queries_beside_one_without_visible_key(subject, draw):
    """Hidden keys stay hidden from the others where one query sees no key"""
    query, key, value = draw.attention_inputs(3, dtype=torch.float32)  # see the next check
    mask = draw.mask(3, query.size(1), key.size(1))
    mask[1, 0] = False
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    expected = shared_out(call.but(mask=None)()[1], mask)
    expect(call()[1], where=mask.any(-1, keepdim=True)).equals(expected)


@clause(ATTENTION, 4)
def test_query_without_visible_key(subject, draw):
    """A query that sees no key stays finite, and so do the gradients"""
    # float32: who computes a softmax in it may hide by the least float64, which is infinite there.
    query, key, value = draw.attention_inputs(3, dtype=torch.float32)
    mask = draw.mask(3, query.size(1), key.size(1))
    mask[1, 0] = False
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    output, weights = call()
    expect(weights).is_finite()
    expect(output).is_finite()
    cotangents = [draw.tensor(*part.shape, dtype=torch.float32) for part in (output, weights)]
    gradients = subject.vjp(call, cotangents, wrt=["query", "key", "value"])
    for gradient in gradients.values():
        expect(gradient).is_finite()


@clause(ATTENTION, 5)
@pytest.mark.parametrize(
    "leading", [(), (3, 1), (2,)], ids=["one-for-all", "one-for-all-heads", "one-for-each-head"]
)
def test_mask_broadcasts_over_heads(subject, draw, leading):
    """With 4-D inputs, a mask that broadcasts to the weights hides what the same in full does"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = draw.mask(*leading, query.size(2), key.size(2))
    broadcasts(subject.attention.scaled_dot_product_attention.on(query, key, value, mask))


@clause(ATTENTION, 5)
@pytest.mark.parametrize("leading", [(3,), (3, 2)], ids=["3d", "4d"])
def test_one_mask_row_for_all_queries(subject, draw, leading):
    """A padding mask hides the same keys from every query"""
    query, key, value = draw.attention_inputs(*leading)
    mask = draw.mask(3, *(1 for _ in leading), key.size(-2))
    broadcasts(subject.attention.scaled_dot_product_attention.on(query, key, value, mask))


@clause(ATTENTION, 5)
def test_axes_of_size_one(subject, draw, reference):
    """Inputs of one sentence, one query and one key work"""
    inputs = draw.tensor(1, 1, 4), draw.tensor(1, 1, 4), draw.tensor(1, 1, 3)
    call = subject.attention.scaled_dot_product_attention.on(*inputs)
    output, weights = call()
    expect(weights).equals(reference.call(call)[1])
    expect(output).equals(reference.call(call)[0])


@clause(ATTENTION, 5)
def test_attention_on_accelerator(subject, draw):
    """3-D and 4-D inputs work on an accelerator, too, with a mask"""
    for leading in ((3,), (3, 2)):
        query, key, value = draw.attention_inputs(*leading)
        mask = draw.mask(query.size(-2), key.size(-2))
        attention = subject.attention.scaled_dot_product_attention
        subject.on_accelerator(attention.on(query, key, value, mask))


@clause(ATTENTION, 6)
def test_gradients(subject, draw):
    """The gradients for query, key and value say how the results move when these move"""
    call = subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(3))
    gradient_fits(subject, call, draw, "query", "key", "value")


@clause(ATTENTION, 7)
def test_inputs_are_left_alone(subject, draw):
    """Query, key, value and mask are the same after the call as before"""
    query, key, value = draw.attention_inputs(3)
    mask = draw.mask(3, query.size(1), key.size(1))
    mask[:, 1] = False  # who sees nothing may be treated apart
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    leaves_inputs_alone(subject, call)


# self_attention and cross_attention. In the "square" ones, sizes agree that may differ: what is
# mixed up there fits all the same, and gives wrong numbers in place of an error.


def _self_inputs(draw, square=False):
    batch, seq, d_in, d_out = draw.sizes(4)
    d_out = d_in if square else d_out
    x = draw.tensor(batch, seq, d_in)
    return x, *(draw.tensor(d_in, d_out, scale=0.5) for _ in range(3))


def _cross_inputs(draw, square=False):
    batch, seq_q, seq_k, d_in, d_out = draw.sizes(5)
    seq_k, d_out = (seq_q, d_in) if square else (seq_k, d_out)
    x, memory = draw.tensor(batch, seq_q, d_in), draw.tensor(batch, seq_k, d_in)
    return x, memory, *(draw.tensor(d_in, d_out, scale=0.5) for _ in range(3))


@clause(SELF, 1)
@pytest.mark.parametrize("square", [True, False], ids=["square", "oblong"])
def test_self_weights(subject, draw, reference, square):
    """Queries x @ w_q meet keys x @ w_k"""
    call = subject.attention.self_attention.on(*_self_inputs(draw, square))
    expect(call()[1]).equals(reference.call(call)[1])


@clause(SELF, 2)
@pytest.mark.parametrize("square", [True, False], ids=["square", "oblong"])
def test_self_output(subject, draw, reference, square):
    """The values x @ w_v are mixed"""
    call = subject.attention.self_attention.on(*_self_inputs(draw, square))
    expect(call()[0]).equals(reference.call(call)[0])


@clause(SELF, 3)
def test_self_mask(subject, draw, reference):
    """A mask hides keys"""
    x, *matrices = _self_inputs(draw)
    mask = draw.mask(x.size(0), x.size(1), x.size(1))
    call = subject.attention.self_attention.on(x, *matrices, mask)
    output, weights = call()
    expect(weights).equals(reference.call(call)[1])
    expect(output).equals(reference.call(call)[0])


@clause(SELF, 2)
def test_self_gradients(subject, draw, reference):
    """The gradient of the output reaches x and the three matrices"""
    x, *matrices = _self_inputs(draw)
    call = subject.attention.self_attention.on(x, *matrices)
    names, cotangents = ["x", "w_q", "w_k", "w_v"], (draw.tensor(*(x @ matrices[2]).shape), None)
    expected = reference.vjp(call, cotangents, wrt=names)
    for name, gradient in subject.vjp(call, cotangents, wrt=names).items():
        expect(gradient).equals(expected[name], within=1e-5)  # a softmax may be float32


@clause(SELF, 3)
def test_self_leaves_inputs_alone(subject, draw):
    """A mask, x and the matrices are the same after the call as before"""
    x, *matrices = _self_inputs(draw)
    mask = draw.mask(x.size(1), x.size(1))
    mask[1] = False  # who sees nothing may be treated apart
    leaves_inputs_alone(subject, subject.attention.self_attention.on(x, *matrices, mask))


@clause(CROSS, 1)
@pytest.mark.parametrize("square", [True, False], ids=["square", "oblong"])
def test_cross_weights(subject, draw, reference, square):
    """Queries x @ w_q meet keys memory @ w_k"""
    call = subject.attention.cross_attention.on(*_cross_inputs(draw, square))
    expect(call()[1]).equals(reference.call(call)[1])


@clause(CROSS, 2)
@pytest.mark.parametrize("square", [True, False], ids=["square", "oblong"])
def test_cross_output(subject, draw, reference, square):
    """The values memory @ w_v are mixed, one row for each position of x"""
    call = subject.attention.cross_attention.on(*_cross_inputs(draw, square))
    expect(call()[0]).equals(reference.call(call)[0])


@clause(CROSS, 3)
def test_cross_mask(subject, draw, reference):
    """A mask hides positions of memory"""
    x, memory, *matrices = _cross_inputs(draw)
    mask = draw.mask(x.size(0), x.size(1), memory.size(1))
    call = subject.attention.cross_attention.on(x, memory, *matrices, mask)
    output, weights = call()
    expect(weights).equals(reference.call(call)[1])
    expect(output).equals(reference.call(call)[0])


@clause(CROSS, 2)
def test_cross_gradients(subject, draw, reference):
    """The gradient of the output reaches x, memory and the three matrices"""
    x, memory, *matrices = _cross_inputs(draw)
    call = subject.attention.cross_attention.on(x, memory, *matrices)
    names, shape = ["x", "memory", "w_q", "w_k", "w_v"], (x @ matrices[2]).shape
    cotangents = draw.tensor(*shape), None
    expected = reference.vjp(call, cotangents, wrt=names)
    for name, gradient in subject.vjp(call, cotangents, wrt=names).items():
        expect(gradient).equals(expected[name], within=1e-5)  # a softmax may be float32


@clause(CROSS, 3)
def test_cross_leaves_inputs_alone(subject, draw):
    """A mask, x, memory and the matrices are the same after the call as before"""
    x, memory, *matrices = _cross_inputs(draw)
    mask = draw.mask(x.size(1), memory.size(1))
    mask[1] = False  # who sees nothing may be treated apart
    leaves_inputs_alone(subject, subject.attention.cross_attention.on(x, memory, *matrices, mask))
