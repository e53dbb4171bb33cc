"""How far apart two right answers may be.

Each budget lies between the spread of right implementations and the nearest mistake. In float64
most of them agree to 1e-15, but not all: torch.sqrt(torch.tensor(d_k)) is a float32, and attention
scaled by it is off by up to 1e-7. The mildest mistake is off by 1e-1, so 1e-6 leaves no debate.
"""

from __future__ import annotations

import torch

# dtype -> relative and absolute
BUDGETS: dict[torch.dtype, float] = {
    torch.float64: 1e-6,
    torch.float32: 2e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 6e-2,
}

# A sine table computed in float32 throughout: the last position's angle is off by its rounding.
FLOAT32_TABLE = 1e-4


def budget(dtype: torch.dtype) -> float:
    """The tolerance of a dtype; integers and bools must agree exactly."""
    return BUDGETS.get(dtype, 0.0)
