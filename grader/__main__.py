"""``python -m grader``: the command line."""

import gettext
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if sys.version_info < (3, 8):  # it could not read what follows; this must be readable in 2.7
    say = gettext.translation("grader", ROOT + "/grader/locale", fallback=True).gettext
    sys.exit(
        say(
            "The course needs Python 3.10 or newer; %s is %s. Run `make check`, or with another"
            " one,\nsuch as python3.12: `python3.12 tools/set_up.py`."
        )
        % (sys.executable, sys.version.split()[0])
    )

from importlib.util import find_spec

# Python put the current folder there, and a student's rich.py would be taken for rich.
if sys.path[0] in ("", os.getcwd()):
    sys.path[0] = ROOT

NEEDED = ("rich", "torch", "numpy", "safetensors", "pytest")

if sys.version_info < (3, 10) or not all(map(find_spec, NEEDED)):
    from grader.report.language import Language

    lang = sys.argv[sys.argv.index("--lang") + 1 :][:1] if "--lang" in sys.argv else []
    language = Language(*lang)
    if "doctor" in sys.argv[1:]:  # which is for just that
        from grader import checkup

        sys.exit(1 if checkup.show(language) else 0)
    sys.exit(
        language(
            "The course has a Python of its own: run `make check`, or `python tools/set_up.py` and"
            " then `.venv/bin/python -m grader check` (on Windows `.venv\\Scripts\\python.exe`).\n"
            "What may be wrong with this machine: `make doctor`, or `python -m grader doctor`."
        )
    )

try:
    from grader.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
