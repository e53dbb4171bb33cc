"""The inputs of checks: drawn so that every size is distinct and no mistake can hide.

Values are float64 N(0, 1) rounded to multiples of 2**-20, from numpy's frozen `RandomState`, so
that they are the same bits on every machine. The seed is the check's id and, in hidden runs, a
secret of the course: the whole class meets the same inputs.
"""

from __future__ import annotations

import functools
import hashlib
import math

import numpy as np
import torch
from torch import Tensor

from grader.subject.proxy import Module
from grader.subject.shapes import resolve


class Draw:
    """Draws inputs for one check.

    Args:
        check: the check's id.
        secret: the course's secret; empty in public runs.
    """

    def __init__(self, check: str, secret: str = ""):
        digest = hashlib.sha256(f"{secret}\n{check}".encode()).digest()
        self.seed = int.from_bytes(digest[:4], "big")

    @functools.cached_property
    def _random(self) -> np.random.RandomState:
        return np.random.RandomState(self.seed)  # costly: only for who draws

    def sizes(self, count: int, low: int = 2, high: int = 7) -> tuple[int, ...]:
        """``count`` sizes between ``low`` and ``high`` inclusive, no two alike."""
        return tuple(int(n) for n in self._random.permutation(np.arange(low, high + 1))[:count])

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> Tensor:
        """Normal values with standard deviation ``scale``."""
        values = np.round(self._random.standard_normal(shape) * scale * 2**20) / 2**20
        return torch.from_numpy(np.asarray(values)).to(dtype)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """int64 values from ``low`` up to, but not including, ``high``."""
        return torch.from_numpy(np.asarray(self._random.randint(low, high, shape, dtype=np.int64)))

    def order(self, count: int) -> Tensor:
        """A permutation of ``count`` places that leaves none of them where it was."""
        return torch.from_numpy(np.roll(np.arange(count), 1 + self._random.randint(count - 1)))

    def attention_inputs(
        self, *leading: int, dtype: torch.dtype = torch.float64
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Query ``[*leading, seq_q, d_k]``, key ``[*leading, seq_k, d_k]``, value
        ``[*leading, seq_k, d_v]``, every size distinct; ``leading`` defaults to a batch of 3.
        """
        leading = leading or (3,)
        free = [n for n in range(2, 9) if n not in leading]
        seq_q, seq_k, d_k, d_v = (int(n) for n in self._random.permutation(free)[:4])
        return (
            self.tensor(*leading, seq_q, d_k, dtype=dtype),
            self.tensor(*leading, seq_k, d_k, dtype=dtype),
            self.tensor(*leading, seq_k, d_v, dtype=dtype),
        )

    def mask(self, *shape: int, hidden: float = 0.4) -> Tensor:
        """bool: about ``hidden`` of the keys are False; every row keeps a visible key and, if it
        has two keys or more, a hidden one.
        """
        chance = self._random.random_sample(shape)
        visible = chance >= hidden
        np.put_along_axis(visible, chance.argmax(-1)[..., None], True, -1)
        if shape[-1] > 1:
            np.put_along_axis(visible, chance.argmin(-1)[..., None], False, -1)
        return torch.from_numpy(visible)

    def tokens(self, batch: int, seq: int, vocab_size: int, pad_id: int = 0) -> Tensor:
        """int64 ``[batch, seq]`` with padding at the left, at the right and in between, and a real
        token in every row.
        """
        ids = self._random.randint(0, vocab_size - 1, (batch, seq), dtype=np.int64)
        ids = ids + (ids >= pad_id)  # any id but pad_id
        padded = self.mask(batch, seq, hidden=0.3).numpy()
        return torch.from_numpy(np.where(padded, ids, pad_id).astype(np.int64))

    def weights(self, module: Module) -> dict[str, Tensor]:
        """A value for every parameter and buffer that the contract of ``module`` declares."""
        declared = module.subject._course.state_shapes(module.exercise.id, module.sizes)
        shapes = {name: resolve(shape, module.sizes) for name, shape in declared.items()}
        # One draw for all, and one memory, which crosses to a worker as one.
        parts = self.tensor(sum(map(math.prod, shapes.values()))).split(
            [math.prod(shape) for shape in shapes.values()]
        )
        return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts)}
