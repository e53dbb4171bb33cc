"""Further checks of the unit `troubleshooting`, for grading: other sizes, and the causes."""

import math

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import (
    alone_as_in_batch,
    layout_does_not_matter,
    lowers_the_loss,
    repeats,
    stays_on_accelerator,
    unmoved_by,
)
from grader.judge.tolerance import FLOAT32_TABLE, budget

HEADS = "troubleshooting.check_heads"
NONFINITE = "troubleshooting.first_nonfinite"
SAFE = "troubleshooting.safe_attention_weights"
LEAKS = "troubleshooting.find_future_leaks"
POSITIONS = "troubleshooting.AddPositions"
CAUSAL = "troubleshooting.causal_weights"
DECODER = "troubleshooting.decoder_weights"
ENTROPY = "troubleshooting.attention_entropy"
ENCODER = "troubleshooting.encoder_weights"
SCALED = "troubleshooting.scaled_scores"
LOOK_BACK = "troubleshooting.causal_self_attention"
FEED_FORWARD = "troubleshooting.PreNormFeedForward"
FIT = "troubleshooting.fit_linear"
POST_MORTEM = "troubleshooting.post_mortem"

DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)


def softmax_where(visible, scores):
    """The right weights, in float64: 0 where hidden, and in rows that see nothing."""
    weights = scores.double().masked_fill(~visible, -math.inf).softmax(-1)
    return weights.where(visible.expand_as(weights), 0)


def softmax_gradient(weights, cotangent):
    return weights * (cotangent - (weights * cotangent).sum(-1, keepdim=True))


def past(seq):
    return torch.ones(seq, seq, dtype=torch.bool).tril()


# check_heads


@clause(HEADS, 1)
def test_width_of_every_divisor(subject):
    """Every number of heads that divides is accepted"""
    found = [subject.troubleshooting.check_heads(60, heads) for heads in (1, 3, 4, 5, 15, 30, 60)]
    expect(found).equals([60, 20, 15, 12, 4, 2, 1])


@clause(HEADS, 2)
@pytest.mark.parametrize("d_model, num_heads", [(7, 2), (1, 2), (1024, 24), (30, 4), (9, -3)])
def test_more_impossible_heads(subject, d_model, num_heads):
    """What does not divide raises a ValueError"""
    with subject.raises("ValueError"):
        subject.troubleshooting.check_heads(d_model, num_heads)


@clause(HEADS, 3)
@pytest.mark.parametrize("d_model, num_heads", [(96, 64), (7, 2)])
def test_text_names_other_numbers(subject, d_model, num_heads):
    """The text of the error names both numbers"""
    with subject.raises("ValueError") as raised:
        subject.troubleshooting.check_heads(d_model, num_heads)
    expect(raised.text).mentions(d_model, num_heads)


@clause(HEADS, 4)
@pytest.mark.parametrize(
    "d_model, num_heads, nearest",
    [(7, 3, [1, 7, 7]), (100, 30, [25, 50]), (96, 7, [6, 8]), (90, 91, [90, 90]), (6, -2, [1])],
    ids=["3 for 7", "30 for 100", "7 for 96", "91 for 90", "-2 for 6"],
)
def test_text_names_what_else_would_do(subject, d_model, num_heads, nearest):
    """The text names the nearest numbers of heads that would do"""
    with subject.raises("ValueError") as raised:
        subject.troubleshooting.check_heads(d_model, num_heads)
    expect(raised.text).mentions(*nearest)


# first_nonfinite


def part(found, number):
    """The name, the index or the kind; of what is no such triple, all of it."""
    return found[number] if isinstance(found, tuple) and len(found) == 3 else found


def spoiled(draw, place, value, *shape, dtype=torch.float64):
    tensor = draw.tensor(*shape, dtype=dtype)
    tensor.view(-1)[place] = value
    return tensor


@clause(NONFINITE, 1)
def test_nothing_at_all(subject, draw):
    """No tensors, or large ones of every dtype, give None"""
    expect(subject.troubleshooting.first_nonfinite([])).equals(None)
    largest = [torch.finfo(d).max for d in (torch.float16, torch.bfloat16, torch.float32)]
    pairs = [
        (str(n), torch.full((2, 3), most, dtype=dtype))
        for n, (most, dtype) in enumerate(
            zip(largest, [torch.float16, torch.bfloat16, torch.float32])
        )
    ]
    expect(subject.troubleshooting.first_nonfinite(pairs)).equals(None)


@clause(NONFINITE, 2)
def test_first_in_the_order_given(subject, draw):
    """The order is the one given, whatever the names"""
    sound = draw.tensor(2, 3)
    names = ["z", "y", "x", "w", "v"]
    found = []
    for place in range(5):
        pairs = [(n, sound if i < place else sound / 0) for i, n in enumerate(names)]
        found.append(part(subject.troubleshooting.first_nonfinite(pairs), 0))
    expect(found).equals(names)


@clause(NONFINITE, 3)
@DTYPES
def test_index_in_every_dtype(subject, draw, dtype):
    """The index is right in every dtype, and in memory that is laid out otherwise"""
    cases = [
        spoiled(draw, 13, math.inf, 3, 5, dtype=dtype),
        spoiled(draw, 22, math.nan, 2, 3, 4, dtype=dtype),
        spoiled(draw, 5, -math.inf, 3, 4, dtype=dtype).T,
        spoiled(draw, 0, math.nan, 1, 1, 1, 1, dtype=dtype),
    ]
    found = [part(subject.troubleshooting.first_nonfinite([("x", case)]), 1) for case in cases]
    expect(found).equals([(2, 3), (1, 2, 2), (1, 1), (0, 0, 0, 0)])


@clause(NONFINITE, 4)
def test_kind_where_both_are(subject, draw):
    """The kind is that of the first bad entry, where later ones are of the other"""
    bad = draw.tensor(4, 6)
    bad[1, 3], bad[1, 4], bad[2, 0] = math.nan, math.inf, -math.inf
    cases = [bad, bad.flip(0), bad[1:, 4:], bad[2:]]
    found = [part(subject.troubleshooting.first_nonfinite([("x", case)]), 2) for case in cases]
    expect(found).equals(["nan", "inf", "inf", "inf"])


# safe_attention_weights


@clause(SAFE, 1)
@pytest.mark.parametrize("shape", [(1, 1), (4, 5), (2, 3, 5, 4)], ids=["single", "2d", "4d"])
def test_weights_of_any_rank(subject, draw, shape):
    """Without a mask, any leading axes work"""
    scores = draw.tensor(*shape)
    weights = subject.troubleshooting.safe_attention_weights(scores, None)
    expect(weights).equals(scores.softmax(-1))


@clause(SAFE, 2)
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 1, 1, 5), (3, 1, 5), (2, 3, 4, 5)], ids=str)
def test_masks_that_broadcast(subject, draw, shape):
    """Any mask that broadcasts to the scores hides keys"""
    scores, mask = draw.tensor(2, 3, 4, 5), draw.mask(*shape)
    weights = subject.troubleshooting.safe_attention_weights(scores, mask)
    expect(weights).equals(softmax_where(mask, scores))


@clause(SAFE, 3)
@DTYPES
def test_nothing_visible_in_any_dtype(subject, draw, dtype):
    """Where no query sees a key, all is 0 in every dtype"""
    scores = draw.tensor(2, 4, 5, dtype=dtype)
    mask = torch.zeros(4, 5, dtype=torch.bool)
    weights = subject.troubleshooting.safe_attention_weights(scores, mask)
    expect(weights).equals(0)
    expect(weights).has_dtype(dtype)


@clause(SAFE, 4)
@DTYPES
def test_large_scores_without_a_mask(subject, draw, dtype):
    """Large scores without a mask are right in every dtype"""
    scores = (draw.tensor(4, 6, scale=3.0) * torch.tensor([[1.0], [2e3], [1.0], [1.0]])).double()
    scores = (scores + torch.tensor([[0.0], [0.0], [9e3], [-9e3]])).clamp(-1e4, 1e4).to(dtype)
    weights = subject.troubleshooting.safe_attention_weights(scores)
    expect(weights).equals(scores.double().softmax(-1).to(dtype))


@clause(SAFE, 5)
@DTYPES
def test_nan_behind_the_mask_in_any_dtype(subject, draw, dtype):
    """NaN behind the mask has no influence in any dtype"""
    scores, mask = draw.tensor(3, 4, 5).to(dtype), draw.mask(3, 4, 5)
    right = softmax_where(mask, scores)
    bad = scores.masked_fill(~mask, math.nan)
    weights = subject.troubleshooting.safe_attention_weights(bad, mask)
    expect(weights).equals(right.to(dtype))


@clause(SAFE, 6)
@DTYPES
def test_gradient_in_any_dtype(subject, draw, dtype):
    """With rows that see nothing, gradients are finite and right in every dtype"""
    scores, mask = draw.tensor(3, 4, 5).to(dtype), draw.mask(3, 4, 5)
    mask[0] = False
    cotangent = draw.tensor(3, 4, 5).to(dtype)
    right = softmax_gradient(softmax_where(mask, scores), cotangent.double())
    call = subject.troubleshooting.safe_attention_weights.on(scores, mask)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    expect(gradient).is_finite()
    expect(gradient).equals(right.to(dtype))


@clause(SAFE, 2)
def test_safe_weights_repeat(subject, draw):
    """Hidden and visible keys get the same weights twice, in whichever layout"""
    call = subject.troubleshooting.safe_attention_weights.on(draw.tensor(3, 4, 5), draw.mask(4, 5))
    repeats(call)
    layout_does_not_matter(call, "scores")


# find_future_leaks


def pairs_of(leaks):
    return [tuple(pair) for pair in leaks.triu(1).nonzero().tolist()]


def leaks_of(subject, attention, seq_len, d_model):
    """What the student's detector finds in a function, which says so if it is called otherwise."""

    def attention_fn(x):
        if x.ndim != 3 or x.shape[1:] != (seq_len, d_model):
            raise ValueError(
                f"attention_fn takes [batch, {seq_len}, {d_model}]; it was given {list(x.shape)}"
            )
        return attention(x)

    return subject.troubleshooting.find_future_leaks(attention_fn, seq_len, d_model)


def in_order(found):
    """Its pairs as sorted tuples: their form is the affair of one clause."""
    pairs = [tuple(pair) if isinstance(pair, list) else pair for pair in found]
    plain = all(isinstance(pair, tuple) and set(map(type, pair)) == {int} for pair in pairs)
    return sorted(pairs) if plain else found


@clause(LEAKS, 1)
@pytest.mark.parametrize("seq", [1, 2, 7])
def test_sound_functions_of_other_lengths(subject, draw, seq):
    """What looks back leaks nothing, at any length"""
    weight = draw.tensor(4, 3)
    found = leaks_of(subject, lambda x: (x @ weight.to(x)).cumsum(1), seq, 4)
    expect(found).equals([])


@clause(LEAKS, 1)
def test_running_maximum(subject):
    """A function that keeps the largest so far leaks nothing"""
    expect(leaks_of(subject, lambda x: x.cummax(1).values, 6, 5)).equals([])


@clause(LEAKS, 2)
@pytest.mark.parametrize("seq", [2, 4, 7])
def test_leaks_of_any_pattern(subject, draw, seq):
    """Whichever pairs leak are found, next to each other or far apart"""
    leaks = draw.mask(seq, seq, hidden=0.6)
    weights = draw.tensor(seq, seq).sign() * (leaks | past(seq))
    found = leaks_of(subject, lambda x: weights.to(x) @ x, seq, 5)
    expect(found).equals(pairs_of(leaks))


@clause(LEAKS, 2)
def test_leak_of_the_last_token_alone(subject):
    """The last token, read by the first alone, is found"""
    weights = past(6).double()
    weights[0, 5] = 1.0
    found = leaks_of(subject, lambda x: weights.to(x) @ x, 6, 3)
    expect(found).equals([(0, 5)])


@clause(LEAKS, 2)
def test_leak_through_the_mean(subject, draw):
    """What subtracts the mean of the whole sentence leaks everywhere"""
    found = leaks_of(subject, lambda x: x - x.mean(1, keepdim=True), 5, 4)
    expect(found).equals(pairs_of(torch.ones(5, 5)))


@clause(LEAKS, 3)
def test_faint_leak_of_a_fill_that_is_too_high(subject, draw):
    """Hidden keys that keep a little weight leak"""

    def attention(x):
        scores = torch.zeros(5, 5).to(x).masked_fill(~past(5), -4.0)
        return scores.softmax(-1) @ x

    found = leaks_of(subject, attention, 5, 6)
    expect(in_order(found)).equals(pairs_of(torch.ones(5, 5)))


@clause(LEAKS, 3)
def test_rounding_of_a_running_mean(subject, draw):
    """A sum from which the future is taken away again is no leak"""

    def means(x):
        count = torch.arange(1, x.size(1) + 1).to(x)[:, None]
        before = x.sum(1, keepdim=True) - x.flip(1).cumsum(1).flip(1)
        return (before + x) / count

    expect(leaks_of(subject, means, 7, 5)).equals([])


@clause(LEAKS, 4)
def test_leak_into_a_single_output(subject, draw):
    """A leak into one number of many counts"""
    leaks = draw.mask(5, 5, hidden=0.5).triu(1)
    place = int(draw.integers(0, 6, 1))

    def attention(x):
        into = torch.zeros(6).to(x)
        into[place] = 1.0
        return x + (leaks.to(x) @ x) * into

    found = leaks_of(subject, attention, 5, 6)
    expect(in_order(found)).equals(pairs_of(leaks))


@clause(LEAKS, 4)
def test_leak_of_signs_behind_a_norm(subject, draw):
    """A leak of signs alone, after a norm, counts"""
    leaks = draw.mask(5, 5, hidden=0.5).triu(1)

    def attention(x):
        normed = torch.nn.functional.layer_norm(x, x.shape[-1:])
        return x + leaks.to(x) @ normed.detach().sign()

    found = leaks_of(subject, attention, 5, 32)  # of so many signs, some change
    expect(in_order(found)).equals(pairs_of(leaks))


# AddPositions


def sines(max_len, d_model):
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(max_len, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


@clause(POSITIONS, 1)
def test_positions_moved_twice(subject, draw):
    """Moved there and back again, it works"""
    layer = subject.troubleshooting.AddPositions(4, 9)
    layer.to(torch.float64).to(torch.bfloat16)
    x = draw.tensor(3, 5, 4, dtype=torch.bfloat16)
    expect(layer(x)).equals((x.double() + sines(5, 4)).bfloat16())


@clause(POSITIONS, 2)
@pytest.mark.parametrize("batch, seq, d_model", [(1, 1, 2), (4, 9, 6), (2, 3, 10)])
def test_rows_of_other_tables(subject, draw, batch, seq, d_model):
    """Row t is added to position t, at other sizes too, in training as in evaluation"""
    layer = subject.troubleshooting.AddPositions(d_model, 9)
    x = draw.tensor(batch, seq, d_model, dtype=torch.float32)
    for mode in (layer.train, layer.eval):
        expect(mode()(x)).equals((x.double() + sines(seq, d_model)).float())


@clause(POSITIONS, 2)
def test_rows_far_out(subject, draw):
    """Rows far out are right, as exact as in float32"""
    x = draw.tensor(1, 500, 16, dtype=torch.float32)
    marked = subject.troubleshooting.AddPositions(16, 500)(x)
    expect(marked).equals((x.double() + sines(500, 16)).float(), within=FLOAT32_TABLE)


@clause(POSITIONS, 3)
def test_larger_positions_are_not_trained(subject):
    """At any size, nothing in it is trained"""
    expect(subject.troubleshooting.AddPositions(12, 40).describe()["trained"]).equals([])


@clause(POSITIONS, 4)
def test_positions_repeat(subject, draw):
    """The same call gives the same result twice"""
    layer = subject.troubleshooting.AddPositions(4, 9)
    repeats(layer.on(draw.tensor(3, 5, 4, dtype=torch.float32)))


# causal_weights


@clause(CAUSAL, 1)
def test_causal_weights_of_heads_on_the_accelerator(subject, draw):
    """With a head axis, too, the weights are made where the scores are"""
    call = subject.troubleshooting.causal_weights.on(draw.tensor(2, 3, 4, 4))
    stays_on_accelerator(subject, call)


@clause(CAUSAL, 2)
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (4, 2, 2), (2, 3, 7, 7)], ids=str)
def test_causal_weights_of_any_rank(subject, draw, shape):
    """Any leading axes and any length work"""
    scores = draw.tensor(*shape, scale=3.0)
    weights = subject.troubleshooting.causal_weights(scores)
    expect(weights).equals(softmax_where(past(shape[-1]), scores))


@clause(CAUSAL, 3)
def test_causal_gradient_of_heads(subject, draw):
    """The gradient reaches the scores of every head"""
    scores, cotangent = draw.tensor(2, 3, 4, 4), draw.tensor(2, 3, 4, 4)
    call = subject.troubleshooting.causal_weights.on(scores)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    expect(gradient).equals(softmax_gradient(softmax_where(past(4), scores), cotangent))


@clause(CAUSAL, 4)
def test_causal_weights_repeat(subject, draw):
    """The same call gives the same weights twice, in whichever layout"""
    call = subject.troubleshooting.causal_weights.on(draw.tensor(3, 5, 5))
    repeats(call)
    layout_does_not_matter(call, "scores")


# decoder_weights


def padded(*lengths, seq, left=False):
    """A padding mask, and its decoder's visible keys."""
    mask = torch.arange(seq) < torch.tensor(lengths)[:, None]
    mask = mask.flip(1) if left else mask
    return mask, mask[:, None, :] & past(seq)


@clause(DECODER, 1)
@pytest.mark.parametrize("lengths", [(1, 6, 3), (2, 2, 2, 5)], ids=str)
def test_left_padding_of_other_lengths(subject, draw, lengths):
    """Whatever the lengths, weights and gradients are finite with padding on the left"""
    mask, _ = padded(*lengths, seq=6, left=True)
    scores = draw.tensor(len(lengths), 6, 6, dtype=torch.float32)
    call = subject.troubleshooting.decoder_weights.on(scores, mask)
    expect(call()).is_finite()
    cotangent = draw.tensor(len(lengths), 6, 6, dtype=torch.float32)
    expect(subject.vjp(call, cotangent, wrt=["scores"])["scores"]).is_finite()


@clause(DECODER, 4)
@pytest.mark.parametrize("level", [-9000.0, -20.0, 9000.0])
def test_left_padding_at_any_level(subject, draw, level):
    """In float16, too, weights are finite with padding on the left, however low the scores"""
    mask, _ = padded(2, 5, 3, seq=5, left=True)
    scores = (draw.tensor(3, 5, 5) + level).half()
    expect(subject.troubleshooting.decoder_weights(scores, mask)).is_finite()


@clause(DECODER, 2)
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_decoder_weights_of_other_lengths(subject, draw, left):
    """Queries that see a key weigh what is real and not later, with large scores too"""
    mask, visible = padded(3, 7, 1, 5, seq=7, left=left)
    scores = draw.tensor(4, 7, 7, scale=30.0)
    weights = subject.troubleshooting.decoder_weights(scores, mask)
    sees = visible.any(-1, keepdim=True).expand_as(weights)
    expect(weights, where=sees).equals(softmax_where(visible, scores))


@clause(DECODER, 2)
def test_decoder_sentences_stay_apart(subject, draw):
    """A sentence alone is weighed as it is among others"""
    mask, _ = padded(3, 5, 4, seq=5, left=True)
    call = subject.troubleshooting.decoder_weights.on(draw.tensor(3, 5, 5), mask)
    alone_as_in_batch(call, "scores", "padding_mask")


@clause(DECODER, 3)
def test_decoder_gradient_with_left_padding(subject, draw):
    """The gradient is right where a query sees something, with padding on the left"""
    mask, visible = padded(3, 5, 4, seq=5, left=True)
    sees = visible.any(-1, keepdim=True)
    scores, cotangent = draw.tensor(3, 5, 5), draw.tensor(3, 5, 5) * sees
    call = subject.troubleshooting.decoder_weights.on(scores, mask)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    right = softmax_gradient(softmax_where(visible, scores), cotangent)
    expect(gradient, where=sees.expand_as(gradient)).equals(right)


@clause(DECODER, 4)
@DTYPES
def test_decoder_weights_in_any_dtype(subject, draw, dtype):
    """Every dtype gives its own, with padding on the left"""
    mask, visible = padded(3, 5, 4, seq=5, left=True)
    scores = draw.tensor(3, 5, 5, dtype=dtype)
    weights = subject.troubleshooting.decoder_weights(scores, mask)
    expect(weights).has_dtype(dtype)
    sees = visible.any(-1, keepdim=True).expand_as(weights)
    expect(weights, where=sees).equals(softmax_where(visible, scores).to(dtype))


# attention_entropy


def entropy(weights):
    wide = weights.double()
    return -torch.special.xlogy(wide, wide).sum(-1)


@clause(ENTROPY, 1)
def test_entropy_of_causal_weights(subject, draw):
    """Behind a look-ahead mask, value and gradient are finite and the value is right"""
    weights = softmax_where(past(6), draw.tensor(2, 3, 6, 6))
    call = subject.troubleshooting.attention_entropy.on(weights)
    expect(call()).equals(entropy(weights), within=1e-4)
    gradient = subject.vjp(call, draw.tensor(2, 3, 6), wrt=["weights"])["weights"]
    expect(gradient).is_finite()


@clause(ENTROPY, 2)
@pytest.mark.parametrize("count", [1, 2, 9])
def test_entropy_of_equal_weights(subject, count):
    """n equal weights have the entropy ln(n)"""
    weights = torch.full((4, 3, count), 1 / count, dtype=torch.float64)
    found = subject.troubleshooting.attention_entropy(weights)
    expect(found).equals(torch.full((4, 3), math.log(count)).double(), within=1e-4)


@clause(ENTROPY, 3)
def test_entropy_gradient_beside_zeros(subject, draw):
    """Beside weights of 0, the gradient of the others is right"""
    weights = softmax_where(draw.mask(3, 4, 5), draw.tensor(3, 4, 5))
    cotangent = draw.tensor(3, 4)
    call = subject.troubleshooting.attention_entropy.on(weights)
    gradient = subject.vjp(call, cotangent, wrt=["weights"])["weights"]
    right = -(weights.clamp(min=1e-300).log() + 1) * cotangent[..., None]
    expect(gradient, where=weights > 0).equals(right, within=1e-4)


@clause(ENTROPY, 4)
@DTYPES
def test_entropy_in_any_dtype(subject, draw, dtype):
    """Every dtype gives its own, zeros included"""
    weights = softmax_where(past(6), draw.tensor(2, 6, 6)).to(dtype)
    found = subject.troubleshooting.attention_entropy(weights)
    expect(found).has_dtype(dtype)
    expect(found).equals(entropy(weights).to(dtype), within=max(budget(dtype), 1e-4))


# encoder_weights


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(torch.float32, marks=clause(ENCODER, 1)),
        pytest.param(torch.float64, marks=clause(ENCODER, 1)),
        pytest.param(torch.float16, marks=clause(ENCODER, 4)),
        pytest.param(torch.bfloat16, marks=clause(ENCODER, 4)),
    ],
    ids=str,
)
def test_padding_at_any_level_in_any_dtype(subject, draw, dtype):
    """Padding has weight 0 at any level of the scores, in every dtype"""
    mask = draw.mask(4, 5)
    levels = torch.tensor([-9000.0, -300.0, 0.0, 9000.0])[:, None, None, None]
    scores = (draw.tensor(4, 2, 3, 5) + levels).to(dtype)
    weights = subject.troubleshooting.encoder_weights(scores, mask)
    right = softmax_where(mask[:, None, None, :], scores)
    expect(weights).equals(right, within=budget(dtype))


@clause(ENCODER, 1)
def test_padding_far_above(subject, draw):
    """Padding has weight 0, although its own scores lie far above"""
    scores, mask = draw.tensor(2, 3, 4, 5), draw.mask(2, 5)
    hidden = ~mask[:, None, None, :]
    scores = scores + 5000 * hidden - 5000 * ~hidden
    weights = subject.troubleshooting.encoder_weights(scores, mask)
    expect(weights).equals(softmax_where(~hidden, scores))


@clause(ENCODER, 2)
def test_encoder_weights_without_padding(subject, draw):
    """Without padding, it is the softmax of all scores"""
    scores = draw.tensor(2, 3, 5, 4, scale=3.0)
    weights = subject.troubleshooting.encoder_weights(scores, torch.ones(2, 4, dtype=torch.bool))
    expect(weights).equals(scores.softmax(-1))


@clause(ENCODER, 2)
def test_encoder_sentences_stay_apart(subject, draw):
    """A sentence alone is weighed as it is among others"""
    call = subject.troubleshooting.encoder_weights.on(draw.tensor(3, 2, 4, 5), draw.mask(3, 5))
    alone_as_in_batch(call, "scores", "padding_mask")


@clause(ENCODER, 3)
def test_encoder_gradient_at_another_level(subject, draw):
    """The gradient is right at another level of the scores"""
    scores, mask, cotangent = draw.tensor(2, 3, 4, 5) - 80, draw.mask(2, 5), draw.tensor(2, 3, 4, 5)
    call = subject.troubleshooting.encoder_weights.on(scores, mask)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    weights = softmax_where(mask[:, None, None, :], scores)
    expect(gradient).equals(softmax_gradient(weights, cotangent))


@clause(ENCODER, 4)
def test_encoder_weights_repeat(subject, draw):
    """The same call gives the same weights twice, in whichever layout"""
    call = subject.troubleshooting.encoder_weights.on(draw.tensor(2, 3, 4, 5), draw.mask(2, 5))
    repeats(call)
    layout_does_not_matter(call, "scores")


# scaled_scores


def right_scores(query, key):
    return query.double() @ key.double().transpose(-2, -1) / math.sqrt(query.size(-1))


@clause(SCALED, 1)
@pytest.mark.parametrize("d_k, size", [(32, 60.0), (128, 25.0)])
def test_scores_that_float16_can_hold_at_other_sizes(subject, draw, d_k, size):
    """In float16, large scores of either sign come out finite and right"""
    direction = draw.tensor(d_k).sign() * size
    query = (draw.tensor(2, 3, 4, d_k) + direction).half()
    key = (draw.tensor(2, 3, 5, d_k) + direction * torch.tensor([[1], [-1], [1], [-1], [0]])).half()
    scores = subject.troubleshooting.scaled_scores(query, key)
    expect(scores).is_finite()
    right = right_scores(query, key)
    large = right.abs() > 100  # a sum in which all cancels has float16's rounding of its parts
    expect(scores, where=large).equals(right, within=budget(torch.float16))


@clause(SCALED, 2)
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=str)
def test_scaled_scores_of_any_rank(subject, draw, leading):
    """Any leading axes work"""
    query, key = draw.tensor(*leading, 4, 9), draw.tensor(*leading, 5, 9)
    scores = subject.troubleshooting.scaled_scores(query, key)
    expect(scores).equals(right_scores(query, key))


@clause(SCALED, 3)
def test_scaled_gradient_of_heads(subject, draw):
    """The gradients reach query and key of every head"""
    query, key, cotangent = (draw.tensor(2, 3, *shape) for shape in [(4, 16), (5, 16), (4, 5)])
    call = subject.troubleshooting.scaled_scores.on(query, key)
    gradients = subject.vjp(call, cotangent, wrt=["query", "key"])
    expect(gradients["query"]).equals(cotangent @ key / 4)
    expect(gradients["key"]).equals(cotangent.mT @ query / 4)


@clause(SCALED, 4)
def test_scaled_scores_repeat(subject, draw):
    """The same call gives the same scores twice, in whichever layout"""
    call = subject.troubleshooting.scaled_scores.on(draw.tensor(3, 4, 6), draw.tensor(3, 5, 6))
    repeats(call)
    layout_does_not_matter(call, "query", "key")


# causal_self_attention


def projected(draw, batch=3, seq=5, d_in=6, d_out=4):
    shapes = [(batch, seq, d_in)] + 3 * [(d_in, d_out)]
    return [draw.tensor(*shape) for shape in shapes]


def looking_back(x, w_q, w_k, w_v):
    scores = (x @ w_q) @ (x @ w_k).mT / math.sqrt(w_q.size(-1))
    return softmax_where(past(x.size(1)), scores) @ (x @ w_v)


@clause(LOOK_BACK, 1)
@pytest.mark.parametrize("seq", [2, 7])
def test_nobody_sees_the_future_at_other_lengths(subject, draw, seq):
    """At no length does a later token move an earlier output"""
    call = subject.troubleshooting.causal_self_attention.on(*projected(draw, seq=seq, d_out=3))
    places = torch.arange(seq)[:, None]
    for place in range(1, seq):
        unmoved_by(call, draw, "x", places >= place, [places < place])


@clause(LOOK_BACK, 2)
@pytest.mark.parametrize("batch, seq, d_out", [(1, 1, 4), (2, 8, 3), (4, 3, 9)])
def test_mixing_at_other_sizes(subject, draw, batch, seq, d_out):
    """The output mixes all values up to its own, at other sizes too"""
    given = projected(draw, batch, seq, d_out=d_out)
    output = subject.troubleshooting.causal_self_attention(*given)
    expect(output).equals(looking_back(*given))


@clause(LOOK_BACK, 3)
def test_gradients_of_all_outputs(subject, draw):
    """The gradients of all outputs reach x and the three matrices"""
    given = [tensor.requires_grad_() for tensor in projected(draw)]
    cotangent = draw.tensor(3, 5, 4)
    expected = torch.autograd.grad((looking_back(*given) * cotangent).sum(), given)
    call = subject.troubleshooting.causal_self_attention.on(*(t.detach() for t in given))
    names = ["x", "w_q", "w_k", "w_v"]
    gradients = subject.vjp(call, cotangent, wrt=names)
    for name, right in zip(names, expected):
        expect(gradients[name]).equals(right)


@clause(LOOK_BACK, 4)
def test_look_back_repeats(subject, draw):
    """The same call gives the same output twice, in whichever layout"""
    call = subject.troubleshooting.causal_self_attention.on(*projected(draw))
    repeats(call)
    layout_does_not_matter(call, "x", "w_v")


# PreNormFeedForward


def feed_forward(subject, draw, d_model, d_ff):
    layer = subject.troubleshooting.PreNormFeedForward(d_model, d_ff)
    state = draw.weights(layer)
    return layer.load(state).set("norm.eps", 1e-5), state


def refined(x, state):
    gain, bias = state["norm.weight"], state["norm.bias"]
    normed = torch.nn.functional.layer_norm(x, x.shape[-1:], gain, bias)
    inner = torch.relu(normed @ state["inner.weight"].T + state["inner.bias"])
    return x + inner @ state["outer.weight"].T + state["outer.bias"]


@clause(FEED_FORWARD, 1)
def test_nothing_to_add_at_other_sizes(subject, draw):
    """A layer that adds nothing changes nothing, at any size and scale of the tokens"""
    layer, state = feed_forward(subject, draw, 4, 7)
    layer.load({name: 0 * value for name, value in state.items() if name.startswith("outer")})
    for scale in (0.01, 1.0, 100.0):
        x = scale * draw.tensor(2, 3, 4)
        expect(layer(x)).equals(x)


@clause(FEED_FORWARD, 2)
@pytest.mark.parametrize("d_model, d_ff", [(2, 3), (8, 5)])
def test_what_other_layers_add(subject, draw, d_model, d_ff):
    """forward gives the same sum for other widths, in training as in evaluation"""
    layer, state = feed_forward(subject, draw, d_model, d_ff)
    x = 2 * draw.tensor(4, 3, d_model) - 1
    for mode in (layer.train, layer.eval):
        expect(mode()(x)).equals(refined(x, state))


@clause(FEED_FORWARD, 2)
def test_tokens_stay_apart(subject, draw):
    """What forward gives for a token depends on that token alone"""
    layer, _ = feed_forward(subject, draw, 6, 10)
    call = layer.on(draw.tensor(3, 5, 6))
    alone_as_in_batch(call, "x")
    places = torch.arange(5)[:, None]
    unmoved_by(call, draw, "x", places == 2, [places != 2])


@clause(FEED_FORWARD, 3)
def test_feed_forward_gradients_at_another_size(subject, draw):
    """The gradients reach x and every parameter, at another size"""
    layer, state = feed_forward(subject, draw, 4, 9)
    x, cotangent = draw.tensor(2, 3, 4), draw.tensor(2, 3, 4)
    leaves = [tensor.requires_grad_() for tensor in (x, *state.values())]
    expected = torch.autograd.grad((refined(x, state) * cotangent).sum(), leaves)
    names = ["x", *state]
    gradients = subject.vjp(layer.on(x.detach()), cotangent, wrt=names)
    for name, right in zip(names, expected):
        expect(gradients[name]).equals(right)


@clause(FEED_FORWARD, 4)
def test_feed_forward_repeats(subject, draw):
    """The same call gives the same result twice"""
    layer, _ = feed_forward(subject, draw, 6, 10)
    repeats(layer.train().on(draw.tensor(3, 5, 6)))


# fit_linear


def line(draw, n, d_in, unit=1.0, dtype=torch.float64):
    features = draw.tensor(n, d_in)
    targets = 5 * features @ draw.tensor(d_in) + draw.tensor(n)
    return (unit * features).to(dtype), targets.to(dtype)


def loss(weights, features, targets):
    return (features.double() @ weights.double() - targets.double()).square().mean()


def least(features, targets):
    features, targets = features.double(), targets.double()
    return loss(torch.linalg.pinv(features) @ targets, features, targets)


def is_fitted(weights, features, targets):
    """1 % at most is left of what was to be gained."""
    start = targets.double().square().mean()
    end = loss(weights, features, targets)
    lowers_the_loss(weights, start, end, least(features, targets), left=0.01)


@clause(FIT, 1)
@pytest.mark.parametrize("unit", [0.001, 3.0, 1000.0])
@pytest.mark.parametrize("n, d_in", [(60, 4), (30, 2)])
def test_loss_falls_for_other_lines(subject, draw, unit, n, d_in):
    """After 100 steps at most 1 % is left, for other numbers of examples and features"""
    given = line(draw, n, d_in, unit)
    is_fitted(subject.troubleshooting.fit_linear(*given, 100), *given)


@clause(FIT, 1)
@pytest.mark.parametrize("unit", [0.01, 100.0])
def test_loss_falls_in_float32(subject, draw, unit):
    """In float32, too, at most 1 % is left"""
    given = line(draw, 50, 3, unit, torch.float32)
    is_fitted(subject.troubleshooting.fit_linear(*given, 100), *given)


@clause(FIT, 2)
@pytest.mark.parametrize("unit", [0.1, 50.0])
def test_steps_in_another_unit(subject, draw, unit):
    """In another unit, too, steps go against the gradient and raise no loss"""
    features, targets = line(draw, 50, 3, unit)
    weights = torch.zeros(3, dtype=torch.float64)
    for steps in (1, 2, 3):
        later = subject.troubleshooting.fit_linear(features, targets, steps)
        downhill = -features.T @ (features @ weights - targets)
        moved = later - weights
        expect(moved / moved.norm()).equals(downhill / downhill.norm())
        rise = loss(later, features, targets) - loss(weights, features, targets)
        expect(rise.clamp(min=0)).equals(0)
        weights = later


@clause(FIT, 3)
def test_fit_in_float64(subject, draw):
    """float64 gives float64"""
    expect(subject.troubleshooting.fit_linear(*line(draw, 20, 5), 3)).has_dtype(torch.float64)


@clause(FIT, 2)
def test_fit_repeats(subject, draw):
    """The same steps give the same weights twice, in whichever layout"""
    call = subject.troubleshooting.fit_linear.on(*line(draw, 40, 3), 4)
    repeats(call)
    layout_does_not_matter(call, "features")


# post_mortem

CAUSES = [
    "dtype too small",
    "fill not low enough",
    "gradient cut",
    "input changed",
    "left behind",
    "made on the CPU",
    "mask ignored",
    "mask misplaced",
    "no maximum subtracted",
    "no normalisation",
    "nothing visible",
    "rate too high",
    "rate too low",
    "residual lost",
    "scale missing",
    "zero times infinity",
]
RIGHT = {
    "AddPositions": "left behind",
    "causal_weights": "made on the CPU",
    "decoder_weights": "nothing visible",
    "attention_entropy": "zero times infinity",
    "encoder_weights": "fill not low enough",
    "scaled_scores": "dtype too small",
    "causal_self_attention": "mask misplaced",
    "PreNormFeedForward": "residual lost",
    "fit_linear": "rate too high",
}


@pytest.mark.parametrize(
    "repair",
    [
        pytest.param(repair, marks=clause(POST_MORTEM, number), id=repair)
        for number, repair in enumerate(RIGHT, 1)
    ],
)
def test_the_right_cause_is_named(subject, repair):
    """It is the cause of this fault"""
    found = subject.troubleshooting.post_mortem()
    expect(found.get(repair)).chooses(repair, CAUSES, RIGHT[repair])
