"""Checks of the unit `encoder`.

Each check silences what it isn't about: a sublayer whose last Linear is 0 adds nothing to x. Norms
get drawn gains, since those that are all 1 hide mistakes, and one eps, since any usual one is right.
"""

import itertools

import pytest
import torch

from grader.judge import clause, expect, properties

LAYER = "encoder.TransformerEncoderLayerSimple"
ENCODER = "encoder.TransformerEncoder"

ATTENTION = "self_attn.w_o"  # what the attention adds to x passes through here
THOUGHT = "feed_forward[1]"  # and what the feed-forward network adds, through here


def _weights(draw, module, *silent):
    """Drawn weights, small enough that no softmax saturates; 0 for the modules that are named."""
    return {
        name: value * 0 if any(part in name for part in silent) else value / 2
        for name, value in draw.weights(module).items()
    }


# TransformerEncoderLayerSimple


def _layer(subject, draw, *silent, dropout=0.0):
    """A layer of d_model 8, with 2 heads and d_ff 7."""
    layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7, dropout)
    layer.load(_weights(draw, layer, *silent)).eval()
    return layer.set("norm1.eps", 1e-5).set("norm2.eps", 1e-5)


@clause(LAYER, 1)
def test_attention_sublayer(subject, draw, reference):
    """The first half is x = norm1(x + a), where a is what x finds in itself"""
    call = _layer(subject, draw, THOUGHT).on(draw.tensor(3, 5, 8))
    expect(call()).equals(reference.call(call))


@clause(LAYER, 2)
def test_feed_forward_sublayer(subject, draw, reference):
    """The second half is x = norm2(x + feed_forward(x))"""
    layer = _layer(subject, draw, ATTENTION)
    # Inner numbers around 40 pass a ReLU as they are: that is for clause 3.
    layer.load({"feed_forward[0].bias": 40 + draw.tensor(7)})
    layer.load({"feed_forward[1].weight": draw.tensor(8, 7) / 64})
    call = layer.on(draw.tensor(3, 5, 8))
    expect(call()).equals(reference.call(call))


@clause(LAYER, 3)
def test_feed_forward_is_two_linears(subject):
    """feed_forward has the weights of Linear(d_model, d_ff) and Linear(d_ff, d_model)"""
    parameters = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7).describe()["parameters"]
    shapes = [shape for name, shape in parameters.items() if name.startswith("feed_forward.")]
    expect(shapes).equals([[7, 8], [7], [8, 7], [8]])


@clause(LAYER, 3)
def test_negative_inner_numbers(subject, draw):
    """How far below 0 an inner number of feed_forward is makes no difference"""
    layer, x = _layer(subject, draw, ATTENTION, "feed_forward[0]"), draw.tensor(3, 5, 8)
    low = -0.5 - draw.tensor(7).abs()
    expected = layer.load({"feed_forward[0].bias": low})(x)
    expect(layer.load({"feed_forward[0].bias": 2 * low})(x)).equals(expected)


@clause(LAYER, 3)
def test_negative_results_of_feed_forward(subject, draw):
    """What comes out of feed_forward may be negative: no ReLU after the second Linear"""
    layer, x = _layer(subject, draw, ATTENTION, THOUGHT), draw.tensor(3, 5, 8)
    low = -0.5 - draw.tensor(8).abs()
    once = layer.load({"feed_forward[1].bias": low})(x)
    expect(layer.load({"feed_forward[1].bias": low * low})(x)).differs_from(once)
    expect(layer.load({"feed_forward[1].bias": -low * low})(x)).differs_from(once)


@clause(LAYER, 4)
def test_two_norms(subject):
    """norm1 and norm2 are two nn.LayerNorm(d_model), each with a gain and a bias of its own"""
    layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7)
    names = ["norm1.bias", "norm1.weight", "norm2.bias", "norm2.weight"]
    expect(sorted({*names} & {*layer.describe()["parameters"]})).equals(names)
    expect(layer.get("norm1.normalized_shape")).equals((8,))
    expect(layer.get("norm2.normalized_shape")).equals((8,))


@clause(LAYER, 4)
def test_both_norms_act(subject, draw):
    """Gain and bias of both norms have a part in the result"""
    call = _layer(subject, draw).on(draw.tensor(3, 5, 8))
    names = ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"]
    for gradient in subject.vjp(call, draw.tensor(3, 5, 8), wrt=names).values():
        expect(gradient).differs_from(torch.zeros(8))


@clause(LAYER, 4)
def test_norm_of_each_token(subject, draw):
    """A norm takes one token's numbers: the other tokens, and their number, change nothing"""
    layer, x = _layer(subject, draw, ATTENTION, THOUGHT).train(), draw.tensor(3, 5, 8)
    expect(layer(x[:2, :4])).equals(layer(x)[:2, :4])


@clause(LAYER, 4)
def test_eps_is_small(subject, draw):
    """The eps of a norm is too small to change ordinary numbers"""
    layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7, 0.1)
    layer.load(_weights(draw, layer)).eval()
    x = draw.tensor(3, 5, 8)
    found = layer(x)
    expect(found).equals(layer.set("norm1.eps", 1e-5).set("norm2.eps", 1e-5)(x), within=1e-2)


@clause(LAYER, 5)
def test_dropout_of_everything(subject, draw):
    """In training with dropout=1, a and f are gone, and all of x is still there"""
    layer, x = _layer(subject, draw, dropout=1.0), draw.tensor(3, 5, 8)
    found = layer.train()(x)
    expected = layer.load(_weights(draw, layer, ATTENTION, THOUGHT, norms=found))
    expect(found).equals(expected.eval()(x))


@clause(LAYER, 5)
def test_dropout_of_single_numbers(subject, draw):
    """In training, each number of f is dropped or grows by 1 / (1 - dropout), and no other is"""
    layer = subject.encoder.TransformerEncoderLayerSimple(3, 1, 5, 0.5)
    weights, x = _weights(draw, layer, ATTENTION), draw.tensor(2, 7, 3)
    found = layer.load(weights).train()(x)
    possible = []
    for kept in itertools.product([0.0, 2.0], repeat=3):
        scale = torch.tensor(kept, dtype=torch.float64)
        f = {name: (value.T * scale).T for name, value in weights.items() if THOUGHT in name}
        possible.append(layer.load(f).eval()(x))
    expect(found).equals(_nearest(found, torch.stack(possible)))


def _nearest(found, possible):
    """For each token of ``found`` [batch, seq, d], the nearest of ``possible`` [n, batch, seq, d]."""
    distance = (possible - found).abs().sum(-1, keepdim=True)
    return torch.take_along_dim(possible, distance.argmin(0, keepdim=True), 0)[0]


@clause(LAYER, 5)
def test_dropout_in_evaluation(subject, draw):
    """In evaluation, the result is the same with any dropout"""
    layer, x = _layer(subject, draw, dropout=0.5), draw.tensor(3, 5, 8)
