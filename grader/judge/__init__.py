"""The judge: runs checks against a subject, and never imports student code itself.

What a suite imports: ``from grader.judge import clause, expect``.
"""

from grader.judge.expect import expect
from grader.judge.suite import clause

__all__ = ["clause", "expect"]
