"""Further checks of the unit `seq2seq`: other sizes, other lengths, decoders of other kinds."""

import pytest
import torch

from grader.judge import clause, expect, properties

STEP = "seq2seq.rnn_step"
ENCODER = "seq2seq.RNNEncoder"
DECODER = "seq2seq.RNNDecoder"
GREEDY = "seq2seq.greedy_decode"


# rnn_step


def _step(subject, draw, batch=3, d_in=4, d_hidden=5, dtype=torch.float64):
    shapes = (batch, d_in), (batch, d_hidden), (d_in, d_hidden), (d_hidden, d_hidden), (d_hidden,)
    arguments = (draw.tensor(*shape, scale=0.7, dtype=dtype) for shape in shapes)
    return subject.seq2seq.rnn_step.on(*arguments)


@clause(STEP, 1)
@pytest.mark.parametrize("batch, d_in, d_hidden", [(1, 6, 2), (4, 1, 3), (5, 3, 1), (3, 3, 3)])
def test_step_of_other_sizes(subject, draw, reference, batch, d_in, d_hidden):
    """The formula holds for any sizes, also where all are alike"""
    call = _step(subject, draw, batch, d_in, d_hidden)
    expect(call()).equals(reference.call(call))


@clause(STEP, 1)
def test_step_in_float32(subject, draw, reference):
    """The formula holds in float32"""
    call = _step(subject, draw, dtype=torch.float32)
    expect(call()).equals(reference.call(call))


@clause(STEP, 1)
def test_step_layout(subject, draw):
    """Arguments that are not contiguous give the same state"""
    properties.layout_does_not_matter(_step(subject, draw), "x_t", "h_prev", "w_xh", "w_hh")


@clause(STEP, 2)
def test_step_batch_as_wide_as_the_state(subject, draw):
    """A sentence alone gets the same, also where there are as many sentences as numbers"""
    properties.alone_as_in_batch(_step(subject, draw, 4, 4, 4), "x_t", "h_prev")


@clause(STEP, 3)
def test_step_gradients_of_one_sentence(subject, draw):
    """The gradients are right for a batch of one"""
    names = "x_t", "h_prev", "w_xh", "w_hh", "b"
    properties.gradient_fits(subject, _step(subject, draw, batch=1), draw, *names)


# RNNEncoder


def _encoder(subject, draw, sizes=(11, 4, 6)):
    encoder = subject.seq2seq.RNNEncoder(*sizes)
    weights = draw.weights(encoder).items()
    return encoder.load({name: 0.5 * value.float() for name, value in weights})


@clause(ENCODER, 1)
@pytest.mark.parametrize("sizes", [(3, 5, 5), (8, 2, 7)], ids=str)
def test_encoder_of_other_sizes(subject, draw, sizes):
    """embedding and cell have the sizes that the constructor was told"""
    encoder = subject.seq2seq.RNNEncoder(*sizes)
    encoder.load(draw.weights(encoder))
    expect(len(encoder.describe()["trained"])).equals(5)


@clause(ENCODER, 2)
@pytest.mark.parametrize("batch, seq", [(1, 5), (5, 1), (4, 4), (2, 9)])
def test_states_of_other_sizes(subject, draw, reference, batch, seq):
    """The states are right for one sentence, one token, or as many of each"""
    call = _encoder(subject, draw, (11, 5, 3)).on(draw.integers(0, 11, batch, seq))
    expect(call()[0]).equals(reference.call(call)[0])


@clause(ENCODER, 2)
def test_beginnings(subject, draw):
    """The states of a sentence's beginning are those of the beginning alone"""
    encoder, tokens = _encoder(subject, draw), draw.integers(0, 11, 3, 7)
    states, _ = encoder(tokens)
    expect(encoder(tokens[:, :4])[0]).equals(states[:, :4])


@clause(ENCODER, 2)
def test_token_0_is_a_token(subject, draw, reference):
    """Token 0 is read like any other"""
    tokens = draw.integers(1, 11, 3, 5)
    tokens[0, 0] = tokens[1, 2] = tokens[2, 4] = 0
    call = _encoder(subject, draw).on(tokens, torch.tensor([5, 5, 5]))
    expect(call()[0]).equals(reference.call(call)[0])


@clause(ENCODER, 3)
@pytest.mark.parametrize("batch, seq", [(1, 4), (3, 1), (3, 3)])
def test_context_of_other_sizes(subject, draw, batch, seq):
    """Without lengths, the context is the last state, whatever the sizes"""
    states, context = _encoder(subject, draw)(draw.integers(0, 11, batch, seq))
    expect(context).equals(states[:, -1])


@clause(ENCODER, 3)
def test_context_of_padding_tokens(subject, draw):
    """Without lengths, every token counts, also a 0 at the end"""
    tokens = draw.integers(1, 11, 3, 5)
    tokens[:2, 3:] = 0
    states, context = _encoder(subject, draw)(tokens)
    expect(context).equals(states[:, -1])


LENGTHS = {
    "shortest first": [1, 2, 4],
    "longest first": [5, 4, 2],
    "in no order": [2, 5, 3],
    "all alike": [3, 3, 3],
    "all full": [5, 5, 5],
    "all 1": [1, 1, 1],
    "one sentence": [4],
}


@clause(ENCODER, 4)
@pytest.mark.parametrize("name", LENGTHS)
def test_other_lengths(subject, draw, name):
    """Each sentence has the context that it has without its padding, for any lengths"""
    encoder, lengths = _encoder(subject, draw), LENGTHS[name]
    tokens = draw.integers(0, 11, len(lengths), 5)
    _, context = encoder(tokens, torch.tensor(lengths))
    alone = [encoder(tokens[i : i + 1, :n])[0][:, -1] for i, n in enumerate(lengths)]
    expect(context).equals(torch.cat(alone))


@clause(ENCODER, 4)
def test_padding_leaves_the_context(subject, draw):
    """More padding, of other tokens, does not move the context"""
    encoder, tokens, lengths = _encoder(subject, draw), draw.integers(0, 11, 3, 5), [2, 4, 3]
    real = torch.arange(5) < torch.tensor(lengths)[:, None]
    _, context = encoder(tokens, torch.tensor(lengths))
    padding = draw.integers(0, 11, 3, 8)
    longer = torch.cat([torch.where(real, tokens, padding[:, :5]), padding[:, 5:]], dim=1)
    expect(encoder(longer, torch.tensor(lengths))[1]).equals(context)


@clause(ENCODER, 5)
def test_order_of_sentences(subject, draw):
    """Sentences in another order have their own states and contexts, in that order"""
    encoder, tokens = _encoder(subject, draw), draw.integers(0, 11, 5, 6)
    states, context = encoder(tokens)
    order = draw.order(5)
    moved_states, moved_context = encoder(tokens[order])
    expect(moved_states).equals(states[order])
    expect(moved_context).equals(context[order])


@clause(ENCODER, 5)
def test_encoder_forgets_other_batches(subject, draw):
    """What was read before, in a batch of another size, plays no part"""
    encoder, tokens = _encoder(subject, draw), draw.integers(0, 11, 3, 5)
    states, _ = encoder(tokens)
    encoder(draw.integers(0, 11, 3, 5))
    encoder(draw.integers(0, 11, 2, 4))
    expect(encoder(tokens)[0]).equals(states)


@clause(ENCODER, 6)
def test_encoder_on_accelerator_without_lengths(subject, draw):
    """On an accelerator, all that forward makes is there too, without lengths as well"""
    encoder = subject.seq2seq.RNNEncoder(11, 4, 6)
    subject.on_accelerator(encoder.on(draw.integers(0, 11, 4, 7)))


@clause(ENCODER, 7)
def test_gradient_through_a_padded_context(subject, draw):
    """With lengths too, the context's gradient reaches the first token"""
    tokens = torch.stack([1 + draw.order(10)[:5] for _ in range(3)])  # no token twice in a sentence
    call = _encoder(subject, draw).on(tokens, torch.tensor([3, 5, 4]))
    for sentence in range(3):
        cotangent = torch.zeros(3, 6)
        cotangent[sentence] = draw.tensor(6).float()
        gradient = subject.vjp(call, [None, cotangent], wrt=["embedding.weight"])
        first = gradient["embedding.weight"][tokens[sentence, 0]]
        expect(first).differs_from(torch.zeros_like(first))


@clause(ENCODER, 7)
def test_every_token_of_the_encoder_is_trained(subject, draw):
    """Every token's row of embedding is trained, that of token 0 too"""
    call, cotangent = _encoder(subject, draw).on(draw.order(11)[None]), draw.tensor(1, 11, 6)
    rows = subject.vjp(call, [cotangent.float(), None], wrt=["embedding.weight"])
    for row in rows["embedding.weight"]:
        expect(row).differs_from(torch.zeros_like(row))


# RNNDecoder


def _decoder(subject, draw, sizes=(7, 4, 5)):
    decoder = subject.seq2seq.RNNDecoder(*sizes)
    state = {name: 0.5 * value for name, value in draw.weights(decoder).items()}
    return decoder.load(state), state


def _step_of(subject, draw, sizes=(7, 4, 5), batch=3):
    decoder, _ = _decoder(subject, draw, sizes)
    vocab_size, _, d_hidden = sizes
    state, context = draw.tensor(batch, d_hidden), draw.tensor(batch, d_hidden)
    return decoder.on(draw.integers(0, vocab_size, batch), state, context)


SIZES = pytest.mark.parametrize(
    ("sizes", "batch"), [((3, 5, 5), 2), ((9, 2, 6), 1), ((4, 4, 4), 4)], ids=str
)


@clause(DECODER, 1)
@SIZES
def test_decoder_of_other_sizes(subject, draw, sizes, batch):
    """embedding, cell and out have the sizes that the constructor was told"""
    decoder, _ = _decoder(subject, draw, sizes)
    expect(len(decoder.describe()["trained"])).equals(7)


@clause(DECODER, 2)
@SIZES
def test_decoder_state_of_other_sizes(subject, draw, reference, sizes, batch):
    """s_t is the cell's, whatever the sizes"""
    call = _step_of(subject, draw, sizes, batch)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(DECODER, 2)
def test_decoder_in_float32(subject, draw, reference):
    """s_t is the cell's, in float32 too, and with arguments by name"""
    decoder, _ = _decoder(subject, draw)
    decoder.to(torch.float32)
    s_prev, context = draw.tensor(3, 5).float(), draw.tensor(3, 5).float()
    call = decoder.on(y_prev=draw.integers(0, 7, 3), s_prev=s_prev, context=context)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(DECODER, 3)
@SIZES
def test_logits_of_other_sizes(subject, draw, sizes, batch):
    """The logits are out(s_t), whatever the sizes"""
    decoder, state = _decoder(subject, draw, sizes)
    vocab_size, _, d_hidden = sizes
    tokens = draw.integers(0, vocab_size, batch)
    logits, s_t = decoder(tokens, draw.tensor(batch, d_hidden), draw.tensor(batch, d_hidden))
    expect(logits).equals(s_t @ state["out.weight"].T + state["out.bias"])


@clause(DECODER, 4)
def test_decoder_forgets_other_batches(subject, draw):
    """What was written before, in a batch of another size, plays no part"""
    decoder, _ = _decoder(subject, draw)
    call = decoder.on(draw.integers(0, 7, 3), draw.tensor(3, 5), draw.tensor(3, 5))
    before = call()
    decoder(draw.integers(0, 7, 2), draw.tensor(2, 5), draw.tensor(2, 5))
    for found, expected in zip(call(), before):
        expect(found).equals(expected)


@clause(DECODER, 5)
def test_decoder_gradients_fit(subject, draw):
    """The gradients for s_prev and the context say how the results move when they move"""
    properties.gradient_fits(subject, _step_of(subject, draw), draw, "s_prev", "context")


@clause(DECODER, 5)
def test_every_token_of_the_decoder_is_trained(subject, draw):
    """Every token's row of embedding is trained, that of token 0 too"""
    decoder, _ = _decoder(subject, draw)
    call = decoder.on(draw.order(7), draw.tensor(7, 5), draw.tensor(7, 5))
    rows = subject.vjp(call, [draw.tensor(7, 7), None], wrt=["embedding.weight"])
    for row in rows["embedding.weight"]:
        expect(row).differs_from(torch.zeros_like(row))


# greedy_decode. A sentence is told by the first number of its context; a state's last number is 0
# before the first step alone, and there a decoder takes what it is meant to be given, since what it
# is given is clause 1.

BOS = 1


def _hold(y_prev, s_prev, context):
    """What any decoder asks of its arguments."""
    if y_prev.shape != context.shape[:1] or y_prev.dtype != torch.int64:
        found = f"{str(y_prev.dtype)[6:]} {list(y_prev.shape)}"
        raise ValueError(f"the decoder's y_prev should be int64 [batch]; it is {found}")
    if s_prev is None or s_prev.shape != context.shape:
        found = s_prev if s_prev is None else list(s_prev.shape)
        raise ValueError(f"the decoder's s_prev should be [batch, d_hidden]; it is {found}")


def _by_step(table):
    """A decoder whose logits are table[sentence, step], and whose state counts the steps."""

    def decoder(y_prev, s_prev, context):
        state = context if s_prev is None else s_prev
        _hold(y_prev, state, context)
        step = state[:, 1].long().clamp(0, table.size(1) - 1)
        return table[context[:, 0].long(), step], state + torch.tensor([0.0, 1.0])

    return decoder


def _table(draw, ends, steps, vocab_size=8, eos_id=2):
    """Logits [batch, steps, vocab_size]: sentence i has its first eos_id at step ends[i]."""
    table = draw.tensor(len(ends), steps, vocab_size)
    table[..., [BOS, eos_id]] = -9
    table[..., [BOS, eos_id]] = table.amax(-1, keepdim=True) - 0.5
    for sentence, end in enumerate(ends):
        table[sentence, end : end + 1, eos_id] = 9
    return table


def _context(batch):
    return torch.stack([torch.arange(batch).double(), torch.zeros(batch).double()], dim=1)


def _rnn(draw, eos=2.0, vocab_size=7, d_embed=4, d_hidden=5):
    """A recurrent decoder with drawn weights, in which all that it is given matters.

    `eos` is the bias of token 2: how soon sentences end.
    """
    embedding, bias = draw.tensor(vocab_size, d_embed), draw.tensor(vocab_size)
    read, kept = draw.tensor(d_embed + d_hidden, d_hidden), draw.tensor(d_hidden, d_hidden)
    out = 3 * draw.tensor(d_hidden, vocab_size)
    bias[BOS], bias[2] = -99, eos
    kept[:, -1] = read[:, -1] = 0

    def decoder(y_prev, s_prev, context):
        state = context if s_prev is None else s_prev
        _hold(y_prev, state, context)
        first = state[:, -1:] == 0
        token = torch.where(first[:, 0], BOS, y_prev)
        x = torch.cat([embedding[token], context], dim=-1)
        state = torch.tanh(x @ read + torch.where(first, context, state) @ kept)
        state[:, -1] = 1
        return state @ out + bias, state

    return decoder


def _of_sentences(draw, batch):
    """[batch, 5], before the first step."""
    context = draw.tensor(batch, 5)
    context[:, -1] = 0
    return context


def _decode(subject, decoder, context, eos_id=2, max_len=6, bos_id=BOS):
    """What is written. A bos_id before it costs the clause that says so, and no other."""
    found = subject.seq2seq.greedy_decode(decoder, context, bos_id, eos_id, max_len)
    return found[:, 1:] if found.size(1) > 1 and (found[:, 0] == bos_id).all() else found


def _begins(found, expected, least=1):
    """Both begin alike: how many steps there are is clause 5."""
    steps = max(least, min(found.size(1), expected.size(1)))
    expect(found[:, :steps]).equals(expected[:, :steps])


def _has_steps(found, steps):
    """There are so many steps, whatever was written."""
    expect(found).equals(torch.nn.functional.pad(found, (0, steps - found.size(1))))


@clause(GREEDY, 1)
@pytest.mark.parametrize("bos_id, eos_id", [(0, 3), (5, 0), (4, 4)])
def test_other_first_tokens(subject, draw, bos_id, eos_id):
    """The first step reads bos_id, whatever its number, also where it is eos_id"""
    table = draw.tensor(3, 6, 6)
    table[..., [bos_id, eos_id]] = -9

    def decoder(y_prev, s_prev, context):
        _hold(y_prev, context, context)
        return table[context[:, 0].long(), y_prev], context

    found = _decode(subject, decoder, _context(3), eos_id, 1, bos_id)
    _begins(found, table[:, bos_id].argmax(-1)[:, None])


@clause(GREEDY, 2)
@pytest.mark.parametrize("batch", [1, 5])
def test_recurrent_decoder(subject, draw, reference, batch):
    """A recurrent decoder writes what it finds likeliest, step after step"""
    decoder, context = _rnn(draw, eos=-99.0), _of_sentences(draw, batch)
    call = subject.seq2seq.greedy_decode.on(decoder, context, BOS, 2, 6)
    _begins(_decode(subject, decoder, context), reference.call(call), least=2)


@clause(GREEDY, 2)
def test_logits_of_any_size(subject, draw):
    """Logits may be negative, huge or tiny: the largest counts"""
    table = _table(draw, [9, 9, 9], 6) - 20
    table *= torch.tensor([1e-3, 1, 1e4]).double()[:, None, None]
    table[..., [BOS, 2]] = -1e9
    _begins(_decode(subject, _by_step(table), _context(3)), table.argmax(-1), least=2)


@clause(GREEDY, 3)
@pytest.mark.parametrize("eos_id", [0, 7])
@pytest.mark.parametrize("ends", [(0, 0, 0), (4, 2, 0), (1, 1, 4)], ids=str)
def test_other_ends(subject, draw, ends, eos_id):
    """After a sentence's eos_id, there is no other token, whatever the number of eos_id"""
    table = _table(draw, ends, 6, eos_id=eos_id)
    going = torch.arange(6) <= torch.tensor(ends)[:, None]
    found = _decode(subject, _by_step(table), _context(3), eos_id)
    _begins(found, torch.where(going, table.argmax(-1), eos_id))


@clause(GREEDY, 3)
def test_two_ends(subject, draw):
    """A decoder that says eos_id again later changes nothing"""
    table = _table(draw, [1, 4, 2], 6)
    table[0, 3, 2] = table[2, 5, 2] = 9
    going = torch.arange(6) <= torch.tensor([1, 4, 2])[:, None]
    found = _decode(subject, _by_step(table), _context(3))
    _begins(found, torch.where(going, table.argmax(-1), 2))


@clause(GREEDY, 4)
def test_sentence_as_alone(subject, draw):
    """A sentence among others is what it is alone, up to its end"""
    decoder, context = _by_step(_table(draw, [3, 0, 5, 1], 6)), _context(4)
    found = _decode(subject, decoder, context)
    for i, end in enumerate([3, 0, 5, 1]):
        alone = _decode(subject, decoder, context[i : i + 1])
        expect(found[i : i + 1, :end]).equals(alone[:, :end])


@clause(GREEDY, 4)
def test_others_go_on_in_a_recurrent_decoder(subject, draw, reference):
    """Each sentence goes on by its own state, though others have ended"""
    decoder, context = _rnn(draw), _of_sentences(draw, 6)
    expected = reference.call(subject.seq2seq.greedy_decode.on(decoder, context, BOS, 2, 8))
    going = expected != 2
    found = _decode(subject, decoder, context, max_len=8)
    longest = min(int(going.any(0).sum()), 6)
    expect(found[:, :longest], where=going[:, :longest]).equals(expected[:, :longest])


@clause(GREEDY, 5)
@pytest.mark.parametrize("max_len", [1, 2, 11])
def test_at_most(subject, draw, max_len):
    """There are never more than max_len tokens, and no fewer where a sentence goes on"""
    decoder = _by_step(_table(draw, [99, 99, 99], 11))
    _has_steps(_decode(subject, decoder, _context(3), max_len=max_len), max_len)


@clause(GREEDY, 5)
def test_end_at_the_last_step(subject, draw):
    """An eos_id at the very last step is written"""
    decoder = _by_step(_table(draw, [3, 3], 9))
    _has_steps(_decode(subject, decoder, _context(2), max_len=4), 4)


@clause(GREEDY, 6)
def test_decoding_of_ends_on_accelerator(subject, draw):
    """On an accelerator, ends are found there too"""
    decoder = _by_step(_table(draw, [0, 2, 1], 5))
    subject.on_accelerator(subject.seq2seq.greedy_decode.on(decoder, _context(3), BOS, 2, 5))
