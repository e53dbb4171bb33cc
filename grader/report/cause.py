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


def costs(failed: Iterable[tuple[int, int | None, bool]]) -> Message | None:
    """Which clauses lose their points, where it is not just the one at which something fails.

    Args:
        failed: of each failed check, its clause, the clause that the one mistake there is breaks,
            and whether a mistake is named.
    """
    found = list(failed)
    clauses = sorted({clause for clause, _, _ in found})
    broken = next((breaks for _, breaks, _ in found if breaks), None)
    if len(clauses) < 2:
        return None
    if broken:
        others = ", ".join(str(clause) for clause in clauses if clause != broken)
        return say(
            "(one mistake costs once: points are lost at clause {clause} alone; what fails at"
            " {spared} comes of it)",
            clause=broken,
            spared=others,
        )
    if any(named for _, _, named in found):
        return say(
            "(more than one thing is wrong, so each clause at which something fails loses its"
            " points: mend one, and check again)"
        )
    return None
