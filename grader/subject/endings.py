"""The words for a check that took its process with it; free of torch, for whoever watches."""

from __future__ import annotations

from grader.model import Message, say

NOT_AGAIN = say("Not tried: it went the same way twice.")
NOT_TRIED = say("Not tried: the check before it went that way.")
VANISHED = say("The process ended in the middle of this check: a crash, or `os._exit()`.")


def ran_on(seconds: float) -> Message:
    """It was ended after this long."""
    return say(
        "It was still running after {seconds} seconds: a loop that never ends?",
        seconds=f"{seconds:g}",
    )


def import_ran_on(unit: str) -> Message:
    """Importing a unit was ended."""
    return say(
        "Importing {unit}.py did not come to an end: a loop outside any function?", unit=unit
    )


# These take all of a unit's points, so whoever grades a class is told.
RENAME = say("Rename {near} to {unit}.py: the grader looks for files by name.")
NO_PYTHON = say("Python cannot read this file: {text}")
