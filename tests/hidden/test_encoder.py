"""Further checks of the unit `encoder`: other sizes, other shapes of masks, edge cases."""

import pytest
import torch

from grader.judge import clause, expect, properties

LAYER = "encoder.TransformerEncoderLayerSimple"
ENCODER = "encoder.TransformerEncoder"

ATTENTION = "self_attn.w_o"  # what the attention adds to x passes through here
THOUGHT = "feed_forward[1]"  # and what the feed-forward network adds, through here


def _weights(draw, module, *silent):
    """Drawn weights, small enough that no softmax saturates; 0 in the parts that are named."""
    return {
        name: value * (0.0 if any(part in name for part in silent) else 0.5)
        for name, value in draw.weights(module).items()
    }


# TransformerEncoderLayerSimple


def _layer(subject, draw, *silent, sizes=(8, 2, 7), dropout=0.0):
    layer = subject.encoder.TransformerEncoderLayerSimple(*sizes, dropout)
    layer.load(_weights(draw, layer, *silent)).eval()
    return layer.set("norm1.eps", 1e-5).set("norm2.eps", 1e-5)


SIZES = pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1, 4, 6), (6, 3, 2)),
        ((3, 1, 4), (4, 4, 9)),
        ((2, 3, 5), (5, 1, 5)),
        ((4, 2, 9), (9, 3, 36)),
    ],
    ids=["one sentence", "one token", "one head", "wide"],
)


@clause(LAYER, 1)
@SIZES
def test_attention_sublayer_of_any_size(subject, draw, reference, shape, sizes):
    """The first half is x = norm1(x + a), whatever the sizes"""
    call = _layer(subject, draw, THOUGHT, sizes=sizes).on(draw.tensor(*shape))
    expect(call()).equals(reference.call(call))


@clause(LAYER, 2)
@SIZES
def test_whole_layer_of_any_size(subject, draw, reference, shape, sizes):
    """The second half is x = norm2(x + f), whatever the sizes"""
    call = _layer(subject, draw, sizes=sizes).on(draw.tensor(*shape))
    expect(call()).equals(reference.call(call))


@clause(LAYER, 2)
def test_whole_layer_in_float32(subject, draw, reference):
    """The second half is x = norm2(x + f), in float32 too"""
    layer = _layer(subject, draw).to(torch.float32)
    call = layer.on(draw.tensor(3, 5, 8, dtype=torch.float32))
    expect(call()).equals(reference.call(call), within=1e-3)


@clause(LAYER, 3)
def test_positive_inner_numbers(subject, draw):
    """Twice the inner numbers, each counted half, make the same result"""
    layer, x = _layer(subject, draw, ATTENTION), draw.tensor(3, 5, 8)
    inner, bias, outer = draw.tensor(7, 8), 4 + draw.tensor(7).abs(), draw.tensor(8, 7) / 4
    results = []
    for factor in (1, 2):
        state = {"feed_forward[0].weight": inner * factor, "feed_forward[0].bias": bias * factor}
        layer.load({**state, f"{THOUGHT}.weight": outer / factor})
        results.append(layer(x))
    expect(results[1]).equals(results[0])


@clause(LAYER, 3)
def test_feed_forward_of_each_token(subject, draw):
    """feed_forward takes one token, whatever the others are"""
    layer, x = _layer(subject, draw, ATTENTION), draw.tensor(3, 5, 8)
    x[1, 3] = x[0, 2]
    found = layer(x)
    expect(found[1, 3]).equals(found[0, 2])


@clause(LAYER, 3)
def test_feed_forward_of_another_width(subject):
    """feed_forward is d_ff wide inside, also where that is less than d_model"""
    parameters = subject.encoder.TransformerEncoderLayerSimple(6, 3, 2).describe()["parameters"]
    shapes = [shape for name, shape in parameters.items() if name.startswith("feed_forward.")]
    expect(shapes).equals([[2, 6], [2], [6, 2], [6]])


@clause(LAYER, 4)
def test_norms_of_a_whole_layer(subject, draw):
    """A norm takes the numbers of one token, whatever other sentences there are"""
    layer = _layer(subject, draw).train()
    properties.alone_as_in_batch(layer.on(draw.tensor(3, 5, 8)), "x")


@clause(LAYER, 5)
def test_dropout_of_what_attention_found(subject, draw):
    """In training, a number of a is dropped or grows by 1 / (1 - dropout), one by one"""
    layer = subject.encoder.TransformerEncoderLayerSimple(3, 1, 5, 0.25)
    layer.load(_weights(draw, layer, THOUGHT))
    weight, bias, x = draw.tensor(3, 3), draw.tensor(3), draw.tensor(5, 16, 3)
    weight[2], bias[2] = 0, 0  # two numbers are enough: each dropped or not makes four results

    def with_a(*factors):
        factor = torch.tensor([*factors, 0], dtype=torch.float64)
        state = {
            f"{ATTENTION}.weight": weight * factor[:, None],
            f"{ATTENTION}.bias": bias * factor,
        }
        return layer.load(state)

    found = with_a(1, 1).train()(x)
    kept = 1 / (1 - 0.25)
    factors = (0, 0), (kept, kept), (0, kept), (kept, 0)
    possible = torch.stack([with_a(*pair).eval()(x) for pair in factors])
    expect(found).equals(_nearest(found, possible))
    expect(found).differs_from(_nearest(found, possible[:2]))


def _nearest(found, possible):
    """For each token of found, [batch, seq, d], the nearest of those in possible, [n, ...]."""
    distance = (possible - found).abs().sum(-1, keepdim=True)
    return torch.take_along_dim(possible, distance.argmin(0, keepdim=True), 0)[0]


@clause(LAYER, 5)
def test_dropout_draws_anew(subject, draw):
    """In training, other numbers are dropped each time"""
    layer, x = _layer(subject, draw, dropout=0.5).train(), draw.tensor(3, 5, 8)
    expect(layer(x)).differs_from(layer(x))


@clause(LAYER, 5)
def test_dropout_leaves_evaluation_whole(subject, draw):
    """In evaluation, the result is the same with any dropout"""
    x, weights, results = draw.tensor(3, 5, 8), {}, []
    for dropout in (0.0, 0.5):
        layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7, dropout)
        weights = weights or _weights(draw, layer)
        results.append(layer.load(weights).eval()(x))
    expect(results[1]).equals(results[0])


@clause(LAYER, 5)
def test_training_without_dropout(subject, draw):
    """With dropout=0, training and evaluation give the same"""
    layer, x = _layer(subject, draw), draw.tensor(3, 5, 8)
    expect(layer.train()(x)).equals(layer.eval()(x))


@clause(LAYER, 6)
@pytest.mark.parametrize("shape", [(3, 2, 5, 5), (3, 1, 5, 5), (5, 5), (1, 5)], ids=str)
def test_mask_of_any_shape(subject, draw, reference, shape):
    """A mask hides keys in the sentence, the head and from the query that it names"""
    call = _layer(subject, draw, THOUGHT).on(draw.tensor(3, 5, 8), draw.mask(*shape))
    expect(call()).equals(reference.call(call))


@clause(LAYER, 7)
def test_gradients_of_parameters(subject, draw, reference):
    """The gradients reach x through every part of the layer, and the parts themselves"""
    layer = _layer(subject, draw)
    call, cotangent = layer.on(draw.tensor(3, 5, 8), draw.mask(3, 1, 1, 5)), draw.tensor(3, 5, 8)
    names = ["x", "self_attn.w_q.weight", "self_attn.w_v.bias", "feed_forward[0].weight"]
    names += ["feed_forward[1].bias", "norm1.weight", "norm2.bias"]
    expected = reference.vjp(call, cotangent, wrt=names)
    for name, gradient in subject.vjp(call, cotangent, wrt=names).items():
        expect(gradient).equals(expected[name])


# TransformerEncoder


def _encoder(subject, draw, *silent, num_layers=2, dropout=0.0, pad_id=0):
    """An encoder of 11 tokens, d_model 6, 2 heads, d_ff 5, max_len 9."""
    encoder = subject.encoder.TransformerEncoder(11, 6, 2, 5, num_layers, 9, dropout, pad_id)
    encoder.load(_weights(draw, encoder, *silent)).eval()
    for layer in range(num_layers):
        encoder.set(f"layers.{layer}.norm1.eps", 1e-5).set(f"layers.{layer}.norm2.eps", 1e-5)
    return encoder


@clause(ENCODER, 1)
def test_places_count_padding_too(subject, draw, reference):
    """The place of a token is where it stands, whether padding stands before it or not"""
    ids = draw.tokens(4, 7, 11)
    call = _encoder(subject, draw, ATTENTION, THOUGHT).on(ids)
    expect(call(), where=(ids != 0).unsqueeze(-1)).equals(reference.call(call))


@clause(ENCODER, 1)
@pytest.mark.parametrize("shape", [(1, 9), (4, 1), (9, 4)], ids=["max_len", "one token", "many"])
def test_tokens_start_in_any_shape(subject, draw, reference, shape):
    """A token starts as its row of embedding plus the row of positional for its place"""
    call = _encoder(subject, draw, ATTENTION, THOUGHT).on(draw.integers(1, 11, *shape))
    expect(call()).equals(reference.call(call))


@clause(ENCODER, 2)
@pytest.mark.parametrize("num_layers", [1, 2, 4])
def test_any_number_of_layers(subject, draw, reference, num_layers):
    """num_layers layers are applied in order"""
    call = _encoder(subject, draw, num_layers=num_layers).on(draw.integers(1, 11, 4, 7))
    expect(call()).equals(reference.call(call))


@clause(ENCODER, 2)
def test_encoder_in_float32(subject, draw, reference):
    """The layers are applied in order, in float32 too"""
    encoder = _encoder(subject, draw).to(torch.float32)
    call = encoder.on(draw.integers(1, 11, 4, 7))
    expect(call()).equals(reference.call(call), within=1e-3)


@clause(ENCODER, 3)
def test_padding_is_hidden(subject, draw):
    """What row padding has in embedding changes no real token's vector"""
    encoder, ids = _encoder(subject, draw, num_layers=3), draw.tokens(4, 7, 11)
    rows = draw.tensor(11, 6)
    expected = encoder.load({"embedding.weight": rows})(ids)
    changed = torch.cat((draw.tensor(1, 6), rows[1:]))
    found = encoder.load({"embedding.weight": changed})(ids)
    expect(found, where=(ids != 0).unsqueeze(-1)).equals(expected)


@clause(ENCODER, 3)
def test_padding_and_all_else(subject, draw, reference):
    """Real tokens see each other, and no padding, wherever it stands"""
    ids = draw.tokens(4, 7, 11)
    call = _encoder(subject, draw).on(ids)
    expect(call(), where=(ids != 0).unsqueeze(-1)).equals(reference.call(call))


@clause(ENCODER, 3)
def test_sentence_alone(subject, draw):
    """Each sentence has its own padding: alone it means what it means in a batch"""
    encoder = _encoder(subject, draw)
    properties.alone_as_in_batch(encoder.on(draw.tokens(4, 7, 11)), "token_ids")


@clause(ENCODER, 3)
def test_real_token_without_content(subject, draw, reference):
    """A real token is seen, also where its row of embedding is 0"""
    encoder, ids = _encoder(subject, draw), draw.tokens(4, 7, 11)
    ids[:, 3] = 2
    rows = draw.tensor(11, 6)
    rows[2] = 0
    encoder.load({"embedding.weight": rows, "positional.pe": torch.zeros(1, 9, 6).double()})
    call = encoder.on(ids)
    expect(call(), where=(ids != 0).unsqueeze(-1)).equals(reference.call(call))


@clause(ENCODER, 4)
@pytest.mark.parametrize("pad_id", [3, 10])
def test_another_pad_id(subject, draw, reference, pad_id):
    """pad_id is padding, and no other token is"""
    ids = draw.tokens(4, 7, 11, pad_id)
    ids[0, 2], ids[1, 4] = 0, 1
    call = _encoder(subject, draw, pad_id=pad_id).on(ids)
    expect(call(), where=(ids != pad_id).unsqueeze(-1)).equals(reference.call(call))


@clause(ENCODER, 4)
def test_default_pad_id(subject, draw):
    """Left out, pad_id is 0"""
    ids = draw.integers(1, 11, 4, 5)
    encoder = subject.encoder.TransformerEncoder(11, 6, 2, 5, 1).eval()
    expect(encoder(torch.nn.functional.pad(ids, (0, 2)))[:, :5]).equals(encoder(ids))


@clause(ENCODER, 5)
def test_dropout_of_all_layers(subject, draw):
    """In training with dropout=1, no layer adds anything"""
    encoder, ids = _encoder(subject, draw, num_layers=3, dropout=1.0), draw.integers(1, 11, 4, 7)
    found = encoder.train()(ids)
    state = _weights(draw, encoder, ATTENTION, THOUGHT)
    silent = {name: v for name, v in state.items() if ATTENTION in name or THOUGHT in name}
    expect(found).equals(encoder.load(silent).eval()(ids))


@clause(ENCODER, 5)
def test_encoder_drops_anew(subject, draw):
    """In training, other numbers are dropped each time"""
    encoder, ids = _encoder(subject, draw, dropout=0.5).train(), draw.integers(1, 11, 4, 7)
    expect(encoder(ids)).differs_from(encoder(ids))


@clause(ENCODER, 5)
def test_encoder_without_dropout(subject, draw):
    """With dropout=0, training and evaluation give the same"""
    encoder, ids = _encoder(subject, draw), draw.integers(1, 11, 4, 7)
    expect(encoder.train()(ids)).equals(encoder.eval()(ids))


@clause(ENCODER, 7)
def test_gradients_of_all(subject, draw, reference):
    """The gradients reach embedding and every layer"""
    call = _encoder(subject, draw).on(draw.integers(1, 11, 4, 7))
    names = ["embedding.weight"]
    for layer in ("layers.0", "layers.1"):
        names += [f"{layer}.self_attn.w_k.weight", f"{layer}.feed_forward[1].weight"]
    cotangent = draw.tensor(4, 7, 6)
    expected = reference.vjp(call, cotangent, wrt=names)
    for name, gradient in subject.vjp(call, cotangent, wrt=names).items():
        expect(gradient).equals(expected[name])
