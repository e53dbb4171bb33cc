"""The encoder: what makes a deep network of attention trainable?

Attention moves knowledge between positions; a feed-forward network then thinks about each position
alone. Around both stand three helpers: a residual connection (the way past a layer, for knowledge
and for gradients), a layer norm (numbers of a steady size) and dropout (against learning by heart).
Stacked, such layers read a text.

Notation: ``batch`` sentences of ``seq`` tokens with ``d_model`` numbers each; ``d_ff`` is the inner
width of the feed-forward network. A mask is bool: True = may attend, False = hidden.
"""

from __future__ import annotations

from torch import Tensor, nn

from .masks import create_padding_mask
from .multihead import MultiHeadAttention
from .positional import PositionalEncoding


class TransformerEncoderLayerSimple(nn.Module):
    """One layer: look around, then think, each with a way past it and a norm after it.

    Args:
        d_model: width of a token vector.
        num_heads: number of attention heads; it divides ``d_model``.
        d_ff: inner width of the feed-forward network.
        dropout: probability with which a number is zeroed in training, from 0 to 1.

    Contract:
        1. First x = norm1(x + dropout(a)), where a is the output of ``self_attn`` from x to itself.
        2. Then x = norm2(x + dropout(f)), where f is feed_forward(x); this tensor is returned.
        3. ``feed_forward`` is Linear(d_model, d_ff), ReLU, Linear(d_ff, d_model), made in this
           order, and has no other weights; beside it, only ``self_attn`` and the norms have any.
        4. ``norm1`` and ``norm2`` are two separate nn.LayerNorm(d_model), of any usual eps: each
           token is normalised by itself.
        5. In training, dropout acts on a and on f alone, number by number, before they are added;
           in evaluation, nothing is dropped.
        6. The mask reaches ``self_attn``, and hides keys as it does there.
        7. The gradient of these formulas reaches x, and the caller's x and mask stay as they were.

    Elsewhere:
        GPT-2 and most of what came after it normalise what goes into a sublayer ("pre-norm"), which
        is easier to train when deep. Here the norm comes after the sum ("post-norm"), as in the
        paper.
        BERT and GPT have a GELU; the paper has the ReLU.
        torch.nn.TransformerEncoderLayer drops attention weights and the inner numbers of the
        feed-forward network too. The paper names the two places of clause 5.
        An eps from 1e-12 to 1e-5 is usual; it is added to the variance, which counts all d_model
        numbers, as nn.LayerNorm has it.

    Source: Vaswani et al. 2017, sections 3.1, 3.3 and 5.4.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        # Your code here.
        raise NotImplementedError("encoder.TransformerEncoderLayerSimple")

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Refine every token's vector by what stands around it.

        Args:
            x: the token vectors, ``[batch, seq, d_model]``.
            mask: bool, True where a position may attend, broadcastable to
                ``[batch, num_heads, seq, seq]``.

        Returns:
            The refined vectors, ``[batch, seq, d_model]``.
        """
        # Your code here.
        raise NotImplementedError("encoder.TransformerEncoderLayerSimple")


class TransformerEncoder(nn.Module):
    """From token numbers to vectors that know their sentence: embedding, positions, layers.

    Args:
        vocab_size: how many different tokens there are.
        d_model: width of a token vector, even.
        num_heads: number of attention heads; it divides ``d_model``.
        d_ff: inner width of the feed-forward networks.
        num_layers: how many layers are stacked, at least 1.
        max_len: the longest sentence.
        dropout: probability of dropout inside the layers.
        pad_id: the token that fills up short sentences.

    Contract:
        1. Each token starts as its row of ``embedding`` (nn.Embedding), unscaled, plus the row of
           ``positional`` (PositionalEncoding) for its place, added once.
        2. ``layers`` (nn.ModuleList) holds num_layers TransformerEncoderLayerSimple, each with
           weights of its own, and they are applied in order; what the last one gives is returned.
        3. Padding is hidden as a key from every query, in every layer, and real tokens are not:
           more padding at a sentence's end changes no real token's vector.
        4. ``pad_id`` alone says what is padding; where it is not 0, token 0 is a real one. The
           token ids are left as they were.
        5. Dropout acts inside the layers, with the probability ``dropout``, and nowhere else.
        6. Wherever the module and the token ids live, forward works there: no mask and no table is
           left on the CPU.
        7. Every parameter is trained: the gradients reach ``embedding`` and all layers. Nothing
           else has parameters.

    Elsewhere:
        The paper multiplies the embedding by sqrt(d_model), since it shares the matrix with the
        output layer, and drops numbers of the sum. Here nothing is shared and torch's embedding has
        numbers of size 1 already; and dropout stands in one place.
        Pre-norm stacks need a norm after the last layer. These layers end with one.

    Source: Vaswani et al. 2017, section 3.1 and figure 1, left half.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        max_len: int = 512,
        dropout: float = 0.1,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        # Your code here.
        raise NotImplementedError("encoder.TransformerEncoder")

    def forward(self, token_ids: Tensor) -> Tensor:
        """Read the sentences.

        Args:
            token_ids: the vocabulary's numbers, ``[batch, seq]``, int64; ``seq`` is at most
                ``max_len``, and every sentence has a real token.

        Returns:
            One vector per token, ``[batch, seq, d_model]``; those of padding mean nothing.
        """
        # Your code here.
        raise NotImplementedError("encoder.TransformerEncoder")
