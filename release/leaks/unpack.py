"""Turns a file, whatever it is, into the texts that stand in it.

What cannot be read may not ship: a kind of file that is not known here is a finding in itself.
"""

from __future__ import annotations

import ast
import base64
import binascii
import bz2
import codecs
import gettext
import html
import io
import json
import lzma
import re
import tarfile
import unicodedata
import urllib.parse
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

_DEPTH_MOST = 8  # archives in archives, codes in codes
_BYTES_MOST = 64 << 20  # of one file, unpacked
_UNREAD_MOST = 150  # bytes that came out of a code and say nothing: chance, not content
_SHORT = 2000  # characters of a string that is read together with its neighbours
_STRING_LEAST = 20  # bytes of text in a row, in a file that is no text


class _Unreadable(Exception):
    """It is of no kind that is known here, or broken."""


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
        self._left = _BYTES_MOST

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
        kind = next((kind for kind in _KINDS if kind.fits(data)), None)
        if kind is None:
            text = _decoded(data)
            if text is not None:
                self.text(text, depth, where)
                return
            if strict:
                self.problem(where, "it is of a kind that the leak check cannot read")
        elif kind.read is None:
            self.problem(where, f"{kind.name} may not ship")
        else:
            try:
                for name, part, known in kind.read(data):
                    inside = f"{where}, {kind.name} {name}".strip(", ")
                    self.blob(part, depth + 1, inside, known)
            except Exception as error:  # what a broken archive can raise has no end
                if strict:
                    self.problem(where, f"{kind.name} that cannot be read ({error})")
        self._bytes(data, depth, where)

    def _bytes(self, data: bytes, depth: int, where: str) -> None:
        """What stands in bytes that are no text: strings, and what was packed into them."""
        for text in _strings(data):
            self.text(text, depth + 1, where)
        for start in _packed_at(data):
            for read in (_inflate, bz2.decompress, lzma.decompress, _gunzip):
                try:
                    part = read(data[start:])
                except Exception:  # it only looked like one
                    continue
                self.blob(part, depth + 1, f"{where}, packed at byte {start}".strip(", "), False)
        for name, mark in _MARKS.items():
            place = data.find(mark, 1)
            if place > 0:
                self.problem(where, f"{name} at byte {place} may not ship")

    def text(self, text: str, depth: int, where: str) -> None:
        """Keep a text, its variants, and what is coded in it."""
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
        if not text.strip() or text in self._seen:
            return
        self._seen.add(text)
        self.result.texts.append(text)
        if depth > _DEPTH_MOST:
            self.problem(where, "its texts are coded too deep to be looked through")
            return
        for variant in _variants(text):
            self.text(variant, depth + 1, where)
        for part, must in _coded(text):
            self.blob(part, depth + 1, f"{where}, coded".strip(", "), must)


# ---------------------------------------------------------------------------------- kinds of files

Part = tuple[str, bytes, bool]  # its name, its bytes, and whether they must be of a known kind


@dataclass(frozen=True)
class _Kind:
    name: str
    fits: Callable[[bytes], bool]
    read: Callable[[bytes], Iterable[Part]] | None  # None: it may not ship


def _begins(*marks: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(marks)


def _zip(data: bytes) -> Iterator[Part]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield "comment", archive.comment, False
        for info in archive.infolist():
            yield "name", info.filename.encode(), False
            yield "comment", info.comment + info.extra, False
            if not info.is_dir():
                if info.file_size > _BYTES_MOST:
                    raise _Unreadable(f"{info.filename} is too large")
                yield info.filename, archive.read(info), True


def _tar(data: bytes) -> Iterator[Part]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            yield "name", f"{member.name} {member.linkname} {member.pax_headers}".encode(), False
            if file:
                yield member.name, file.read(_BYTES_MOST), True


def _inflate(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(data, _BYTES_MOST)
    if len(found) < _STRING_LEAST:
        raise _Unreadable("nothing")
    return found


def _gunzip(data: bytes) -> bytes:
    return zlib.decompressobj(31).decompress(data, _BYTES_MOST)


def _png(data: bytes) -> Iterator[Part]:
    place, pixels = 8, b""
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        name, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        place += size + 12
        if name == b"IDAT":
            pixels += content
        elif name == b"IEND":
            break
        elif name not in _PNG_NUMBERS:
            yield name.decode("latin-1"), content, False
    yield "pixels", zlib.decompress(pixels), False
    yield "what follows its end", data[place:], True


_PNG_NUMBERS = {b"IHDR", b"PLTE", b"gAMA", b"cHRM", b"sRGB", b"pHYs", b"sBIT", b"bKGD", b"tRNS"}


def _safetensors(data: bytes) -> Iterator[Part]:
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    ends = [8 + size + end for entry in header.values() for end in entry["data_offsets"]]
    yield "names", json.dumps([*header, metadata]).encode(), True
    for text in metadata.values():
        yield "metadata", text.encode(), True
    if max(ends, default=8 + size) != len(data):
        raise _Unreadable("its tensors do not end where it ends")


def _looks_like_safetensors(data: bytes) -> bool:
    return data[8:10] == b'{"' and int.from_bytes(data[:8], "little") < len(data)


def _catalogue(data: bytes) -> Iterator[Part]:
    with io.BytesIO(data) as file:
        texts = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    for message, translation in texts.items():
        yield "message", f"{message}\n{translation}".encode(), True


_KINDS = [
    _Kind("zip", _begins(b"PK\x03\x04", b"PK\x05\x06"), _zip),
    _Kind("gzip", _begins(b"\x1f\x8b"), lambda d: [("", _gunzip(d), True)]),
    _Kind("bzip2", _begins(b"BZh"), lambda d: [("", bz2.decompress(d), True)]),
    _Kind("xz", _begins(b"\xfd7zXZ", b"\x5d\0\0"), lambda d: [("", lzma.decompress(d), True)]),
    _Kind("tar", lambda data: data[257:262] == b"ustar", _tar),
    _Kind("PNG", _begins(b"\x89PNG\r\n\x1a\n"), _png),
    _Kind("safetensors", _looks_like_safetensors, _safetensors),
    _Kind("catalogue", _begins(b"\xde\x12\x04\x95", b"\x95\x04\x12\xde"), _catalogue),
    _Kind("compiled Python", lambda data: data[2:4] == b"\r\n" and len(data) > 16, None),
    _Kind("a pickle", lambda data: data[:1] == b"\x80" and data[1:2] in b"\2\3\4\5", None),
    _Kind("a git pack", _begins(b"PACK\0\0\0"), None),
    _Kind("a program", _begins(b"\x7fELF", b"MZ\x90", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"), None),
    # A git object is one of these.
    _Kind("zlib", lambda data: data[:1] == b"\x78" and not int.from_bytes(data[:2], "big") % 31
          and _decoded(data) is None, lambda d: [("", _inflate(d), False)]),
]  # fmt: skip

# What may not stand inside of anything either. (Each is long enough not to come about by chance.)
_MARKS = {
    "a zip": b"PK\x03\x04\x14\0",
    "a pickle": b"\x80\x04\x95",
    "another pickle": b"\x80\x05\x95",
    "a 7z archive": b"7z\xbc\xaf\x27\x1c",
    "a zstandard frame": b"\x28\xb5\x2f\xfd",
}


def _packed_at(data: bytes) -> Iterator[int]:
    for mark in re.finditer(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08|BZh[1-9]1AY|\xfd7zXZ\0", data):
        yield mark.start()


def _strings(data: bytes) -> Iterator[str]:
    for encoding, pattern in _STRINGS.items():
        found = (m.group().decode(encoding, "ignore") for m in pattern.finditer(data))
        text = "\n".join(found)
        if text:
            yield text


_STRINGS = {  # of letters that numbers rarely spell
    "ascii": re.compile(rb"[\t\n\r -~]{%d,}" % _STRING_LEAST),
    "utf-16-le": re.compile(rb"(?:[\t\n\r -~]\0){%d,}" % _STRING_LEAST),
    "utf-16-be": re.compile(rb"(?:\0[\t\n\r -~]){%d,}" % _STRING_LEAST),
}


def _decoded(data: bytes) -> str | None:
    """Bytes as text; None where they are none."""
    marked = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    for encoding in (marked.get(data[:2], "utf-8-sig"), "utf-8-sig"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not _CONTROL.search(text):
            return text
    return None


_CONTROL = re.compile(r"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_INVISIBLE = re.compile(
    r"\x1b\[[0-9;]*[A-Za-z]|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)

# -------------------------------------------------------------------------------- texts in a text


def _variants(text: str) -> Iterator[str]:
    """The same text as it was before somebody quoted, escaped or disguised it."""
    strings = _json_texts(text)
    if strings is not None:
        yield from strings
        return
    tree = _parsed(text)
    if tree is not None:
        yield from _constants(tree)
    comments = re.findall(r"#+[ \t]?([^\n]{,200})$", text, re.M)
    if any("(" in comment or "=" in comment for comment in comments):
        yield "\n".join(comments)
    for word, turn in _TURNED.items():
        if word in text:
            yield turn(text)
    if tree is not None:
        return
    lines = text.split("\n")
    if sum(bool(_GUTTER.match(line)) for line in lines) > len(lines) / 3:
        yield "\n".join(_GUTTER.sub("", line) for line in lines)
    if "<" in text or "&" in text:
        yield html.unescape(re.sub(r"</?[a-zA-Z][^<>]*>", "", text))
    if re.search(r"%[0-9A-Fa-f]{2}", text):
        yield urllib.parse.unquote(text)
    if re.search(r"=[0-9A-F]{2}", text):
        yield re.sub(r"=([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), text.replace("=\n", ""))
    if "\\" in text:
        yield _ESCAPE.sub(_unescaped, text)


# The margin of a traceback, a listing, a diff or a quotation.
_GUTTER = re.compile(r"^\s*(?:(?:-+>|>+|\|)\s*)?(?:\d+(?:[:|]| (?= )|\s)|[+|>-](?=\s)) ?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|(.))", re.S)
_TURNED: dict[str, Callable[[str], str]] = {
    "nruter": lambda text: text[::-1],  # "return", backwards
    "erghea": lambda text: codecs.encode(text, "rot13"),
}


def _unescaped(match: re.Match[str]) -> str:
    for digits, base in ((match[1], 16), (match[2], 16), (match[3], 8)):
        if digits:
            return chr(int(digits, base))
    return {"n": "\n", "t": "    ", "r": "\n"}.get(match[4], match[4])


def _json_texts(text: str) -> list[str] | None:
    """The short strings of a JSON document as one text, and all but the shortest by themselves; None
    if it is none.
    """
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        strings = list(_strings_of(json.loads(text)))
    except (ValueError, RecursionError):
        return None
    short = "\n|\n".join(string for string in strings if len(string) < _SHORT)
    return [short, *(string for string in strings if len(string) >= _STRING_LEAST)]


def _strings_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _strings_of(item)
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield "".join(value)  # a notebook's lines
        yield from (string for item in value for string in _strings_of(item))


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _constants(tree: ast.Module) -> Iterator[str]:
    """The strings that stand in Python code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            value = node.value
            if len(value) >= _STRING_LEAST:
                yield value if isinstance(value, str) else value.decode("latin-1")


_WORD = r"[A-Za-z0-9+/\-_]"
_CODES: dict[re.Pattern[str], Callable[[str], bytes]] = {
    re.compile(rf"(?:{_WORD}{{16,}}={{0,2}}(?:\s|\\n)*)+"): lambda run: _base64(run),
    re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){20,}"): lambda run: bytes.fromhex(
        re.sub(r"[\s:]", "", run)
    ),
    re.compile(r"[A-Z2-7]{32,}={0,6}"): base64.b32decode,
    re.compile(r"[!-~]{40,}"): base64.b85decode,
    re.compile(r"<~[!-uz\s]{40,}?~>"): lambda run: base64.a85decode(run, adobe=True),
    re.compile(r"(?:\d{1,3}[,\s]+){20,}"): lambda run: bytes(
        int(number) for number in re.findall(r"\d+", run)
    ),
}


def _base64(run: str) -> bytes:
    bare = re.sub(r"[^A-Za-z0-9+/]", "", run.replace("-", "+").replace("_", "/"))
    return base64.b64decode(bare[: len(bare) - (len(bare) % 4 == 1)] + "===")


def _coded(text: str) -> Iterator[tuple[bytes, bool]]:
    """Bytes that stand in a text as letters or numbers, and whether they must be readable."""
    for pattern, decode in _CODES.items():
        for run in pattern.finditer(text):
            try:
                data = decode(run.group())
            except (ValueError, binascii.Error, OverflowError):
                continue
            mixed = all(re.search(kind, run.group()) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
            yield data, mixed and len(data) > _UNREAD_MOST and _is_one_code(run.group())


def _is_one_code(run: str) -> bool:
    """A long stretch without white space: nobody writes words like that."""
    return max(map(len, run.split())) > 60
