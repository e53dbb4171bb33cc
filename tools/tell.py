"""Says what the Makefile says, in the reader's language: of each line that is piped into it, what
follows a tab.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grader.report.language import Language


def main() -> int:
    """Translate the lines on the standard input."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    language = Language()
    for line in sys.stdin:
        head, _, text = line.rstrip("\r\n").rpartition("\t")
        print(head + language(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
