"""What people read where files have a name: of an outcome, and of a submission's status."""

from __future__ import annotations

from grader.model import Outcome, say

OUTCOMES = {
    Outcome.PASSED: say("passed"),
    Outcome.WRONG_VALUE: say("wrong value"),
    Outcome.WRONG_SHAPE: say("wrong shape"),
    Outcome.WRONG_DTYPE: say("wrong dtype"),
    Outcome.WRONG_DEVICE: say("wrong device"),
    Outcome.RAISED: say("an exception"),
    Outcome.FORBIDDEN_CALL: say("a forbidden call"),
    Outcome.NOT_ATTEMPTED: say("not attempted"),
    Outcome.TIMEOUT: say("out of time"),
    Outcome.OUT_OF_MEMORY: say("out of memory"),
    Outcome.CRASHED: say("a crash"),
    Outcome.BLOCKED: say("blocked"),
    Outcome.GRADER_ERROR: say("the grader failed"),
}
STATUSES = {
    "graded": say("graded"),
    "ungraded": say("ungraded"),
    "unreadable": say("unreadable"),
}
