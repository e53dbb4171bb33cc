"""Further checks of the unit `attention`, for grading."""

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import (
    alone_as_in_batch,
    broadcasts,
    gradient_fits,
    is_written_out,
    layout_does_not_matter,
    leaves_inputs_alone,
    parts,
    permutes_alike,
    prefix_stands,
    repeats,
    same_in_single_precision,
    shared_out,
    unmoved_by,
)

SOFTMAX = "attention.stable_softmax"
ATTENTION = "attention.scaled_dot_product_attention"
SELF = "attention.self_attention"
CROSS = "attention.cross_attention"


# stable_softmax


@clause(SOFTMAX, 1)
@pytest.mark.parametrize("shape", [(6,), (1, 1), (2, 5, 3, 4)], ids=["1d", "single", "4d"])
def test_softmax_of_any_rank(subject, draw, reference, shape):
    """Scores with any number of axes get their weights"""
    call = subject.attention.stable_softmax.on(draw.tensor(*shape))
    expect(call()).equals(reference.call(call))


@clause(SOFTMAX, 1)
def test_softmax_in_single_precision(subject, draw, reference):
    """float32 scores give float32 weights"""
    call = subject.attention.stable_softmax.on(draw.tensor(3, 5, dtype=torch.float32), -1)
    expect(call()).equals(reference.call(call))


@clause(SOFTMAX, 1)
def test_softmax_of_strided_scores(subject, draw):
    """How the scores lie in memory does not matter"""
    layout_does_not_matter(subject.attention.stable_softmax.on(draw.tensor(3, 5), -1), "scores")


@clause(SOFTMAX, 1)
def test_softmax_is_blind_to_order(subject, draw):
    """Scores in another order give their weights in that order"""
    call = subject.attention.stable_softmax.on(draw.tensor(5, 3), 0)
    permutes_alike(call, draw, {"scores": [0]}, [(0,)])


@clause(SOFTMAX, 1)
def test_softmax_of_each_row_by_itself(subject, draw):
    """What scores stand in other rows does not matter"""
    alone_as_in_batch(subject.attention.stable_softmax.on(draw.tensor(4, 3, 5), -1), "scores")


@clause(SOFTMAX, 2)
@pytest.mark.parametrize("dim", [1, 2, -1, -4])
def test_softmax_along_each_of_four_axes(subject, draw, reference, dim):
    """`dim` may be any axis"""
    call = subject.attention.stable_softmax.on(draw.tensor(3, 2, 5, 4), dim)
    expect(call()).equals(reference.call(call))


@clause(SOFTMAX, 3)
def test_softmax_of_large_scores_in_single_precision(subject, draw):
    """Scores of 1e4 give finite weights in float32, too"""
    scores = draw.tensor(4, 5, dtype=torch.float32, scale=3000.0)
    scores[0], scores[1] = 10_000, -10_000
    weights = subject.attention.stable_softmax(scores, -1)
    expect(weights).is_finite()
    expect(weights[:2]).equals(0.2, within=1e-3)  # where log(5) is rounded on its way, at 1e4


@clause(SOFTMAX, 4)
def test_softmax_of_large_scores_in_half_precision(subject, draw):
    """Scores of 1e4 give finite weights in float16, too"""
    scores = draw.tensor(4, 5, dtype=torch.float16, scale=3000.0)
    scores[0], scores[1] = 10_000, -10_000
    expect(subject.attention.stable_softmax(scores, -1)).is_finite()


@clause(SOFTMAX, 4)
def test_softmax_of_half_precision_along_first_axis(subject, draw):
    """float16 gives the right weights along any axis"""
    scores = (12 - draw.tensor(4, 3, scale=3.0).abs()).half()
    weights = subject.attention.stable_softmax(scores, 0)
    expect(weights).equals(torch.softmax(scores.double(), 0).half())


@clause(SOFTMAX, 5)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["float16", "float32"])
def test_softmax_is_written_out_in_each_precision(subject, draw, dtype):
    """No ready-made softmax does the work, in no precision"""
    scores = draw.tensor(2, 3, 4, dtype=dtype)
    call = subject.attention.stable_softmax.on(scores)
    is_written_out(subject, call, torch.softmax(scores.double(), -1).to(dtype))


@clause(SOFTMAX, 6)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_gradient_fits_values(subject, draw, dim):
    """The gradient agrees with how the weights move"""
    gradient_fits(
        subject, subject.attention.stable_softmax.on(draw.tensor(4, 3, 2), dim), draw, "scores"
    )


@clause(SOFTMAX, 7)
def test_softmax_leaves_large_scores_alone(subject, draw):
    """Large scores stay as they were, too"""
    scores = draw.tensor(2, 3, 4, scale=3000.0)
    leaves_inputs_alone(subject, subject.attention.stable_softmax.on(scores))


# scaled_dot_product_attention


@clause(ATTENTION, 1)
@pytest.mark.parametrize("d_k", [1, 7, 40])
def test_weights_for_any_width(subject, draw, reference, d_k):
    """The scale fits keys of any width"""
    query, key, value = draw.tensor(3, 4, d_k), draw.tensor(3, 5, d_k), draw.tensor(3, 5, 6)
    call = subject.attention.scaled_dot_product_attention.on(query, key, value)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(ATTENTION, 1)
def test_weights_repeat(subject, draw):
    """The same inputs give the same results again"""
    repeats(subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(3)))


@clause(ATTENTION, 1)
def test_weights_of_strided_inputs(subject, draw):
    """How the inputs lie in memory does not matter"""
    call = subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(3, 2))
    layout_does_not_matter(call, "query", "key", "value")


@clause(ATTENTION, 1)
def test_weights_of_large_scores_in_half_precision(subject, draw):
    """float16 stays finite for scores in the hundreds"""
    query, key, value = draw.attention_inputs(3, dtype=torch.float16)
    output, weights = subject.attention.scaled_dot_product_attention(16 * query, 16 * key, value)
    expect(weights).is_finite()
    expect(output).is_finite()


@clause(ATTENTION, 2)
def test_order_of_keys_does_not_matter(subject, draw):
    """Keys and values in another order give the same outputs"""
    call = subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(3))
    permutes_alike(call, draw, {"key": [1], "value": [1]}, [(), (2,)])


@clause(ATTENTION, 2)
def test_queries_by_themselves(subject, draw):
    """Queries in another order give their rows in that order"""
    call = subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(3, 2))
    permutes_alike(call, draw, {"query": [2]}, [(2,), (2,)])


@clause(ATTENTION, 2)
def test_each_sample_by_itself(subject, draw):
    """An output row is the same, whatever stands elsewhere in the batch"""
    call = subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(3, 2))
    alone_as_in_batch(call, "query", "key", "value")


@clause(ATTENTION, 2)
def test_output_for_heads(subject, draw):
    """With heads, too, each output row is the weighted sum of the values"""
    query, key, value = draw.attention_inputs(2, 3)
    output, weights = subject.attention.scaled_dot_product_attention(query, key, value)
    expect(output).equals(weights @ value)


@clause(ATTENTION, 3)
@pytest.mark.parametrize("name", ["key", "value"])
def test_hidden_content_moves_nothing(subject, draw, name):
    """What stands at a hidden key does not matter"""
    query, key, value = draw.attention_inputs(3)
    mask = draw.mask(3, 1, key.size(1))
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    unmoved_by(call, draw, name, ~mask.mT, [None, None])


@clause(ATTENTION, 3)
def test_later_keys_hidden(subject, draw):
    """Where later keys are hidden, what comes first is the same without them"""
    query, key, value = draw.tensor(3, 6, 4), draw.tensor(3, 6, 4), draw.tensor(3, 6, 5)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    positions = {"query": [1], "key": [1], "value": [1], "mask": [0, 1]}
    prefix_stands(call, 4, positions, [(1,), (1, 2)])


@clause(ATTENTION, 3)
def test_mask_that_hides_nothing(subject, draw):
    """A mask that hides no key changes nothing"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = torch.ones(3, 2, query.size(2), key.size(2), dtype=torch.bool)
    plain = subject.attention.scaled_dot_product_attention.on(query, key, value)
    for part, expected in zip(parts(plain.but(mask=mask)()), parts(plain())):
        expect(part).equals(expected)


@clause(ATTENTION, 3)
def test_one_visible_key(subject, draw):
    """A query that sees one key alone gets that key's value"""
    query, key, value = draw.attention_inputs(3)
    mask = torch.zeros(3, query.size(1), key.size(1), dtype=torch.bool)
    mask[..., 1] = True
    output, weights = subject.attention.scaled_dot_product_attention(query, key, value, mask)
    expect(weights).equals(mask.double())
    expect(output).equals(value[:, 1:2].expand_as(output))


@clause(ATTENTION, 3)
def test_masked_result_in_single_precision(subject, draw):
    """With heads and in float32, hidden keys are left out, too"""
    query, key, value = draw.attention_inputs(3, 2, dtype=torch.float32)
    mask = draw.mask(3, 1, query.size(2), key.size(2))
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    expect(call()[0]).equals(shared_out(call.but(mask=None)()[1], mask) @ value)


@clause(ATTENTION, 4)
def test_sentence_of_padding_alone(subject, draw):
    """A sentence of nothing but padding leaves everything finite"""
    dtype = torch.float32
    query, key, value = draw.attention_inputs(3, 2, dtype=dtype)
    mask = draw.mask(3, 1, 1, key.size(2))
    mask[1] = False
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    output, weights = call()
    expect(output).is_finite()
    expect(weights).is_finite()
    cotangents = draw.tensor(*output.shape, dtype=dtype), draw.tensor(*weights.shape, dtype=dtype)
    for gradient in subject.vjp(call, cotangents, wrt=["query", "key", "value"]).values():
        expect(gradient).is_finite()


@clause(ATTENTION, 4)
def test_loss_of_other_queries(subject, draw):
    """A query that sees no key leaves the gradients of a loss over the others finite"""
    query, key, value = draw.attention_inputs(3, dtype=torch.float32)
    mask = draw.mask(3, query.size(1), key.size(1))
    mask[:, 1] = False
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    sizes = value.size(2), key.size(1)
    cotangents = [draw.tensor(3, query.size(1), n, dtype=torch.float32) for n in sizes]
    for cotangent in cotangents:
        cotangent[:, 1] = 0
    for gradient in subject.vjp(call, cotangents, wrt=["query", "key", "value"]).values():
        expect(gradient).is_finite()


@clause(ATTENTION, 5)
@pytest.mark.parametrize(
    ("leading", "queries"), [((3,), True), ((), True), ((1,), True), ((3,), False), (None, False)]
)
def test_masks_for_3d(subject, draw, leading, queries):
    """With 3-D inputs, a mask that broadcasts to the weights hides what the same in full does"""
    query, key, value = draw.attention_inputs(3)
    rows = () if leading is None else (query.size(1) if queries else 1,)
    mask = draw.mask(*(leading or ()), *rows, key.size(1))
    broadcasts(subject.attention.scaled_dot_product_attention.on(query, key, value, mask))


@clause(ATTENTION, 5)
@pytest.mark.parametrize("leading", [(3, 2), (1, 1), (1, 2), (2,), (3, 1)])
def test_masks_for_4d(subject, draw, leading):
    """With 4-D inputs, sentences or heads may share a mask"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = draw.mask(*leading, query.size(2), key.size(2))
    broadcasts(subject.attention.scaled_dot_product_attention.on(query, key, value, mask))


@clause(ATTENTION, 5)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 1, 1, 5), (1, 2, 4, 1)])
def test_4d_axes_of_size_one(subject, draw, sizes):
    """In 4-D inputs, axes of size 1 stay where they are"""
    batch, heads, seq_q, seq_k = sizes
    inputs = [draw.tensor(batch, heads, seq, 6) for seq in (seq_q, seq_k, seq_k)]
    attention = subject.attention.scaled_dot_product_attention
    flat = attention(*(tensor.flatten(0, 1) for tensor in inputs))
    for part, expected in zip(attention(*inputs), flat):
        expect(part).equals(expected.unflatten(0, (batch, heads)))


@clause(ATTENTION, 6)
def test_gradients_with_mask(subject, draw):
    """The gradients are right under a mask, too"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = draw.mask(3, 1, query.size(2), key.size(2))
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    gradient_fits(subject, call, draw, "query", "key", "value")


@clause(ATTENTION, 7)
@pytest.mark.parametrize("leading", [(), (3, 1)], ids=["without-mask", "with-mask"])
def test_4d_inputs_are_left_alone(subject, draw, leading):
    """With heads, too, the inputs are the same after the call as before"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = draw.mask(*leading, query.size(2), key.size(2)) if leading else None
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    leaves_inputs_alone(subject, call)


# self_attention and cross_attention


def _matrices(draw, d_in, d_out, dtype=torch.float64):
    return [draw.tensor(d_in, d_out, dtype=dtype, scale=0.5) for _ in range(3)]


@clause(SELF, 1)
@pytest.mark.parametrize("seq", [1, 9])
def test_self_weights_for_any_length(subject, draw, reference, seq):
    """A sequence may be of any length"""
    call = subject.attention.self_attention.on(draw.tensor(2, seq, 6), *_matrices(draw, 6, 4))
    expect(call()[1]).equals(reference.call(call)[1])


@clause(SELF, 1)
def test_self_is_blind_to_order(subject, draw):
    """Shuffled tokens give weights and outputs that are shuffled alike"""
    call = subject.attention.self_attention.on(draw.tensor(3, 5, 4), *_matrices(draw, 4, 6))
    permutes_alike(call, draw, {"x": [1]}, [(1,), (1, 2)])


@clause(SELF, 2)
def test_self_sentences_by_themselves(subject, draw):
    """The output is the same, whatever stands in other sentences"""
    call = subject.attention.self_attention.on(draw.tensor(3, 5, 4), *_matrices(draw, 4, 6))
    alone_as_in_batch(call, "x")


@clause(SELF, 2)
def test_self_in_single_precision(subject, draw):
    """float32 values give float32 results"""
    call = subject.attention.self_attention.on(draw.tensor(3, 5, 4), *_matrices(draw, 4, 6))
    same_in_single_precision(call, "x", "w_q", "w_k", "w_v")


@clause(SELF, 1)
def test_self_weights_of_strided_inputs(subject, draw):
    """How x and the matrices lie in memory does not matter"""
    call = subject.attention.self_attention.on(draw.tensor(3, 5, 4), *_matrices(draw, 4, 6))
    layout_does_not_matter(call, "x", "w_q", "w_k", "w_v")


@clause(SELF, 2)
def test_self_gradient_fits_values(subject, draw):
    """The gradients are those of the mixed values, with a mask too"""
    mask = draw.mask(5, 5)
    call = subject.attention.self_attention.on(draw.tensor(3, 5, 4), *_matrices(draw, 4, 6), mask)
    gradient_fits(subject, call, draw, "x", "w_q", "w_v", of=[0])


@clause(SELF, 3)
def test_self_later_tokens_hidden(subject, draw):
    """Under a look-ahead mask, the first tokens give the same without the later ones"""
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    call = subject.attention.self_attention.on(draw.tensor(3, 6, 4), *_matrices(draw, 4, 5), mask)
    prefix_stands(call, 4, {"x": [1], "mask": [0, 1]}, [(1,), (1, 2)])


@clause(SELF, 3)
@pytest.mark.parametrize("leading", [(), (1,), (3, 1)], ids=["shared", "batch-of-1", "padding"])
def test_self_mask_broadcasts(subject, draw, reference, leading):
    """Any mask that broadcasts to the weights hides its keys"""
    rows = () if leading == (3, 1) else (5,)
    mask = draw.mask(*leading, *rows, 5)
    call = subject.attention.self_attention.on(draw.tensor(3, 5, 4), *_matrices(draw, 4, 6), mask)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(SELF, 3)
def test_self_hidden_token_moves_no_other(subject, draw):
    """What a mask hides does not matter to the others"""
    visible = torch.tensor([True, True, False, True, True])
    call = subject.attention.self_attention.on(
        draw.tensor(3, 5, 4), *_matrices(draw, 4, 6), visible.expand(3, 5, 5)
    )
    others = visible[:, None]
    unmoved_by(call, draw, "x", ~others, [others, others])


@clause(CROSS, 1)
@pytest.mark.parametrize(("seq_q", "seq_k"), [(1, 6), (6, 1), (5, 5)])
def test_cross_weights_for_any_lengths(subject, draw, reference, seq_q, seq_k):
    """The two sequences may be of any lengths"""
    x, memory = draw.tensor(2, seq_q, 4), draw.tensor(2, seq_k, 4)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 4, 7))
    expect(call()[1]).equals(reference.call(call)[1])


@clause(CROSS, 2)
def test_cross_is_blind_to_order_of_memory(subject, draw):
    """A shuffled memory gives the same outputs"""
    x, memory = draw.tensor(3, 4, 2), draw.tensor(3, 5, 2)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 2, 6))
    permutes_alike(call, draw, {"memory": [1]}, [(), (2,)])


@clause(CROSS, 2)
def test_cross_positions_by_themselves(subject, draw):
    """What stands elsewhere in x does not matter"""
    x, memory = draw.tensor(3, 4, 2), draw.tensor(3, 5, 2)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 2, 6))
    third = torch.tensor([False, False, True, False])[:, None]
    unmoved_by(call, draw, "x", third, [~third, ~third])


@clause(CROSS, 2)
def test_cross_in_single_precision(subject, draw):
    """float32 values give float32 results"""
    x, memory = draw.tensor(3, 5, 4), draw.tensor(3, 6, 4)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 4, 7))
    same_in_single_precision(call, "x", "memory", "w_q", "w_k", "w_v")


@clause(CROSS, 1)
def test_cross_weights_of_strided_inputs(subject, draw):
    """How x, memory and the matrices lie in memory does not matter"""
    x, memory = draw.tensor(3, 5, 4), draw.tensor(3, 6, 4)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 4, 7))
    layout_does_not_matter(call, "x", "memory", "w_q", "w_k", "w_v")


@clause(CROSS, 2)
def test_cross_sentences_by_themselves(subject, draw):
    """What stands in other sentences of x and memory does not matter"""
    x, memory = draw.tensor(3, 4, 2), draw.tensor(3, 5, 2)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 2, 6))
    alone_as_in_batch(call, "x", "memory")


@clause(CROSS, 2)
def test_cross_gradient_fits_values(subject, draw):
    """The gradients are those of the mixed values, with a mask too"""
    x, memory, mask = draw.tensor(3, 4, 2), draw.tensor(3, 5, 2), draw.mask(4, 5)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 2, 6), mask)
    gradient_fits(subject, call, draw, "x", "memory", "w_k", "w_v", of=[0])


@clause(CROSS, 3)
def test_cross_hidden_content_moves_nothing(subject, draw):
    """What stands at a hidden position of memory does not matter"""
    x, memory, mask = draw.tensor(3, 4, 2), draw.tensor(3, 5, 2), draw.mask(3, 1, 5)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 2, 6), mask)
    unmoved_by(call, draw, "memory", ~mask.mT, [None, None])


@clause(CROSS, 3)
@pytest.mark.parametrize(
    "shape",
    [(4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 4)],
    ids=["shared", "batch-of-1", "padding", "square"],
)
def test_cross_mask_broadcasts(subject, draw, reference, shape):
    """Any mask that broadcasts to the weights hides its positions"""
    x, memory = draw.tensor(3, 4, 2), draw.tensor(3, shape[-1], 2)
    mask = draw.mask(*shape)
    call = subject.attention.cross_attention.on(x, memory, *_matrices(draw, 2, 6), mask)
    expect(call()[1]).equals(reference.call(call)[1])
