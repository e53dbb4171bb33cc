"""Pages: safe whatever a student has written, accessible, and true to the result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from grader.model import Outcome, say
from grader.report import classpage, pages
from grader.report.language import Language
from grader.report.plain import plain
from tests.system.made import ENGLISH, OTHER, SOFTMAX, result, unreadable, wrong

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "a\u202eb\u2066c",
    "two\nlines\x1b[2J\x00",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "班 ﷽ é",
]


class Page(HTMLParser):
    """What is in a page; fails where tags are not closed in order."""

    EMPTY = frozenset({"meta", "link", "br", "img", "use", "path", "rect"})

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.headings: list[int] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag) -> None:
        if tag not in self.EMPTY:
            assert self._open.pop() == tag

    def handle_data(self, data) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return "".join(data for tag, data in self.texts if tag != "style")


def student(course, found) -> Page:
    return Page(pages.student(found, course, ENGLISH))


def of_class(course, results) -> Page:
    a_class = classpage.Class(course, ENGLISH)
    for found in results:
        a_class.add(found, {}, None)
    return Page(a_class.page())


def both(course, results) -> Iterator[Page]:
    for found in results:
        yield student(course, found)
    yield of_class(course, results)


# Whatever a student has written


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_text(course, text) -> None:
    failed = wrong(
        message=(say("Your code raised {type}: {text}", type="E", text=text),),
        frames=(f"attention.py, line 1\n  {text}",),
        title=text,
    )
    notes = [say("{text}", text=text)]
    honest = result(course, "honest", {1: wrong(mistake="m")})
    pages_of_it = list(both(course, [result(course, text, {1: failed}, notes), honest]))
    for number, page in enumerate(pages_of_it):
        names = {tag for tag, _ in page.tags}
        assert not names & {"script", "img", "iframe", "object", "base", "form"}
        for _, attributes in page.tags:
            assert not [name for name in attributes if name.startswith("on")]
            for name in ("href", "src", "action"):
                target = attributes.get(name) or "#"
                assert re.match(r"#|data:,$|[^:/?#]+/report\.html$", target), target
        shown = re.sub(r"\s+", " ", page.text)
        if number != 1:  # the page of the honest one
            assert re.sub(r"\s+", " ", plain(text)) in shown
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", page.text)


def test_names_of_people_stay_as_they_are() -> None:
    for name in ("班 2026", "نرگس‌خانم", "José", "אורי"):
        assert plain(name) == name


# Self-contained


def test_nothing_is_fetched_and_nothing_runs(course) -> None:
    for page in both(course, [result(course, "ada", {1: wrong()})]):
        policy = [m["content"] for m in page.all("meta") if "http-equiv" in m]
        assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
        assert not page.all("script")
        styles = "".join(data for tag, data in page.texts if tag == "style")
        assert "url(" not in re.sub(r"url\(#", "", styles)
        assert "@import" not in styles


# Accessible


def test_landmarks_headings_tables(course) -> None:
    results = [
        result(course, "ada", {1: wrong(mistake="m"), 2: wrong(2)}),
        result(course, "bob", {1: wrong(1, Outcome.GRADER_ERROR)}),
    ] + [result(course, f"s{n}") for n in range(4)]
    for page in both(course, results):
        assert page.all("html") == [{"lang": "en"}]
        for landmark in ("header", "main", "footer", "nav"):
            assert len(page.all(landmark)) == 1
        assert page.headings.count(1) == 1
        assert page.headings[0] == 1
        steps = zip(page.headings, page.headings[1:])
        assert all(later - earlier <= 1 for earlier, later in steps)
        assert {cell.get("scope") for cell in page.all("th")} <= {"col", "row"}
        assert len(page.all("details")) == len(page.all("summary"))
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        named = {attributes.get("aria-labelledby") for _, attributes in page.tags} - {None}
        assert named <= set(ids)
        links = {(a["href"] or "")[1:] for a in page.all("a") if (a["href"] or "").startswith("#")}
        assert links <= set(ids)
        for plot in page.all("svg"):
            assert plot["role"] == "img"
            assert plot["aria-label"]
    assert len(page.all("svg")) == 2


@pytest.mark.parametrize("wanted, tag", [("en", "en"), ("zh", "zh"), ("zh_CN", "zh"), ("xx", "en")])
def test_a_page_says_its_language(course, wanted, tag) -> None:
    language = Language(wanted)
    a_class = classpage.Class(course, language)
    a_class.add(result(course), {}, 1.0)
    for text in (pages.student(result(course), course, language), a_class.page()):
        assert f'<html lang="{tag}">' in text


def luminance(colour: str) -> float:
    """As WCAG 2 defines it."""
    channels = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


def test_contrast_is_enough_for_aa_in_every_mode() -> None:
    style = (pages.TEMPLATES / "style.css").read_text(encoding="utf-8")
    modes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", m))
        for m in re.findall(r":root {(.*?)}", style, re.S)
    ]
    assert len(modes) == 3  # light, dark, print
    for colours in modes:
        for ground in ("paper", "panel"):
            for text in ("ink", "soft", "good", "bad", "warn", "accent"):
                light, dark = sorted(map(luminance, (colours[text], colours[ground])))[::-1]
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground, colours)


# True to the result


def test_points_clauses_and_reasons(course) -> None:
    failed = wrong(1, message=(say("T."), say("H."), say("expected 1")), mistake="m",
                   frames=("attention.py, line 7\n  return x",))  # fmt: skip
    page = student(course, result(course, "ada", {1: failed, 2: wrong(2)}))
    most = course.exercises[SOFTMAX].max_score + course.exercises[OTHER].max_score
    gone = sum(course.exercises[SOFTMAX].points[:2])
    assert f"{most - gone:g} of {most:g} points" in page.text
    assert "1 of 2 exercises passed" in page.text
    for line in ("T.", "H.", "expected 1", "attention.py, line 7", "(wrong value)"):
        assert line in page.text
    opened = [d for d in page.all("details") if "open" in d]
    assert len(opened) == 1  # what is passed is folded


def test_the_same_reason_is_told_once(course) -> None:
    page = student(course, result(course, "ada", {n: wrong(n) for n in (1, 2, 3)}))
    assert page.text.count("expected 1; found 2") == 1
    assert page.text.count("as in clause 1") == 2


def test_a_test_with_several_inputs_is_one_line(course) -> None:
    found = result(course, "ada", {1: wrong(name="x[1]")})
    checks = found["exercises"][0]["checks"]
    checks.append({**checks[0], "id": f"{SOFTMAX}/1/test_x[2]", "outcome": "passed", "message": ""})
    page = student(course, found)
    assert page.text.count("Clause 1 holds.") == 2  # once for each exercise
    assert "wrong value; 1 of 2 inputs fail" in page.text


@pytest.mark.parametrize(
    "of_exercise, said",
    [
        ({"followed_through": True}, "judged on a sound version"),
        ({"override": 1.5}, "these points were set by hand"),
    ],
)
def test_what_is_special_is_said_in_words(course, of_exercise, said) -> None:
    found = result(course, "ada", {1: wrong()}, **of_exercise)
    assert said in student(course, found).text
    assert said not in student(course, result(course, "ada", {1: wrong()})).text


def test_adjustments_are_notes(course) -> None:
    page = student(course, result(course, notes=[say("Late ({reason}): times 0.9.", reason="flu")]))
    assert "Late (flu): times 0.9." in page.text


def test_what_is_noted_of_all_is_told_once(course) -> None:
    """A check that is void for all would hide who misnamed a file."""
    void = say("{what} was declared void ({reason}).", what="a check", reason="unclear")
    late = say("Late ({reason}): times 0.9.", reason="flu")
    class_ = [result(course, "ada", notes=[void]), result(course, "bob", notes=[void, late])]
    text = of_class(course, [*class_, unreadable()]).text
    assert text.count("a check was declared void") == text.count("Late (flu)") == 1
    assert of_class(course, class_[1:]).text.count("a check was declared void") == 1


def test_no_verdict_is_no_zero(course) -> None:
    broken = wrong(1, Outcome.GRADER_ERROR, message=(say("The grader failed here"),))
    found = result(course, "bob", {1: broken})
    page = student(course, found)
    assert "There is no verdict" in page.text
    assert " points" not in page.text
    page = of_class(course, [found, result(course)])
    assert (
        page.text.index("Not graded") < page.text.index("Mistakes")
        if "Mistakes" in page.text
        else True
    )
    assert "The grader failed here" in page.text
    assert "1 of 2 submissions are graded" in page.text


def test_what_cannot_be_read_has_a_page(course) -> None:
    assert "x.zip is no zip" in student(course, unreadable()).text
    assert "x.zip is no zip" in of_class(course, [unreadable()]).text


def test_unsafe_is_said_on_every_page(course) -> None:
    found = result(course)
    found["made_by"]["protections"] = ["UNSAFE"]
    for page in both(course, [found]):
        assert "without protection" in page.text


def test_nothing_that_was_printed_is_shown(course) -> None:
    assert "SECRET" not in student(course, result(course, "a", {1: wrong(printed="SECRET")})).text


# The class


def test_what_to_teach_again_comes_first(course) -> None:
    def one(name, mistake):
        words = (say(f"Title of {mistake}."), say(f"Hint of {mistake}."), say("expected 1"))
        return result(course, name, {1: wrong(message=words, mistake=mistake)})

    page = of_class(
        course,
        [one("a", "rare"), one("b", "common"), one("c", "common"), result(course, "d")],
    )
    common, rare = (page.text.index(f"Title of {m}.") for m in ("common", "rare"))
    assert common < rare < page.text.index("Distribution of scores")
    assert "2 / 4" in page.text[:common][-40:]
    assert "Hint of common." in page.text


def test_checks_that_nobody_and_everybody_passes(course) -> None:
    results = [result(course, n, {1: wrong(title="All lose this.")}) for n in "abc"]
    text = of_class(course, results).text
    nobody = text[text.index("Checks that nobody passes") : text.index("Checks that the weak")]
    assert "All lose this." in nobody
    assert "Clause 2 holds." not in nobody


def test_an_empty_class_and_a_class_of_one(course) -> None:
    of_class(course, [])
    of_class(course, [result(course)])


def test_pages_are_the_same_bytes_again(course) -> None:
    def page() -> str:
        a_class = classpage.Class(course, ENGLISH)
        for n, name in enumerate("abcd"):
            found = result(course, name, {1: wrong()} if n < 2 else {})
            code = f"def f():\n    return {n % 2} + [x {'*+'[n % 2]} 2 for x in y]\n" * 9
            a_class.add(found, {"attention": code}, n + 0.25)
        return a_class.page()

    first = page()
    assert first == page()
    assert "3.25" in first
    assert '<li><a href="a/report.html"><bdi>a</bdi></a>, <a href="c/report.html">' in first
