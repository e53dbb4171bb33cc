"""Efficiency: what does attention cost, and how is it made cheaper?

Every position looks at every other one. Twice the length is four times the work, and four times the
memory for the scores: what made one step enough is what hurts in a long text. Four ways out: cut
the text into pieces; look at a window instead of at everything, in a text or in a picture; keep
what was computed for the words before; and never write the scores down.

Notation: ``batch`` sentences or pictures; ``seq`` positions; ``...`` stands for leading axes, a
batch or a batch and its heads. A mask is bool: True = may attend, False = hidden.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import scaled_dot_product_attention


def chunk_tokens(token_ids: Tensor, size: int, overlap: int = 0) -> list[Tensor]:
    """Cut a long text into pieces that a model can take.

    What stands at a cut has lost its neighbours. So pieces may overlap: each begins with the last
    tokens of the piece before it.

    Args:
        token_ids: the text, int64 ``[seq]``.
        size: how many tokens a piece may have.
        overlap: how many tokens a piece shares with the one before it.

    Returns:
        The pieces in order, each ``[length]``: a list or a tuple.

    Contract:
        1. Every piece has ``size`` tokens; the last one may have fewer, but not none.
        2. Each piece after the first begins with the last ``overlap`` tokens of the piece before
           it. Without these, the pieces joined are the text again, from first token to last.
        3. The first piece that reaches the end of the text is the last: there is no piece of
           tokens that the one before it has already.
        4. An overlap below 0, or not smaller than size, raises ValueError or AssertionError.
        5. The token ids are left as they were.

    Elsewhere:
        Some fill up the last piece, or drop it. To fill up is the business of whoever makes a
        batch, since a padding mask goes with it; and dropping loses text.
        Some begin one more piece within the last overlap. All that is in it was read before.

    Source: Devlin et al. 2019, "BERT", whose positions end at 512; the sliding pieces with overlap
    are those of its program for SQuAD, "document stride".
    """
    # Your code here.
    raise NotImplementedError("efficiency.chunk_tokens")


def sliding_window_mask(seq_len: int, window: int) -> Tensor:
    """Let each position see its nearest past alone, so that the cost grows with seq_len x window.

    Does the rest get lost? Stack such layers, and think of ``limits.receptive_field``.

    Args:
        seq_len: the number of positions, at least 1.
        window: how many positions each one sees, itself counted; at least 1.

    Returns:
        The mask, bool ``[seq_len, seq_len]``; it may live on the CPU.

    Contract:
        1. The mask is bool, with one row per query and one column per key.
        2. A position sees itself and the window - 1 positions before it, as far as there are any.
        3. A position sees nothing that is older.
        4. A position sees nothing that comes after it.

    Elsewhere:
        Longformer's encoder looks half a window back and half a window ahead. Here nobody looks
        ahead.
        Some count the window without the position itself. With a window of 1, a position would then
        see two; here it sees itself, as in Mistral.

    Source: Beltagy et al. 2020, "Longformer", section 3.1; Jiang et al. 2023, "Mistral 7B", whose
    window looks back only, as this one does.
    """
    # Your code here.
    raise NotImplementedError("efficiency.sliding_window_mask")


class KVCache:
    """Keep the keys and values of all words so far, for a model that writes word by word.

    A key and a value depend on their own word alone. So when the next word comes, those of all
    words before it need not be computed again.

    Attributes:
        length: how many positions it holds, an int.

    Contract:
        1. A new cache is made without arguments, and is empty: ``length`` is 0.

    Elsewhere:
        Some caches hold all layers of a model, or have room for a fixed number of positions and
        write over the oldest. This one belongs to one layer, and grows.
        Some are torch modules. There is nothing to be trained in a cache, so this one need not be.

    Source: Shazeer 2019, "Fast Transformer Decoding: One Write-Head is All You Need", section 2.3.
    """

    def __init__(self) -> None:
        # Your code here.
        raise NotImplementedError("efficiency.KVCache")

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put new positions behind those that are there.

        Args:
            key: of the new positions, ``[..., seq, d_k]``, float32 or float64.
            value: of the new positions, ``[..., seq, d_v]``, the dtype of the key.

        Returns:
            All keys ``[..., length, d_k]`` and all values ``[..., length, d_v]``, old and new.

        Contract:
            1. The first time, the keys and values come back as they are.
            2. Later, the new ones stand behind all that came before, in the order in which they
               came.
            3. ``length`` grows by the number of new positions.
            4. Positions may come one at a time or many at once; d_v may differ from d_k; the
               leading axes may be a batch, or a batch and its heads.
            5. Every cache keeps its own: what is put into one is not in another.
            6. Key and value are left as they were.

        Elsewhere:
            Some keep positions on the second axis, before the heads, or keys and values in one
            tensor. Here positions are counted from the end: so heads or none make no difference.

        Source: Shazeer 2019, section 2.3.
        """
        # Your code here.
        raise NotImplementedError("efficiency.KVCache.append")

    def reset(self) -> None:
        """Forget everything, since another text begins.

        Contract:
            1. ``length`` is 0 again.
            2. What is appended next comes back alone: nothing of the text before is in it, neither
               keys nor values.
            3. The next text may have other sizes, a batch of another size above all.

        Elsewhere:
            Some throw the cache away and make a new one. That is as good; but whoever holds the old
            one, as a server does, wants to use it again.

        Source: Shazeer 2019, section 2.3: a cache belongs to one batch of texts.
        """
        # Your code here.
        raise NotImplementedError("efficiency.KVCache.reset")


def cached_attention(query: Tensor, key: Tensor, value: Tensor, cache: KVCache) -> Tensor:
    """Let new positions attend to themselves and to all that came before.

    A text arrives in pieces: the prompt at once, then word by word. The results must be those of a
    model that sees the whole text under a look-ahead mask. The new queries are the last rows of
    that mask: where does its diagonal go when a past stands in front?

    Args:
        query: of the new positions, ``[..., seq, d_k]``, float32 or float64.
        key: of the new positions, ``[..., seq, d_k]``, the dtype of the query.
        value: of the new positions, ``[..., seq, d_v]``, the dtype of the query.
        cache: holds what came before; it knows ``append`` and ``length``.

    Returns:
        The output for the new positions, ``[..., seq, d_v]``.

    Contract:
        1. Each new position attends to itself and to all positions before it, those in the cache
           and the new ones, by scaled dot-product attention.
        2. No new position attends to one that comes after it, whatever the cache holds.
        3. However a text is cut into pieces, the outputs, joined, are those of the whole text under
           a look-ahead mask.
        4. After the call, the new keys and values are in the cache, once.
        5. The leading axes may be a batch, or a batch and its heads, and everything may live on an
           accelerator.
        6. Query, key and value are left as they were.

    Elsewhere:
        ``is_causal=True`` of torch's attention begins its triangle in the upper left corner. With a
        past, that hides what should be seen: it is right for the first piece alone.
        Some functions take a mask, and leave it to the caller to know how long the past is. Here
        the cache knows.

    Source: Vaswani et al. 2017, section 3.2.3, for the mask; Shazeer 2019, section 2.3.
    """
    # Your code here.
    raise NotImplementedError("efficiency.cached_attention")


def window_partition(x: Tensor, size: int) -> Tensor:
    """Cut pictures into square windows, so that each can attend within itself.

    A picture of 56 x 56 patches has almost ten million pairs of them. In windows of 7 x 7, it has
    64 times less; and in a larger picture, twice the patches are twice the work.

    Args:
        x: the pictures, ``[batch, height, width, channels]``.
        size: height and width of a window.

    Returns:
        The windows, ``[batch * height/size * width/size, size, size, channels]``.

    Contract:
        1. Each window is a square of neighbouring pixels, cut out as it is.
        2. First come all windows of the first picture, row by row from the top, each row from left
           to right; then those of the next picture.
        3. Height may differ from width, and the pixels need not lie in memory in their order.
        4. Where size does not divide height or width, an error is raised: no pixel gets lost.
        5. The pictures are left as they were.

    Elsewhere:
        Some fill up pictures that do not fit. Then the filling needs a mask: a business of its own.
        Some keep pictures and windows on axes of their own, or put a window's pixels in a row. One
        axis for all windows is what attention wants for a batch; the row is one ``flatten`` away.

    Source: Liu et al. 2021, "Swin Transformer", section 3.2.
    """
    # Your code here.
    raise NotImplementedError("efficiency.window_partition")


def window_reverse(windows: Tensor, size: int, height: int, width: int) -> Tensor:
    """Put windows together again to the pictures that they were cut from.

    Args:
        windows: ``[batch * height/size * width/size, size, size, channels]``, in the order of
            ``window_partition``.
        size: height and width of a window; it divides ``height`` and ``width``.
        height: of a picture.
        width: of a picture.

    Returns:
        The pictures, ``[batch, height, width, channels]``.

    Contract:
        1. Every pixel is back at the place in its picture that it was cut from.
        2. The number of windows tells how many pictures there are, and each gets its own windows.
        3. Height may differ from width, and the pixels need not lie in memory in their order.
        4. The windows are left as they were.

    Elsewhere:
        Some take the batch instead of counting it. It is in the number of windows.

    Source: Liu et al. 2021, section 3.2.
    """
    # Your code here.
    raise NotImplementedError("efficiency.window_reverse")


def shifted_window_mask(height: int, width: int, size: int, shift: int) -> Tensor:
    """Say which pixels of a window may attend to each other when the windows were shifted.

    Windows alone never hear of each other. So every second layer shifts them: it rolls the picture
    up and to the left, ``torch.roll(x, (-shift, -shift), (1, 2))``, and cuts the same windows. What
    is pushed out at the top comes in again at the bottom: there, a window holds pixels that were
    far apart, and they must not attend to each other.

    Args:
        height: of the picture, a multiple of ``size``.
        width: of the picture, a multiple of ``size``.
        size: height and width of a window.
        shift: how many pixels the picture was rolled by, from 0 to size - 1.

    Returns:
        The mask, bool ``[windows, size * size, size * size]``; it may live on the CPU. Windows are
        in the order of ``window_partition``, a window's pixels row by row.

    Contract:
        1. The mask is bool, one square for each window of one picture.
        2. Two pixels of a window may attend to each other where they are as far apart, down and
           across, as they were before the roll.
        3. Pixels that only the roll has brought together do not see each other: in the windows at
           the bottom, those at the right, and the one in the corner, which holds four pieces.
        4. With a shift of 0, every pixel sees its whole window.

    Elsewhere:
        Swin's own program gives numbers, 0 and -100, to be added to the scores, and no mask at all
        without a shift. Here a mask is bool, and always there, as everywhere in this course.

    Source: Liu et al. 2021, section 3.2 and figure 4.
    """
    # Your code here.
    raise NotImplementedError("efficiency.shifted_window_mask")


def fast_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute attention without ever writing the scores down.

    Keys and values are taken in by blocks; of each row, only its maximum, its sum and its output so
    far are kept, and set right when the next block comes. So memory grows with seq, not with its
    square. torch has it ready: the point is to call it right, and to know that it is.

    Args:
        query: ``[..., seq_q, d_k]``, float16, bfloat16, float32 or float64.
        key: ``[..., seq_k, d_k]``, the dtype of the query.
        value: ``[..., seq_k, d_v]``, the dtype of the query.
        mask: bool, True where a query may attend, broadcastable to ``[..., seq_q, seq_k]``, with
            two axes at least; every query sees a key.

    Returns:
        The output, ``[..., seq_q, d_v]``, in the dtype of the query; there are no weights.

    Contract:
        1. The output is that of scaled_dot_product_attention, the same one at every call.
        2. With a mask, too: True means that a query may attend.
        3. float16 and bfloat16 give the same, right up to their rounding, with and without a mask.
        4. torch.nn.functional.scaled_dot_product_attention does the work: no exponential is taken
           outside of it.
        5. The gradients of the same formulas reach query, key and value.
        6. Query, key, value and mask are left as they were.

    Elsewhere:
        What a query that sees no key gets depends on the version of torch: NaN or zeros. So here
        every query sees one.
        In torch.nn.MultiheadAttention, True hides. In torch's function, True shows, as in this
        course.

    Source: Dao et al. 2022, "FlashAttention", section 3.1; Rabe and Staats 2021, "Self-attention
    Does Not Need O(n²) Memory".
    """
    # Your code here.
    raise NotImplementedError("efficiency.fast_attention")


def attention_cost(seq_len: int, d_model: int, num_heads: int) -> tuple[int, int]:
    """Count what attention costs: work and memory.

    Then play with it. What happens to either number when the length doubles? What, when there are
    twice as many heads? The four projections of a layer take 4 * seq_len * d_model² multiply-adds:
    from which length on is attention the dearer part?

    Args:
        seq_len: the number of positions of the one sentence.
        d_model: width of all heads together.
        num_heads: number of heads; it divides ``d_model``.

    Returns:
        How many multiply-adds, and how many bytes: two ints.

    Contract:
        1. Multiply-adds: those of the two matrix products of self-attention, all heads together.
           One makes the scores of every query with every key, the other mixes the values. Nothing
           else is counted: no projection, no softmax. A product and the sum that it goes into are
           one.
        2. Bytes: what the scores of all heads take as float32, if they are written down.
        3. Both are ints, exact for any size.

    Elsewhere:
        Profilers count operations: two for each multiply-add. Some count the projections, too, or
        two bytes a score, or the scores twice, since the weights take as much once more.

    Source: Vaswani et al. 2017, section 4 and table 1, "complexity per layer".
    """
    # Your code here.
    raise NotImplementedError("efficiency.attention_cost")
