"""`make bench`."""

import sys

from bench import check

if __name__ == "__main__":
    sys.exit(0 if check.run() else 1)
