"""Further checks of the unit `additive`: other sizes, and properties of every right answer."""

import pytest
import torch

from grader.judge import clause, expect, properties

ATTENTION = "additive.AdditiveAttention"
DECODER = "additive.AttentionDecoder"


# AdditiveAttention


def _attention(subject, draw, d_query=5, d_key=6, d_attn=6, dtype=torch.float64):
    attention = subject.additive.AdditiveAttention(d_query, d_key, d_attn)
    weights = draw.weights(attention).items()
    attention.load({name: (0.7 * value).to(dtype) for name, value in weights})
    for name in ("w_query", "w_key", "v"):  # a bias costs clause 1 alone
        attention.set(f"{name}.bias", None)
    return attention


def _look(subject, draw, batch=3, seq=4, mask=None, **sizes):
    attention = _attention(subject, draw, **sizes)
    d_query, d_key = sizes.get("d_query", 5), sizes.get("d_key", 6)
    query, keys = draw.tensor(batch, d_query), draw.tensor(batch, seq, d_key)
    return attention.on(query, keys) if mask is None else attention.on(query, keys, mask)


SIZES = pytest.mark.parametrize(
    "d_query, d_key, d_attn", [(4, 4, 4), (7, 2, 3), (1, 5, 9), (6, 3, 1)]
)


@clause(ATTENTION, 1)
@SIZES
def test_attention_of_other_sizes(subject, d_query, d_key, d_attn):
    """The three Linears have the sizes that the constructor was told"""
    shapes = subject.additive.AdditiveAttention(d_query, d_key, d_attn).describe()["parameters"]
    found = {name: shape for name, shape in shapes.items() if name.endswith("weight")}
    expected = {"w_query": [d_attn, d_query], "w_key": [d_attn, d_key], "v": [1, d_attn]}
    expect(sorted(found.items())).equals(
        sorted((f"{name}.weight", shape) for name, shape in expected.items())
    )


@clause(ATTENTION, 2)
@pytest.mark.parametrize("d_query, d_key", [(4, 4), (7, 2), (1, 5), (6, 1)])
def test_weights_of_other_sizes(subject, draw, reference, d_query, d_key):
    """The weights are right, whatever the widths"""
    call = _look(subject, draw, d_query=d_query, d_key=d_key, d_attn=d_key)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(ATTENTION, 2)
def test_weights_in_float32(subject, draw, reference):
    """The weights are right in float32, and with arguments by name"""
    attention = _attention(subject, draw, dtype=torch.float32)
    query, keys = draw.tensor(3, 5).float(), draw.tensor(3, 4, 6).float()
    call = attention.on(query=query, keys=keys, mask=None)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(ATTENTION, 2)
def test_order_of_keys(subject, draw):
    """Keys in another order get the same weights in that order"""
    call = _look(subject, draw, seq=6)
    properties.permutes_alike(call, draw, {"keys": [1]}, [[], [1]])


@clause(ATTENTION, 2)
def test_equal_keys(subject, draw):
    """Equal keys get equal weights"""
    call = _look(subject, draw, seq=5)
    keys = call["keys"].clone()
    keys[:, 3] = keys[:, 1]
    _, weights = call.but(keys=keys)()
    expect(weights[:, 3]).equals(weights[:, 1])


@clause(ATTENTION, 3)
@SIZES
def test_context_of_other_sizes(subject, draw, d_query, d_key, d_attn):
    """The context is the weighted sum of the keys, whatever the widths"""
    call = _look(subject, draw, d_query=d_query, d_key=d_key, d_attn=d_attn)
    context, weights = call()
    expect(context).equals((weights[:, :, None] * call["keys"]).sum(1))


@clause(ATTENTION, 3)
def test_context_of_many_sentences(subject, draw):
    """The context is the weighted sum of the sentence's own keys, with as many keys as sentences"""
    call = _look(subject, draw, batch=5, seq=5)
    context, weights = call()
    expect(context).equals((weights[:, :, None] * call["keys"]).sum(1))


@clause(ATTENTION, 4)
@pytest.mark.parametrize("batch, seq", [(4, 5), (5, 5), (2, 7)])
def test_masks_of_other_sizes(subject, draw, batch, seq):
    """Hidden keys get weight 0 and the visible ones share out 1, whatever the sizes"""
    call, mask = _look(subject, draw, batch, seq), draw.mask(batch, seq)
    visible = call()[1] * mask
    expect(call.but(mask=mask)()[1]).equals(visible / visible.sum(-1, keepdim=True))


@clause(ATTENTION, 4)
def test_mask_in_float32(subject, draw):
    """Hidden keys get weight 0 in float32 too, even where they would get the most"""
    attention = _attention(subject, draw, dtype=torch.float32)
    attention.load({"v.weight": 9 * draw.tensor(1, 6).float()})
    mask = draw.mask(3, 5)
    query, keys = draw.tensor(3, 5).float(), 3 * draw.tensor(3, 5, 6).float()
    expect(attention(query, keys, mask)[1], where=~mask).equals(0)


@clause(ATTENTION, 4)
def test_mask_of_all_true(subject, draw):
    """A mask that hides nothing changes nothing"""
    call = _look(subject, draw)
    for found, expected in zip(call.but(mask=torch.ones(3, 4, dtype=torch.bool))(), call()):
        expect(found).equals(expected)


@clause(ATTENTION, 4)
def test_more_padding(subject, draw):
    """Two more keys that are hidden leave weights and context as they were"""
    call, mask = _look(subject, draw), draw.mask(3, 4)
    context, weights = call.but(mask=mask)()
    keys = torch.cat([call["keys"], draw.tensor(3, 2, 6)], dim=1)
    longer = call.but(keys=keys, mask=torch.nn.functional.pad(mask, (0, 2)))
    found_context, found_weights = longer()
    expect(found_context).equals(context)
    expect(found_weights[:, :4]).equals(weights)


@clause(ATTENTION, 5)
def test_nothing_to_see_at_all(subject, draw):
    """Where no sentence sees a key, all is finite, in float32 too"""
    attention = _attention(subject, draw, dtype=torch.float32)
    query, keys = draw.tensor(3, 5).float(), draw.tensor(3, 4, 6).float()
    for found in attention(query, keys, torch.zeros(3, 4, dtype=torch.bool)):
        expect(found).is_finite()


@clause(ATTENTION, 6)
@pytest.mark.parametrize("batch, seq", [(2, 2), (7, 7), (1, 7), (2, 1)])
def test_other_sizes_alone(subject, draw, batch, seq):
    """A sentence alone gets what it gets in a batch, whatever the sizes"""
    call = _look(subject, draw, batch, seq, draw.mask(batch, seq))
    properties.alone_as_in_batch(call, "query", "keys", "mask")


@clause(ATTENTION, 6)
def test_other_sentences_do_not_matter(subject, draw):
    """Another sentence's keys and query move nothing of this one"""
    call = _look(subject, draw, batch=4, seq=4)
    second = torch.tensor([False, True, False, False])
    others = ~second[:, None]
    properties.unmoved_by(call, draw, "keys", second[:, None, None], [others, others])
    properties.unmoved_by(call, draw, "query", second[:, None], [others, others])


@clause(ATTENTION, 6)
def test_attention_twice(subject, draw):
    """The same call gives the same results twice"""
    properties.repeats(_look(subject, draw))


@clause(ATTENTION, 7)
def test_attention_gradients_fit(subject, draw):
    """The gradients say how the results move when query and keys move"""
    properties.gradient_fits(subject, _look(subject, draw), draw, "query", "keys")


@clause(ATTENTION, 7)
def test_attention_gradients_with_a_mask(subject, draw):
    """With a mask, too, the gradients say how the results move"""
    call = _look(subject, draw, mask=draw.mask(3, 4))
    properties.gradient_fits(subject, call, draw, "query", "keys")


@clause(ATTENTION, 7)
def test_attention_layout(subject, draw):
    """Query and keys that are not contiguous give the same results"""
    properties.layout_does_not_matter(_look(subject, draw), "query", "keys")


# AttentionDecoder


def _step(subject, draw, sizes=(9, 4, 5, 6), batch=3, seq=4, **scales):
    decoder = subject.additive.AttentionDecoder(*sizes)
    state = {name: 0.6 * value for name, value in draw.weights(decoder).items()}
    for part, scale in scales.items():
        state |= {name: scale * value for name, value in state.items() if f"{part}." in name}
    vocab_size, _, d_hidden, _ = sizes
    tokens, s_prev = draw.integers(0, vocab_size, batch), draw.tensor(batch, d_hidden)
    return decoder.load(state).on(tokens, s_prev, draw.tensor(batch, seq, d_hidden))


OTHERS = pytest.mark.parametrize(
    ("sizes", "batch", "seq"),
    [((4, 4, 4, 4), 4, 4), ((8, 2, 6, 3), 1, 5), ((5, 7, 3, 8), 2, 1)],
    ids=str,
)


@clause(DECODER, 1)
@pytest.mark.parametrize("sizes", [(4, 4, 4, 4), (8, 2, 6, 3), (5, 7, 3, 8)], ids=str)
def test_decoder_of_other_sizes(subject, draw, sizes):
    """attention and decoder have the sizes that the constructor was told"""
    decoder = subject.additive.AttentionDecoder(*sizes)
    state = draw.weights(decoder)
    decoder.load(state)
    expect(decoder.get("attention.w_key.weight")).equals(state["attention.w_key.weight"])


@clause(DECODER, 2)
@OTHERS
def test_query_of_other_sizes(subject, draw, reference, sizes, batch, seq):
    """The weights are those that s_prev gets from the states, whatever the sizes"""
    call = _step(subject, draw, sizes, batch, seq)
    expect(call()[2]).equals(reference.call(call)[2])


@clause(DECODER, 3)
@OTHERS
def test_step_of_other_sizes(subject, draw, reference, sizes, batch, seq):
    """The attention's context goes into the decoder's step, whatever the sizes"""
    call = _step(subject, draw, sizes, batch, seq, v=0.0)
    for found, expected in zip(call()[:2], reference.call(call)[:2]):
        expect(found).equals(expected)


@clause(DECODER, 3)
def test_equal_states(subject, draw, reference):
    """Where all states are one, the step reads that one, whoever asks"""
    call = _step(subject, draw)
    alike = call.but(states=draw.tensor(3, 1, 5).expand(3, 4, 5).clone())
    for found, expected in zip(alike()[:2], reference.call(alike)[:2]):
        expect(found).equals(expected)


@clause(DECODER, 4)
def test_longer_sources(subject, draw):
    """More padding behind the source, hidden by the mask, changes nothing"""
    call, mask = _step(subject, draw), draw.mask(3, 4)
    before = call.but(mask=mask)()
    states = torch.cat([call["states"], draw.tensor(3, 3, 5)], dim=1)
    after = call.but(states=states, mask=torch.nn.functional.pad(mask, (0, 3)))()
    for found, expected in zip((after[0], after[1], after[2][:, :4]), before):
        expect(found).equals(expected)


@clause(DECODER, 5)
def test_sentence_of_its_own(subject, draw):
    """A sentence alone is written as in a batch, with as many sentences as states"""
    call = _step(subject, draw, batch=4, seq=4)
    properties.alone_as_in_batch(call, "y_prev", "s_prev", "states")


@clause(DECODER, 5)
def test_other_sources(subject, draw):
    """What was looked at before plays no part, in a batch of another size or in this"""
    call = _step(subject, draw)
    before = call()
    decoder = call.function
    decoder(draw.integers(0, 9, 3), draw.tensor(3, 5), draw.tensor(3, 4, 5))
    decoder(draw.integers(0, 9, 2), draw.tensor(2, 5), draw.tensor(2, 6, 5))
    for found, expected in zip(call(), before):
        expect(found).equals(expected)


@clause(DECODER, 6)
def test_decoder_gradients_fit(subject, draw):
    """The gradients say how the results move when s_prev and the states move"""
    properties.gradient_fits(subject, _step(subject, draw), draw, "s_prev", "states")
