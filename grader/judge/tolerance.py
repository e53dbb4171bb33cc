"""How far apart two right answers may be.

In float64 right implementations agree to 1e-15 and the mildest mistake is off by 1e-1, so 1e-9
leaves no debate. The other budgets lie between the spread of right implementations and the nearest
mistake.
"""

from __future__ import annotations

import torch

# dtype -> relative and absolute
BUDGETS: dict[torch.dtype, float] = {
    torch.float64: 1e-9,
    torch.float32: 2e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 6e-2,
}

# A sine table computed in float32 throughout: the angle of the last position is off by its rounding.
FLOAT32_TABLE = 1e-4


def budget(dtype: torch.dtype) -> float:
    """The tolerance of a dtype; integers and bools must agree exactly."""
    return BUDGETS.get(dtype, 0.0)
