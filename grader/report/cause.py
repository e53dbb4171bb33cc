"""What makes two failures one, so that a report tells it once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.model import Outcome

_SIZES = re.compile(r"\d+(, \d+)*")


def cause(mistake: str | None, outcome: str, words: str, frames: Sequence[str]) -> str:
    """The mistake that is named, or all of the words; of a wrong shape, whatever its sizes are.

    Args:
        mistake: its id.
        outcome: of the check.
        words: what is said of it.
        frames: the lines where it happened.

    Returns:
        The same text for the same cause; "" where there is nothing to tell.
    """
    if outcome == Outcome.WRONG_SHAPE.value and not mistake:
        words = _SIZES.sub("n", words)
    return mistake or "\n".join([words, *frames])
