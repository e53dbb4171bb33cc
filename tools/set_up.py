"""Makes .venv and installs what this checkout needs; the Makefile calls it, and people may too.

    python tools/set_up.py                        what students need
    python tools/set_up.py instructor dev         and these extras of pyproject.toml
    python tools/set_up.py --torch cpu            see TORCH in the Makefile

All of it is in install.py. This file says in any Python, even in 2.7, that it is too old: so there
is nothing in it that those could not read.
"""

import gettext
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if sys.version_info < (3, 10):
    say = gettext.translation("grader", ROOT + "/grader/locale", fallback=True).gettext
    sys.exit(
        say(
            "This needs Python 3.10 or newer; %s is %s. Run it with another one, such as\n"
            "    python3.12 tools/set_up.py\n"
            "or install one from https://www.python.org/downloads first."
        )
        % (sys.executable, sys.version.split()[0])
    )

sys.path.insert(0, ROOT)

from tools.install import main

if __name__ == "__main__":
    sys.exit(main())
