"""Says what the Makefile says, in the reader's language: of each line that is piped into it, what
follows a tab.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grader.report.language import Language


def main() -> int:
    """Translate the lines on the standard input."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    language = Language()
    try:
        for line in sys.stdin:
            head, _, text = line.rstrip("\r\n").rpartition("\t")
            print(head + language(text), flush=True)
    except BrokenPipeError:  # nobody reads on, as in `make help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
