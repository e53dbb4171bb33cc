"""Texts in a text: as they were before somebody quoted, escaped, coded or disguised them."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import html
import json
import re
import urllib.parse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from release.leaks.kinds import STRING_LEAST

_UNREAD_MOST = 150  # bytes that came out of a code and say nothing: chance, not content
_SHORT = 2000  # characters of a string that is read together with its neighbours


def variants(text: str) -> Iterator[str]:
    """The same text as it was before somebody quoted, escaped or disguised it."""
    strings = _json_texts(text)
    if strings is not None:
        yield from strings
        return
    tree = _parsed(text) if "'" in text or '"' in text else None  # for its strings
    if tree is not None:
        yield from _constants(tree)
    comments = re.findall(r"#+[ \t]?([^\n]{,200})$", text, re.M)
    if any("(" in comment or "=" in comment for comment in comments):
        yield "\n".join(comments)
    for word, turn in _TURNED.items():
        if word in text:
            yield turn(text)
    yield from (run.group()[::2] for run in _SPACED.finditer(text))
    for dumped in _DUMPED.finditer(text):
        yield from _undumped(text[dumped.start() : text.rfind(")") + 1])
        break
    if tree is not None:
        return
    lines = text.split("\n")
    if sum(bool(_GUTTER.match(line)) for line in lines) > len(lines) / 3:
        yield "\n".join(_GUTTER.sub("", line) for line in lines)
    if "<" in text:  # a tag may colour half a word, or end a line
        for instead in ("", "\n"):
            yield html.unescape(re.sub(r"</?[a-zA-Z][^<>]*>", instead, text))
    if "&" in text:
        yield html.unescape(text)
    if re.search(r"%[0-9A-Fa-f]{2}", text):
        yield urllib.parse.unquote(text)
    if re.search(r"=[0-9A-F]{2}", text):
        yield re.sub(r"=([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), text.replace("=\n", ""))
    if "\\" in text:
        yield _ESCAPE.sub(_unescaped, text)


# The margin of a traceback, a listing, a diff or a quotation.
_GUTTER = re.compile(r"^\s*(?:(?:-+>|>+|\|)\s*)?(?:\d+(?:[:|]| (?= )|\s)|[+|>-](?=\s)) ?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|(.))", re.S)
_SPACED = re.compile(r"(?s:.([\n ])(?:.\1){40,})")  # a letter to a line
_DUMPED = re.compile(r"\b(?:Module|FunctionDef|ClassDef|Return|Assign)\(")  # by `ast.dump`
_TURNED: dict[str, Callable[[str], str]] = {
    "nruter": lambda text: text[::-1],  # "return", backwards
    "erghea": lambda text: codecs.encode(text, "rot13"),
}


def _unescaped(match: re.Match[str]) -> str:
    for digits, base in ((match[1], 16), (match[2], 16), (match[3], 8)):
        if digits:
            return chr(int(digits, base))
    return {"n": "\n", "t": "    ", "r": "\n"}.get(match[4], match[4])


def _undumped(text: str) -> Iterator[str]:
    """The code of a syntax tree that is written out."""
    try:
        tree = _node(ast.parse(text, mode="eval").body)
        yield ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return  # it only looked like one


def _node(written: ast.expr) -> Any:
    if isinstance(written, ast.List):
        return [_node(item) for item in written.elts]
    if not isinstance(written, ast.Call):
        return ast.literal_eval(written)
    kind = _KINDS[getattr(written.func, "id", "")]
    named = {one.arg: _node(one.value) for one in written.keywords if one.arg}
    return kind(*map(_node, written.args), **named)


_KINDS = {name: kind for name, kind in vars(ast).items() if isinstance(kind, type)
          and issubclass(kind, ast.AST)}  # fmt: skip


def _json_texts(text: str) -> list[str] | None:
    """The short strings of a JSON document as one text, and all but the shortest by themselves;
    None if it is none.
    """
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        strings = list(_strings_of(json.loads(text, object_pairs_hook=_Pairs)))
    except (ValueError, RecursionError):
        return None
    short = "\n|\n".join(string for string in strings if len(string) < _SHORT)
    return [short, *(string for string in strings if len(string) >= STRING_LEAST)]


class _Pairs(list[tuple[str, object]]):
    """A JSON object, with names that stand there twice."""


def _strings_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, _Pairs):
        for name, item in value:
            yield name
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
    """The strings that stand in Python code, and each list or sum of strings as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            text = _string(node)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            parts = list(map(_string, node.elts))
            text = ("" if max(map(len, parts), default=0) < 2 else "\n").join(parts)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            text = "".join(map(_string, _summands(node)))
        else:
            continue
        if len(text) >= STRING_LEAST:
            yield text


def _string(node: ast.expr) -> str:
    value = getattr(node, "value", "")
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def _summands(node: ast.expr) -> Iterator[ast.expr]:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _summands(node.left)
        node = node.right
    yield node


_WORD = r"[A-Za-z0-9+/\-_]"
_CODES: dict[re.Pattern[str], Callable[[str], bytes]] = {
    re.compile(rf"(?:{_WORD}{{16,}}={{0,2}}(?:\s|\\n)*)+"): lambda run: _base64(run),
    re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){20,}"): lambda run: bytes.fromhex(
        re.sub(r"[\s:]", "", run)
    ),
    re.compile(r"[A-Z2-7]{32,}={0,6}"): base64.b32decode,
    re.compile(r"[!-~]{40,}"): base64.b85decode,
    re.compile(r"<~[!-uz\s]{40,}?~>"): lambda run: base64.a85decode(run, adobe=True),
    re.compile(r"(?:\d{1,3}[,\s]+){20,}"): lambda run: _bytes_of(r"\d+", run, 10),
    re.compile(r"(?:chr\(\d{1,3}\)[\s+,]*){20,}"): lambda run: _bytes_of(r"\d+", run, 10),
    re.compile(r"(?:0x[0-9a-fA-F]{1,2}[,\s]+){20,}"): lambda run: _bytes_of(r"0x(\w+)", run, 16),
    re.compile(r"(?:[01]{8}[,\s]*){20,}"): lambda run: _bytes_of("[01]{8}", run, 2),
    re.compile(r"^begin \d+ .*\n(?:[ -`]*\n)+end$", re.M): lambda run: b"".join(
        map(binascii.a2b_uu, run.split("\n")[1:-1])
    ),
}


def _bytes_of(number: str, run: str, base: int) -> bytes:
    return bytes(int(digits, base) for digits in re.findall(number, run))


def _base64(run: str) -> bytes:
    bare = re.sub(r"[^A-Za-z0-9+/]", "", run.replace("-", "+").replace("_", "/"))
    return base64.b64decode(bare[: len(bare) - (len(bare) % 4 == 1)] + "===")


def coded(text: str) -> Iterator[tuple[bytes, bool]]:
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
