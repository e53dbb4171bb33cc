"""The autograder: intake -> subject -> judge -> score -> report.

Each stage imports only what stands left of it.
"""

__version__ = "0.1.0"
