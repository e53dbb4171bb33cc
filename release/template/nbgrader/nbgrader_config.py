"""nbgrader reads this where it is called in this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "grading"))
from grader import nbgrader_ext

c = get_config()  # noqa: F821
nbgrader_ext.configure(c)

# Names the course in the exchange.
c.CourseDirectory.course_id = "before-transformers"

# What else you may want to set:
# c.Exchange.root = "/srv/nbgrader/exchange"        where assignments change hands
# c.CourseDirectory.db_url = "postgresql://..."     the gradebook; gradebook.db here by default
# c.SandboxGrades.jobs = 4                          how many submissions at the same time
# c.SandboxGrades.limit = 10.0                      seconds that one check may take
# c.SandboxGrades.lang = "zh"                       of the feedback
# c.SandboxGrades.unsafe = True                     grade although a wall is absent: try
#                                                   `python -m grader doctor` in grading/
