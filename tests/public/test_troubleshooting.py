"""Checks of the unit `troubleshooting`."""

import math

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import (
    leaves_inputs_alone,
    lowers_the_loss,
    stays_on_accelerator,
    unmoved_by,
)
from grader.judge.tolerance import budget

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

HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["float16", "float32"])


def softmax_where(visible, scores):
    """The right weights, in float64: 0 where hidden, and in rows that see nothing."""
    weights = scores.double().masked_fill(~visible, -math.inf).softmax(-1)
    return weights.where(visible.expand_as(weights), 0)


def softmax_gradient(weights, cotangent):
    """The gradient that reaches the scores."""
    return weights * (cotangent - (weights * cotangent).sum(-1, keepdim=True))


def past(seq):
    return torch.ones(seq, seq, dtype=torch.bool).tril()


# check_heads


@clause(HEADS, 1)
def test_width_of_a_head(subject):
    """d_k is d_model / num_heads, an int"""
    given = [(512, 8), (768, 12), (12, 12), (7, 1), (96, 6)]
    found = [subject.troubleshooting.check_heads(d_model, heads) for d_model, heads in given]
    expect(found).equals([64, 64, 1, 7, 16])


@clause(HEADS, 2)
@pytest.mark.parametrize("d_model, num_heads", [(512, 12), (8, 16), (8, 0), (8, -4)])
def test_impossible_heads(subject, d_model, num_heads):
    """12 heads for 512, 16 for 8, none, and -4 raise a ValueError"""
    with subject.raises("ValueError"):
        subject.troubleshooting.check_heads(d_model, num_heads)


@clause(HEADS, 3)
def test_text_names_both_numbers(subject):
    """The text of the error names both numbers"""
    with subject.raises("ValueError") as raised:
        subject.troubleshooting.check_heads(512, 12)
    expect(raised.text).mentions(512, 12)


@clause(HEADS, 4)
@pytest.mark.parametrize(
    "d_model, num_heads, nearest",
    [(512, 12, [8, 16]), (60, 7, [6, 10]), (8, 16, [8, 8]), (6, 0, [1])],  # 8 is d_model, too
    ids=["12 for 512", "7 for 60", "16 for 8", "0 for 6"],
)
def test_text_names_what_would_do(subject, d_model, num_heads, nearest):
    """The text names the nearest numbers of heads that would do"""
    with subject.raises("ValueError") as raised:
        subject.troubleshooting.check_heads(d_model, num_heads)
    expect(raised.text).mentions(*nearest)


# first_nonfinite


def part(found, number):
    """The name, the index or the kind; of what is no such triple, all of it."""
    return found[number] if isinstance(found, tuple) and len(found) == 3 else found


def with_entries(draw, *shape, **entries):
    """A drawn tensor in which some flat places hold something else: ``nan=3, inf=5, low=6``."""
    values = {"nan": math.nan, "inf": math.inf, "low": -math.inf}
    tensor = draw.tensor(*shape)
    for name, place in entries.items():
        tensor.view(-1)[place] = values[name]
    return tensor


@clause(NONFINITE, 1)
def test_all_is_finite(subject, draw):
    """Finite entries of every kind give None"""
    pairs = [
        ("activations", draw.tensor(3, 4)),
        ("logits", 30_000 * draw.tensor(3)),
        ("token_ids", draw.integers(0, 9, 3, 4)),
        ("mask", draw.mask(3, 4)),
        ("nothing", torch.zeros(0, 4)),
        ("loss", torch.tensor(2.5)),
    ]
    expect(subject.troubleshooting.first_nonfinite(pairs)).equals(None)


@clause(NONFINITE, 1)
def test_large_numbers_are_finite(subject):
    """Numbers whose sum would overflow are finite all the same"""
    pairs = [("half", torch.full((2, 3), 60_000.0).half()), ("single", torch.full((2,), 3e38))]
    expect(subject.troubleshooting.first_nonfinite(pairs)).equals(None)


@clause(NONFINITE, 2)
def test_the_first_bad_tensor(subject, draw):
    """The name is that of the first tensor that holds NaN or an infinity"""
    sound, bad = draw.tensor(2, 3), with_entries(draw, 2, 3, nan=4)
    worse = with_entries(draw, 4, inf=0)
    cases = [
        [("norm", sound), ("attention", bad), ("loss", bad)],
        [("scores", worse), ("embedding", bad)],
        [("token_ids", draw.integers(0, 9, 3)), ("a", sound), ("logits", worse), ("b", bad)],
    ]
    found = [part(subject.troubleshooting.first_nonfinite(case), 0) for case in cases]
    expect(found).equals(["attention", "scores", "logits"])


@clause(NONFINITE, 3)
def test_index_of_the_first_bad_entry(subject, draw):
    """The index leads to the first bad entry, row by row"""
    cases = [
        with_entries(draw, 3, 4, nan=6, inf=9),
        with_entries(draw, 2, 3, 5, inf=17),
        with_entries(draw, 7, low=4),
        with_entries(draw, 4, 3, nan=5, inf=6).T,  # of which [0, 2] comes first
        torch.tensor(math.nan),
    ]
    found = [part(subject.troubleshooting.first_nonfinite([("x", case)]), 1) for case in cases]
    expect(found).equals([(1, 2), (1, 0, 2), (4,), (0, 2), ()])


@clause(NONFINITE, 4)
def test_kind_of_the_first_bad_entry(subject, draw):
    """The kind is that of this very entry"""
    cases = [
        with_entries(draw, 3, 4, inf=2, nan=7),
        with_entries(draw, 3, 4, nan=2, inf=7),
        with_entries(draw, 3, 4, low=5),
        with_entries(draw, 3, 4, nan=5),
    ]
    found = [part(subject.troubleshooting.first_nonfinite([("x", case)]), 2) for case in cases]
    expect(found).equals(["inf", "nan", "inf", "nan"])


# safe_attention_weights


DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)


@clause(SAFE, 1)
def test_weights_without_a_mask(subject, draw):
    """Without a mask, it is the softmax over the keys"""
    scores = draw.tensor(3, 4, 5)
    weights = subject.troubleshooting.safe_attention_weights(scores)
    expect(weights).sums_to(1)
    expect(weights).equals(scores.softmax(-1))


@clause(SAFE, 2)
def test_visible_keys_share_one(subject, draw):
    """A hidden key has weight 0, and the visible ones share out 1"""
    scores, mask = draw.tensor(2, 3, 4, 5), draw.mask(2, 1, 4, 5)
    weights = subject.troubleshooting.safe_attention_weights(scores, mask)
    expect(weights, where=~mask).equals(0)
    expect(weights).sums_to(1)
    expect(weights).equals(softmax_where(mask, scores))


@clause(SAFE, 3)
def test_nothing_visible_gives_zeros(subject, draw):
    """A query that sees no key gets zeros, and no other does"""
    scores, mask = draw.tensor(3, 4, 5), draw.mask(3, 4, 5)
    mask[1, 2] = False
    mask[2] = False
    weights = subject.troubleshooting.safe_attention_weights(scores, mask)
    expect(weights).equals(softmax_where(mask, scores))


@clause(SAFE, 4)
@DTYPES
def test_large_scores_in_any_dtype(subject, draw, dtype):
    """Scores up to 1e4 give the right weights in every dtype"""
    scores, mask = draw.tensor(5, 4, 6), draw.mask(5, 4, 6)
    scores[1] = scores[1] * 3000
    scores[2] += 10_000
    scores[3] -= 10_000
    scores[4][mask[4]] -= 10_000  # what is hidden lies far above
    scores = scores.clamp(-10_000, 10_000).to(dtype)
    weights = subject.troubleshooting.safe_attention_weights(scores, mask)
    expect(weights).equals(softmax_where(mask, scores).to(dtype))


@clause(SAFE, 5)
def test_nan_behind_the_mask(subject, draw):
    """NaN and infinity behind the mask have no influence"""
    scores, mask = draw.tensor(3, 4, 5), draw.mask(3, 4, 5)
    right = softmax_where(mask, scores)
    for bad in (math.nan, math.inf, -math.inf):
        spoiled = scores.masked_fill(~mask, bad)
        expect(subject.troubleshooting.safe_attention_weights(spoiled, mask)).equals(right)


@clause(SAFE, 6)
@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf], ids=["finite", "nan", "inf"])
def test_gradient_behind_the_mask(subject, draw, bad):
    """The gradient is that of the formula, and 0 at what is hidden"""
    scores, mask = draw.tensor(3, 4, 5), draw.mask(3, 4, 5)
    mask[1, 2] = False
    right, cotangent = softmax_where(mask, scores), draw.tensor(3, 4, 5)
    if bad:
        scores = scores.masked_fill(~mask, bad)
    call = subject.troubleshooting.safe_attention_weights.on(scores, mask)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    expect(gradient).is_finite()
    expect(gradient).equals(softmax_gradient(right, cotangent))


@clause(SAFE, 7)
def test_safe_weights_leave_arguments_alone(subject, draw):
    """Scores and mask are the same after the call as before"""
    scores, mask = draw.tensor(3, 4, 5), draw.mask(3, 4, 5)
    mask[:, 1] = False  # who sees nothing may be treated apart
    leaves_inputs_alone(subject, subject.troubleshooting.safe_attention_weights.on(scores, mask))


# find_future_leaks: it is given functions of these kinds.


def attending(draw, visible, d_model=6):
    """Attention with drawn projections; ``visible`` says who sees whom."""
    query, key, value = (draw.tensor(d_model, d_model) for _ in range(3))

    def attention(x):
        scores = torch.tanh(x @ (query @ key.T).to(x) @ x.mT)  # so that no weight is tiny
        return scores.masked_fill(~visible, -math.inf).softmax(-1) @ (x @ value.to(x))

    return attention


def mixing(weights):
    """Each output is a sum of tokens: ``weights`` is [query, key]."""
    return lambda x: weights.to(x) @ x


def pairs_of(leaks):
    """The True entries above the diagonal of [query, key], as the detector should give them."""
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
def test_sound_attention(subject, draw):
    """Attention to a position itself and what stands before it leaks nothing"""
    for visible in (past(5), torch.eye(5, dtype=torch.bool)):
        attention = attending(draw, visible)
        expect(leaks_of(subject, attention, 5, 6)).equals([])


@clause(LEAKS, 2)
@pytest.mark.parametrize("kind", ["no mask", "one ahead", "some pairs"])
def test_leaks_of_attention(subject, draw, kind):
    """All leaks are found, and nothing else"""
    visible = {
        "no mask": torch.ones(5, 5, dtype=torch.bool),
        "one ahead": torch.ones(5, 5, dtype=torch.bool).tril(1),
        "some pairs": past(5) | draw.mask(5, 5, hidden=0.6),
    }[kind]
    found = leaks_of(subject, attending(draw, visible), 5, 6)
    expect(found).equals(pairs_of(visible))


@clause(LEAKS, 3)
def test_faint_leaks(subject, draw):
    """A leak of one part in a hundred counts"""
    faint = draw.mask(5, 5, hidden=0.5).triu(1)
    weights = past(5).double() + 0.01 * faint
    found = leaks_of(subject, mixing(weights), 5, 6)
    expect(in_order(found)).equals(pairs_of(faint))


@clause(LEAKS, 3)
def test_rounding_is_no_leak(subject):
    """The rounding of a sum that takes the future away again does not count"""

    def sums(x):  # of what stands before and of the token itself
        later = x.flip(1).cumsum(1).flip(1) - x
        return x.sum(1, keepdim=True) - later

    expect(leaks_of(subject, sums, 6, 4)).equals([])


@clause(LEAKS, 4)
def test_leak_of_a_single_feature(subject, draw):
    """A leak through one feature of many counts"""
    leaks = draw.mask(5, 5, hidden=0.5).triu(1)
    feature = int(draw.integers(0, 6, 1))

    def attention(x):
        return past(5).to(x) @ x + 10 * leaks.to(x) @ x[..., feature : feature + 1]

    found = leaks_of(subject, attention, 5, 6)
    expect(in_order(found)).equals(pairs_of(leaks))


@clause(LEAKS, 4)
def test_leak_behind_a_layer_norm(subject, draw):
    """A leak counts although the same change in all features hides it"""
    leaks = draw.mask(5, 5, hidden=0.5).triu(1)

    def attention(x):
        normed = torch.nn.functional.layer_norm(x, x.shape[-1:])
        return (past(5) | leaks).to(x) @ normed

    found = leaks_of(subject, attention, 5, 6)
    expect(in_order(found)).equals(pairs_of(leaks))


@clause(LEAKS, 4)
def test_leak_without_a_gradient(subject, draw):
    """A leak counts although no gradient shows it"""
    leaks = draw.mask(5, 5, hidden=0.5).triu(1)

    def attention(x):
        return past(5).to(x) @ x + leaks.to(x) @ torch.sign(x)

    found = leaks_of(subject, attention, 5, 32)  # of so many signs, some change
    expect(in_order(found)).equals(pairs_of(leaks))


# AddPositions


def sines(max_len, d_model):
    """The right table, in float64."""
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(max_len, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


@clause(POSITIONS, 1)
def test_positions_on_the_accelerator(subject, draw):
    """Moved to an accelerator, it works there"""
    layer = subject.troubleshooting.AddPositions(6, 11)
    stays_on_accelerator(subject, layer.on(draw.tensor(3, 5, 6, dtype=torch.float32)))


@clause(POSITIONS, 1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=["float16", "float64"])
def test_positions_in_another_dtype(subject, draw, dtype):
    """Moved to another dtype, it gives that dtype"""
    layer = subject.troubleshooting.AddPositions(6, 11).to(dtype)
    x = draw.tensor(3, 5, 6, dtype=dtype)
    within = 1e-4 if dtype == torch.float64 else None  # a table may have been float32
    expect(layer(x)).equals((x.double() + sines(5, 6)).to(dtype), within=within)


@clause(POSITIONS, 2)
def test_rows_of_the_table(subject, draw):
    """Row t is added to the token at position t"""
    x = draw.tensor(3, 5, 8, dtype=torch.float32)
    marked = subject.troubleshooting.AddPositions(8, 11)(x)
    expect(marked).equals((x.double() + sines(5, 8)).float())


@clause(POSITIONS, 3)
def test_positions_are_not_trained(subject):
    """Nothing in it is trained"""
    layer = subject.troubleshooting.AddPositions(6, 11)
    expect(layer.describe()["trained"]).equals([])


@clause(POSITIONS, 4)
def test_positions_leave_tokens_alone(subject, draw):
    """x is the same after the call as before"""
    layer = subject.troubleshooting.AddPositions(6, 11)
    leaves_inputs_alone(subject, layer.on(draw.tensor(3, 5, 6, dtype=torch.float32)))


# causal_weights


@clause(CAUSAL, 1)
def test_causal_weights_on_the_accelerator(subject, draw):
    """With scores on an accelerator, the weights are made there"""
    call = subject.troubleshooting.causal_weights.on(draw.tensor(3, 5, 5))
    expect(call()).sums_to(1)
    stays_on_accelerator(subject, call)


@clause(CAUSAL, 2)
def test_causal_weights(subject, draw):
    """Each query weighs the keys up to its own, and no later one"""
    scores = draw.tensor(2, 3, 5, 5)
    weights = subject.troubleshooting.causal_weights(scores)
    expect(weights).equals(softmax_where(past(5), scores))


@clause(CAUSAL, 3)
def test_causal_gradient(subject, draw):
    """The gradient reaches the scores"""
    scores, cotangent = draw.tensor(3, 5, 5), draw.tensor(3, 5, 5)
    call = subject.troubleshooting.causal_weights.on(scores)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    expect(gradient).equals(softmax_gradient(softmax_where(past(5), scores), cotangent))


@clause(CAUSAL, 4)
@HALF
def test_causal_weights_keep_the_dtype(subject, draw, dtype):
    """Every dtype gives its own"""
    scores = draw.tensor(3, 5, 5, dtype=dtype)
    weights = subject.troubleshooting.causal_weights(scores)
    expect(weights).has_dtype(dtype)
    expect(weights).equals(softmax_where(past(5), scores).to(dtype))


@clause(CAUSAL, 4)
def test_causal_weights_leave_scores_alone(subject, draw):
    """The scores are the same after the call as before"""
    leaves_inputs_alone(subject, subject.troubleshooting.causal_weights.on(draw.tensor(3, 5, 5)))


# decoder_weights


def padded(draw, batch, seq):
    """A padding mask whose first sentence is padded on the left, and its decoder's visible keys."""
    mask = draw.mask(batch, seq)
    mask[0] = torch.arange(seq) >= 2
    return mask, mask[:, None, :] & past(seq)


@clause(DECODER, 1)
def test_left_padding_stays_finite(subject, draw):
    """With padding on the left, all weights are finite, and share out 1 where there is a key"""
    mask, visible = padded(draw, 3, 5)
    weights = subject.troubleshooting.decoder_weights(draw.tensor(3, 5, 5), mask)
    expect(weights).is_finite()
    expect(weights, where=visible.any(-1)).sums_to(1)


@clause(DECODER, 1)
def test_left_padding_leaves_the_gradient_finite(subject, draw):
    """With padding on the left, all gradients are finite, though the loss leaves padding out"""
    mask, _ = padded(draw, 3, 5)
    call = subject.troubleshooting.decoder_weights.on(draw.tensor(3, 5, 5), mask)
    cotangent = draw.tensor(3, 5, 5) * mask[:, :, None]
    expect(subject.vjp(call, cotangent, wrt=["scores"])["scores"]).is_finite()


@clause(DECODER, 4)
def test_left_padding_in_float16(subject, draw):
    """In float16, too, low scores with padding on the left give finite weights"""
    mask, _ = padded(draw, 3, 5)
    scores = draw.tensor(3, 5, 5, dtype=torch.float16) - 100
    expect(subject.troubleshooting.decoder_weights(scores, mask)).is_finite()


@clause(DECODER, 2)
def test_decoder_weights(subject, draw):
    """A query weighs what is real and not later, and nothing else"""
    mask, visible = padded(draw, 3, 5)
    scores = draw.tensor(3, 5, 5)
    weights = subject.troubleshooting.decoder_weights(scores, mask)
    sees = visible.any(-1, keepdim=True).expand_as(weights)
    expect(weights, where=sees).equals(softmax_where(visible, scores))


@clause(DECODER, 3)
def test_decoder_gradient(subject, draw):
    """The gradient reaches the scores of queries that see something"""
    scores, cotangent = draw.tensor(3, 5, 5), draw.tensor(3, 5, 5)
    mask = torch.arange(5) < torch.tensor([[3], [5], [4]])  # padded on the right
    call = subject.troubleshooting.decoder_weights.on(scores, mask)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    weights = softmax_where(mask[:, None, :] & past(5), scores)
    expect(gradient).equals(softmax_gradient(weights, cotangent))


@clause(DECODER, 4)
@HALF
def test_decoder_weights_keep_the_dtype(subject, draw, dtype):
    """Every dtype gives its own"""
    scores = draw.tensor(3, 5, 5, dtype=dtype)
    mask = torch.arange(5) < torch.tensor([[3], [5], [4]])
    weights = subject.troubleshooting.decoder_weights(scores, mask)
    expect(weights).has_dtype(dtype)
    expect(weights).equals(softmax_where(mask[:, None, :] & past(5), scores).to(dtype))


@clause(DECODER, 4)
def test_decoder_weights_elsewhere(subject, draw):
    """Wherever its arguments are, it works there, and they are left as they were"""
    mask, _ = padded(draw, 3, 5)
    call = subject.troubleshooting.decoder_weights.on(draw.tensor(3, 5, 5), mask)
    subject.on_accelerator(call)
    leaves_inputs_alone(subject, call)


# attention_entropy


def masked_weights(draw, *shape, dtype=torch.float64):
    """Weights that sum to 1, some of them 0."""
    return softmax_where(draw.mask(*shape), draw.tensor(*shape)).to(dtype)


def entropy(weights):
    wide = weights.double()
    return -torch.special.xlogy(wide, wide).sum(-1)


@clause(ENTROPY, 1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_entropy_of_hidden_keys(subject, draw, dtype):
    """A weight of 0 adds nothing"""
    weights = masked_weights(draw, 3, 4, 5, dtype=dtype)
    weights[0, 0] = torch.eye(5)[2]  # all on one key
    found = subject.troubleshooting.attention_entropy(weights)
    expect(found).equals(entropy(weights).to(dtype), within=1e-4)


@clause(ENTROPY, 1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_entropy_gradient_of_hidden_keys(subject, draw, dtype):
    """With weights of 0, the gradient is finite"""
    call = subject.troubleshooting.attention_entropy.on(masked_weights(draw, 3, 4, 5, dtype=dtype))
    cotangent = draw.tensor(3, 4, dtype=dtype)
    expect(subject.vjp(call, cotangent, wrt=["weights"])["weights"]).is_finite()


@clause(ENTROPY, 2)
def test_entropy_formula(subject, draw):
    """The entropy is the sum over the keys of -w ln(w)"""
    weights = draw.tensor(2, 3, 4, 5).softmax(-1)
    found = subject.troubleshooting.attention_entropy(weights)
    expect(found).equals(entropy(weights), within=1e-4)


@clause(ENTROPY, 3)
def test_entropy_gradient(subject, draw):
    """The gradient at a weight above 0 is -(ln(w) + 1)"""
    weights, cotangent = draw.tensor(3, 4, 5).softmax(-1), draw.tensor(3, 4)
    call = subject.troubleshooting.attention_entropy.on(weights)
    gradient = subject.vjp(call, cotangent, wrt=["weights"])["weights"]
    expect(gradient).equals(-(weights.log() + 1) * cotangent[..., None], within=1e-4)


@clause(ENTROPY, 4)
def test_entropy_in_half_precision(subject, draw):
    """float16 gives float16, zeros included"""
    weights = masked_weights(draw, 3, 4, 5, dtype=torch.float16)
    found = subject.troubleshooting.attention_entropy(weights)
    expect(found).has_dtype(torch.float16)
    expect(found).equals(entropy(weights).half())


@clause(ENTROPY, 4)
def test_entropy_elsewhere(subject, draw):
    """Wherever the weights are, it works there, and they are left as they were"""
    call = subject.troubleshooting.attention_entropy.on(masked_weights(draw, 3, 4, 5))
    subject.on_accelerator(call)
    leaves_inputs_alone(subject, call)


# encoder_weights


@clause(ENCODER, 1)
@pytest.mark.parametrize("level", [-300.0, -3000.0, -9990.0, 9990.0])
def test_padding_at_any_level(subject, draw, level):
    """Padding has weight 0, at whichever level the scores are"""
    scores, mask = draw.tensor(2, 3, 4, 5) + level, draw.mask(2, 5)
    weights = subject.troubleshooting.encoder_weights(scores, mask)
    expect(weights, where=~mask[:, None, None, :]).equals(0)
    expect(weights).sums_to(1)


@clause(ENCODER, 2)
def test_encoder_weights(subject, draw):
    """The weights of the real tokens are the softmax of their scores"""
    scores, mask = draw.tensor(2, 3, 4, 5), draw.mask(2, 5)
    weights = subject.troubleshooting.encoder_weights(scores, mask)
    expect(weights).equals(softmax_where(mask[:, None, None, :], scores))


@clause(ENCODER, 3)
def test_encoder_gradient(subject, draw):
    """The gradient reaches the scores"""
    scores, mask, cotangent = draw.tensor(2, 3, 4, 5), draw.mask(2, 5), draw.tensor(2, 3, 4, 5)
    call = subject.troubleshooting.encoder_weights.on(scores, mask)
    gradient = subject.vjp(call, cotangent, wrt=["scores"])["scores"]
    weights = softmax_where(mask[:, None, None, :], scores)
    expect(gradient).equals(softmax_gradient(weights, cotangent))


@clause(ENCODER, 4)
@DTYPES
def test_encoder_weights_keep_the_dtype(subject, draw, dtype):
    """Every dtype gives its own"""
    scores, mask = draw.tensor(2, 3, 4, 5, dtype=dtype), draw.mask(2, 5)
    weights = subject.troubleshooting.encoder_weights(scores, mask)
    expect(weights).has_dtype(dtype)
    expect(weights).equals(softmax_where(mask[:, None, None, :], scores).to(dtype))


@clause(ENCODER, 4)
def test_encoder_weights_elsewhere(subject, draw):
    """Wherever its arguments are, it works there, and they are left as they were"""
    call = subject.troubleshooting.encoder_weights.on(draw.tensor(2, 3, 4, 5), draw.mask(2, 5))
    subject.on_accelerator(call)
    leaves_inputs_alone(subject, call)


# scaled_scores


def right_scores(query, key):
    return query.double() @ key.double().transpose(-2, -1) / math.sqrt(query.size(-1))


@clause(SCALED, 1)
def test_scores_that_float16_can_hold(subject, draw):
    """In float16, scores that it can hold come out finite and right"""
    direction = draw.tensor(64).sign()  # along which query and key are long
    query = (draw.tensor(3, 4, 64) + 40 * direction).half()
    key = (draw.tensor(3, 5, 64) + 40 * direction).half()
    scores = subject.troubleshooting.scaled_scores(query, key)
    expect(scores).equals(right_scores(query, key), within=budget(torch.float16))


@clause(SCALED, 2)
def test_scaled_scores(subject, draw):
    """A score is query · key / sqrt(d_k)"""
    query, key = draw.tensor(2, 3, 4, 16), draw.tensor(2, 3, 5, 16)
    scores = subject.troubleshooting.scaled_scores(query, key)
    expect(scores).equals(right_scores(query, key), within=1e-10)


@clause(SCALED, 3)
def test_scaled_gradient(subject, draw):
    """The gradients reach query and key"""
    query, key, cotangent = draw.tensor(3, 4, 6), draw.tensor(3, 5, 6), draw.tensor(3, 4, 5)
    call = subject.troubleshooting.scaled_scores.on(query, key)
    gradients = subject.vjp(call, cotangent, wrt=["query", "key"])
    expect(gradients["query"]).equals(cotangent @ key / math.sqrt(6))
    expect(gradients["key"]).equals(cotangent.mT @ query / math.sqrt(6))


@clause(SCALED, 4)
@DTYPES
def test_scaled_scores_keep_the_dtype(subject, draw, dtype):
    """Every dtype gives its own"""
    query, key = draw.tensor(3, 4, 6, dtype=dtype), draw.tensor(3, 5, 6, dtype=dtype)
    scores = subject.troubleshooting.scaled_scores(query, key)
    expect(scores).has_dtype(dtype)
    expect(scores).equals(right_scores(query, key).to(dtype))


@clause(SCALED, 4)
def test_scaled_scores_elsewhere(subject, draw):
    """Wherever its arguments are, it works there, and they are left as they were"""
    call = subject.troubleshooting.scaled_scores.on(draw.tensor(3, 4, 6), draw.tensor(3, 5, 6))
    subject.on_accelerator(call)
    leaves_inputs_alone(subject, call)


# causal_self_attention


def projected(draw, dtype=torch.float64):
    """x [3, 5, 6] and three matrices [6, 4]."""
    x, *matrices = (draw.tensor(*shape) for shape in [(3, 5, 6), (6, 4), (6, 4), (6, 4)])
    return [tensor.to(dtype) for tensor in (x, *matrices)]


def looking_back(x, w_q, w_k, w_v):
    """The right output, in float64."""
    x, w_q, w_k, w_v = (tensor.double() for tensor in (x, w_q, w_k, w_v))
    scores = (x @ w_q) @ (x @ w_k).mT / math.sqrt(w_q.size(-1))
    return softmax_where(past(x.size(1)), scores) @ (x @ w_v)


@clause(LOOK_BACK, 1)
@pytest.mark.parametrize("place", [1, 2, 4])
def test_nobody_sees_the_future(subject, draw, place):
    """Another token at a position moves its own output, and none before it"""
    call = subject.troubleshooting.causal_self_attention.on(*projected(draw))
    places = torch.arange(5)[:, None]
    unmoved_by(call, draw, "x", places == place, [places < place])
    other = torch.where(places == place, draw.tensor(3, 5, 6), call["x"])
    expect(call.but(x=other)(), where=places == place).differs_from(call())


@clause(LOOK_BACK, 2)
def test_all_of_the_past_is_mixed(subject, draw):
    """The output mixes the values of all positions up to its own"""
    given = projected(draw)
    output = subject.troubleshooting.causal_self_attention(*given)
    expect(output[:, -1]).equals(looking_back(*given)[:, -1])  # for whom there is no future


@clause(LOOK_BACK, 2)
def test_a_token_sees_itself(subject, draw):
    """The first position sees itself"""
    x, w_q, w_k, w_v = projected(draw)
    output = subject.troubleshooting.causal_self_attention(x[:, :1], w_q, w_k, w_v)
    expect(output).equals(x[:, :1] @ w_v)


@clause(LOOK_BACK, 3)
def test_look_back_gradients(subject, draw):
    """The gradients reach x and the three matrices"""
    given = [tensor.requires_grad_() for tensor in projected(draw)]
    cotangent = draw.tensor(3, 5, 4)
    cotangent[:, :-1] = 0  # of the last output, for which there is no future
    expected = torch.autograd.grad((looking_back(*given) * cotangent).sum(), given)
    call = subject.troubleshooting.causal_self_attention.on(*(t.detach() for t in given))
    names = ["x", "w_q", "w_k", "w_v"]
    gradients = subject.vjp(call, cotangent, wrt=names)
    for name, right in zip(names, expected):
        expect(gradients[name]).equals(right)


@clause(LOOK_BACK, 4)
def test_look_back_keeps_the_dtype(subject, draw):
    """float32 gives float32"""
    x, w_q, w_k, w_v = projected(draw, torch.float32)
    output = subject.troubleshooting.causal_self_attention(x, w_q, w_k, w_v)
    expect(output).has_dtype(torch.float32)
    expect(output[:, -1]).equals(looking_back(x, w_q, w_k, w_v)[:, -1].float())


@clause(LOOK_BACK, 4)
def test_look_back_elsewhere(subject, draw):
    """Wherever its arguments are, it works there, and they are left as they were"""
    call = subject.troubleshooting.causal_self_attention.on(*projected(draw))
    subject.on_accelerator(call)
    leaves_inputs_alone(subject, call)


# PreNormFeedForward


def feed_forward(subject, draw, dtype=torch.float64):
    """A layer, and its weights."""
    layer = subject.troubleshooting.PreNormFeedForward(6, 10)
    state = {name: value.to(dtype) for name, value in draw.weights(layer).items()}
    return layer.load(state).set("norm.eps", 1e-5), state


def refined(x, state):
    """What the layer should give."""
    normed = torch.nn.functional.layer_norm(x, (6,), state["norm.weight"], state["norm.bias"])
    inner = torch.relu(normed @ state["inner.weight"].T + state["inner.bias"])
    return x + inner @ state["outer.weight"].T + state["outer.bias"]


@clause(FEED_FORWARD, 1)
def test_nothing_to_add_changes_nothing(subject, draw):
    """Where `outer` gives zeros, x comes out as it went in, and the gradient comes back so"""
    layer, state = feed_forward(subject, draw)
    x, cotangent = 3 * draw.tensor(3, 5, 6) + 1, draw.tensor(3, 5, 6)
    expect(layer(x)).differs_from(x)  # there is something to add
    layer.load({name: 0 * value for name, value in state.items() if name.startswith("outer")})
    expect(layer(x)).equals(x)
    expect(subject.vjp(layer.on(x), cotangent, wrt=["x"])["x"]).equals(cotangent)


@clause(FEED_FORWARD, 2)
def test_what_the_layer_adds(subject, draw):
    """The output is x + outer(relu(inner(norm(x))))"""
    layer, state = feed_forward(subject, draw)
    x = 3 * draw.tensor(3, 5, 6) + 1
    expect(layer(x)).equals(refined(x, state))


@clause(FEED_FORWARD, 3)
def test_feed_forward_gradients(subject, draw):
    """The gradients reach x and every parameter"""
    layer, state = feed_forward(subject, draw)
    x, cotangent = 3 * draw.tensor(3, 5, 6) + 1, draw.tensor(3, 5, 6)
    leaves = [tensor.requires_grad_() for tensor in (x, *state.values())]
    expected = torch.autograd.grad((refined(x, state) * cotangent).sum(), leaves)
    names = ["x", *state]
    gradients = subject.vjp(layer.on(x.detach()), cotangent, wrt=names)
    for name, right in zip(names, expected):
        expect(gradients[name]).equals(right)


@clause(FEED_FORWARD, 3)
def test_feed_forward_has_no_other_weights(subject):
    """Beside norm, inner and outer, nothing has weights"""
    made_of = subject.troubleshooting.PreNormFeedForward(6, 10).describe()
    expect(len(made_of["parameters"])).equals(6)


@clause(FEED_FORWARD, 4)
def test_feed_forward_in_float32(subject, draw):
    """float32 gives float32, and x is left alone"""
    layer, _ = feed_forward(subject, draw, torch.float32)
    call = layer.on(draw.tensor(3, 5, 6, dtype=torch.float32))
    leaves_inputs_alone(subject, call)
    expect(call()).has_dtype(torch.float32)


# fit_linear


def line(draw, unit=1.0, dtype=torch.float64):
    """Features in some unit, and targets that are nearly a sum of them."""
    features = draw.tensor(40, 3)
    targets = features @ draw.tensor(3) + 0.1 * draw.tensor(40)
    return (unit * features).to(dtype), targets.to(dtype)


def loss(weights, features, targets):
    return (features.double() @ weights.double() - targets.double()).square().mean()


def least(features, targets):
    """The least loss that there is."""
    features, targets = features.double(), targets.double()
    return loss(torch.linalg.pinv(features) @ targets, features, targets)


def is_fitted(weights, features, targets):
    """1 % at most is left of what was to be gained."""
    start = targets.double().square().mean()
    end = loss(weights, features, targets)
    lowers_the_loss(weights, start, end, least(features, targets), left=0.01)


@clause(FIT, 1)
@pytest.mark.parametrize("unit", [1.0, 100.0, 0.01])
def test_loss_falls_in_any_unit(subject, draw, unit):
    """After 100 steps at most 1 % is left, in metres, in centimetres and in hundreds of metres"""
    given = line(draw, unit)
    is_fitted(subject.troubleshooting.fit_linear(*given, 100), *given)


@clause(FIT, 2)
def test_no_step_gives_zeros(subject, draw):
    """0 steps give zeros"""
    expect(subject.troubleshooting.fit_linear(*line(draw), 0)).equals(0)


@clause(FIT, 2)
def test_steps_go_against_the_gradient(subject, draw):
    """Each step subtracts rate times the gradient of the loss"""
    features, targets = line(draw)
    weights = torch.zeros(3, dtype=torch.float64)
    for steps in (1, 2, 3):
        later = subject.troubleshooting.fit_linear(features, targets, steps)
        downhill = -features.T @ (features @ weights - targets)
        moved = later - weights
        expect(moved / moved.norm()).equals(downhill / downhill.norm())
        weights = later


@clause(FIT, 2)
def test_no_step_raises_the_loss(subject, draw):
    """More steps give no higher loss"""
    given = line(draw)
    losses = [
        loss(subject.troubleshooting.fit_linear(*given, steps), *given)
        for steps in (0, 1, 2, 5, 20)
    ]
    rises = torch.stack(losses).diff().clamp(min=0)
    expect(rises).equals(0)


@clause(FIT, 3)
def test_fit_in_float32(subject, draw):
    """float32 gives float32"""
    features, targets = line(draw, dtype=torch.float32)
    weights = subject.troubleshooting.fit_linear(features, targets, 10)
    expect(weights).has_dtype(torch.float32)


@clause(FIT, 4)
def test_fit_leaves_arguments_alone(subject, draw):
    """Features and targets are the same after the call as before"""
    leaves_inputs_alone(subject, subject.troubleshooting.fit_linear.on(*line(draw), 2))


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
REPAIRS = [
    "AddPositions",
    "causal_weights",
    "decoder_weights",
    "attention_entropy",
    "encoder_weights",
    "scaled_scores",
    "causal_self_attention",
    "PreNormFeedForward",
    "fit_linear",
]


@pytest.mark.parametrize(
    "repair",
    [
        pytest.param(repair, marks=clause(POST_MORTEM, number), id=repair)
        for number, repair in enumerate(REPAIRS, 1)
    ],
)
def test_a_cause_is_named(subject, repair):
    """A cause of the list is named; whether it is the right one, grading says"""
    found = subject.troubleshooting.post_mortem()
    expect(found.get(repair)).chooses(repair, CAUSES)
