"""What makes two failures one, so that a report tells it once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from grader.model import Message, Outcome, say

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


def once(failed: Iterable[tuple[int, int | None]]) -> Message | None:
    """Why some clauses keep their points though checks fail there; None where none does.

    Args:
        failed: of each failed check, its clause, and the clause that its mistake breaks.
    """
    pairs = list(failed)
    spared = {clause for clause, _ in pairs} - {breaks or clause for clause, breaks in pairs}
    if not spared:
        return None
    return say(
        "(one mistake costs once: points are lost at clause {clause} alone; what fails at {spared}"
        " comes of it)",
        clause=next(breaks for _, breaks in pairs if breaks),
        spared=", ".join(map(str, sorted(spared))),
    )
