"""Kinds of files: how each is known, and what parts it has.

What a file says where it is no text, is here too: strings among bytes, and what is packed in them.
"""

from __future__ import annotations

import bz2
import codecs
import io
import json
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from release import catalogue

BYTES_MOST = 64 << 20  # of one file, unpacked
STRING_LEAST = 20  # bytes of text in a row, in a file that is no text


class Unreadable(Exception):
    """It is of no kind that is known here, or broken."""


Part = tuple[str, bytes, bool]  # its name, its bytes, and whether they must be of a known kind


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        read: gives its parts; None where it may not ship.
        whole: its parts are all that it has.
    """

    name: str
    fits: Callable[[bytes], bool]
    read: Callable[[bytes], Iterable[Part]] | None
    whole: bool = False


def _begins(*marks: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(marks)


def _zip(data: bytes) -> Iterator[Part]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield "comment", archive.comment, False
        ends, gaps = [0], []
        for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
            yield "name", info.filename.encode(), False
            yield "comment", info.comment + info.extra, False
            if info.file_size > BYTES_MOST:
                raise Unreadable(f"{info.filename} is too large")
            if not info.is_dir():
                yield info.filename, archive.read(info), True
            names = info.header_offset + _ZIP_HEAD
            begins = names + sum(struct.unpack_from("<HH", data, names - 4))
            gaps += [data[ends[-1] : info.header_offset], data[names:begins]]
            ends.append(begins + info.compress_size)
        yield "what is in none of its files", b"\n".join([*gaps, data[ends[-1] :]]), False


_ZIP_HEAD = 30  # bytes before a file's name; the last four say how long that and the extras are


def _tar(data: bytes) -> Iterator[Part]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            yield "name", f"{member.name} {member.linkname} {member.pax_headers}".encode(), False
            if file:
                yield member.name, file.read(BYTES_MOST), True


def inflate(data: bytes) -> bytes:
    """Undo zlib, as all of these: up to `BYTES_MOST`, and with an exception for what is none."""
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(data, BYTES_MOST)
    if len(found) < STRING_LEAST:
        raise Unreadable("nothing")
    return found


def gunzip(data: bytes) -> bytes:
    """Undo gzip."""
    return zlib.decompressobj(31).decompress(data, BYTES_MOST)


def bunzip(data: bytes) -> bytes:
    """Undo bzip2."""
    return bz2.BZ2Decompressor().decompress(data, BYTES_MOST)


def unxz(data: bytes) -> bytes:
    """Undo xz, or its older form."""
    return lzma.LZMADecompressor().decompress(data, BYTES_MOST)


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
    yield from _pixels(data[16:29], zlib.decompress(pixels))
    yield "what follows its end", data[place:], True


def _pixels(head: bytes, data: bytes) -> Iterator[Part]:
    """The rows of a picture without the filter's byte before each; all colours, and one by one."""
    width, _, bits, colours = struct.unpack(">IIBB", head[:10])
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colours]
    row = (width * samples * bits + 7) // 8 + 1
    bare = b"".join(data[i + 1 : i + row] for i in range(0, len(data), row))
    yield "pixels", bare, False
    if bits == 8:
        for colour in range(samples if samples > 1 else 0):
            yield f"pixels, colour {colour}", bare[colour::samples], False
        if samples == 4:  # without its transparency
            yield "pixels", bytes(byte for i, byte in enumerate(bare) if i % 4 != 3), False


_PNG_NUMBERS = {b"IHDR", b"PLTE", b"gAMA", b"cHRM", b"sRGB", b"pHYs", b"sBIT", b"bKGD", b"tRNS"}


def _safetensors(data: bytes) -> Iterator[Part]:
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size], object_pairs_hook=_once)
    metadata = header.pop("__metadata__", {})
    ends = [8 + size + end for entry in header.values() for end in entry["data_offsets"]]
    yield "names", "\n".join([*header, *metadata]).encode(), True
    for text in metadata.values():
        yield "metadata", text.encode(), True
    if max(ends, default=8 + size) != len(data):
        raise Unreadable("its tensors do not end where it ends")
    for name, entry in header.items():
        start, end = (8 + size + place for place in entry["data_offsets"])
        yield name, _letters(data[start:end], entry["dtype"]), False
    yield "numbers", data[8 + size :], False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a name stands there twice")
    return found


def _letters(data: bytes, dtype: str) -> bytes:
    """What numbers say where each is the code of a letter; nothing where one is not."""
    form = _NUMBERS.get(dtype)
    if form is None or len(data) < STRING_LEAST:
        return b""
    numbers = struct.unpack(f"<{len(data) // struct.calcsize(form)}{form}", data)
    return bytes(map(int, numbers)) if all(number in _LETTERS for number in numbers) else b""


_NUMBERS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b"}
_LETTERS = {9, 10, 13, *range(32, 127), *range(128, 256)}


def _looks_like_safetensors(data: bytes) -> bool:
    return data[8:10] == b'{"' and int.from_bytes(data[:8], "little") < len(data)


def _catalogue(data: bytes) -> Iterator[Part]:
    texts = catalogue.read(data)
    for text, translation in texts.items():
        yield "text", b"\n".join((*text.split(b"\0"), *translation.split(b"\0"))), True


KINDS: list[Kind] = [
    Kind("zip", _begins(b"PK\x03\x04", b"PK\x05\x06"), _zip, whole=True),
    Kind("gzip", _begins(b"\x1f\x8b"), lambda d: [("", gunzip(d), True)]),
    Kind("bzip2", _begins(b"BZh"), lambda d: [("", bunzip(d), True)]),
    Kind("xz", _begins(b"\xfd7zXZ", b"\x5d\0\0"), lambda d: [("", unxz(d), True)]),
    Kind("tar", lambda data: data[257:262] == b"ustar", _tar),
    Kind("PNG", _begins(b"\x89PNG\r\n\x1a\n"), _png),
    Kind("safetensors", _looks_like_safetensors, _safetensors, whole=True),
    Kind("catalogue", catalogue.is_one, _catalogue),
    Kind("compiled Python", lambda data: data[2:4] == b"\r\n" and len(data) > 16, None),
    Kind("a pickle", lambda data: data[:1] == b"\x80" and data[1:2] in b"\2\3\4\5", None),
    Kind("a git pack", _begins(b"PACK\0\0\0"), None),
    Kind("a program", _begins(b"\x7fELF", b"MZ\x90", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"),
          None),
    # A git object is one of these.
    Kind("zlib", lambda data: data[:1] == b"\x78" and not int.from_bytes(data[:2], "big") % 31
          and decoded(data) is None, lambda d: [("", inflate(d), False)]),
]  # fmt: skip

# What may not stand inside of anything either. Each is long enough not to come about by chance:
# a pickle is its protocol, a length below 16 MB, and how its first object begins; compiled code is
# that of a module, without arguments, with a small stack.
MARKS = {
    "a zip": re.compile(rb"PK\x03\x04[\x0a\x14\x2d]\0"),
    "a pickle": re.compile(rb"\x80[\4\5]\x95...\0{5}[]})(\x8c\x8d\x8f]", re.S),
    "compiled code": re.compile(rb"\xe3(?:\0{12}|\0{16})[\1-\x40]\0{3}"),
    "a 7z archive": re.compile(rb"7z\xbc\xaf\x27\x1c"),
    "a zstandard frame": re.compile(rb"\x28\xb5\x2f\xfd[^\0]"),
}


def packed_at(data: bytes) -> Iterator[int]:
    """Places at which something packed seems to begin."""
    for mark in re.finditer(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08|BZh[1-9]1AY|\xfd7zXZ\0", data):
        yield mark.start()


def strings(data: bytes) -> Iterator[str]:
    """What stands among bytes as text, in each encoding."""
    for encoding, pattern in _STRINGS.items():
        text = "\n".join(m.group().decode(encoding, "ignore") for m in pattern.finditer(data))
        if text:
            yield text


_STRINGS = {  # of letters that numbers rarely spell
    "ascii": re.compile(rb"[\t\n\r -~]{%d,}" % STRING_LEAST),
    "utf-16-le": re.compile(rb"(?:[\t\n\r -~]\0){%d,}" % STRING_LEAST),
    "utf-16-be": re.compile(rb"(?:\0[\t\n\r -~]){%d,}" % STRING_LEAST),
}


def decoded(data: bytes) -> str | None:
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
