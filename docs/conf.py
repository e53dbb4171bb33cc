"""The site: ``make docs`` builds it into build/docs, where a dead link is an error.

The pages of contracts are made of solutions/ when the site is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from grader import __version__  # noqa: E402
from release import contracts  # noqa: E402

for language in contracts.LANGUAGES:
    contracts.write(DOCS / contracts.FOLDER / language, language)

project = "Before Transformers"
author = "the Before Transformers authors"
version = release = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["lessons/**", "images/**"]  # lessons are what notebooks are made of
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
nitpicky = True
html_theme = "furo"
html_title = project
html_show_sphinx = False
html_show_copyright = False
