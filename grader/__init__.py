"""The autograder: intake -> subject -> judge -> score -> report, each importing only what stands left of it."""

__version__ = "0.1.0"
