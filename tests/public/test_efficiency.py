"""Checks of the unit `efficiency`."""

import pytest
import torch
from torch.autograd.profiler_legacy import profile

from grader.judge import clause, expect
from grader.judge.numbers import give
from grader.judge.properties import is_written_out, leaves_inputs_alone, repeats

CHUNK = "efficiency.chunk_tokens"
SLIDING = "efficiency.sliding_window_mask"
CACHE = "efficiency.KVCache"
APPEND = "efficiency.KVCache.append"
RESET = "efficiency.KVCache.reset"
CACHED = "efficiency.cached_attention"
PARTITION = "efficiency.window_partition"
REVERSE = "efficiency.window_reverse"
SHIFTED = "efficiency.shifted_window_mask"
FAST = "efficiency.fast_attention"
COST = "efficiency.attention_cost"


# chunk_tokens


def _pieces(call):
    """The pieces that a call gives, each a tensor [length]."""
    pieces = call()
    expect("pieces" if pieces else "no piece").equals("pieces")
    for piece in pieces:
        expect(piece).has_dtype(torch.int64)
        expect(piece).equals(piece.flatten())
    return pieces


def _lengths(pieces):
    return [piece.size(0) for piece in pieces]


@clause(CHUNK, 1)
@pytest.mark.parametrize(
    "seq, overlap", [(10, 0), (12, 0), (3, 0), (11, 1)], ids=["rest", "no-rest", "short", "overlap"]
)
def test_length_of_pieces(subject, draw, reference, seq, overlap):
    """Every piece has `size` tokens, and the last one what is left"""
    call = subject.efficiency.chunk_tokens.on(draw.integers(0, 999, seq), 4, overlap)
    expect(_lengths(_pieces(call))).equals(_lengths(reference.call(call)))


@clause(CHUNK, 2)
@pytest.mark.parametrize("overlap", [0, 1, 3])
def test_pieces_joined(subject, draw, overlap):
    """Without the overlaps, the pieces joined are the text"""
    token_ids = draw.integers(0, 999, 14)
    first, *others = _pieces(subject.efficiency.chunk_tokens.on(token_ids, 5, overlap))
    expect(torch.cat([first, *(piece[overlap:] for piece in others)])).equals(token_ids)


@clause(CHUNK, 2)
def test_overlap(subject, draw):
    """Each piece begins with the last `overlap` tokens of the one before"""
    pieces = _pieces(subject.efficiency.chunk_tokens.on(draw.integers(0, 999, 14), 5, 2))
    begun = [piece[:2] for piece in pieces[1:]]
    ended = [piece[-2:] for piece in pieces[:-1]]
    expect(torch.cat([*begun, pieces[0][:0]])).equals(torch.cat([*ended, pieces[0][:0]]))


@clause(CHUNK, 3)
@pytest.mark.parametrize("seq", [10, 4, 2])
def test_no_piece_too_many(subject, draw, reference, seq):
    """The first piece that reaches the end is the last"""
    call = subject.efficiency.chunk_tokens.on(draw.integers(0, 999, seq), 4, 2)
    expect(_lengths(_pieces(call))).equals(_lengths(reference.call(call)))


@clause(CHUNK, 4)
@pytest.mark.parametrize("overlap", [5, 4])
def test_overlap_that_leads_nowhere(subject, draw, overlap):
    """An overlap that is not smaller than size raises ValueError or AssertionError"""
    with subject.raises("ValueError", "AssertionError"):
        subject.efficiency.chunk_tokens(draw.integers(0, 999, 9), 4, overlap)


@clause(CHUNK, 4)
def test_overlap_below_0(subject, draw):
    """An overlap below 0 raises ValueError or AssertionError"""
    with subject.raises("ValueError", "AssertionError"):
        subject.efficiency.chunk_tokens(draw.integers(0, 999, 9), 4, -1)


@clause(CHUNK, 5)
def test_text_is_left_alone(subject, draw):
    """The token ids are the same after the call as before"""
    call = subject.efficiency.chunk_tokens.on(draw.integers(0, 999, 9), 4, 1)
    leaves_inputs_alone(subject, call)


# sliding_window_mask


@clause(SLIDING, 1)
@pytest.mark.parametrize("sizes", [(6, 3), (1, 1)])
def test_window_form(subject, sizes):
    """The mask is bool, [seq_len, seq_len], from one position on"""
    subject.efficiency.sliding_window_mask(*sizes)


@clause(SLIDING, 2)
@pytest.mark.parametrize("sizes", [(7, 3), (7, 5), (5, 1), (3, 8)])
def test_window_is_seen(subject, reference, sizes):
    """A position sees itself and the window - 1 before it"""
    call = subject.efficiency.sliding_window_mask.on(*sizes)
    expected = reference.call(call)
    expect(call(), where=expected).equals(expected)


@clause(SLIDING, 3)
@pytest.mark.parametrize("sizes", [(7, 3), (6, 4), (5, 1)])
def test_past_behind_window_is_hidden(subject, reference, sizes):
    """A position sees nothing that is older"""
    call = subject.efficiency.sliding_window_mask.on(*sizes)
    expected = reference.call(call)
    past = torch.ones_like(expected).tril()
    expect(call(), where=past & ~expected).equals(expected)


@clause(SLIDING, 4)
@pytest.mark.parametrize("sizes", [(7, 3), (5, 1), (3, 8)])
def test_future_is_hidden_from_window(subject, reference, sizes):
    """A position sees nothing that comes after it"""
    call = subject.efficiency.sliding_window_mask.on(*sizes)
    expected = reference.call(call)
    expect(call(), where=torch.ones_like(expected).triu(1)).equals(expected)


# KVCache


def _new(draw, seq, *leading):
    """Keys and values of new positions; all sizes differ."""
    leading = leading or (3, 2)
    return draw.tensor(*leading, seq, 4), draw.tensor(*leading, seq, 6)


def _filled(cache, *appended):
    for key, value in appended:
        cache.append(key, value)
    return cache


@clause(CACHE, 1)
def test_new_cache_is_empty(subject):
    """A new cache has `length` 0"""
    expect({"length": subject.efficiency.KVCache().get("length")}).equals({"length": 0})


@clause(APPEND, 1)
def test_first_append(subject, draw):
    """What comes first comes back as it is"""
    key, value = _new(draw, 3)
    keys, values = subject.efficiency.KVCache().append(key, value)
    expect(keys).equals(key)
    expect(values).equals(value)


@clause(APPEND, 2)
def test_new_ones_stand_behind(subject, draw):
    """All keys and values come back, in the order in which they came"""
    cache = subject.efficiency.KVCache()
    parts = [_new(draw, seq) for seq in (3, 1, 2)]
    for count, (key, value) in enumerate(parts, 1):
        keys, values = cache.append(key, value)
        expect(keys).equals(torch.cat([key for key, _ in parts[:count]], dim=-2))
        expect(values).equals(torch.cat([value for _, value in parts[:count]], dim=-2))


@clause(APPEND, 3)
def test_length_grows(subject, draw):
    """`length` counts the positions"""
    cache = subject.efficiency.KVCache()
    found = []
    for seq in (3, 1, 2):
        _filled(cache, _new(draw, seq))
        found.append(cache.get("length"))
    expect(found).equals([3, 4, 6])


@clause(APPEND, 4)
@pytest.mark.parametrize("leading", [(3,), (1, 2), (3, 1)], ids=["3d", "batch-of-1", "one-head"])
def test_append_with_any_axes(subject, draw, leading):
    """Batches and heads may be of any number"""
    first, second = _new(draw, 2, *leading), _new(draw, 1, *leading)
    cache = _filled(subject.efficiency.KVCache(), first)
    keys, values = cache.append(*second)
    expect({"length": cache.get("length")}).equals({"length": 3})
    expect(keys).equals(torch.cat([first[0], second[0]], dim=-2))
    expect(values).equals(torch.cat([first[1], second[1]], dim=-2))


@clause(APPEND, 5)
def test_each_cache_keeps_its_own(subject, draw):
    """What is put into one cache is not in another"""
    one, other = subject.efficiency.KVCache(), subject.efficiency.KVCache()
    first, second, third = _new(draw, 2), _new(draw, 3), _new(draw, 1)
    _filled(one, first)
    keys, values = other.append(*second)
    expect(keys).equals(second[0])
    expect(values).equals(second[1])
    keys, _ = one.append(*third)
    expect(keys).equals(torch.cat([first[0], third[0]], dim=-2))


@clause(APPEND, 6)
def test_append_leaves_inputs_alone(subject, draw):
    """Key and value are the same after the call as before"""
    cache = _filled(subject.efficiency.KVCache(), _new(draw, 2))
    leaves_inputs_alone(subject, cache.append.on(*_new(draw, 3)))


@clause(RESET, 1)
def test_length_after_reset(subject, draw):
    """`length` is 0 again"""
    cache = _filled(subject.efficiency.KVCache(), _new(draw, 3))
    cache.reset()
    expect({"length": cache.get("length")}).equals({"length": 0})


@clause(RESET, 2)
def test_nothing_is_left(subject, draw):
    """The next text's keys and values come back alone"""
    cache = _filled(subject.efficiency.KVCache(), _new(draw, 3), _new(draw, 1))
    cache.reset()
    key, value = _new(draw, 2)
    keys, values = cache.append(key, value)
    expect(keys).equals(key)
    expect(values).equals(value)


@clause(RESET, 2)
def test_as_good_as_new(subject, draw):
    """What comes later gives what it gives with a new cache"""
    used, new = subject.efficiency.KVCache(), subject.efficiency.KVCache()
    _filled(used, _new(draw, 3), _new(draw, 1)).reset()
    for part in [_new(draw, seq) for seq in (2, 1, 3)]:
        for found, expected in zip(used.append(*part), new.append(*part)):
            expect(found).equals(expected)


@clause(RESET, 3)
def test_next_batch_may_be_larger(subject, draw):
    """The next batch may be of another size"""
    cache = _filled(subject.efficiency.KVCache(), _new(draw, 3, 2, 2))
    cache.reset()
    key, value = _new(draw, 4, 5, 2)
    expect(cache.append(key, value)[0]).equals(key)


# cached_attention


def _text(draw, seq, *leading, dtype=torch.float64):
    """Query, key and value of a whole text."""
    leading = leading or (3, 2)
    return [draw.tensor(*leading, seq, size, dtype=dtype) for size in (4, 4, 6)]


def _whole(subject, reference, query, key, value):
    """What the whole text at once gives, under a look-ahead mask."""
    mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril()
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    return reference.call(call)[0]


def _cut(tensors, cuts):
    """The text in pieces of these lengths."""
    return list(zip(*(tensor.split(cuts, dim=-2) for tensor in tensors)))


def _in_pieces(subject, tensors, cuts, cache=None):
    """The outputs for a text that comes in pieces, joined."""
    cache = cache or subject.efficiency.KVCache()
    attend = subject.efficiency.cached_attention
    return torch.cat([attend(*piece, cache) for piece in _cut(tensors, cuts)], dim=-2)


@clause(CACHED, 1)
def test_word_by_word(subject, draw, reference):
    """Each new position sees itself and all before it"""
    text = _text(draw, 4)
    found = _in_pieces(subject, text, [1, 1, 1, 1])
    expect(found).equals(_whole(subject, reference, *text))


@clause(CACHED, 2)
@pytest.mark.parametrize("past", [0, 1, 4])
def test_piece_does_not_see_its_future(subject, draw, past):
    """In a piece, no position sees one that comes after it"""
    text = _text(draw, past + 3)
    outputs = []
    for _ in range(2):
        cache = subject.efficiency.KVCache()
        for piece in _cut(text, [past, 3])[0 if past else 1 :]:
            output = subject.efficiency.cached_attention(*piece, cache)
        outputs.append(output[..., :-1, :])
        text = [torch.cat([t[..., :-1, :], t[..., -1:, :] + 1], dim=-2) for t in text]
    expect(outputs[1]).equals(outputs[0])


@clause(CACHED, 3)
@pytest.mark.parametrize("cuts", [[5], [2, 3], [1, 4], [3, 1, 1], [2, 1, 2]], ids=str)
def test_cached_and_whole_agree(subject, draw, reference, cuts):
    """However a text is cut, the outputs are those of the whole"""
    text = _text(draw, 5)
    found = _in_pieces(subject, text, cuts)
    expect(found).equals(_whole(subject, reference, *text))


@clause(CACHED, 4)
def test_new_ones_are_in_the_cache(subject, draw):
    """Afterwards, the new keys and values are in the cache, once"""
    query, key, value = _text(draw, 5)
    cache = subject.efficiency.KVCache()
    _in_pieces(subject, (query, key, value), [3, 2], cache)
    expect(cache.get("length")).equals(5)
    last = _new(draw, 1)
    keys, values = cache.append(*last)
    expect(keys).equals(torch.cat([key, last[0]], dim=-2))
    expect(values).equals(torch.cat([value, last[1]], dim=-2))


@clause(CACHED, 5)
@pytest.mark.parametrize("leading", [(3,), (1, 2), (3, 1)], ids=["3d", "batch-of-1", "one-head"])
def test_cached_with_any_axes(subject, draw, reference, leading):
    """Batches and heads may be of any number"""
    text = _text(draw, 4, *leading)
    found = _in_pieces(subject, text, [2, 2])
    expect(found).equals(_whole(subject, reference, *text))


@clause(CACHED, 5)
def test_cached_on_accelerator(subject, draw):
    """The mask lives where the query does"""
    text = _text(draw, 3)
    cache = subject.efficiency.KVCache()
    # Not `stays_on_accelerator`, whose call at home would leave its keys in the cache.
    subject.on_accelerator(subject.efficiency.cached_attention.on(*text, cache))


@clause(CACHED, 6)
def test_cached_leaves_inputs_alone(subject, draw):
    """Query, key and value are the same after the call as before"""
    cache = subject.efficiency.KVCache()
    first, second = _cut(_text(draw, 5), [2, 3])
    leaves_inputs_alone(subject, subject.efficiency.cached_attention.on(*first, cache))
    leaves_inputs_alone(subject, subject.efficiency.cached_attention.on(*second, cache))


# window_partition and window_reverse


@clause(PARTITION, 1)
@pytest.mark.parametrize("pixels", [(2, 6), (3, 3), (6, 2)], ids=["row", "one", "column"])
def test_window_holds_neighbours(subject, draw, reference, pixels):
    """A window is a square cut out of the picture"""
    call = subject.efficiency.window_partition.on(draw.tensor(1, *pixels, 5), min(pixels))
    expect(call()).equals(reference.call(call))


@clause(PARTITION, 2)
@pytest.mark.parametrize("batch", [1, 3])
def test_order_of_windows(subject, draw, reference, batch):
    """Windows stand picture by picture, row by row"""
    call = subject.efficiency.window_partition.on(draw.tensor(batch, 6, 6, 5), 2)
    expect(call()).equals(reference.call(call))


@clause(PARTITION, 3)
@pytest.mark.parametrize("turned", [False, True], ids=["oblong", "turned"])
def test_oblong_pictures(subject, draw, reference, turned):
    """Height may differ from width, and pixels may lie otherwise in memory"""
    x = draw.tensor(2, 4, 8, 3)
    x = x.transpose(1, 2) if turned else x
    call = subject.efficiency.window_partition.on(x, 2)
    expect(call()).equals(reference.call(call))


@clause(PARTITION, 4)
@pytest.mark.parametrize("pixels", [(5, 4), (4, 5)], ids=["height", "width"])
def test_pixels_that_fill_no_window(subject, draw, pixels):
    """A size that does not divide height or width raises an error"""
    with subject.raises("Exception"):
        subject.efficiency.window_partition(draw.tensor(2, *pixels, 3), 2)


@clause(PARTITION, 5)
def test_pictures_are_left_alone(subject, draw):
    """The pictures are the same after the call as before"""
    call = subject.efficiency.window_partition.on(draw.tensor(2, 4, 6, 3), 2)
    leaves_inputs_alone(subject, call)


@clause(REVERSE, 1)
@pytest.mark.parametrize("count", [4, 1])
def test_pixels_are_back(subject, draw, reference, count):
    """Every pixel is back in its place"""
    side = 3 * int(count**0.5)
    call = subject.efficiency.window_reverse.on(draw.tensor(count, 3, 3, 5), 3, side, side)
    expect(call()).equals(reference.call(call))


@clause(REVERSE, 2)
def test_each_picture_gets_its_windows(subject, draw, reference):
    """Several pictures come back, each from its own windows"""
    call = subject.efficiency.window_reverse.on(draw.tensor(12, 2, 2, 5), 2, 4, 4)
    expect(call()).equals(reference.call(call))


@clause(REVERSE, 3)
@pytest.mark.parametrize("turned", [False, True], ids=["oblong", "turned"])
def test_oblong_pictures_are_back(subject, draw, reference, turned):
    """Height may differ from width, and pixels may lie otherwise in memory"""
    windows = draw.tensor(12, 2, 2, 3)
    windows = windows.transpose(1, 2) if turned else windows
    call = subject.efficiency.window_reverse.on(windows, 2, 4, 6)
    expect(call()).equals(reference.call(call))


@clause(REVERSE, 4)
def test_windows_are_left_alone(subject, draw):
    """The windows are the same after the call as before"""
    call = subject.efficiency.window_reverse.on(draw.tensor(6, 2, 2, 3), 2, 4, 6)
    leaves_inputs_alone(subject, call)


# shifted_window_mask


@clause(SHIFTED, 1)
@pytest.mark.parametrize("sizes", [(6, 9, 3, 1), (2, 2, 2, 1)])
def test_shifted_form(subject, sizes):
    """The mask is bool, a square for each window"""
    subject.efficiency.shifted_window_mask(*sizes)


@clause(SHIFTED, 2)
@pytest.mark.parametrize("sizes", [(6, 9, 3, 1), (8, 8, 4, 2), (3, 3, 3, 2)])
def test_neighbours_see_each_other(subject, reference, sizes):
    """Pixels that were neighbours before the roll see each other"""
    call = subject.efficiency.shifted_window_mask.on(*sizes)
    expected = reference.call(call)
    expect(call(), where=expected).equals(expected)


@clause(SHIFTED, 3)
@pytest.mark.parametrize("sizes", [(6, 9, 3, 1), (6, 6, 3, 2), (8, 8, 4, 2), (2, 6, 2, 1)])
def test_seams_are_closed(subject, reference, sizes):
    """Pixels that only the roll has brought together do not see each other"""
    call = subject.efficiency.shifted_window_mask.on(*sizes)
    expected = reference.call(call)
    expect(call(), where=~expected).equals(expected)


@clause(SHIFTED, 4)
def test_no_shift(subject, reference):
    """Without a shift, every pixel sees its whole window"""
    call = subject.efficiency.shifted_window_mask.on(4, 6, 2, 0)
    expect(call()).equals(reference.call(call))


# fast_attention


def _slow(query, key, value, mask=None):
    """The formula, in float64."""
    scores = query.double() @ key.double().mT / key.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return (torch.softmax(scores, dim=-1) @ value.double()).to(query.dtype)


@clause(FAST, 1)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("leading", [(3,), (3, 2)], ids=["3d", "4d"])
def test_fast_and_slow_agree(subject, draw, dtype, leading):
    """The output is that of the formula"""
    inputs = draw.attention_inputs(*leading, dtype=dtype)
    expect(subject.efficiency.fast_attention(*inputs)).equals(_slow(*inputs))


@clause(FAST, 1)
def test_fast_repeats(subject, draw):
    """The same call gives the same output again"""
    repeats(subject.efficiency.fast_attention.on(*draw.attention_inputs(3, 2)))


@clause(FAST, 2)
@pytest.mark.parametrize("leading", [(3, 2), (3, 1), ()], ids=["full", "for-all-heads", "for-all"])
def test_fast_with_mask(subject, draw, leading):
    """True means that a query may attend"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = draw.mask(*leading, query.size(-2), key.size(-2))
    found = subject.efficiency.fast_attention(query, key, value, mask)
    expect(found).equals(_slow(query, key, value, mask))


@clause(FAST, 3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_fast_in_half_precision(subject, draw, dtype):
    """Half precision gives the same, up to its rounding, with a mask, too"""
    query, key, value = draw.attention_inputs(3, 2, dtype=dtype)
    mask = draw.mask(3, 1, query.size(-2), key.size(-2))
    for case in ((query, key, value), (query, key, value, mask)):
        expect(subject.efficiency.fast_attention(*case)).equals(_slow(*case))


@clause(FAST, 4)
def test_fast_is_fused(subject, draw):
    """torch's own attention does the work"""
    inputs = [draw.tensor(3, 2, seq, 8) for seq in (4, 5, 5)]
    is_written_out(subject, subject.efficiency.fast_attention.on(*inputs), _slow(*inputs))


@clause(FAST, 5)
def test_fast_gradients(subject, draw, reference):
    """The gradients reach query, key and value"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = draw.mask(3, 1, query.size(-2), key.size(-2))
    call = subject.efficiency.fast_attention.on(query, key, value, mask)
    cotangent = draw.tensor(*query.shape[:-1], value.size(-1))
    expected = reference.vjp(call, cotangent, wrt=["query", "key", "value"])
    for name, gradient in subject.vjp(call, cotangent, wrt=["query", "key", "value"]).items():
        expect(gradient).equals(expected[name])


@clause(FAST, 6)
def test_fast_leaves_inputs_alone(subject, draw):
    """Query, key, value and mask are the same after the call as before"""
    query, key, value = draw.attention_inputs(3, 2)
    mask = draw.mask(3, 1, query.size(-2), key.size(-2))
    leaves_inputs_alone(subject, subject.efficiency.fast_attention.on(query, key, value, mask))


# attention_cost

SIZES = [(10, 12, 3), (20, 12, 3), (10, 24, 3), (10, 12, 6), (1, 8, 1), (512, 64, 8)]


@clause(COST, 1)
def test_work(subject, reference):
    """Two matrix products are counted, over all heads"""
    calls = [subject.efficiency.attention_cost.on(*sizes) for sizes in SIZES]
    give(calls, [reference.call(call) for call in calls], part=0)


@clause(COST, 1)
def test_profiler_counts_the_same(subject, draw):
    """torch's profiler, set on a real attention, counts as many (two operations each)"""
    batch, num_heads, seq_len, d_k = 1, 3, 7, 4
    query, key, value = (draw.tensor(batch, num_heads, seq_len, d_k) for _ in range(3))
    with profile(with_flops=True) as counted:
        torch.softmax(query @ key.mT, dim=-1) @ value
    operations = sum(event.flops or 0 for event in counted.function_events)
    found, _ = subject.efficiency.attention_cost(seq_len, num_heads * d_k, num_heads)
    expect(2 * found).equals(operations)


@clause(COST, 2)
def test_memory(subject, reference):
    """The scores of all heads take four bytes each"""
    calls = [subject.efficiency.attention_cost.on(*sizes) for sizes in SIZES]
    give(calls, [reference.call(call) for call in calls], part=1)


@clause(COST, 3)
def test_cost_is_exact(subject):
    """Both are ints, not rounded: a thousand million positions divide them without a rest"""
    seq_len = 1_000_000_007
    found = subject.efficiency.attention_cost(seq_len, 768, 12)
    expect([number % seq_len for number in found]).equals([0, 0])
