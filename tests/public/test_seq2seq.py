"""Checks of the unit `seq2seq`.

The encoder is judged in float32: it makes its first state itself, and no clause says of which
dtype. The decoders that `greedy_decode` drives are made here, from tables.
"""

import pytest
import torch

from grader.judge import clause, expect, properties

STEP = "seq2seq.rnn_step"
ENCODER = "seq2seq.RNNEncoder"
DECODER = "seq2seq.RNNDecoder"
GREEDY = "seq2seq.greedy_decode"


# rnn_step


def _step(subject, draw, batch=3, d_in=4, d_hidden=5):
    shapes = (batch, d_in), (batch, d_hidden), (d_in, d_hidden), (d_hidden, d_hidden), (d_hidden,)
    return subject.seq2seq.rnn_step.on(*(draw.tensor(*shape, scale=0.7) for shape in shapes))


@clause(STEP, 1)
def test_step(subject, draw, reference):
    """The new state is tanh(x_t @ w_xh + h_prev @ w_hh + b)"""
    call = _step(subject, draw)
    expect(call()).equals(reference.call(call))


@clause(STEP, 1)
def test_steps_in_a_row(subject, draw, reference):
    """Step after step, the state carries on what was read"""
    call = _step(subject, draw)
    for _ in range(4):
        state = reference.call(call)  # no one else's goes on: its bits are those of the recording
        expect(call()).equals(state)
        call = call.but(h_prev=state, x_t=draw.tensor(3, 4))


@clause(STEP, 2)
def test_step_of_one_sentence(subject, draw):
    """A sentence alone gets the state that it gets in a batch"""
    properties.alone_as_in_batch(_step(subject, draw), "x_t", "h_prev")


@clause(STEP, 3)
def test_step_gradients(subject, draw):
    """The gradients for all five say how the state moves when they move"""
    properties.gradient_fits(
        subject, _step(subject, draw), draw, "x_t", "h_prev", "w_xh", "w_hh", "b"
    )


@clause(STEP, 4)
def test_step_leaves_arguments_alone(subject, draw):
    """None of the five arguments is changed"""
    properties.leaves_inputs_alone(subject, _step(subject, draw))


# RNNEncoder


def _encoder(subject, draw):
    """An encoder of 11 tokens, d_embed 4, d_hidden 6."""
    encoder = subject.seq2seq.RNNEncoder(11, 4, 6)
    weights = draw.weights(encoder).items()
    return encoder.load({name: 0.5 * value.float() for name, value in weights})


LENGTHS = torch.tensor([3, 5, 1, 2])  # in no order, and the longest is shorter than seq
REAL = torch.arange(7) < LENGTHS[:, None]


@clause(ENCODER, 1)
def test_encoder_is_made_of(subject, draw):
    """embedding is nn.Embedding, cell is nn.RNNCell, each of its size"""
    encoder = subject.seq2seq.RNNEncoder(11, 4, 6)
    state = draw.weights(encoder)
    encoder.load(state)
    for name, value in state.items():
        expect(encoder.get(name)).equals(value)


@clause(ENCODER, 1)
def test_encoder_trains_nothing_else(subject):
    """Trained are the weights of embedding and cell, and no others"""
    made_of = subject.seq2seq.RNNEncoder(11, 4, 6).describe()
    expect(sorted(made_of["trained"])).equals(
        ["cell.bias_hh", "cell.bias_ih", "cell.weight_hh", "cell.weight_ih", "embedding.weight"]
    )


@clause(ENCODER, 2)
def test_states(subject, draw, reference):
    """From a state of 0, the cell reads one token after the other"""
    call = _encoder(subject, draw).on(draw.integers(0, 11, 4, 7))
    expect(call()[0]).equals(reference.call(call)[0])


@clause(ENCODER, 2)
def test_states_of_real_tokens(subject, draw, reference):
    """With lengths too, the states of real tokens are those"""
    call = _encoder(subject, draw).on(draw.integers(0, 11, 4, 7), LENGTHS)
    expect(call()[0], where=REAL[..., None]).equals(reference.call(call)[0])


@clause(ENCODER, 2)
def test_states_know_what_came_before(subject, draw):
    """Another token moves the states from there on, and none before it"""
    encoder, tokens = _encoder(subject, draw), draw.integers(0, 11, 4, 7)
    other = tokens.clone()
    other[:, 2] = (tokens[:, 2] + 1) % 11
    before, after = encoder(tokens)[0], encoder(other)[0]
    expect(after[:, :2]).equals(before[:, :2])
    for t in range(2, 5):
        expect(after[:, t]).differs_from(before[:, t])


@clause(ENCODER, 3)
def test_context_without_lengths(subject, draw):
    """Without lengths, the context is the last state"""
    states, context = _encoder(subject, draw)(draw.integers(0, 11, 4, 7))
    expect(context).equals(states[:, -1])


@clause(ENCODER, 4)
def test_context_with_lengths(subject, draw):
    """With lengths, the context is the state at each sentence's last real token"""
    states, context = _encoder(subject, draw)(draw.integers(0, 11, 4, 7), LENGTHS)
    expect(context).equals(states[torch.arange(4), LENGTHS - 1])


@clause(ENCODER, 4)
def test_context_without_padding(subject, draw):
    """A padded sentence has the context that it has without its padding"""
    encoder, tokens = _encoder(subject, draw), draw.integers(0, 11, 4, 7)
    _, context = encoder(tokens, lengths=LENGTHS)
    alone = [encoder(tokens[i : i + 1, :n])[0][:, -1] for i, n in enumerate(LENGTHS.tolist())]
    expect(context).equals(torch.cat(alone))


@clause(ENCODER, 5)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["without lengths", "with lengths"])
def test_sentence_alone(subject, draw, lengths):
    """A sentence alone has the states that it has in a batch"""
    encoder, tokens = _encoder(subject, draw), draw.integers(0, 11, 4, 7)
    given = () if lengths is None else (lengths,)
    states, _ = encoder(tokens, *given)
    for i in range(4):
        alone, _ = encoder(tokens[i : i + 1], *(n[i : i + 1] for n in given))
        real = None if lengths is None else REAL[i : i + 1, :, None]
        expect(alone, where=real).equals(states[i : i + 1])


@clause(ENCODER, 5)
def test_more_padding(subject, draw):
    """More padding, of other tokens, moves no state of a real token"""
    encoder, tokens = _encoder(subject, draw), draw.integers(0, 11, 4, 7)
    states, _ = encoder(tokens, LENGTHS)
    padding = draw.integers(0, 11, 4, 9)
    longer = torch.cat([torch.where(REAL, tokens, padding[:, :7]), padding[:, 7:]], dim=1)
    found, _ = encoder(longer, LENGTHS)
    expect(found[:, :7], where=REAL[..., None]).equals(states)


@clause(ENCODER, 5)
def test_encoder_forgets_earlier_calls(subject, draw):
    """The same sentences give the same states a second time"""
    properties.repeats(_encoder(subject, draw).on(draw.integers(0, 11, 4, 7)))


@clause(ENCODER, 6)
def test_encoder_on_accelerator(subject, draw):
    """On an accelerator, all that forward makes is there too"""
    encoder = subject.seq2seq.RNNEncoder(11, 4, 6)
    subject.on_accelerator(encoder.on(draw.integers(0, 11, 4, 7), LENGTHS))


@clause(ENCODER, 7)
def test_gradients_through_the_context(subject, draw):
    """The context's gradient reaches embedding, cell, and the first token"""
    tokens = torch.stack([1 + draw.order(10)[:7] for _ in range(4)])  # no token twice in a sentence
    call, cotangent = _encoder(subject, draw).on(tokens), draw.tensor(4, 6).float()
    names = ["embedding.weight", "cell.weight_ih", "cell.weight_hh", "cell.bias_hh"]
    gradients = subject.vjp(call, [None, cotangent], wrt=names)
    firsts = gradients["embedding.weight"][tokens[:, 0]]
    expect(firsts).differs_from(torch.zeros_like(firsts))


@clause(ENCODER, 7)
def test_gradients_through_the_states(subject, draw):
    """The states' gradient reaches embedding and cell"""
    call = _encoder(subject, draw).on(draw.integers(0, 11, 4, 7))
    names = ["embedding.weight", "cell.weight_ih", "cell.weight_hh", "cell.bias_ih"]
    subject.vjp(call, [draw.tensor(4, 7, 6).float(), None], wrt=names)


@clause(ENCODER, 7)
def test_encoder_leaves_arguments_alone(subject, draw):
    """tokens and lengths are the same after the call as before"""
    call = _encoder(subject, draw).on(draw.integers(0, 11, 4, 7), LENGTHS)
    properties.leaves_inputs_alone(subject, call)


# RNNDecoder


def _decoder(subject, draw):
    """A decoder of 7 tokens, d_embed 4, d_hidden 5, and its weights."""
    decoder = subject.seq2seq.RNNDecoder(7, 4, 5)
    state = {name: 0.5 * value for name, value in draw.weights(decoder).items()}
    return decoder.load(state), state


def _step_of(subject, draw):
    decoder, _ = _decoder(subject, draw)
    return decoder.on(draw.integers(0, 7, 3), draw.tensor(3, 5), draw.tensor(3, 5))


@clause(DECODER, 1)
def test_decoder_is_made_of(subject, draw):
    """embedding, cell and out are nn.Embedding, nn.RNNCell and nn.Linear, each of its size"""
    decoder, state = _decoder(subject, draw)
    for name, value in state.items():
        expect(decoder.get(name)).equals(value)


@clause(DECODER, 1)
def test_decoder_trains_nothing_else(subject):
    """Trained are the weights of embedding, cell and out, and no others"""
    trained = subject.seq2seq.RNNDecoder(7, 4, 5).describe()["trained"]
    cell = [f"cell.{part}_{side}" for part in ("bias", "weight") for side in ("hh", "ih")]
    expect(sorted(trained)).equals([*cell, "embedding.weight", "out.bias", "out.weight"])


@clause(DECODER, 2)
def test_decoder_state(subject, draw, reference):
    """The cell reads the embedding of y_prev, then the context, and s_prev"""
    call = _step_of(subject, draw)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(DECODER, 2)
@pytest.mark.parametrize("name", ["y_prev", "s_prev", "context"])
def test_all_three_matter(subject, draw, name):
    """y_prev, s_prev and the context each move the state"""
    call = _step_of(subject, draw)
    changed = (call[name] + 1) % 7 if name == "y_prev" else call[name] + 1
    expect(call.but(**{name: changed})()[1]).differs_from(call()[1])


@clause(DECODER, 3)
def test_logits(subject, draw):
    """The logits are out(s_t), and nothing is done to them after that"""
    decoder, state = _decoder(subject, draw)
    logits, s_t = decoder(draw.integers(0, 7, 3), draw.tensor(3, 5), draw.tensor(3, 5))
    expect(logits).equals(s_t @ state["out.weight"].T + state["out.bias"])


@clause(DECODER, 4)
def test_decoder_of_one_sentence(subject, draw):
    """A sentence alone is written as in a batch"""
    properties.alone_as_in_batch(_step_of(subject, draw), "y_prev", "s_prev", "context")


@clause(DECODER, 4)
def test_decoder_forgets_earlier_calls(subject, draw):
    """The same step gives the same a second time"""
    properties.repeats(_step_of(subject, draw))


@clause(DECODER, 5)
def test_decoder_gradients(subject, draw):
    """The gradients of the logits reach s_prev, the context and every parameter"""
    call = _step_of(subject, draw)
    names = ["s_prev", "context", "embedding.weight", "cell.weight_ih", "cell.weight_hh"]
    subject.vjp(call, [draw.tensor(3, 7), None], wrt=[*names, "out.weight", "out.bias"])
    subject.vjp(call, [None, draw.tensor(3, 5)], wrt=names)


@clause(DECODER, 5)
def test_decoder_leaves_arguments_alone(subject, draw):
    """y_prev, s_prev and the context are the same after the call as before"""
    properties.leaves_inputs_alone(subject, _step_of(subject, draw))


# greedy_decode. Its decoders know a sentence by the first number of its context, and how far it is
# by the second number of the state; so a fault in one clause is not met again in another.

BOS, EOS = 1, 2
BATCH, STEPS, VOCAB = 4, 6, 9


def _context(draw):
    """[batch, 3]: the sentence's number, its step, and a number that says nothing."""
    numbers = torch.stack([torch.arange(BATCH).double(), torch.zeros(BATCH).double()], dim=1)
    return torch.cat([numbers, draw.tensor(BATCH, 1)], dim=1)


def _hold(y_prev, s_prev, context):
    """What any decoder asks of its arguments."""
    if y_prev.shape != context.shape[:1] or y_prev.dtype != torch.int64:
        found = f"{str(y_prev.dtype)[6:]} {list(y_prev.shape)}"
        raise ValueError(f"the decoder's y_prev should be int64 [batch]; it is {found}")
    if s_prev is None or s_prev.shape != context.shape:
        found = s_prev if s_prev is None else list(s_prev.shape)
        raise ValueError(f"the decoder's s_prev should be [batch, d_hidden]; it is {found}")


def _by_token(table):
    """A decoder whose logits are table[sentence, y_prev]."""

    def decoder(y_prev, s_prev, context):
        _hold(y_prev, context, context)
        return table[context[:, 0].long(), y_prev], context

    return decoder


def _by_step(table):
    """A decoder whose logits are table[sentence, step], and whose state counts the steps."""

    def decoder(y_prev, s_prev, context):
        state = context if s_prev is None else s_prev  # whether it is there is clause 1
        _hold(y_prev, state, context)
        step = state[:, 1].long().clamp(0, STEPS - 1)
        return table[context[:, 0].long(), step], state + torch.tensor([0, 1, 0])

    return decoder


def _endless(draw, *shape):
    """A table of logits in which neither bos_id nor eos_id is ever the largest."""
    return _without_ends(draw.tensor(*shape, VOCAB))


def _without_ends(logits):
    logits[..., [BOS, EOS]] = -9
    logits[..., [BOS, EOS]] = logits.amax(-1, keepdim=True) - 0.5
    return logits


def _ending(draw, ends):
    """[batch, steps, vocab]: sentence i has its first eos_id at step ends[i], and babbles on."""
    table = _endless(draw, BATCH, STEPS)
    for sentence, end in enumerate(ends):
        table[sentence, end, EOS] = 9
    return table


def _decode(subject, decoder, context, max_len=STEPS):
    """What is written. A bos_id before it costs the clause that says so, and no other."""
    found = subject.seq2seq.greedy_decode(decoder, context, BOS, EOS, max_len)
    return found[:, 1:] if found.size(1) > 1 and (found[:, 0] == BOS).all() else found


def _begins(found, expected, least=1):
    """Both begin alike: how many steps there are is clause 5."""
    steps = max(least, min(found.size(1), expected.size(1)))
    expect(found[:, :steps]).equals(expected[:, :steps])


def _has_steps(found, steps):
    """There are so many steps, whatever was written."""
    expect(found).equals(torch.nn.functional.pad(found, (0, steps - found.size(1))))


@clause(GREEDY, 1)
def test_first_token_read(subject, draw):
    """The first step reads bos_id"""
    table = _endless(draw, BATCH, VOCAB)
    found = _decode(subject, _by_token(table), _context(draw), 1)
    _begins(found, table[:, BOS].argmax(-1)[:, None])


@clause(GREEDY, 1)
def test_first_state(subject, draw):
    """The first step's s_prev is the context"""
    mixing, context = draw.tensor(5, VOCAB), draw.tensor(BATCH, 5)

    def decoder(y_prev, s_prev, context):
        _hold(y_prev, s_prev, context)
        return _without_ends((2 * s_prev - context) @ mixing), s_prev

    expected = _without_ends(context @ mixing).argmax(-1)[:, None]
    _begins(_decode(subject, decoder, context, 1), expected)


@clause(GREEDY, 2)
def test_what_was_written_is_read(subject, draw):
    """Each step reads the token that was written before"""
    table = _endless(draw, BATCH, VOCAB)
    found = _decode(subject, _by_token(table), _context(draw))
    before = found[:, :-1].clamp(0, VOCAB - 1)
    expected = torch.cat([found[:, :1], table[torch.arange(BATCH)[:, None], before].argmax(-1)], 1)
    _begins(found, expected)


@clause(GREEDY, 2)
def test_largest_logits(subject, draw):
    """Each step takes the decoder's state on, and writes the token with the largest logit"""
    table = _endless(draw, BATCH, STEPS)
    _begins(_decode(subject, _by_step(table), _context(draw)), table.argmax(-1), least=2)


@clause(GREEDY, 2)
def test_context_stays(subject, draw):
    """Every step gets the same context"""
    whole, table = _context(draw), _endless(draw, BATCH, STEPS)
    by_step = _by_step(table)

    def decoder(y_prev, s_prev, context):
        sentences = (context if s_prev is None else s_prev)[:, 0].long()
        right = whole[sentences.clamp(0, BATCH - 1)]
        logits, state = by_step(y_prev, s_prev, right)
        return torch.where((context == right).all(-1, keepdim=True), logits, -logits), state

    _begins(_decode(subject, decoder, whole), table.argmax(-1))


def _written(table, ends):
    """What is to be written, in full width, and where a sentence has not ended."""
    going = torch.arange(STEPS) < torch.tensor(ends)[:, None]
    return torch.where(going, table.argmax(-1), EOS), going


@clause(GREEDY, 3)
@pytest.mark.parametrize("ends", [(2, 0, 3, 1), (5, 0, 0, 4)], ids=["all end", "one to the last"])
def test_after_the_end(subject, draw, ends):
    """A sentence has its eos_id, and after it nothing else"""
    table = _ending(draw, ends)
    _begins(_decode(subject, _by_step(table), _context(draw)), _written(table, ends)[0])


@clause(GREEDY, 3)
def test_no_bos_before_it(subject, draw):
    """The result begins with the first token that was written"""
    table = _endless(draw, BATCH, STEPS)
    found = subject.seq2seq.greedy_decode(_by_step(table), _context(draw), BOS, EOS, STEPS)
    first = found[:, :2]  # which tokens were written is clause 2
    expect(first).equals(torch.where(first == BOS, table.argmax(-1)[:, : first.size(1)], first))


@clause(GREEDY, 4)
def test_others_go_on(subject, draw):
    """A sentence goes on to its own end, though others have ended"""
    ends = 1, 4, 0, 3
    table = _ending(draw, ends)
    found = _decode(subject, _by_step(table), _context(draw))
    expected, going = _written(table, ends)
    expect(found[:, :5], where=going[:, :5]).equals(expected[:, :5])


@clause(GREEDY, 5)
@pytest.mark.parametrize("max_len", [1, 4, STEPS])
def test_endless_sentences(subject, draw, max_len):
    """Where no sentence ends, there are max_len tokens"""
    decoder = _by_step(_endless(draw, BATCH, STEPS))
    _has_steps(_decode(subject, decoder, _context(draw), max_len), max_len)


@clause(GREEDY, 5)
def test_all_have_ended(subject, draw):
    """Where all end early, there are as many tokens as they need, or up to max_len"""
    found = _decode(subject, _by_step(_ending(draw, (3, 3, 3, 3))), _context(draw))
    _has_steps(found, min(max(found.size(1), 4), STEPS))


@clause(GREEDY, 6)
def test_decoding_on_accelerator(subject, draw):
    """On an accelerator, all that decoding makes is there too"""
    decoder = _by_step(_endless(draw, BATCH, STEPS))
    subject.on_accelerator(
        subject.seq2seq.greedy_decode.on(decoder, _context(draw), BOS, EOS, STEPS)
    )


@clause(GREEDY, 6)
def test_decoding_leaves_context_alone(subject, draw):
    """The context is the same after the call as before"""
    decoder = _by_step(_ending(draw, (2, 0, 3, 1)))
    call = subject.seq2seq.greedy_decode.on(decoder, _context(draw), BOS, EOS, STEPS)
    properties.leaves_inputs_alone(subject, call)
