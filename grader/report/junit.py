"""JUnit's XML of results, as Jenkins, GitLab and others read it: a suite for each exercise.

A check that failed is a failure, one that was not tried is skipped, and `grader_error` is an error.
No times stand there, so the same results give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as xml

from grader.model import Outcome
from grader.report.plain import plain

_KINDS = {
    Outcome.PASSED.value: "",
    Outcome.NOT_ATTEMPTED.value: "skipped",
    Outcome.BLOCKED.value: "skipped",
    Outcome.GRADER_ERROR.value: "error",
}
_FAILURE = "failure"
_TOTALS = {"failures": _FAILURE, "errors": "error", "skipped": "skipped"}

Json = Mapping[str, Any]


def render(results: Iterable[Json]) -> str:
    """The document of one submission or of a class."""
    root = xml.Element("testsuites", name="before-transformers")
    for result in results:
        for exercise in result.get("exercises", ()):
            _suite(root, result["submission"], exercise)
        if "exercises" not in result:  # unreadable: an error, or it would look as if all were well
            suite = xml.SubElement(root, "testsuite", name=plain(result["submission"]), tests="1")
            suite.attrib |= {"failures": "0", "errors": "1", "skipped": "0"}
            case = xml.SubElement(suite, "testcase", name=result["status"])
            case.set("classname", plain(result["submission"]))
            xml.SubElement(case, "error", type=result["status"]).text = plain(
                "\n".join(result["notes"])
            )
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, "unicode") + "\n"


def _suite(root: xml.Element, submission: str, exercise: Json) -> None:
    suite = xml.SubElement(root, "testsuite", name=plain(f"{submission}.{exercise['id']}"))
    kinds = [_KINDS.get(check["outcome"], _FAILURE) for check in exercise["checks"]]
    count = Counter(kinds)
    suite.set("tests", str(len(kinds)))
    for total, kind in _TOTALS.items():
        suite.set(total, str(count[kind]))
    properties = xml.SubElement(suite, "properties")
    for name in ("score", "max_score"):
        xml.SubElement(properties, "property", name=name, value=f"{exercise[name]:g}")
    for check, kind in zip(exercise["checks"], kinds):
        name = check["id"].removeprefix(f"{exercise['id']}/")
        case = xml.SubElement(suite, "testcase", name=plain(f"{name}: {check['title']}"))
        case.set("classname", plain(f"{submission}.{exercise['id']}"))
        if kind:
            lines = check["message"].split("\n")
            found = xml.SubElement(case, kind, type=check["outcome"], message=plain(lines[0]))
            found.text = plain("\n".join([*lines, *check["frames"]]))
