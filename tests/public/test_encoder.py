"""Checks of the unit `encoder`.

Each check silences what it isn't about: a sublayer whose last Linear is 0 adds nothing to x. Norms
get drawn gains, since gains of 1 hide mistakes, and one eps, since any usual one is right.
"""

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


def _silence(draw, module, *parts):
    """Zeros for the parts that are named."""
    state = _weights(draw, module, *parts)
    return {name: value for name, value in state.items() if any(part in name for part in parts)}


# TransformerEncoderLayerSimple


def _layer(subject, draw, *silent, dropout=0.0):
    """A layer of d_model 8 with 2 heads and d_ff 7."""
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
    layer = _layer(subject, draw, "w_v.weight")  # so a is the same, whoever looks at whom
    # Inner numbers around 40 pass a ReLU as they are: whether there is one is clause 3.
    layer.load({"feed_forward[0].bias": 40 + draw.tensor(7), "norm1.bias": draw.tensor(8)})
    layer.load({"feed_forward[1].weight": draw.tensor(8, 7) / 64})
    call = layer.on(draw.tensor(3, 5, 8))
    expect(call()).equals(reference.call(call))


@clause(LAYER, 3)
def test_feed_forward_is_two_linears(subject):
    """Beside self_attn's, there are the matrices of feed_forward's two Linears"""
    parameters = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7).describe()["parameters"]
    matrices = [shape for shape in parameters.values() if len(shape) == 2]
    expect(sorted(matrices)).equals([[7, 8], [8, 7]] + 4 * [[8, 8]])


@clause(LAYER, 3)
def test_feed_forward_has_no_other_weights(subject):
    """Beside the weights and biases of its two Linears, feed_forward has none"""
    parameters = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7).describe()["parameters"]
    own = [name for name in parameters if name.startswith("feed_forward.")]
    expect(max(len(own), 4)).equals(4)


@clause(LAYER, 3)
def test_layer_has_no_other_weights(subject):
    """Beside self_attn, feed_forward and the two norms, nothing in the layer has weights"""
    parameters = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7).describe()["parameters"]
    parts = "self_attn.", "feed_forward.", "norm1.", "norm2."
    others = [name for name in parameters if not name.startswith(parts)]
    # Weights may go by other names, too: there must be more than the parts have.
    expect(others if len(parameters) > 8 + 4 + 4 else []).equals([])


@clause(LAYER, 3)
def test_negative_inner_numbers(subject, draw):
    """The ReLU turns negative inner numbers into 0, however low they are"""
    layer, x = _layer(subject, draw, ATTENTION), draw.tensor(3, 5, 8)
    layer.load({"feed_forward[0].weight": draw.tensor(7, 8) / 64})
    low = -0.5 - draw.tensor(7).abs()
    expected = layer.load({"feed_forward[0].bias": low})(x)
    expect(layer.load({"feed_forward[0].bias": 2 * low})(x)).equals(expected)


@clause(LAYER, 3)
def test_negative_results_of_feed_forward(subject, draw):
    """feed_forward may give negative numbers: its last step is a Linear"""
    layer, x = _layer(subject, draw, ATTENTION), draw.tensor(3, 5, 8)
    bias = (0.5 + draw.tensor(8).abs()) * torch.tensor([-1, 1]).repeat(4)
    state = {f"{THOUGHT}.weight": draw.tensor(8, 7) / 64, f"{THOUGHT}.bias": bias}
    once = layer.load(state)(x)
    lower = torch.where(bias < 0, 2 * bias, bias)
    expect(layer.load({f"{THOUGHT}.bias": lower})(x)).differs_from(once)


@clause(LAYER, 4)
def test_two_norms(subject, draw):
    """norm1 and norm2 are two nn.LayerNorm(d_model) with weights of their own"""
    layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7)
    state = {f"norm{n}.{leaf}": draw.tensor(8) for n in (1, 2) for leaf in ("weight", "bias")}
    layer.load(state)
    for name, value in state.items():
        expect(layer.get(name)).equals(value)
    expect(layer.get("norm1.normalized_shape")).equals((8,))
    expect(layer.get("norm2.normalized_shape")).equals((8,))


@clause(LAYER, 4)
def test_both_norms_act(subject, draw):
    """Both norms have a part in the result"""
    call = _layer(subject, draw).on(draw.tensor(3, 5, 8))
    subject.vjp(call, draw.tensor(3, 5, 8), wrt=["norm1.weight", "norm2.weight"])


@clause(LAYER, 4)
def test_norm_of_each_token(subject, draw):
    """A norm takes the numbers of one token, whatever the others are"""
    layer, x = _layer(subject, draw, ATTENTION, THOUGHT).train(), draw.tensor(3, 5, 8)
    expect(layer(x)[:2, :4]).equals(layer(x[:2, :4]))


@clause(LAYER, 4)
def test_norm_forgets_mean_and_size(subject, draw):
    """A norm takes away a token's mean and size: 4 * x + 3 gives what x gives"""
    layer, x = (
        _layer(subject, draw, ATTENTION, THOUGHT, "norm1.bias", "norm2.bias"),
        draw.tensor(3, 5, 8),
    )
    found = layer(x)
    if not torch.equal(found, x):  # else no norm acts on a sum, which clauses 1 and 2 say
        expect(layer(4 * x + 3)).equals(found, within=1e-3)


@clause(LAYER, 4)
def test_eps_is_small(subject, draw):
    """The eps of a norm is too small to change ordinary numbers"""
    layer = subject.encoder.TransformerEncoderLayerSimple(8, 2, 7, 0.1)
    layer.load(_weights(draw, layer, ATTENTION, THOUGHT)).eval()
    x = draw.tensor(3, 5, 8)
    found = layer(x)
    expect(found).equals(layer.set("norm1.eps", 1e-5).set("norm2.eps", 1e-5)(x), within=1e-2)


@clause(LAYER, 5)
def test_dropout_of_everything(subject, draw):
    """With dropout=1, training leaves nothing of a and f, and all of x"""
    layer, x = _layer(subject, draw, dropout=1.0), draw.tensor(3, 5, 8)
    found = layer.train()(x)
    expect(found).equals(layer.load(_silence(draw, layer, ATTENTION, THOUGHT)).eval()(x))


@clause(LAYER, 5)
def test_dropout_of_single_numbers(subject, draw):
    """In training, f's numbers are dropped one by one, the others times 1 / (1 - dropout)"""
    layer = subject.encoder.TransformerEncoderLayerSimple(3, 1, 5, 0.25)
    layer.load(_weights(draw, layer, ATTENTION, "feed_forward[0]"))
    layer.load({"feed_forward[0].bias": 1 + draw.tensor(5).abs()})
    weight, bias, x = draw.tensor(3, 5).abs(), draw.tensor(3).abs(), draw.tensor(5, 16, 3)
    weight[2], bias[2] = 0, 0  # two numbers are enough: each dropped or not makes four results

    def with_f(*factors):
        factor = torch.tensor([*factors, 0], dtype=torch.float64)
        state = {f"{THOUGHT}.weight": weight * factor[:, None], f"{THOUGHT}.bias": bias * factor}
        return layer.load(state)

    found = with_f(1, 1).train()(x)
    kept = 1 / (1 - 0.25)
    factors = (0, 0), (kept, kept), (0, kept), (kept, 0)
    possible = torch.stack([with_f(*pair).eval()(x) for pair in factors])
    expect(found).equals(_nearest(found, possible))
    expect(found).differs_from(_nearest(found, possible[:2]))


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
def test_training_without_dropout(subject, draw):
    """With dropout=0, training and evaluation give the same"""
    layer = _layer(subject, draw)
    properties.same_in_training(layer, layer.on(draw.tensor(3, 5, 8)))


@clause(LAYER, 5)
def test_layer_in_evaluation(subject, draw):
    """In evaluation, nothing is random"""
    properties.repeats(_layer(subject, draw, dropout=0.5).on(draw.tensor(3, 5, 8)))


@clause(LAYER, 6)
def test_mask_hides_keys(subject, draw):
    """A hidden token has no part: the others get the same without it"""
    layer, x = _layer(subject, draw), draw.tensor(3, 5, 8)
    seen = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 0, 0, 1]]).bool()
    found = layer(x, seen.reshape(3, 1, 1, 5))
    expect(found[seen]).equals(layer(x[seen].reshape(3, 3, 8)).flatten(0, 1))


@clause(LAYER, 6)
def test_mask_of_each_query(subject, draw):
    """With a look-ahead mask [seq, seq], earlier positions do not see the last one"""
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    call = _layer(subject, draw).on(draw.tensor(3, 5, 8), mask)
    last = torch.arange(5).reshape(5, 1) == 4
    properties.unmoved_by(call, draw, "x", last, [~last])


@clause(LAYER, 7)
def test_layer_gradient(subject, draw):
    """The gradient for x says how the result moves when x moves"""
    layer = _layer(subject, draw)
    layer.load({"feed_forward[0].bias": 20 + draw.tensor(7)})  # far from the kink of the ReLU
    layer.load({"feed_forward[1].weight": draw.tensor(8, 7) / 32})
    call, cotangent = layer.on(draw.tensor(3, 2, 8)), draw.tensor(3, 2, 8)
    gradient = subject.vjp(call, cotangent, wrt=["x"])["x"]
    way = draw.tensor(3, 2, 8)
    slope = properties.slope(
        lambda far: (call.but(x=call["x"] + far * way)() * cotangent).sum((1, 2))
    )
    expect((gradient * way).sum((1, 2))).equals(slope, within=1e-3)


@clause(LAYER, 7)
def test_layer_leaves_x_alone(subject, draw):
    """x and the mask are the same after the call as before"""
    mask = draw.mask(3, 1, 1, 5)
    mask[1] = False  # who sees nothing may be treated apart
    call = _layer(subject, draw).on(draw.tensor(3, 5, 8), mask)
    properties.leaves_inputs_alone(subject, call)


# TransformerEncoder


def _encoder(subject, draw, num_layers=2, dropout=0.0, pad_id=0, weights=None):
    """An encoder of 11 tokens, d_model 6, 2 heads, d_ff 5, max_len 9."""
    encoder = subject.encoder.TransformerEncoder(11, 6, 2, 5, num_layers, 9, dropout, pad_id)
    encoder.load(weights or _weights(draw, encoder)).eval()
    for layer in range(num_layers):
        encoder.set(f"layers.{layer}.norm1.eps", 1e-5).set(f"layers.{layer}.norm2.eps", 1e-5)
    return encoder


def _start_alike(draw, encoder):
    """Let the first layer take up no more than the directions of the tokens' rows.

    Where no position is added, no sublayer speaks, and eps is 0, its norm forgets any scale. So a
    fault in how tokens start, which is clause 1, is not seen again.
    """
    parts = "positional.pe", f"layers.0.{ATTENTION}", f"layers.0.{THOUGHT}"
    return encoder.load(_silence(draw, encoder, *parts)).set("layers.0.norm1.eps", 0.0)


@clause(ENCODER, 1)
def test_tokens_start(subject, draw, reference):
    """A token starts as embedding's row for it plus positional's for its place"""
    encoder = _encoder(subject, draw, 1)
    encoder.load(_silence(draw, encoder, ATTENTION, THOUGHT))
    ids = draw.tokens(4, 7, 11)
    call = encoder.on(ids)
    expect(call(), where=(ids != 0).unsqueeze(-1)).equals(reference.call(call))


@clause(ENCODER, 1)
def test_positions_once(subject, draw):
    """Positions are added once, not again by a later layer"""
    encoder = _encoder(subject, draw)
    encoder.load({"layers.0.norm2.weight": torch.zeros(6).double()})  # makes all tokens alike
    found = encoder(draw.integers(1, 11, 4, 7))
    expect(found).equals(found[:, :1].expand_as(found))


@clause(ENCODER, 2)
def test_layers_are_distinct(subject, draw):
    """Each of the num_layers layers has weights of its own"""
    encoder = subject.encoder.TransformerEncoder(11, 6, 2, 5, 3, 9)
    state = {f"layers.{n}.norm1.weight": draw.tensor(6) for n in range(3)}
    encoder.load(state)
    for name, value in state.items():
        expect(encoder.get(name)).equals(value)


@clause(ENCODER, 2)
def test_layers_are_found(subject):
    """parameters() finds the weights of embedding and of all layers"""
    found = subject.encoder.TransformerEncoder(11, 6, 2, 5, 3, 9).describe()["parameters"]
    expect(min(len(found), 1 + 3 * 16)).equals(1 + 3 * 16)


@clause(ENCODER, 2)
def test_layers_in_order(subject, draw, reference):
    """The layers are applied in order, each to what the one before it gave"""
    call = _start_alike(draw, _encoder(subject, draw, 3)).on(draw.integers(1, 11, 4, 7))
    expect(call()).equals(reference.call(call))


@clause(ENCODER, 3)
def test_more_padding(subject, draw):
    """More padding at the end of a sentence changes no real token's vector"""
    encoder, ids = _encoder(subject, draw, 1), draw.integers(1, 11, 4, 5)
    ids[0, 3:] = ids[2, 2:] = 0
    longer = torch.nn.functional.pad(ids, (0, 2))
    expect(encoder(longer)[:, :5], where=(ids != 0).unsqueeze(-1)).equals(encoder(ids))


@clause(ENCODER, 3)
def test_real_tokens_see_each_other(subject, draw):
    """Without positions, padding and the order of tokens change nothing"""
    encoder = _encoder(subject, draw).load({"positional.pe": torch.zeros(1, 9, 6).double()})
    real = [[1, 0, 1, 1, 0, 0, 1], [0, 0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0]]
    real = torch.tensor(real).bool()
    ids = draw.integers(1, 11, 3, 7) * real
    backwards = encoder(ids[real].reshape(3, 4).flip(1))
    expect(encoder(ids)[real]).equals(backwards.flip(1).flatten(0, 1))


@clause(ENCODER, 4)
def test_any_number_is_padding(subject, draw):
    """Swap 0 and 5 in pad_id, token ids and embedding: the result is the same"""
    ids = draw.tokens(4, 7, 11, pad_id=5)
    ids[:, 1], ids[:, 2], ids[:2, 4] = 3, 0, 5
    encoder = _encoder(subject, draw, 1, pad_id=5)
    weights = _weights(draw, encoder)
    weights["embedding.weight"][3] = 0  # which is no padding either
    found = encoder.load(weights)(ids)
    swapped = torch.tensor([5, 1, 2, 3, 4, 0, 6, 7, 8, 9, 10])
    weights["embedding.weight"] = weights["embedding.weight"][swapped]
    twin = _encoder(subject, draw, 1, weights=weights)
    expect(found, where=(ids != 5).unsqueeze(-1)).equals(twin(swapped[ids]))


@clause(ENCODER, 4)
def test_encoder_leaves_ids_alone(subject, draw):
    """The token ids are the same after the call as before"""
    encoder = _encoder(subject, draw, 1, pad_id=5)
    properties.leaves_inputs_alone(subject, encoder.on(draw.tokens(4, 7, 11, pad_id=5)))


@clause(ENCODER, 5)
def test_dropout_stays_inside(subject, draw):
    """With dropout=1, training takes away what sublayers add, and no more"""
    encoder, ids = _encoder(subject, draw, 1, dropout=1.0), draw.integers(1, 11, 4, 7)
    found = encoder.train()(ids)
    expect(found).equals(encoder.load(_silence(draw, encoder, ATTENTION, THOUGHT)).eval()(ids))


@clause(ENCODER, 5)
def test_encoder_in_evaluation(subject, draw):
    """In evaluation, nothing is dropped: the result is the same twice"""
    encoder = _encoder(subject, draw, 1, dropout=0.5)
    properties.repeats(encoder.on(draw.integers(1, 11, 4, 7)))


@clause(ENCODER, 6)
def test_encoder_on_accelerator(subject, draw):
    """On an accelerator, all that forward uses is there too"""
    encoder = subject.encoder.TransformerEncoder(11, 6, 2, 5, 1, 9).eval()
    subject.on_accelerator(encoder.on(draw.tokens(4, 7, 11)))


@clause(ENCODER, 7)
def test_all_is_trained(subject, draw):
    """The gradients reach embedding and every layer"""
    encoder = _encoder(subject, draw)
    made_of = encoder.describe()
    expect([n for n in made_of["parameters"] if n not in made_of["trained"]]).equals([])
    call = encoder.on(draw.integers(1, 11, 4, 7))
    names = ["layers.1.norm1.weight", "layers.0.norm1.weight", "embedding.weight"]
    subject.vjp(call, draw.tensor(4, 7, 6), wrt=names)


@clause(ENCODER, 7)
def test_nothing_else_is_trained(subject):
    """Beside embedding and the layers, nothing has weights"""
    parameters = subject.encoder.TransformerEncoder(11, 6, 2, 5, 3, 9).describe()["parameters"]
    others = [name for name in parameters if not name.startswith(("embedding.", "layers."))]
    # Weights may go by other names, too: there must be more than the parts have.
    expect(others if len(parameters) > 1 + 3 * 16 else []).equals([])
