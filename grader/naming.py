"""Which known mistake a report names: one that nothing contradicts, or none.

Two mistakes at once, or one that nobody has thought of, may look in a single check like a third.
So all checks of the exercise are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.model import CheckResult, Outcome, say


def named(checks: Sequence[CheckResult]) -> list[CheckResult]:
    """The checks of an exercise, and in those that failed the mistake that is to blame.

    A mistake accounts for a failed check if it fails there in the same way. It is named

    * where it alone accounts for everything that failed, and fails nowhere else;
    * else, with other mistakes in the code, where a check has found numbers that it alone gives,
      if it accounts for every check that it is known to fail, and for half of what failed at least.

    Alone: a mistake that is known to fail in a check that has passed is not in the code. Of several
    that have the same title, any will do.
    """
    failed = {c.id for c in checks if c.outcome is not Outcome.PASSED or c.alike}  # or is void
    fails = {id: set(where) for check in checks for id, where in check.found_in.items()}
    accounts = {id: {check.id for check in checks if id in check.alike} for id in fails}
    possible = {id for id in fails if fails[id] <= failed}
    likely = {
        id for id in possible if fails[id] == accounts[id] and 2 * len(fails[id]) >= len(failed)
    }
    whole = {id for id in likely if fails[id] == failed}

    def name(check: CheckResult) -> CheckResult:
        left = [id for id in check.suspects if id in (whole or possible)]
        titles = {check.suspects[id] for id in left}
        certain = len(titles) == 1 and likely.issuperset(left) and bool(whole or check.telling)
        if not certain or check.outcome is Outcome.PASSED:
            return check
        lines = tuple(say(line) for line in check.suspects[left[0]] if line)
        return replace(check, mistake=left[0], message=lines + check.message)

    return [name(check) for check in checks]
