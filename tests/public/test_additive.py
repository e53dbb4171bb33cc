"""Checks of the unit `additive`.

A bias where there should be none is set to None, and d_attn is mostly as large as d_key: so that a
bias, or mapped keys in the context, cost the clause that speaks of them alone.
"""

import pytest

from grader.judge import clause, expect, properties

ATTENTION = "additive.AdditiveAttention"
DECODER = "additive.AttentionDecoder"


# AdditiveAttention


def _attention(subject, draw, d_attn=6):
    attention = subject.additive.AdditiveAttention(5, 6, d_attn)
    attention.load({name: 0.7 * value for name, value in draw.weights(attention).items()})
    for name in ("w_query", "w_key", "v"):
        attention.set(f"{name}.bias", None)
    return attention


def _look(subject, draw, batch=3, seq=4, d_attn=6):
    """A call with drawn query and keys."""
    return _attention(subject, draw, d_attn).on(draw.tensor(batch, 5), draw.tensor(batch, seq, 6))


@clause(ATTENTION, 1)
def test_attention_is_made_of(subject, draw):
    """w_query, w_key and v are Linears, each of its size"""
    attention = subject.additive.AdditiveAttention(5, 6, 7)
    state = draw.weights(attention)
    attention.load(state)
    for name, value in state.items():
        expect(attention.get(name)).equals(value)


@clause(ATTENTION, 1)
def test_attention_trains_nothing_else(subject):
    """Trained are the three weights: no bias, and nothing else"""
    trained = subject.additive.AdditiveAttention(5, 6, 7).describe()["trained"]
    expect(sorted(trained)).equals(["v.weight", "w_key.weight", "w_query.weight"])


@clause(ATTENTION, 2)
def test_weights(subject, draw, reference):
    """The weights are the softmax of v(tanh(w_query(query) + w_key(key))) over the keys"""
    call = _look(subject, draw)
    _, weights = call()
    expect(weights).sums_to(1)
    expect(weights).equals(reference.call(call)[1])


@clause(ATTENTION, 2)
@pytest.mark.parametrize("name", ["query", "keys"])
def test_weights_depend_on(subject, draw, name):
    """Another query gets other weights from the same keys, and other keys do"""
    call = _look(subject, draw)
    changed = call.but(**{name: draw.tensor(*call[name].shape)})
    expect(changed()[1]).differs_from(call()[1], least=1e-3)


@clause(ATTENTION, 3)
def test_context(subject, draw):
    """The context is the sum of the keys, each times its weight"""
    call = _look(subject, draw, d_attn=7)
    context, weights = call()
    expect(context).equals((weights[:, :, None] * call["keys"]).sum(1))


@clause(ATTENTION, 4)
def test_hidden_keys_get_no_weight(subject, draw):
    """A hidden key gets weight 0, and the visible ones share out 1"""
    call, mask = _look(subject, draw, seq=5), draw.mask(3, 5)
    _, free = call()
    _, weights = call.but(mask=mask)()
    expect(weights, where=~mask).equals(0)
    visible = free * mask
    expect(weights).equals(visible / visible.sum(-1, keepdim=True))


@clause(ATTENTION, 4)
def test_hidden_keys_are_not_mixed_in(subject, draw):
    """What stands at a hidden key moves nothing"""
    call, mask = _look(subject, draw, seq=5), draw.mask(3, 5)
    masked = call.but(mask=mask)
    properties.unmoved_by(masked, draw, "keys", ~mask[..., None], [None, None])


@clause(ATTENTION, 5)
def test_every_key_hidden(subject, draw):
    """A sentence that sees no key leaves context and weights finite"""
    call, mask = _look(subject, draw), draw.mask(3, 4)
    mask[1] = False
    for found in call.but(mask=mask)():
        expect(found).is_finite()


@clause(ATTENTION, 5)
def test_gradients_with_every_key_hidden(subject, draw):
    """A sentence that sees no key leaves the gradients finite"""
    call, mask = _look(subject, draw), draw.mask(3, 4)
    mask[1] = False
    cotangents = draw.tensor(3, 6), draw.tensor(3, 4)
    expect(subject.vjp(call.but(mask=mask), cotangents, wrt=["keys"])["keys"]).is_finite()


@clause(ATTENTION, 6)
@pytest.mark.parametrize("batch, seq", [(3, 4), (1, 4), (3, 1), (4, 4), (1, 1)])
def test_sentence_alone(subject, draw, batch, seq):
    """A sentence alone gets what it gets in a batch, whatever the sizes"""
    call = _look(subject, draw, batch, seq)
    properties.alone_as_in_batch(call, "query", "keys")


@clause(ATTENTION, 6)
def test_masked_sentence_alone(subject, draw):
    """Each sentence has its own mask"""
    call = _look(subject, draw, 4, 4).but(mask=draw.mask(4, 4))
    properties.alone_as_in_batch(call, "query", "keys", "mask")


@clause(ATTENTION, 7)
@pytest.mark.parametrize("part", ["context", "weights"])
def test_attention_gradients(subject, draw, part):
    """The gradients reach query, keys and every parameter"""
    cotangents = (draw.tensor(3, 6), None) if part == "context" else (None, draw.tensor(3, 4))
    names = ["query", "keys", "w_query.weight", "w_key.weight", "v.weight"]
    subject.vjp(_look(subject, draw), cotangents, wrt=names)


@clause(ATTENTION, 7)
def test_attention_leaves_arguments_alone(subject, draw):
    """Query, keys and mask are the same after the call as before"""
    call, mask = _look(subject, draw), draw.mask(3, 4)
    mask[1] = False  # who sees nothing may be treated apart
    properties.leaves_inputs_alone(subject, call.function.on(*call.args, mask))


# AttentionDecoder


def _decoder(subject, draw, **scales):
    """A decoder of 9 tokens, d_embed 4, d_hidden 5, d_attn 6; some weights scaled."""
    decoder = subject.additive.AttentionDecoder(9, 4, 5, 6)
    state = {name: 0.6 * value for name, value in draw.weights(decoder).items()}
    for part, scale in scales.items():
        state |= {name: scale * value for name, value in state.items() if f"{part}." in name}
    return decoder.load(state)


def _step(subject, draw, **scales):
    """A call with drawn y_prev, s_prev and states."""
    decoder = _decoder(subject, draw, **scales)
    return decoder.on(draw.integers(0, 9, 3), draw.tensor(3, 5), draw.tensor(3, 4, 5))


@clause(DECODER, 1)
def test_decoder_is_made_of(subject, draw):
    """attention is an AdditiveAttention, decoder an RNNDecoder, each of its sizes"""
    decoder = subject.additive.AttentionDecoder(9, 4, 5, 6)
    state = draw.weights(decoder)
    decoder.load(state)
    for name, value in state.items():
        expect(decoder.get(name)).equals(value)


@clause(DECODER, 1)
def test_decoder_trains_nothing_else(subject):
    """Trained are the weights of attention and decoder, and no others"""
    trained = subject.additive.AttentionDecoder(9, 4, 5, 6).describe()["trained"]
    expect(sorted({name.split(".")[0] for name in trained})).equals(["attention", "decoder"])


@clause(DECODER, 2)
def test_query_is_the_state_before(subject, draw, reference):
    """The weights are those that s_prev gets from the states"""
    call = _step(subject, draw)
    expect(call()[2]).equals(reference.call(call)[2])


@clause(DECODER, 2)
def test_weights_do_not_know_the_token(subject, draw):
    """y_prev has no part in the weights: it is read after the look"""
    call = _step(subject, draw)
    other = call.but(y_prev=(call["y_prev"] + 1) % 9)
    expect(other()[2]).equals(call()[2])


@clause(DECODER, 3)
def test_step_of_the_decoder(subject, draw, reference):
    """The attention's context goes into the decoder's step"""
    # With v = 0 all keys count alike, whoever asks: that is clause 2.
    call = _step(subject, draw, v=0.0)
    logits, s_t, _ = call()
    expected = reference.call(call)
    expect(s_t).equals(expected[1])
    expect(logits).equals(expected[0])


@clause(DECODER, 3)
def test_weights_matter(subject, draw):
    """Where the weights are others, the step is another"""
    call = _step(subject, draw, v=0.0)
    _, alike, _ = call()
    call.function.module.load({"attention.v.weight": draw.tensor(1, 6)})
    expect(call()[1]).differs_from(alike, least=1e-4)


@clause(DECODER, 4)
def test_hidden_states(subject, draw):
    """A hidden state gets weight 0, and what stands there moves nothing"""
    call, mask = _step(subject, draw), draw.mask(3, 4)
    masked = call.but(mask=mask)
    expect(masked()[2], where=~mask).equals(0)
    properties.unmoved_by(masked, draw, "states", ~mask[..., None], [None, None, None])


@clause(DECODER, 5)
def test_context_is_drawn_afresh(subject, draw):
    """Another s_prev gets other weights, and the first one gets its own again"""
    call = _step(subject, draw)
    first = call()
    later = call.but(s_prev=draw.tensor(3, 5))()
    expect(later[2]).differs_from(first[2], least=1e-3)
    for found, expected in zip(call(), first):
        expect(found).equals(expected)


@clause(DECODER, 6)
def test_decoder_gradients(subject, draw):
    """The gradients of the logits reach s_prev, the states and every parameter"""
    names = ["s_prev", "states", "attention.w_query.weight", "attention.w_key.weight"]
    names += ["attention.v.weight", "decoder.embedding.weight", "decoder.cell.weight_ih"]
    call = _step(subject, draw)
    subject.vjp(call, [draw.tensor(3, 9), None, None], wrt=[*names, "decoder.out.weight"])


@clause(DECODER, 6)
def test_decoder_leaves_arguments_alone(subject, draw):
    """y_prev, s_prev, states and mask are the same after the call as before"""
    call, mask = _step(subject, draw), draw.mask(3, 4)
    mask[1] = False  # who sees nothing may be treated apart
    properties.leaves_inputs_alone(subject, call.function.on(*call.args, mask))
