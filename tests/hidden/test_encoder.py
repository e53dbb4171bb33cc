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


@clause(LAYER, 1)
def test_attention_sublayer_is_blind_to_order(subject, draw):
    """With its tokens shuffled, x comes out shuffled alike"""
    call = _layer(subject, draw).on(draw.tensor(3, 5, 8))
    properties.permutes_alike(call, draw, {"x": [1]}, [(1,)])


@clause(LAYER, 1)
def test_layer_of_strided_tokens(subject, draw):
    """How x lies in memory does not matter"""
    properties.layout_does_not_matter(_layer(subject, draw).on(draw.tensor(3, 5, 8)), "x")


def _whole(subject, draw, sizes):
    """A layer of which clause 2 can be judged: a is the same whoever looks at whom, and inner
    numbers around 40 pass a ReLU as they are."""
    layer, (d_model, _, d_ff) = _layer(subject, draw, "w_v.weight", sizes=sizes), sizes
    layer.load({"feed_forward[0].bias": 40 + draw.tensor(d_ff)})
    return layer.load({"feed_forward[1].weight": draw.tensor(d_model, d_ff) / 64})


@clause(LAYER, 2)
@SIZES
def test_feed_forward_sublayer_of_any_size(subject, draw, reference, shape, sizes):
    """The second half is x = norm2(x + f), whatever the sizes"""
    call = _whole(subject, draw, sizes).on(draw.tensor(*shape))
    expect(call()).equals(reference.call(call))


@clause(LAYER, 2)
def test_layer_in_float32(subject, draw, reference):
    """The second half is x = norm2(x + f), in float32 too"""
    layer = _whole(subject, draw, (8, 2, 7)).to(torch.float32)
    call = layer.on(draw.tensor(3, 5, 8, dtype=torch.float32))
    expect(call()).equals(reference.call(call), within=1e-3)


@clause(LAYER, 3)
def test_positive_inner_numbers(subject, draw):
    """A ReLU passes positive numbers: twice as large and counted half, they give the same"""
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
    matrices = [shape for shape in parameters.values() if len(shape) == 2]
    expect(sorted(matrices)).equals([[2, 6], [6, 2]] + 4 * [[6, 6]])


@clause(LAYER, 4)
def test_norms_of_a_whole_layer(subject, draw):
    """A norm takes the numbers of one token, whatever other sentences there are"""
    layer = _layer(subject, draw, ATTENTION, THOUGHT).train()
    properties.alone_as_in_batch(layer.on(draw.tensor(3, 5, 8)), "x")


@clause(LAYER, 4)
def test_norm_of_equal_numbers(subject, draw):
    """A token whose numbers are all equal is normalised, too, and stays finite"""
    layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7, 0.0)
    layer.load(_weights(draw, layer, ATTENTION, THOUGHT)).eval()
    expect(layer(draw.tensor(3, 5, 1).expand(3, 5, 8))).is_finite()


@clause(LAYER, 5)
def test_dropout_draws_anew(subject, draw):
    """In training, other numbers are dropped each time"""
    layer, x = _layer(subject, draw, dropout=0.5).train(), draw.tensor(3, 5, 8)
    expect(layer(x)).differs_from(layer(x))


@clause(LAYER, 5)
@pytest.mark.parametrize("silent", [ATTENTION, THOUGHT], ids=["of f", "of a"])
def test_dropout_in_each_sentence(subject, draw, silent):
    """In training, other numbers are dropped in each sentence"""
    layer = _layer(subject, draw, silent, dropout=0.5).train()
    found = layer(draw.tensor(1, 5, 8).repeat(2, 1, 1))
    expect(found[0]).differs_from(found[1])


@clause(LAYER, 5)
@pytest.mark.parametrize("silent", [ATTENTION, THOUGHT], ids=["of f", "of a"])
def test_dropout_in_each_token(subject, draw, silent):
    """In training, other numbers are dropped in each token"""
    layer = _layer(subject, draw, silent, dropout=0.5).train()
    found = layer(draw.tensor(3, 1, 8).repeat(1, 5, 1))
    expect(found).differs_from(found[:, :1].expand_as(found))


@clause(LAYER, 5)
def test_dropout_of_f_is_another(subject, draw):
    """In training, other numbers of f are dropped than of a"""
    layer = _layer(subject, draw, f"{ATTENTION}.weight", f"{THOUGHT}.weight", dropout=0.5)
    x, a, f = draw.tensor(5, 16, 8), torch.zeros(8).double(), torch.zeros(8).double()
    a[0], f[0] = 2 + draw.tensor(), 2 + draw.tensor()  # one number is dropped from both, or not

    def with_both(factor):
        return layer.load({f"{ATTENTION}.bias": a * factor, f"{THOUGHT}.bias": f * factor})

    found = with_both(1).train()(x)
    neither, both = with_both(0).eval()(x), with_both(2)(x)
    near = (found - neither).abs().sum(-1) < (found - both).abs().sum(-1)
    expect(found).differs_from(torch.where(near.unsqueeze(-1), neither, both))


@clause(LAYER, 5)
def test_dropout_leaves_evaluation_whole(subject, draw):
    """In evaluation, the result is the same with any dropout"""
    x, weights, results = draw.tensor(3, 5, 8), {}, []
    for dropout in (0.0, 0.5):
        layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7, dropout)
        weights = weights or _weights(draw, layer)
        layer.load(weights).eval().set("norm1.eps", 1e-5).set("norm2.eps", 1e-5)
        results.append(layer(x))
    expect(results[1]).equals(results[0])


@clause(LAYER, 6)
@pytest.mark.parametrize("shape", [(3, 1, 5, 5), (3, 1, 1, 5), (5, 5), (1, 5)], ids=str)
def test_mask_of_any_shape(subject, draw, shape):
    """A mask means the same when it is written out for every sentence, head and query"""
    layer, x, mask = _layer(subject, draw), draw.tensor(3, 5, 8), draw.mask(*shape)
    found = layer(x, mask)
    expect(found).equals(layer(x, mask.expand(3, 2, 5, 5)))
    expect(found).differs_from(layer(x))


@clause(LAYER, 6)
def test_one_visible_key(subject, draw):
    """Where each token sees its neighbour alone, and not itself, what it asks does not matter"""
    layer, x = _layer(subject, draw), draw.tensor(3, 5, 8)
    mask = torch.eye(5, dtype=torch.bool).roll(1, 0)
    found = layer(x, mask)
    layer.load({"self_attn.w_q.weight": draw.tensor(8, 8)})
    expect(layer(x, mask)).equals(found)


@clause(LAYER, 6)
def test_mask_of_later_keys(subject, draw):
    """Under a look-ahead mask, the first tokens become the same without the later ones"""
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    layer = _layer(subject, draw)
    call = layer.on(draw.tensor(3, 6, 8), mask)
    properties.in_training(layer, call)
    properties.prefix_stands(call, 4, {"x": [1], "mask": [0, 1]}, [(1,)])


@clause(LAYER, 6)
@pytest.mark.parametrize("head", [0, 1])
def test_mask_of_each_head(subject, draw, head):
    """What is hidden in a head has no part in what that head finds"""
    layer = _layer(subject, draw)
    mixing = draw.tensor(8, 8)
    mixing[:, 4 * (1 - head) : 4 * (2 - head)] = 0  # the other head says nothing
    layer.load({f"{ATTENTION}.weight": mixing})
    mask = torch.ones(3, 2, 5, 5, dtype=torch.bool)
    mask[:, head, :, 2] = False
    third = torch.arange(5).reshape(5, 1) == 2
    call = layer.on(draw.tensor(3, 5, 8), mask)
    properties.unmoved_by(call, draw, "x", third, [~third])


@clause(LAYER, 7)
def test_gradients_reach_all_weights(subject, draw):
    """The gradients reach every part of the layer, in training too"""
    layer = _layer(subject, draw).train()
    call, cotangent = layer.on(draw.tensor(3, 5, 8), draw.mask(3, 1, 1, 5)), draw.tensor(3, 5, 8)
    names = ["x", *draw.weights(layer)]
    subject.vjp(call, cotangent, wrt=names)


@clause(LAYER, 7)
def test_gradient_with_a_mask(subject, draw):
    """The gradient for x says how the result moves when x moves, with a mask too"""
    layer = _layer(subject, draw)
    layer.load({"feed_forward[0].bias": 20 + draw.tensor(7)})  # far from the kink of the ReLU
    layer.load({"feed_forward[1].weight": draw.tensor(8, 7) / 32})
    call = layer.on(draw.tensor(2, 4, 8), draw.mask(2, 1, 4, 4))
    properties.gradient_fits(subject, call, draw, "x")


# TransformerEncoder


def _encoder(subject, draw, *silent, num_layers=2, dropout=0.0, pad_id=0):
    """An encoder of 11 tokens, d_model 6, 2 heads, d_ff 5, max_len 9."""
    encoder = subject.encoder.TransformerEncoder(11, 6, 2, 5, num_layers, 9, dropout, pad_id)
    encoder.load(_weights(draw, encoder, *silent)).eval()
    for layer in range(num_layers):
        encoder.set(f"layers.{layer}.norm1.eps", 1e-5).set(f"layers.{layer}.norm2.eps", 1e-5)
    return encoder


def _start_alike(draw, encoder):
    """Let the first layer take up no more than the directions of the tokens' rows, so that a fault
    in how tokens start, which is clause 1, is not seen again."""
    silent = "positional.pe", f"layers.0.{ATTENTION}", f"layers.0.{THOUGHT}"
    state = {n: v * 0 for n, v in draw.weights(encoder).items() if n.startswith(silent)}
    return encoder.load(state).set("layers.0.norm1.eps", 0.0)


@clause(ENCODER, 1)
@pytest.mark.parametrize("shape", [(1, 9), (4, 1), (9, 4)], ids=["max_len", "one token", "many"])
def test_tokens_start_in_any_shape(subject, draw, reference, shape):
    """A token starts as embedding's row for it plus positional's for its place"""
    encoder = _encoder(subject, draw, ATTENTION, THOUGHT, num_layers=1)
    call = encoder.on(draw.integers(1, 11, *shape))
    expect(call()).equals(reference.call(call))


@clause(ENCODER, 1)
def test_ids_in_any_layout(subject, draw):
    """A token starts alike, however the ids lie in memory"""
    encoder = _encoder(subject, draw, num_layers=1)
    properties.layout_does_not_matter(encoder.on(draw.integers(1, 11, 4, 7)), "token_ids")


@clause(ENCODER, 2)
@pytest.mark.parametrize("num_layers", [1, 2, 7])
def test_any_number_of_layers(subject, draw, reference, num_layers):
    """num_layers layers are applied in order"""
    encoder = _start_alike(draw, _encoder(subject, draw, num_layers=num_layers))
    call = encoder.on(draw.integers(1, 11, 4, 7))
    expect(call()).equals(reference.call(call))


@clause(ENCODER, 2)
def test_encoder_in_float32(subject, draw, reference):
    """The layers are applied in order, in float32 too"""
    encoder = _start_alike(draw, _encoder(subject, draw)).to(torch.float32)
    call = encoder.on(draw.integers(1, 11, 4, 7))
    expect(call()).equals(reference.call(call), within=1e-3)


@clause(ENCODER, 3)
def test_padding_is_hidden(subject, draw):
    """What row padding has in embedding changes no real token's vector, in training either"""
    encoder, ids = _encoder(subject, draw, num_layers=3), draw.tokens(4, 7, 11)
    ids[0, 5:] = 10  # a sentence that ends in the last word of all
    properties.in_training(encoder, encoder.on(ids))
    rows = draw.tensor(11, 6)
    expected = encoder.load({"embedding.weight": rows})(ids)
    changed = torch.cat((draw.tensor(1, 6), rows[1:]))
    found = encoder.load({"embedding.weight": changed})(ids)
    expect(found, where=(ids != 0).unsqueeze(-1)).equals(expected)


@clause(ENCODER, 3)
def test_sentence_alone(subject, draw):
    """Each sentence has its own padding: alone it means what it means in a batch"""
    encoder, ids = _encoder(subject, draw), draw.tokens(4, 7, 11)
    found = encoder(ids)
    for sentence in range(4):
        alone = ids[sentence : sentence + 1]  # the vectors of padding mean nothing
        expect(encoder(alone), where=(alone != 0).unsqueeze(-1)).equals(found[sentence][None])


@clause(ENCODER, 3)
def test_every_real_token_counts(subject, draw):
    """A real token has a part in what the others become, wherever padding stands"""
    encoder, ids = _encoder(subject, draw, num_layers=1), draw.integers(1, 10, 4, 7)
    ids[:2, 1], ids[2:, 5] = 0, 0
    found = encoder(ids)
    for place in (0, 3, 6):
        other = ids.clone()
        other[:, place] = 10
        moved = encoder(other)
        for sentence in range(4):
            rest = (torch.arange(7) != place).unsqueeze(-1)
            expect(moved[sentence], where=rest).differs_from(found[sentence])


@clause(ENCODER, 4)
@pytest.mark.parametrize("pad_id", [3, 10])
def test_another_pad_id(subject, draw, pad_id):
    """pad_id is padding, and no other token is"""
    ids = draw.tokens(4, 7, 11, pad_id)
    ids[0, 2], ids[1, 4], ids[2:, 3] = 0, 1, pad_id
    swapped = torch.arange(11)
    swapped[0], swapped[pad_id] = pad_id, 0
    encoder = _encoder(subject, draw, pad_id=pad_id)
    weights = _weights(draw, encoder)
    found = encoder.load(weights)(ids)
    weights["embedding.weight"] = weights["embedding.weight"][swapped]
    twin = _encoder(subject, draw).load(weights)
    expect(found, where=(ids != pad_id).unsqueeze(-1)).equals(twin(swapped[ids]))


@clause(ENCODER, 4)
def test_row_like_that_of_padding(subject, draw):
    """A real token is seen, even where its row of embedding is all zeros, or that of padding"""
    encoder, ids = _encoder(subject, draw, num_layers=1), draw.integers(3, 11, 4, 7)
    ids[:, 2], ids[:, 4], ids[:2, 6] = 1, 2, 0
    rows = draw.tensor(11, 6)
    rows[1], rows[2] = 0, rows[0]
    found = encoder.load({"embedding.weight": rows})(ids)
    for place in (2, 4):
        away = ids.clone()
        away[:, place] = 0
        rest = (torch.arange(7) != place).unsqueeze(-1)
        for sentence in range(4):
            expect(encoder(away)[sentence], where=rest).differs_from(found[sentence])


@clause(ENCODER, 4)
def test_default_pad_id(subject, draw):
    """Left out, pad_id is 0"""
    ids = draw.tokens(4, 7, 11)
    encoder = subject.encoder.TransformerEncoder(11, 6, 2, 5, 2, 9, 0.0)
    weights = _weights(draw, encoder)
    found = encoder.load(weights).eval()(ids)
    twin = subject.encoder.TransformerEncoder(11, 6, 2, 5, 2, 9, 0.0, 0)
    expect(found).equals(twin.load(weights).eval()(ids))


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
def test_gradients_reach_all_layers(subject, draw):
    """The gradients reach embedding and every part of every layer, in training too"""
    call = _encoder(subject, draw).train().on(draw.integers(1, 11, 4, 7))
    names = ["embedding.weight"]
    for layer in ("layers.0", "layers.1"):
        names += [f"{layer}.self_attn.w_k.weight", f"{layer}.feed_forward[1].weight"]
    subject.vjp(call, draw.tensor(4, 7, 6), wrt=names)


@clause(ENCODER, 7)
def test_every_token_is_trained(subject, draw):
    """Every real token's row of embedding is trained, that of token 0 too where pad_id is not 0"""
    encoder = _encoder(subject, draw, pad_id=3)
    ids = draw.order(11)
    ids = torch.stack((ids, ids.roll(1)), dim=1)  # a padded token has a real one beside it
    gradient = subject.vjp(encoder.on(ids), draw.tensor(11, 2, 6), wrt=["embedding.weight"])
    for row in gradient["embedding.weight"][torch.arange(11) != 3]:
        expect(row).differs_from(torch.zeros_like(row))


@clause(ENCODER, 7)
def test_gradient_of_embedding(subject, draw):
    """The gradient of embedding says how the result moves when its rows move"""
    encoder = _encoder(subject, draw)
    for layer in ("layers.0", "layers.1"):  # far from the kink of the ReLU
        encoder.load({f"{layer}.feed_forward[0].bias": 20 + draw.tensor(5)})
        encoder.load({f"{layer}.feed_forward[1].weight": draw.tensor(6, 5) / 32})
    rows, way, cotangent = draw.tensor(11, 6), draw.tensor(11, 6), draw.tensor(4, 7, 6)
    ids = draw.integers(1, 11, 4, 7)
    way[0] = 0  # padding may have a row that is not trained
    encoder.load({"embedding.weight": rows})
    gradient = subject.vjp(encoder.on(ids), cotangent, wrt=["embedding.weight"])

    def value(far):
        return (encoder.load({"embedding.weight": rows + far * way})(ids) * cotangent).sum()

    slope = properties.slope(value)
    expect((gradient["embedding.weight"] * way).sum()).equals(slope, within=1e-3)
