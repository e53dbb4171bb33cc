"""``python -m grader``: the command line."""

import sys
from importlib.util import find_spec
from pathlib import Path

# Python put the current folder there, and a student's rich.py would be taken for rich.
if sys.path[0] in ("", str(Path.cwd())):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

if not all(map(find_spec, ("rich", "torch", "numpy", "safetensors", "pytest"))):
    sys.exit(
        "The course has a Python of its own: run `make check`, or `python tools/set_up.py` and then"
        " `.venv/bin/python -m grader check` (on Windows `.venv\\Scripts\\python.exe`)."
    )

from grader.cli import main

if __name__ == "__main__":
    sys.exit(main())
