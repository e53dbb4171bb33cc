"""How far apart two right answers may be.

Each budget lies between the spread of right implementations and the nearest mistake, as
`docs/tolerances.csv` shows and `grader calibrate` measures. In float64 most of them agree to 1e-15,
but not all: torch.sqrt(torch.tensor(d_k)) is a float32, and attention scaled by it is off by 1e-7.
"""

from __future__ import annotations

import torch
from torch import Tensor

# dtype -> relative and absolute
BUDGETS: dict[torch.dtype, float] = {
    torch.float64: 1e-6,
    torch.float32: 2e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 6e-2,
}

# Sines computed in float32 throughout, in a table or a matrix: far out, the angle is off by its
# rounding.
FLOAT32_TABLE = 1e-4


def budget(dtype: torch.dtype) -> float:
    """The tolerance of a dtype; integers and bools must agree exactly."""
    return BUDGETS.get(dtype, 0.0)


def distance(found: Tensor, expected: Tensor) -> Tensor:
    """What a budget bounds, entry by entry: absolute for small numbers, relative for large ones."""
    apart = (found - expected).abs() / (1 + expected.abs())
    return torch.where(found == expected, 0.0, apart)  # inf - inf is NaN
