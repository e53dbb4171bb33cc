"""Normal forms in which code is compared: runs of tokens, and syntax trees.

Neither form knows comments, layout, quotes, brackets, annotations or docstrings; names that a
function gives itself count as "the first", "the second", so that renaming changes nothing.
"""

from __future__ import annotations

import ast
import builtins
import functools
import keyword
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

# Names that nobody renames: Python's own, and those of the libraries.
_FIXED = {*keyword.kwlist, *dir(builtins), "F", "Tensor", "math", "nn", "np", "self", "torch"}
_TOKEN = re.compile(r"#[^\n]*|\d[\w.]*|[^\W\d]\w*|[^\s\w]")
_DROPPED = set("(),;\"'`\\")  # what layout may add or take away
_OWN = "\0"  # before a name that may be called otherwise elsewhere

Run = tuple[object, ...]


def tokens(text: str) -> list[str]:
    """The tokens of a text, which need not be Python. A name that could be another is marked."""
    raw = [token for token in _TOKEN.findall(text) if token[0] != "#"]
    found = []
    for i, token in enumerate(raw):
        if token in _DROPPED:
            continue
        if token.isidentifier() and token not in _FIXED:
            before = raw[i - 1] if i else ""
            keyword_argument = before in ("(", ",") and raw[i + 1 : i + 2] == ["="]
            if before != "." and not keyword_argument:
                token = _OWN + token
        found.append(token)
    return found


def plain(found: list[str]) -> list[str]:
    """Tokens without the marks."""
    return [token.lstrip(_OWN) for token in found]


def runs(found: list[str], length: int) -> Iterator[Run]:
    """Every run of so many tokens."""
    return zip(*(found[i:] for i in range(length)))


def renamed(found: list[str], length: int, known: Container[Run] | None = None) -> Iterator[Run]:
    """Every run of so many tokens, with names by their order in it.

    Args:
        found: the tokens, with marks.
        length: of a run.
        known: the shapes of runs that are looked for, to save time; all by default.
    """
    shapes = runs([_OWN if token[0] == _OWN else token for token in found], length)
    for run, shape in zip(runs(found, length), shapes):
        if known is None or shape in known:
            yield _by_order(run)


def shape(run: Run) -> Run:
    """What is left of a run that `renamed` gave, when all names are taken for one."""
    return tuple(_OWN if isinstance(atom, int) else atom for atom in run)


@functools.lru_cache(maxsize=1 << 17)  # most mistakes leave most of a solution as it is
def _by_order(atoms: Run) -> Run:
    seen: dict[object, int] = {}
    return tuple(
        seen.setdefault(atom, len(seen)) if isinstance(atom, str) and atom[:1] == _OWN else atom
        for atom in atoms
    )


@dataclass(frozen=True)
class Subtree:
    """A statement or an expression."""

    key: int  # equal for equal code, whatever its names
    nodes: range  # numbers of its nodes in the tree that it comes from


def subtrees(nodes: Iterable[ast.AST], least: int) -> list[Subtree]:
    """Every statement and expression of at least so many nodes."""
    reader = _Reader(least)
    for node in nodes:
        reader.read(node)
    return reader.found


@dataclass(frozen=True)
class Shape:
    """What a function is known by, whatever its names.

    Attributes:
        whole: of arguments and code.
        body: of the code alone.
        size: how many nodes of its code a comparison looks at.
    """

    whole: int
    body: int
    size: int


@functools.lru_cache(maxsize=1 << 13)
def shape_of(node: ast.FunctionDef) -> Shape:
    """What a function is known by."""
    arguments, code = _Reader(), _Reader()
    taken = arguments.read(node.args)
    done = [atom for statement in code_of(node) for atom in code.read(statement)]
    whole, body = _by_order((*taken, *done)), _by_order(tuple(done))
    return Shape(hash(whole), hash(body), code.count)


def check_of(node: ast.FunctionDef, constants: Mapping[str, object]) -> int:
    """What a check is known by: its decorators and its code, with a module's constants in it."""
    reader, filled = _Reader(), _Filled(constants)
    parts = [filled.visit(part) for part in (*node.decorator_list, *code_of(node))]
    return hash(_by_order(tuple(atom for part in parts for atom in reader.read(part))))


# What says nothing about what code does.
_SKIPPED = {"annotation", "ctx", "decorator_list", "kind", "returns", "type_comment",
            "type_ignores", "type_params"}  # fmt: skip


@functools.cache
def _told(fields: tuple[str, ...]) -> list[str]:
    """Of a node's fields those that count; a definition's own name does not."""
    named = {"name"} if "decorator_list" in fields else set()
    return [field for field in fields if field not in _SKIPPED | named]


class _Reader:
    """Reads trees into lists of atoms: types, constants, names.

    Args:
        least: so many nodes make a subtree that is kept in `found`; none is by default.
    """

    def __init__(self, least: int = 0):
        self._least = least
        self.count = 0
        self.found: list[Subtree] = []

    def read(self, node: ast.AST) -> list[object]:
        first = self.count
        self.count += 1
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign([node.target], node.value)
        if isinstance(node, ast.Name):
            atoms: list[object] = [node.id if node.id in _FIXED else _OWN + node.id]
        elif isinstance(node, ast.arg):
            atoms = ["arg", _OWN + node.arg]
        else:
            atoms = [type(node).__name__]
            for name in _told(node._fields):
                value = getattr(node, name, None)
                if isinstance(value, list):
                    if name == "body":
                        value = value[_documented(value) :]
                    elif name == "keywords":
                        value = sorted(value, key=lambda one: one.arg or "")
                    for item in value:
                        atoms += self.read(item) if isinstance(item, ast.AST) else [repr(item)]
                else:
                    atoms += self.read(value) if isinstance(value, ast.AST) else [repr(value)]
                atoms.append(name)
        if self._least and self.count - first >= self._least:
            key = hash(_by_order(tuple(atoms)))
            self.found.append(Subtree(key, range(first, self.count)))
        return atoms


def _documented(body: list[ast.stmt]) -> int:
    """1 where a body begins with a docstring."""
    first = body[0] if body else None
    return int(
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )


def code_of(node: ast.FunctionDef) -> list[ast.stmt]:
    """A function's statements without its docstring."""
    return node.body[_documented(node.body) :]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions of a module and the methods of its classes, without what stands inside them."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            yield child
        else:
            yield from functions(child)


class _Filled(ast.NodeTransformer):
    """Puts a module's constants where their names stand."""

    def __init__(self, constants: Mapping[str, object]):
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._constants:
            return ast.copy_location(ast.Constant(self._constants[node.id]), node)  # type: ignore[arg-type]
        return node


def constants(tree: ast.Module) -> dict[str, object]:
    """The names that a module gives to constants."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
