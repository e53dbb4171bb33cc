"""``python -m grader``: the command line."""

import sys
from pathlib import Path

# Python put the current folder there, and a student's rich.py would be taken for rich.
if sys.path[0] in ("", str(Path.cwd())):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from grader.cli import main

if __name__ == "__main__":
    sys.exit(main())
