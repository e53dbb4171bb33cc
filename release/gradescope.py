"""The autograder for Gradescope: its zip is uploaded as it is.

    setup.sh          Gradescope runs it once, when it builds the image
    run_autograder    ... and this for each submission
    settings.json     what course staff have chosen

Layout and contract: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import json
from pathlib import Path

from grader.course import ROOT
from release import staff

_TEMPLATE = Path(__file__).with_name("template") / "gradescope"

# unsafe: grade although a container without user namespaces cannot put up the outer wall.
# limit_s: of one submission; less than what is set at Gradescope, which gives no reasons.
settings: dict[str, object] = {"unsafe": False, "limit_s": 480}


def write(folder: Path, root: Path = ROOT) -> None:
    """Fill a folder with the autograder."""
    from grader.grade import course_secret  # with torch

    staff.copy(folder, root)
    for path in sorted(_TEMPLATE.iterdir()):
        target = folder / path.name
        target.write_bytes(path.read_bytes())
        target.chmod(0o755)
    text = json.dumps(settings, indent=1) + "\n"
    (folder / "settings.json").write_text(text, encoding="utf-8", newline="\n")
    # So that everybody's hidden inputs are the same, in whichever container.
    (folder / ".course-secret").write_text(course_secret() + "\n", encoding="utf-8")
