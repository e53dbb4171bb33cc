"""Further checks of the unit `efficiency`, for grading."""

import itertools

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.numbers import give
from grader.judge.properties import (
    alone_as_in_batch,
    gradient_fits,
    is_written_out,
    layout_does_not_matter,
    leaves_inputs_alone,
    permutes_alike,
    repeats,
    same_in_single_precision,
    unmoved_by,
)

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
    pieces = call()
    expect("pieces" if pieces else "no piece").equals("pieces")
    for piece in pieces:
        expect(piece).has_dtype(torch.int64)
        expect(piece).equals(piece.flatten())
    return pieces


@clause(CHUNK, 1)
@pytest.mark.parametrize("size", [1, 2, 7, 8, 20])
def test_pieces_of_any_size(subject, draw, size):
    """No piece is longer, and only the last is shorter"""
    pieces = _pieces(subject.efficiency.chunk_tokens.on(draw.integers(0, 999, 8), size))
    lengths = [piece.size(0) for piece in pieces]
    expect(lengths).equals([size] * (8 // size) + [8 % size] * (8 % size > 0))


@clause(CHUNK, 1)
def test_one_token(subject, draw):
    """A text of one token is one piece"""
    token_ids = draw.integers(0, 999, 1)
    pieces = _pieces(subject.efficiency.chunk_tokens.on(token_ids, 3, overlap=2))
    expect(torch.cat([*pieces])).equals(token_ids)


@clause(CHUNK, 2)
@pytest.mark.parametrize("overlap", [0, 1, 2, 3])
def test_pieces_of_texts_of_any_length(subject, draw, overlap):
    """Whatever the text's length: the pieces stand where they should"""
    for seq in range(1, 13):
        token_ids = draw.integers(0, 999, seq)
        pieces = _pieces(subject.efficiency.chunk_tokens.on(token_ids, 4, overlap=overlap))
        for number, piece in enumerate(pieces):
            start = number * (4 - overlap)
            expect(piece).equals(token_ids[start : start + 4])


@clause(CHUNK, 2)
def test_same_token_again_and_again(subject):
    """Where tokens repeat, none is taken for another"""
    token_ids = torch.zeros(11, dtype=torch.int64)
    pieces = _pieces(subject.efficiency.chunk_tokens.on(token_ids, 4, 1))
    expect(sum(piece.size(0) - 1 for piece in pieces) + 1).equals(11)


@clause(CHUNK, 3)
@pytest.mark.parametrize("size, overlap", [(4, 1), (4, 3), (6, 4), (5, 0)])
def test_every_piece_has_a_token_of_its_own(subject, draw, size, overlap):
    """Whatever the text's length: as many pieces as it takes, and no more"""
    found, expected = [], []
    for seq in range(1, 16):
        call = subject.efficiency.chunk_tokens.on(draw.integers(0, 999, seq), size, overlap)
        found.append(len(_pieces(call)))
        more = max(0, seq - size)
        expected.append(1 + -(-more // (size - overlap)))
    expect(found).equals(expected)


@clause(CHUNK, 4)
@pytest.mark.parametrize("size, overlap", [(1, 1), (3, 7), (4, -2)])
def test_overlap_that_cannot_be(subject, draw, size, overlap):
    """An overlap with which no piece would lead on raises an error"""
    with subject.raises("ValueError", "AssertionError"):
        subject.efficiency.chunk_tokens(draw.integers(0, 999, 9), size, overlap=overlap)


@clause(CHUNK, 5)
def test_long_text_is_left_alone(subject, draw):
    """A longer text is left alone, too"""
    call = subject.efficiency.chunk_tokens.on(draw.integers(0, 999, 40), 7, 3)
    leaves_inputs_alone(subject, call)


# sliding_window_mask


@clause(SLIDING, 1)
@pytest.mark.parametrize("sizes", [(2, 1), (9, 2), (4, 30)])
def test_window_form_at_any_size(subject, sizes):
    """The mask is bool, [seq_len, seq_len], for any length and window"""
    subject.efficiency.sliding_window_mask(*sizes)


@clause(SLIDING, 2)
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 11, 12])
def test_window_counts_itself(subject, window):
    """Row i sees i + 1 positions, but never more than window"""
    found = subject.efficiency.sliding_window_mask(11, window=window)
    expect(found.long().sum(1)).equals(torch.arange(1, 12).clamp(max=window))
    expect(found.diagonal()).equals(torch.ones(11).bool())


@clause(SLIDING, 2)
def test_longer_window_mask_begins_with_shorter(subject):
    """What a position sees is the same, however many come after it"""
    short = subject.efficiency.sliding_window_mask(5, 3)
    expect(subject.efficiency.sliding_window_mask(9, 3)[:5, :5]).equals(short)


@clause(SLIDING, 3)
@pytest.mark.parametrize("window", [1, 2, 5])
def test_oldest_that_is_seen(subject, window):
    """Position i sees from i - window + 1 on"""
    found = subject.efficiency.sliding_window_mask(12, window)
    rows, columns = torch.meshgrid(*[torch.arange(12)] * 2, indexing="ij")
    expect(found, where=columns <= rows - window).equals(torch.zeros(12, 12).bool())


@clause(SLIDING, 4)
@pytest.mark.parametrize("window", [1, 4, 40])
def test_nothing_ahead(subject, window):
    """No window looks ahead"""
    found = subject.efficiency.sliding_window_mask(9, window)
    expect(found, where=torch.ones(9, 9).triu(1).bool()).equals(torch.zeros(9, 9).bool())


@clause(SLIDING, 1)
def test_window_repeats(subject):
    """A second mask of the same sizes is the same"""
    repeats(subject.efficiency.sliding_window_mask.on(6, 3))


# KVCache


def _new(draw, seq, *leading, dtype=torch.float64):
    leading = leading or (3, 2)
    return [draw.tensor(*leading, seq, size, dtype=dtype) for size in (4, 6)]


def _joined(parts):
    """All keys, and all values."""
    return [torch.cat(tensors, dim=-2) for tensors in zip(*parts)]


def _appends(cache, parts):
    """Append one after another, and hold what comes back."""
    for count, part in enumerate(parts, 1):
        for found, expected in zip(cache.append(*part), _joined(parts[:count])):
            expect(found).equals(expected)


@clause(CACHE, 1)
def test_every_new_cache_is_empty(subject, draw):
    """A cache that is made later is empty, too"""
    cache = subject.efficiency.KVCache()
    expect(cache.get("length")).equals(0)
    cache.append(*_new(draw, 3))
    expect(subject.efficiency.KVCache().get("length")).equals(0)


@clause(APPEND, 1)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_first_append_of_any_kind(subject, draw, dtype):
    """One position or many, float32 or float64"""
    for seq in (1, 7):
        part = _new(draw, seq, dtype=dtype)
        keys, values = subject.efficiency.KVCache().append(*part)
        expect(keys).equals(part[0])
        expect(values).equals(part[1])


@clause(APPEND, 2)
@pytest.mark.parametrize("lengths", [[1] * 8, [5, 1, 1, 1], [1, 5, 2], [2, 2, 2]], ids=str)
def test_many_appends(subject, draw, lengths):
    """However they come: each stands behind those before"""
    _appends(subject.efficiency.KVCache(), [_new(draw, seq) for seq in lengths])


@clause(APPEND, 2)
def test_append_in_single_precision(subject, draw):
    """New ones in float32 come back in float32"""
    parts = [_new(draw, seq, dtype=torch.float32) for seq in (2, 3)]
    _appends(subject.efficiency.KVCache(), parts)


@clause(APPEND, 3)
def test_length_counts_positions(subject, draw):
    """Neither calls are counted nor sentences"""
    cache, found = subject.efficiency.KVCache(), []
    for seq in (1, 4, 2, 2):
        cache.append(*_new(draw, seq, 3, 5))
        found.append(cache.get("length"))
    expect(found).equals([1, 5, 7, 9])


@clause(APPEND, 4)
@pytest.mark.parametrize("leading", [(1,), (4,), (2, 3, 2)], ids=str)
def test_append_with_other_axes(subject, draw, leading):
    """Any leading axes will do"""
    _appends(subject.efficiency.KVCache(), [_new(draw, seq, *leading) for seq in (2, 1, 2)])


@clause(APPEND, 4)
def test_positions_as_many_as_others(subject, draw):
    """Sizes that may differ may also agree"""
    parts = [[draw.tensor(3, 3, 3, 3) for _ in range(2)] for _ in range(3)]
    _appends(subject.efficiency.KVCache(), parts)


@clause(APPEND, 5)
def test_caches_in_turn(subject, draw):
    """Two caches that are filled in turn keep apart"""
    caches = [subject.efficiency.KVCache() for _ in range(2)]
    parts = [[_new(draw, seq) for seq in lengths] for lengths in ((2, 1, 3), (1, 1, 2))]
    for count in range(1, 4):
        for cache, own in zip(caches, parts):
            keys, values = cache.append(*own[count - 1])
            expect(keys).equals(_joined(own[:count])[0])
            expect(values).equals(_joined(own[:count])[1])
    expect([cache.get("length") for cache in caches]).equals([6, 4])


@clause(APPEND, 6)
def test_first_append_leaves_inputs_alone(subject, draw):
    """The first key and value are left alone, too"""
    leaves_inputs_alone(subject, subject.efficiency.KVCache().append.on(*_new(draw, 3)))


@clause(RESET, 1)
def test_length_after_many_resets(subject, draw):
    """The cache is as new after each reset, of an empty one too"""
    cache, found = subject.efficiency.KVCache(), []
    for seq in (2, 3):
        cache.reset()
        found.append(cache.get("length"))
        cache.append(*_new(draw, seq))
        found.append(cache.get("length"))
    expect(found).equals([0, 2, 0, 3])


@clause(RESET, 2)
def test_texts_one_after_another(subject, draw):
    """Every text begins anew"""
    cache = subject.efficiency.KVCache()
    for lengths in ((4, 1), (1, 1, 1), (6,)):
        first, *others = [_new(draw, seq) for seq in lengths]
        for found, expected in zip(cache.append(*first), first):
            expect(found).equals(expected)
        for other in others:
            cache.append(*other)
        cache.reset()


@clause(RESET, 2)
def test_reset_of_one_cache_alone(subject, draw):
    """Another cache keeps what it has"""
    one, other, untouched = (subject.efficiency.KVCache() for _ in range(3))
    first, second = _new(draw, 2), _new(draw, 1)
    for cache in (one, other, untouched):
        cache.append(*first)
    other.reset()
    for found, expected in zip(one.append(*second), untouched.append(*second)):
        expect(found).equals(expected)


@clause(RESET, 3)
@pytest.mark.parametrize("leading", [(1, 2), (5, 2), (3,), (3, 4)], ids=str)
def test_next_text_of_other_sizes(subject, draw, leading):
    """Batch, heads and widths may all be others"""
    cache = subject.efficiency.KVCache()
    cache.append(*_new(draw, 4))
    cache.reset()
    part = [draw.tensor(*leading, 2, size) for size in (5, 3)]
    for found, expected in zip(cache.append(*part), part):
        expect(found).equals(expected)


# cached_attention


def _text(draw, seq, *leading, dtype=torch.float64):
    leading = leading or (3, 2)
    return [draw.tensor(*leading, seq, size, dtype=dtype) for size in (4, 4, 6)]


def _whole(subject, reference, query, key, value):
    mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril()
    call = subject.attention.scaled_dot_product_attention.on(query, key, value, mask)
    return reference.call(call)[0]


def _in_pieces(subject, tensors, cuts, cache=None):
    cache = cache or subject.efficiency.KVCache()
    pieces = zip(*(tensor.split(cuts, dim=-2) for tensor in tensors))
    attend = subject.efficiency.cached_attention
    return torch.cat([attend(*piece, cache) for piece in pieces], dim=-2)


@clause(CACHED, 1)
def test_first_word(subject, draw):
    """The first position sees itself alone, and gives its own value"""
    query, key, value = _text(draw, 1)
    found = subject.efficiency.cached_attention(query, key, value, subject.efficiency.KVCache())
    expect(found).equals(value)


@clause(CACHED, 1)
def test_last_word_sees_everything(subject, draw, reference):
    """The last of a piece sees the cache and the whole piece"""
    text = _text(draw, 6)
    found = _in_pieces(subject, text, [2, 4])
    expect(found[..., -1, :]).equals(_whole(subject, reference, *text)[..., -1, :])


@clause(CACHED, 1)
def test_scale_of_cached(subject, draw, reference):
    """Wide keys, and large scores"""
    query, key = draw.tensor(2, 5, 16, scale=3.0), draw.tensor(2, 5, 16, scale=3.0)
    text = [query, key, draw.tensor(2, 5, 3)]
    found = _in_pieces(subject, text, [1, 1, 1, 1, 1])
    expect(found).equals(_whole(subject, reference, *text))


@clause(CACHED, 2)
@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("name", ["key", "value"])
def test_what_comes_later_moves_nothing(subject, draw, place, name):
    """Other keys or values from some place of a piece on move nothing before it"""
    past, piece = _text(draw, 2), _text(draw, 4)
    outputs = []
    for shift in (0, 1):
        cache = subject.efficiency.KVCache()
        subject.efficiency.cached_attention(*past, cache)
        later = [tensor.clone() for tensor in piece]
        later[1 if name == "key" else 2][..., place:, :] += shift
        outputs.append(subject.efficiency.cached_attention(*later, cache)[..., :place, :])
    expect(outputs[1]).equals(outputs[0])


_CUTS = [
    [b - a for a, b in itertools.pairwise([0, *places, 5])]
    for count in range(5)
    for places in itertools.combinations(range(1, 5), count)
]


@clause(CACHED, 3)
@pytest.mark.parametrize("cuts", _CUTS, ids=str)
def test_every_way_to_cut(subject, draw, reference, cuts):
    """For every way to cut a text, the outputs are those of the whole"""
    text = _text(draw, 5, 2, 3)
    expect(_in_pieces(subject, text, cuts)).equals(_whole(subject, reference, *text))


@clause(CACHED, 3)
def test_long_text(subject, draw, reference):
    """A prompt, then word by word, then a piece"""
    text = _text(draw, 20, 2)
    found = _in_pieces(subject, text, [9, 1, 1, 1, 8])
    expect(found).equals(_whole(subject, reference, *text))


@clause(CACHED, 3)
def test_one_text_after_another(subject, draw, reference):
    """With a new cache, a second text is not mixed with the first"""
    for seq, cuts in ((4, [3, 1]), (3, [1, 2])):
        text = _text(draw, seq)
        expect(_in_pieces(subject, text, cuts)).equals(_whole(subject, reference, *text))


@clause(CACHED, 3)
def test_texts_in_turn(subject, draw, reference):
    """Two texts that are read in turn, each with its own cache, keep apart"""
    texts = [_text(draw, 4) for _ in range(2)]
    caches = [subject.efficiency.KVCache() for _ in range(2)]
    found = [[], []]
    for half in ((0, 1), (1, 4)):
        for text, cache, outputs in zip(texts, caches, found):
            piece = [tensor[..., half[0] : half[1], :] for tensor in text]
            outputs.append(subject.efficiency.cached_attention(*piece, cache))
    for text, outputs in zip(texts, found):
        expect(torch.cat(outputs, dim=-2)).equals(_whole(subject, reference, *text))


@clause(CACHED, 3)
def test_cached_in_single_precision(subject, draw, reference):
    """A text in float32 gives outputs in float32"""
    text = _text(draw, 5, dtype=torch.float32)
    expect(_in_pieces(subject, text, [2, 3])).equals(_whole(subject, reference, *text))


@clause(CACHED, 4)
@pytest.mark.parametrize("cuts", [[4], [1, 1], [2, 1, 3]], ids=str)
def test_cache_grows_by_the_piece(subject, draw, cuts):
    """The cache holds as many positions as have come"""
    cache = subject.efficiency.KVCache()
    _in_pieces(subject, _text(draw, sum(cuts)), cuts, cache)
    expect(cache.get("length")).equals(sum(cuts))


@clause(CACHED, 4)
def test_cache_that_was_filled_before(subject, draw, reference):
    """A cache that somebody else has filled is read and filled on"""
    text = _text(draw, 6)
    _, key, value = text
    cache = subject.efficiency.KVCache()
    cache.append(key[..., :4, :], value[..., :4, :])
    found = subject.efficiency.cached_attention(*(t[..., 4:, :] for t in text), cache)
    expect(found).equals(_whole(subject, reference, *text)[..., 4:, :])
    keys, _ = cache.append(key[..., :1, :], value[..., :1, :])
    expect(keys).equals(torch.cat([key, key[..., :1, :]], dim=-2))


@clause(CACHED, 5)
@pytest.mark.parametrize("leading", [(1,), (5, 1, 2), (2, 2)], ids=str)
def test_cached_with_other_axes(subject, draw, reference, leading):
    """Any leading axes will do"""
    text = _text(draw, 5, *leading)
    expect(_in_pieces(subject, text, [3, 2])).equals(_whole(subject, reference, *text))


@clause(CACHED, 6)
def test_cached_leaves_a_word_alone(subject, draw):
    """A single position is left alone, too"""
    cache = subject.efficiency.KVCache()
    cache.append(*_new(draw, 2))
    leaves_inputs_alone(subject, subject.efficiency.cached_attention.on(*_text(draw, 1), cache))


# window_partition and window_reverse


def _cut_out(x, size):
    """The windows, cut out one by one."""
    return torch.stack(
        [
            picture[top : top + size, left : left + size]
            for picture in x
            for top in range(0, x.size(1), size)
            for left in range(0, x.size(2), size)
        ]
    )


_PICTURES = [(1, 1, 1, 1, 1), (2, 4, 4, 1, 1), (1, 6, 9, 2, 3), (3, 8, 4, 4, 4), (2, 5, 5, 3, 5)]


@clause(PARTITION, 1)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_windows_of_any_size(subject, draw, size):
    """Windows may be of any size that divides"""
    x = draw.tensor(1, size, 4 * size, 3)
    expect(subject.efficiency.window_partition(x, size)).equals(_cut_out(x, size))


@clause(PARTITION, 2)
@pytest.mark.parametrize("sizes", _PICTURES, ids=str)
def test_windows_of_any_picture(subject, draw, sizes):
    """Pictures may be of any number and size"""
    *shape, size = sizes
    x = draw.tensor(*shape)
    expect(subject.efficiency.window_partition(x, size)).equals(_cut_out(x, size))


@clause(PARTITION, 2)
def test_pictures_by_themselves(subject, draw):
    """A picture's windows are those that it has among others"""
    x = draw.tensor(3, 4, 6, 2)
    whole = subject.efficiency.window_partition(x, 2)
    for number in range(3):
        alone = subject.efficiency.window_partition(x[number : number + 1], 2)
        expect(alone).equals(whole[6 * number : 6 * number + 6])


@clause(PARTITION, 3)
def test_partition_of_strided_pictures(subject, draw):
    """How the pixels lie in memory does not matter"""
    call = subject.efficiency.window_partition.on(draw.tensor(2, 4, 6, 3), size=2)
    layout_does_not_matter(call, "x")


@clause(PARTITION, 1)
def test_windows_in_single_precision(subject, draw):
    """float32 pictures give float32 windows"""
    call = subject.efficiency.window_partition.on(draw.tensor(2, 4, 6, 3), 2)
    same_in_single_precision(call, "x")


@clause(PARTITION, 3)
def test_channels_first_in_memory(subject, draw):
    """Pictures whose channels came first, as those of a convolution do"""
    x = draw.tensor(2, 3, 6, 4).permute(0, 2, 3, 1)
    expect(subject.efficiency.window_partition(x, 2)).equals(_cut_out(x, 2))


@clause(PARTITION, 4)
@pytest.mark.parametrize("pixels", [(6, 10), (7, 8), (2, 4), (4, 1)], ids=str)
def test_pixels_left_over(subject, draw, pixels):
    """Neither a row nor a column may be left over"""
    with subject.raises("Exception"):
        subject.efficiency.window_partition(draw.tensor(2, *pixels, 3), 4)


@clause(PARTITION, 5)
def test_turned_pictures_are_left_alone(subject, draw):
    """Pictures that lie otherwise in memory are left alone, too"""
    x = draw.tensor(2, 6, 4, 3).transpose(1, 2)
    leaves_inputs_alone(subject, subject.efficiency.window_partition.on(x, 2))


@clause(REVERSE, 1)
@pytest.mark.parametrize("sizes", [s for s in _PICTURES if s[0] == 1], ids=str)
def test_one_picture_comes_back(subject, draw, sizes):
    """Windows that were cut out one by one become the picture again"""
    *shape, size = sizes
    x = draw.tensor(*shape)
    found = subject.efficiency.window_reverse(_cut_out(x, size), size, shape[1], shape[2])
    expect(found).equals(x)


@clause(REVERSE, 2)
@pytest.mark.parametrize("sizes", [s for s in _PICTURES if s[0] > 1], ids=str)
def test_pictures_come_back(subject, draw, sizes):
    """The windows of many pictures become those pictures again"""
    *shape, size = sizes
    x = draw.tensor(*shape)
    found = subject.efficiency.window_reverse(_cut_out(x, size), size, shape[1], shape[2])
    expect(found).equals(x)


@clause(REVERSE, 3)
@pytest.mark.parametrize("pixels", [(4, 8), (8, 4), (2, 10)], ids=str)
def test_oblong_picture_comes_back(subject, draw, pixels):
    """Height and width may differ, by name, too"""
    x = draw.tensor(2, *pixels, 3)
    found = subject.efficiency.window_reverse(
        _cut_out(x, 2), size=2, height=pixels[0], width=pixels[1]
    )
    expect(found).equals(x)


@clause(REVERSE, 3)
def test_reverse_of_strided_windows(subject, draw):
    """How the pixels lie in memory does not matter"""
    call = subject.efficiency.window_reverse.on(draw.tensor(12, 2, 2, 3), 2, 4, 6)
    layout_does_not_matter(call, "windows")


@clause(REVERSE, 4)
def test_windows_of_one_are_left_alone(subject, draw):
    """A single window is left alone, too"""
    call = subject.efficiency.window_reverse.on(draw.tensor(1, 3, 3, 2), 3, 3, 3)
    leaves_inputs_alone(subject, call)


# shifted_window_mask


def _may_attend(height, width, size, shift):
    """By the pixels' own places: as far apart after the roll as before it."""
    where = torch.cartesian_prod(torch.arange(height), torch.arange(width)).view(height, width, 2)
    before = _cut_out(where.roll((-shift, -shift), (0, 1))[None], size).flatten(1, 2)
    after = _cut_out(where[None], size).flatten(1, 2)
    apart = [places[:, :, None] - places[:, None] for places in (before, after)]
    return (apart[0] == apart[1]).all(-1)


_SHIFTS = [(4, 4, 2, 1), (6, 9, 3, 1), (9, 6, 3, 2), (8, 4, 4, 3), (4, 4, 4, 1), (5, 10, 5, 2)]


@clause(SHIFTED, 1)
@pytest.mark.parametrize("sizes", _SHIFTS, ids=str)
def test_shifted_form_at_any_size(subject, sizes):
    """The mask is bool, a square for each window of a picture of any size"""
    subject.efficiency.shifted_window_mask(*sizes)


@clause(SHIFTED, 2)
@pytest.mark.parametrize("sizes", _SHIFTS, ids=str)
def test_as_far_apart_as_before(subject, sizes):
    """Pixels that are as far apart as they were see each other"""
    expected = _may_attend(*sizes)
    expect(subject.efficiency.shifted_window_mask(*sizes), where=expected).equals(expected)


@clause(SHIFTED, 2)
def test_pixel_sees_itself(subject):
    """Every pixel sees itself"""
    found = subject.efficiency.shifted_window_mask(6, 6, 3, 1)
    expect(found.diagonal(dim1=1, dim2=2)).equals(torch.ones(4, 9).bool())


@clause(SHIFTED, 3)
@pytest.mark.parametrize("sizes", _SHIFTS, ids=str)
def test_not_as_far_apart_as_before(subject, sizes):
    """Pixels that came together by the roll alone do not see each other"""
    expected = _may_attend(*sizes)
    expect(subject.efficiency.shifted_window_mask(*sizes), where=~expected).equals(expected)


@clause(SHIFTED, 3)
def test_seeing_goes_both_ways(subject):
    """Who is seen, sees"""
    found = subject.efficiency.shifted_window_mask(6, 9, 3, 2)
    expect(found).equals(found.mT)


@clause(SHIFTED, 4)
@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 8, 2), (6, 4, 1)], ids=str)
def test_no_shift_at_any_size(subject, sizes):
    """Without a shift, nothing is hidden, whatever the sizes"""
    height, width, size = sizes
    found = subject.efficiency.shifted_window_mask(height, width, size, shift=0)
    expect(found).equals(torch.ones_like(found))


# fast_attention


def _slow(query, key, value, mask=None):
    scores = query.double() @ key.double().mT / key.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return (torch.softmax(scores, dim=-1) @ value.double()).to(query.dtype)


_DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@clause(FAST, 1)
@pytest.mark.parametrize("d_k", [1, 8, 40])
def test_fast_for_any_width(subject, draw, d_k):
    """The scale fits keys of any width, values as wide or not"""
    for d_v in (d_k, 5):
        inputs = draw.tensor(2, 3, 4, d_k), draw.tensor(2, 3, 6, d_k), draw.tensor(2, 3, 6, d_v)
        expect(subject.efficiency.fast_attention(*inputs)).equals(_slow(*inputs))


@clause(FAST, 1)
def test_fast_samples_by_themselves(subject, draw):
    """What stands elsewhere in the batch does not change an output"""
    call = subject.efficiency.fast_attention.on(*draw.attention_inputs(3, 2))
    alone_as_in_batch(call, "query", "key", "value")


@clause(FAST, 1)
def test_fast_in_single_precision(subject, draw):
    """float32 gives the same output in float32, up to rounding"""
    call = subject.efficiency.fast_attention.on(*draw.attention_inputs(3, 2))
    same_in_single_precision(call, "query", "key", "value")


@clause(FAST, 1)
def test_fast_order_of_keys_does_not_matter(subject, draw):
    """Keys and values in another order give the same outputs"""
    call = subject.efficiency.fast_attention.on(*draw.attention_inputs(3))
    permutes_alike(call, draw, {"key": [1], "value": [1]}, [()])


@clause(FAST, 1)
def test_fast_of_strided_inputs(subject, draw):
    """How the inputs lie in memory does not change the output"""
    call = subject.efficiency.fast_attention.on(*draw.attention_inputs(3, 2))
    layout_does_not_matter(call, "query", "key", "value")


@clause(FAST, 2)
@pytest.mark.parametrize("leading", [(3,), (1,), ()], ids=["full", "batch-of-1", "shared"])
def test_fast_masks_for_3d(subject, draw, leading):
    """Without heads, any mask that broadcasts hides its keys"""
    query, key, value = draw.attention_inputs(3)
    mask = draw.mask(*leading, query.size(-2), key.size(-2))
    found = subject.efficiency.fast_attention(query, key, value, mask)
    expect(found).equals(_slow(query, key, value, mask))


@clause(FAST, 2)
@pytest.mark.parametrize("rows", [1, 4], ids=["padding", "square"])
def test_fast_mask_of_equal_sizes(subject, draw, rows):
    """Rows are queries and columns keys, where sizes agree, too"""
    query, key, value = (draw.tensor(3, 2, 4, 8) for _ in range(3))
    mask = draw.mask(3, 1, rows, 4)
    found = subject.efficiency.fast_attention(query, key, value, mask=mask)
    expect(found).equals(_slow(query, key, value, mask))


@clause(FAST, 2)
def test_fast_hidden_content_moves_nothing(subject, draw):
    """Where a mask is not True, it does not matter what stands there"""
    query, key, value = draw.attention_inputs(3)
    mask = draw.mask(3, 1, key.size(1))
    call = subject.efficiency.fast_attention.on(query, key, value, mask)
    unmoved_by(call, draw, "value", ~mask.mT, [None])


@clause(FAST, 3)
@pytest.mark.parametrize("dtype", _DTYPES[2:], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("leading", [(3,), (2, 3)], ids=["3d", "4d"])
def test_fast_in_half_precision_of_any_rank(subject, draw, dtype, leading):
    """With heads and without, values as wide as keys"""
    query, key, value = (draw.tensor(*leading, seq, 8, dtype=dtype) for seq in (4, 7, 7))
    mask = draw.mask(leading[0], *(1 for _ in leading), 7)
    for case in ((query, key, value), (query, key, value, mask)):
        expect(subject.efficiency.fast_attention(*case)).equals(_slow(*case))


@clause(FAST, 4)
@pytest.mark.parametrize("dtype", _DTYPES[1:3], ids=["float32", "float16"])
def test_fast_is_fused_with_mask(subject, draw, dtype):
    """torch's own attention does the work with a mask, too"""
    inputs = [draw.tensor(3, 2, seq, 8, dtype=dtype) for seq in (4, 5, 5)]
    mask = draw.mask(3, 1, 4, 5)
    call = subject.efficiency.fast_attention.on(*inputs, mask)
    is_written_out(subject, call, _slow(*inputs, mask))


@clause(FAST, 5)
def test_fast_gradients_fit_values(subject, draw):
    """The gradients are those of the values"""
    call = subject.efficiency.fast_attention.on(*draw.attention_inputs(3))
    gradient_fits(subject, call, draw, "query", "key", "value")


@clause(FAST, 6)
def test_fast_leaves_3d_inputs_alone(subject, draw):
    """Queries without heads and without a mask work, too"""
    inputs = draw.attention_inputs(3)
    leaves_inputs_alone(subject, subject.efficiency.fast_attention.on(*inputs))


# attention_cost


def _counted(seq_len, d_model, num_heads):
    """Counted by hand: every head, every query, every key, every number."""
    d_k = d_model // num_heads
    scores = num_heads * seq_len**2
    return scores * d_k + num_heads * seq_len * d_k * seq_len, 4 * scores


_SIZES = [(1, 1, 1), (2, 6, 3), (7, 6, 1), (7, 6, 6), (100, 40, 5), (1024, 512, 8)]


@clause(COST, 1)
def test_work_of_any_size(subject):
    """Any length, width and number of heads"""
    calls = [subject.efficiency.attention_cost.on(*sizes) for sizes in _SIZES]
    give(calls, [_counted(*sizes) for sizes in _SIZES], part=0)


@clause(COST, 1)
def test_heads_cost_no_work(subject):
    """More heads, the same work"""
    calls = [subject.efficiency.attention_cost.on(9, 24, num_heads=n) for n in (1, 2, 3, 8, 24)]
    give(calls, [_counted(9, 24, 1)] * len(calls), part=0)


@clause(COST, 2)
def test_memory_of_any_size(subject):
    """Any length, width and number of heads"""
    calls = [subject.efficiency.attention_cost.on(*sizes) for sizes in _SIZES]
    give(calls, [_counted(*sizes) for sizes in _SIZES], part=1)


@clause(COST, 2)
def test_real_scores_take_as_much(subject, draw):
    """The scores of a real attention take as many bytes"""
    query, key = draw.tensor(1, 3, 5, 4), draw.tensor(1, 3, 5, 4)
    scores = query.float() @ key.float().mT
    found = subject.efficiency.attention_cost(5, 12, 3)[1]
    expect(found).equals(scores.numel() * scores.element_size())


@clause(COST, 3)
@pytest.mark.parametrize("sizes", [(2_000_000_011, 1536, 24), (3_000_000_019, 30, 5), (13, 10, 5)])
def test_cost_is_exact_for_any_size(subject, sizes):
    """However many positions: they divide both numbers without a rest"""
    found = subject.efficiency.attention_cost(*sizes)
    expect([number % sizes[0] for number in found]).equals([0, 0])
