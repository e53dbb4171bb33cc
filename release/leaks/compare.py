"""Compares texts with what is secret."""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from release.leaks import forms
from release.leaks.secrets import HIDDEN, MISTAKE, SOLUTION, VARIANT, Edit, Known, Secret

# What counts as the same, and how much of it is a leak. The figures behind it: docs/decisions.md.
VERBATIM = 8  # tokens in a row, names as they are
RENAMED = 12  # tokens in a row, whatever the names
SUBTREE = 10
LARGE = 24  # nodes of one that is a leak by itself
OF_TOKENS = 0.8  # the share of a secret's own tokens
OF_NODES = 0.6  # ... and of its own nodes
LEAST = 8  # own tokens or nodes; below, a share says nothing

_ORDER = {SOLUTION: 0, VARIANT: 1, HIDDEN: 2, MISTAKE: 3}
# What may stand between the two texts of an edit: "find = ..., replace = ...", JSON, an arrow.
_BETWEEN = {
    "replace",
    "find",
    "edits",
    "with",
    "by",
    "=",
    ":",
    "[",
    "]",
    "{",
    "}",
    "-",
    "+",
    ">",
    "|",
}
_GAP = 8
_SAME_LINE = 4  # tokens before a text that may stand before the other as well, as in a diff
_FIRST = 3  # tokens by which an edit is looked up
_LEAST_EDIT = 6  # tokens; shorter ones need the word `replace` between them
_LONG_EDIT = 10  # ... and these need nothing between them: in a table with commas, say


@dataclass(frozen=True)
class Likeness:
    """How much of a secret stands in a file."""

    secret: Secret
    verbatim: float
    renamed: float
    tree: float
    largest: int  # nodes

    @property
    def leak(self) -> str:
        """Why it is a leak, in words; empty where it is none."""
        if self.verbatim >= OF_TOKENS:
            return f"{self.verbatim:.0%} of its tokens"
        if self.renamed >= OF_TOKENS:
            return f"{self.renamed:.0%} of its tokens, up to names"
        if self.tree >= OF_NODES:
            return f"{self.tree:.0%} of its syntax tree"
        if self.largest >= LARGE:
            return f"a piece of {self.largest} nodes of its syntax tree"
        return ""


class _Form:
    """Where each run or subtree stands in the secrets.

    Attributes:
        known: every run or subtree.
        own: secret -> the places that students do not have anyway.
    """

    def __init__(self) -> None:
        self.known: set[object] = set()
        self.places: dict[object, list[tuple[int, range]]] = defaultdict(list)
        self.own: dict[int, set[int]] = {}

    def add(self, secret: int, size: int, found: Iterable[tuple[object, range]]) -> None:
        self.own[secret] = set(range(size))
        for key, places in found:
            self.places[key].append((secret, places))
            self.known.add(key)

    def take(self, keys: Iterable[object], only: Iterable[int]) -> None:
        """These runs are no secret."""
        chosen = set(only)
        for key in keys:
            for secret, places in self.places.get(key, ()):
                if secret in chosen:
                    self.own[secret].difference_update(places)

    def covered(self, keys: Iterable[object]) -> dict[int, tuple[float, int]]:
        """Secret -> the share of its own places that these keys cover, and the largest piece."""
        found: dict[int, set[int]] = defaultdict(set)
        largest: dict[int, int] = defaultdict(int)
        for key in keys:
            for secret, places in self.places.get(key, ()):
                own = self.own[secret].intersection(places)
                found[secret] |= own
                if len(own) > len(places) / 2:
                    largest[secret] = max(largest[secret], len(places))
        return {
            secret: (len(places) / len(self.own[secret]), largest[secret])
            for secret, places in found.items()
            if len(self.own[secret]) >= LEAST
        }


@dataclass
class Text:
    """One file's text in all normal forms, gathered from as many pieces as it has."""

    verbatim: set[object]
    renamed: set[object]
    trees: set[object]
    functions: list[tuple[str, forms.Shape]]
    checks: set[int]
    streams: list[list[str]]  # tokens in their order


class Comparison:
    """Holds texts against all that is secret.

    Args:
        known: what to look for.
    """

    def __init__(self, known: Known):
        self._known = known
        self._forms = {name: _Form() for name in ("verbatim", "renamed", "trees")}
        self._lengths: set[int] = set()
        self._shapes: set[forms.Run] = set()  # of runs up to names
        for number, secret in enumerate(known.secrets):
            self._add(number, secret)
        given, public = self.read(known.given), self.read(known.public.values())
        hidden = [n for n, secret in enumerate(known.secrets) if secret.kind == HIDDEN]
        for text, only in ((given, range(len(known.secrets))), (public, hidden)):
            for name, form in self._forms.items():
                form.take(getattr(text, name), only)
        self._checks = {secret.check: secret for secret in known.secrets if secret.check}
        self._named, self._bodies = self._whole_functions(given, public)
        self._edits: dict[object, list[Edit]] = defaultdict(list)
        for edit in known.edits:
            if edit.find and edit.put:
                self._edits[edit.find[:_FIRST]].append(edit)

    def _add(self, number: int, secret: Secret) -> None:
        found = secret.tokens
        length = min(VERBATIM, len(found))
        self._lengths.add(length)
        runs = {
            "verbatim": (length, list(forms.runs(forms.plain(found), length))),
            "renamed": (RENAMED, list(forms.renamed(found, RENAMED))),
        }
        self._shapes.update(map(forms.shape, runs["renamed"][1]))
        for name, (length, keys) in runs.items():
            spans = ((key, range(i, i + length)) for i, key in enumerate(keys))
            self._forms[name].add(number, len(found), spans)
        code = forms.code_of(secret.function)
        trees = ((tree.key, tree.nodes) for tree in forms.subtrees(code, SUBTREE))
        self._forms["trees"].add(number, forms.shape_of(secret.function).size, trees)

    def _whole_functions(
        self, given: Text, public: Text
    ) -> tuple[dict[tuple[str, int], Secret], dict[int, Secret]]:
        """Functions that are known as a whole: by their name, however short, and by their code."""
        as_given = {shape.whole for _, shape in given.functions}
        everybodys = {shape.body for _, shape in given.functions}
        publics = everybodys | {shape.body for _, shape in public.functions}
        named: dict[tuple[str, int], Secret] = {}
        bodies: dict[int, Secret] = {}
        for secret in self._known.secrets:
            name, shape = secret.function.name, forms.shape_of(secret.function)
            if secret.kind != HIDDEN and shape.whole not in as_given and name[:2] != "__":
                named.setdefault((name, shape.whole), secret)
            known = publics if secret.kind == HIDDEN else everybodys
            if shape.size >= LEAST and shape.body not in known:
                bodies.setdefault(shape.body, secret)
        return named, bodies

    def read(self, pieces: Iterable[str]) -> Text:
        """Bring a file's texts into normal form."""
        text = Text(set(), set(), set(), [], set(), [])
        known = self._forms["verbatim"].known
        for piece in pieces:
            found = forms.tokens(piece)
            plain = forms.plain(found)
            text.streams.append(plain)
            for length in self._lengths:
                text.verbatim |= known.intersection(forms.runs(plain, length))
            text.renamed.update(forms.renamed(found, RENAMED, self._shapes))
            for tree in trees(piece):
                text.trees.update(one.key for one in forms.subtrees(tree.body, SUBTREE))
                constants = forms.constants(tree)
                for function in forms.functions(tree):
                    text.functions.append((function.name, forms.shape_of(function)))
                    if function.decorator_list:
                        text.checks.add(forms.check_of(function, constants))
        return text

    def likenesses(self, text: Text) -> list[Likeness]:
        """Every secret of which something stands in the text."""
        verbatim = self._forms["verbatim"].covered(text.verbatim)
        renamed = self._forms["renamed"].covered(text.renamed)
        tree = self._forms["trees"].covered(text.trees)
        return [
            Likeness(
                self._known.secrets[number],
                verbatim.get(number, (0.0, 0))[0],
                renamed.get(number, (0.0, 0))[0],
                *tree.get(number, (0.0, 0)),
            )
            for number in verbatim.keys() | renamed.keys() | tree.keys()
        ]

    def leaks(self, pieces: Iterable[str]) -> Iterator[str]:
        """What leaks, in sentences; of all that is like one function, the most telling."""
        text = self.read(pieces)
        found: dict[str, tuple[tuple[float, int], str]] = {}

        def keep(secret: Secret, share: float, why: str) -> None:
            place = secret.function.name
            rank = (-round(share, 1), _ORDER[secret.kind])
            if place not in found or rank < found[place][0]:
                found[place] = rank, f"{secret.kind} {secret.name}: {why}"

        for one in self.likenesses(text):
            if one.leak:
                keep(one.secret, max(one.verbatim, one.renamed, one.tree), one.leak)
        for name, shape in text.functions:
            secret = self._named.get((name, shape.whole)) or self._bodies.get(shape.body)
            if secret:
                keep(secret, 1.0, "the whole function")
        for check in text.checks & self._checks.keys():
            keep(self._checks[check], 1.0, "the whole check")
        yield from (words for _, words in found.values())
        yield from self._edits_in(text)
        words = {word for stream in text.streams for word in stream}
        for word in self._known.words:
            if word in words:
                yield f"{self._known.words[word]}: {word!r}"

    def _edits_in(self, text: Text) -> Iterator[str]:
        told = set()
        for stream in text.streams:
            for length in range(1, _FIRST + 1):
                for i, run in enumerate(forms.runs(stream, length)):
                    for edit in self._edits.get(run, ()):
                        if edit.name not in told and _follows(stream, i, edit.find, edit.put):
                            told.add(edit.name)
                            yield f"{edit.name}: what it replaces, and by what"


def _follows(stream: list[str], place: int, find: tuple[str, ...], put: tuple[str, ...]) -> bool:
    end = place + len(find)
    if tuple(stream[place:end]) != find:
        return False
    allowed = _BETWEEN.union(stream[max(0, place - _SAME_LINE) : place])
    between: list[str] = []
    for start in range(end, min(end + _GAP, len(stream))):
        size = len(find) + len(put)
        told = "replace" in between or size >= _LONG_EDIT or (between and size >= _LEAST_EDIT)
        if told and tuple(stream[start : start + len(put)]) == put:
            return True
        if stream[start] not in allowed:
            return False
        between.append(stream[start])
    return False


def trees(text: str) -> Iterator[ast.Module]:
    """A text as Python: all of it, or else each part that begins like a definition."""
    whole = _parsed(text)
    if whole is not None:
        yield whole
        return
    lines = textwrap.dedent(text).split("\n")
    for i, line in enumerate(lines):
        bare = line.lstrip()
        if bare.startswith(("def ", "class ", "@")):
            depth = len(line) - len(bare)
            end = i + 1
            while end < len(lines) and (
                not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > depth
                or lines[end].lstrip()[:1] in (")", "]") or lines[end - 1].lstrip()[:1] == "@"
            ):  # fmt: skip
                end += 1
            part = _parsed("\n".join(lines[i:end]))
            if part is not None:
                yield part


def _parsed(text: str) -> ast.Module | None:
    if not any(sign in text for sign in "(=@"):
        return None  # prose, which takes as long to refuse
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(textwrap.dedent(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
