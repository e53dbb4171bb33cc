"""Positions: how does attention learn that a token stands before another?

Attention treats a sentence as a bag of words: shuffle them and the same results come out, shuffled.
So each position gets a vector of its own, added to the token that stands there. It may be computed
(sines) or learned (a table), and the sines have a gift: a step along the sentence is one matrix.

Notation: ``batch`` sentences of ``seq`` tokens with ``d_model`` numbers each; ``pos`` counts
positions from 0; ``max_len`` rows are kept in the table.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    """Add a fixed pattern of waves to the tokens, so that positions can be told apart.

    Fast waves tell neighbours apart, slow ones tell the start of a text from its end, like the
    hands of a clock.

    Args:
        d_model: width of a token vector, an even number.
        max_len: number of positions in the table.

    Raises:
        Any exception: forward is given more than ``max_len`` positions. Say so by a ValueError, or
            let the addition fail.

    Contract:
        1. Column 2i of the buffer ``pe`` [1, max_len, d_model] is sin(pos / 10000^(2i / d_model)),
           at least as exact as in float32 arithmetic.
        2. Column 2i + 1 is the cosine of the same angle.
        3. forward adds the first seq rows to each sentence and does nothing else: no scaling, and
           no dropout, in training or out of it; the gradient reaches x as it is.
        4. What forward adds is the buffer ``pe``, which follows the module in ``.to(...)``.
        5. Nothing here is trained: the module has no parameters.
        6. A sentence longer than ``max_len`` raises an exception, where ``max_len`` is 2 or more.
        7. The caller's tensor is left as it was.

    Elsewhere:
        The authors' own code puts all sines first and all cosines after them. The paper's formula
        has them in turn, and so has this table.
        PyTorch's tutorial has a table [max_len, 1, d_model], for tokens [seq, batch, d_model], and
        drops numbers of the sum; some code multiplies x by sqrt(d_model) first. Here the batch
        comes first, and forward adds and does no more, so that it can be tried by itself.
        Where a sentence is too long, some code makes a longer table, and some cuts. A model has
        never met the positions that come then, so here it is an error.

    Source: Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, d_model: int, max_len: int = 512) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % 2 != 0:
            raise ValueError(f"d_model={d_model} is odd: a sine would be left without its cosine")
        # In float64: a table computed in float32 is off by up to 3e-5 at position 500.
        pos = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)  # [max_len, 1]
        even = torch.arange(0, d_model, 2, dtype=torch.float64)  # [d_model / 2], the numbers 2i
        angles = pos / 10000.0 ** (even / d_model)  # [max_len, d_model / 2]
        # Sine and cosine of one angle become neighbours: sin, cos, sin, cos, ...
        table = torch.stack((angles.sin(), angles.cos()), dim=-1)  # [max_len, d_model / 2, 2]
        table = table.flatten(start_dim=1).unsqueeze(0)  # [1, max_len, d_model]
        # A buffer goes along to another device or dtype, and no optimizer touches it.
        self.pe: Tensor
        self.register_buffer("pe", table.to(torch.get_default_dtype()))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Mark each token with its position.

        Args:
            x: the token vectors, ``[batch, seq, d_model]``.

        Returns:
            The marked vectors, with the shape and the dtype of x.
        """
        ### BEGIN SOLUTION
        seq, max_len = x.size(1), self.pe.size(1)
        if seq > max_len:
            raise ValueError(f"{seq} positions, but the table has only max_len={max_len}")
        # A new tensor: `x += ...` would write into the caller's own.
        return x + self.pe[:, :seq]  # [batch, seq, d_model]
        ### END SOLUTION


class LearnedPositionalEmbedding(nn.Module):
    """Add a vector that is learned for each position, as BERT and GPT do.

    It fits the task, but knows no position beyond ``max_len``, and costs parameters.

    Args:
        max_len: number of positions in the table.
        d_model: width of a token vector.

    Contract:
        1. ``embedding`` is an nn.Embedding(max_len, d_model): one trainable row per position, and
           nothing else is trained.
        2. forward adds the first seq rows to every sentence, row t to the token at position t, and
           leaves the caller's tensor as it was.
        3. The gradient of the output reaches x and the first seq rows, and none of the others.
        4. Wherever the module and x live, forward works there: no index is left on the CPU.

    Elsewhere:
        BERT normalises the sum and drops some of its numbers. Here it is the sum alone, as in
        PositionalEncoding, so that the two can be exchanged.

    Source: Devlin et al. 2019, "BERT", section 3; Gehring et al. 2017, section 3.1.
    """

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        # A lookup by position in place of a word's number.
        self.embedding = nn.Embedding(max_len, d_model)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Mark each token with its position.

        Args:
            x: the token vectors, ``[batch, seq, d_model]``.

        Returns:
            The marked vectors, ``[batch, seq, d_model]``.
        """
        ### BEGIN SOLUTION
        # Positions are made where x lives: a table on the GPU cannot be read by indices on the CPU.
        positions = torch.arange(x.size(1), device=x.device)  # [seq]
        rows: Tensor = self.embedding(positions)  # [seq, d_model]
        return x + rows  # [batch, seq, d_model]
        ### END SOLUTION


def relative_shift_matrix(d_model: int, offset: int) -> Tensor:
    """Find the one matrix that moves every position's sines ``offset`` steps along.

    This is why sines encode relative position: "three tokens further" is the same linear map
    everywhere in the text, so a projection such as w_q can learn it.

    Below, pe[pos] is the row of position pos in the table of PositionalEncoding (sine on even
    columns, cosine on odd ones, base 10000), computed in float64.

    Args:
        d_model: width of a row, an even number.
        offset: steps to move; negative ones go back.

    Returns:
        The matrix M, float64 ``[d_model, d_model]``.

    Contract:
        1. pe[pos + offset] = pe[pos] @ M: the row stands left of the matrix.
        2. The one M serves every position, at the start and thousands of tokens later.
        3. An offset of 0 leaves each row as it is, and a negative offset goes back by as much.

    Elsewhere:
        Books turn columns, M @ pe, and so write the transposed matrix. In this course a vector is a
        row, as in x @ w_q.

    Source: Vaswani et al. 2017, section 3.5.
    """
    ### BEGIN SOLUTION
    columns = torch.arange(0, d_model, 2)
    turn = offset / 10000.0 ** (columns.double() / d_model)  # [d_model / 2], one angle per pair
    shift = torch.zeros(d_model, d_model, dtype=torch.float64)
    # sin(a + t) = sin(a) cos(t) + cos(a) sin(t): the column that gives the new sine.
    shift[columns, columns] = turn.cos()
    shift[columns + 1, columns] = turn.sin()
    # cos(a + t) = -sin(a) sin(t) + cos(a) cos(t): the column that gives the new cosine.
    shift[columns, columns + 1] = -turn.sin()
    shift[columns + 1, columns + 1] = turn.cos()
    return shift
    ### END SOLUTION
