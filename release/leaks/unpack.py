"""Turns a file, whatever it is, into the texts that stand in it.

What cannot be read may not ship: a kind of file that is not known here is a finding in itself.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from release.leaks import disguise, kinds
from release.leaks.kinds import KINDS

_DEPTH_MOST = 8  # archives in archives, codes in codes
# Colours of a terminal, and what takes no room.
_INVISIBLE = re.compile(
    r"\x1b\[[0-9;]*[A-Za-z]|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
# What word processors make of what was typed.
_TYPESET = str.maketrans(
    "\u2010\u2011\u2012\u2013\u2014\u2212\u2018\u2019\u201c\u201d", "------''\"\""
)
# Letters of other alphabets that look like Latin ones: Unicode's confusables, as far as they stand
# on a keyboard.
_ALIKE = {
    **str.maketrans("асеорхуіјѕԁһԛԝАВЕКМНОРСТХІЈЅ", "aceopxyijsdhqwABEKMHOPCTXIJS"),
    **str.maketrans("αονρΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", "aovpABEHIKMNOPTXYZ"),
}
# Bytecode as `dis` prints it.
_DISASSEMBLED = re.compile(r"(?:\b(?:LOAD|STORE|CALL|RETURN)_[A-Z_]+[^\n]*\n(?:[^\n]*\n)??){6}")


@dataclass
class Unpacked:
    """What was found in a file.

    Attributes:
        texts: every text, its variants included.
        problems: what cannot be read, in sentences.
    """

    texts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def unpack(data: bytes) -> Unpacked:
    """Everything that a file says."""
    work = _Unpacker()
    work.blob(data, 0, "", strict=True)
    return work.result


class _Unpacker:
    def __init__(self) -> None:
        self.result = Unpacked()
        self._seen: set[bytes | str] = set()
        self._left = kinds.BYTES_MOST

    def problem(self, where: str, words: str) -> None:
        words = f"{where}: {words}" if where else words
        if words not in self.result.problems:
            self.result.problems.append(words)

    def blob(self, data: bytes, depth: int, where: str, strict: bool) -> None:
        """Read bytes; with ``strict``, they must be of a kind that is known."""
        if not data or data in self._seen:
            return
        self._seen.add(data)
        self._left -= len(data)
        if depth > _DEPTH_MOST or self._left < 0:
            self.problem(where, "it is nested too deep, or unpacks too large, to be looked through")
            return
        kind = next((kind for kind in KINDS if kind.fits(data)), None)
        if kind is None:
            text = kinds.decoded(data)
            if text is not None:
                self.text(text, depth, where)
                return
            if strict:
                self.problem(where, "it is of a kind that the leak check cannot read")
        elif kind.read is None:
            if strict:  # by the first bytes of numbers alone, it could be chance
                self.problem(where, f"{kind.name} may not ship")
        else:
            try:
                for name, part, known in kind.read(data):
                    inside = f"{where}, {kind.name} {name}".strip(", ")
                    self.blob(part, depth + 1, inside, known)
                if kind.whole:
                    return
            except Exception as error:  # what a broken archive can raise has no end
                if strict:
                    self.problem(where, f"{kind.name} that cannot be read ({error})")
        self._bytes(data, depth, where)

    def _bytes(self, data: bytes, depth: int, where: str) -> None:
        """What stands in bytes that are no text: strings, and what was packed into them."""
        for text in kinds.strings(data):
            self.text(text, depth + 1, where)
        for start in kinds.packed_at(data):
            for read in (kinds.inflate, kinds.gunzip, kinds.bunzip, kinds.unxz):
                try:
                    part = read(data[start:])
                except Exception:  # it only looked like one
                    continue
                self.blob(part, depth + 1, f"{where}, packed at byte {start}".strip(", "), False)
        for name, mark in kinds.MARKS.items():
            found = mark.search(data, 1)
            if found:
                self.problem(where, f"{name} at byte {found.start()} may not ship")

    def text(self, text: str, depth: int, where: str) -> None:
        """Keep a text, its variants, and what is coded in it."""
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_TYPESET | _ALIKE)
        if not text.strip() or text in self._seen:
            return
        self._seen.add(text)
        self.result.texts.append(text)
        if depth > _DEPTH_MOST:
            self.problem(where, "its texts are coded too deep to be looked through")
            return
        if _DISASSEMBLED.search(text):
            self.problem(where, "disassembled code may not ship")
        for variant in disguise.variants(text):
            self.text(variant, depth + 1, where)
        for part, must in disguise.coded(text):
            self.blob(part, depth + 1, f"{where}, coded".strip(", "), must)
