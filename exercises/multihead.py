"""Multi-head attention: how can a position look for several things at once?

One attention gives each position one set of weights: one kind of question. A word, though, may need
its subject, its tense and what it refers to. So the vectors are cut into slices, each slice attends
by itself, and what they found is joined and mixed. The work is that of one wide attention.

Notation: ``batch`` sentences, ``seq`` positions (``seq_q`` ask, ``seq_k`` are asked), ``d_model``
numbers in each token vector, ``num_heads`` slices of ``d_k = d_model / num_heads`` numbers. A mask
is bool: True = may attend, False = hidden.
"""

from __future__ import annotations

from torch import Tensor, nn

from .attention import scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each on its own slice of the vectors.

    This exercise is the constructor: it makes what the others use.

    Args:
        d_model: width of a token vector.
        num_heads: number of slices; it divides ``d_model``.

    Raises:
        ValueError or AssertionError: ``num_heads`` does not divide ``d_model``.

    Contract:
        1. ``w_q``, ``w_k``, ``w_v`` and ``w_o`` are nn.Linear(d_model, d_model), each with a weight
           and a bias of its own, and nothing else is trained.
        2. ``num_heads`` keeps the number of heads, and the int ``d_k`` is d_model / num_heads.
        3. A ``d_model`` that ``num_heads`` does not divide raises ValueError or AssertionError.

    Elsewhere:
        The paper writes matrices without a bias; torch's own module has biases, and so has this.
        One Linear of 3 * d_model makes all three in one product; three can be told apart by name.
        Some modules drop weights, add the query and normalise. Dropout, the sum and the norm belong
        to the encoder's layer here, so that each stands in one place.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        # Your code here.
        raise NotImplementedError("multihead.MultiHeadAttention")

    def split_heads(self, x: Tensor, batch_size: int) -> Tensor:
        """Cut each token vector into one slice per head, and put the heads before the positions.

        Attention works on the last two axes, positions and features. With the heads in front, all
        of them run in one call.

        Args:
            x: the token vectors, ``[batch, seq, d_model]``.
            batch_size: the number of sentences, ``x.size(0)``.

        Returns:
            The slices, ``[batch, num_heads, seq, d_k]``.

        Contract:
            1. The output is [batch, num_heads, seq, d_k]: heads before positions.
            2. Head h takes d_k neighbouring features of each token: from h * d_k on.
            3. Position t of every head comes from position t of x: no two positions are mixed.

        Source: Vaswani et al. 2017, section 3.2.2.
        """
        # Your code here.
        raise NotImplementedError("multihead.MultiHeadAttention.split_heads")

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Project, split, attend in every head, join, and mix what the heads found.

        Args:
            query: the vectors that ask, ``[batch, seq_q, d_model]``.
            key: the vectors that are matched, ``[batch, seq_k, d_model]``.
            value: the vectors that are mixed, ``[batch, seq_k, d_model]``.
            mask: bool, True where a query may attend, broadcastable to
                ``[batch, num_heads, seq_q, seq_k]``.

        Returns:
            The output ``[batch, seq_q, d_model]`` and each head's weights
            ``[batch, num_heads, seq_q, seq_k]``.

        Contract:
            1. Queries are w_q(query), keys are w_k(key) and values are w_v(value), also where the
               three inputs differ.
            2. Each head attends on its own slice, with scores divided by sqrt(d_k) of one head; the
               weights of every head are returned, and nothing is dropped, in training as in
               evaluation.
            3. The heads' results are joined in order, position by position, and pass through w_o.
            4. The output has one row per query, also where there are more or fewer keys, and
               forward works wherever the module and its inputs live.
            5. A mask hides keys where it is False, in the sentence, head and query that it names: a
               hidden key gets weight 0, and the visible ones share out 1.
            6. The gradients of these formulas reach the three inputs and every parameter; the
               inputs and the mask are left as they were.

        Elsewhere:
            torch.nn.MultiheadAttention returns the mean of the heads' weights. Here each head's are
            returned: that heads differ is what there is to see.
            Some add the axis of the heads to the mask. Here it has that axis already, where it has
            more than two.

        Source: Vaswani et al. 2017, section 3.2.2.
        """
        # Your code here.
        raise NotImplementedError("multihead.MultiHeadAttention.forward")
