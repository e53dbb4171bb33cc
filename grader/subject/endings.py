"""The words for a check that took its process with it; free of torch, for whoever watches."""

from __future__ import annotations

from grader.model import Message, Outcome, say

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

TIME_USED_UP = say("Not tried: the time for this submission was used up.")
# By how many checks before it have ended so, and how.
_NOT_TRIED = {
    (Outcome.TIMEOUT, 1): say("Not tried: the check before it never ended."),
    (Outcome.TIMEOUT, 2): say("Not tried: two checks before it never ended."),
    (Outcome.CRASHED, 1): say("Not tried: the check before it ended in a crash."),
    (Outcome.CRASHED, 2): say("Not tried: two checks before it ended in a crash."),
}
UNTRIED = (TIME_USED_UP, *_NOT_TRIED.values())


def not_tried(outcome: Outcome, times: int) -> Message:
    """A check that would have gone the way of those before it."""
    return _NOT_TRIED[outcome, times]
