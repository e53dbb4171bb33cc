"""What a source names of the library: functions that an exercise forbids. Best effort.

`host.Watch` sees the operators that run, and sees all of them where nobody hides any. Here the text
is read for calls in disguise, before any of it runs. Another exercise of the same module may use
what this one forbids, so only what the exercise's own code leads to is read: its definition, the
definitions of the names in it, and so on. What cannot run (comments, docstrings, lines behind a
`return`) does not count, nor does a function of the student's own, whatever its name.

What is spelled out at run time, ``getattr(torch, "xamtfos"[::-1])``, is not found.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_PASSES_MOST = 8  # over assignments that hand each other on
_TEXT_MOST = 10_000  # characters of a text that is put together
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)

# Calls by the last name of what is called.
_ASK_OWNER = {"get", "__getattr__", "__getattribute__", "__getitem__"}
_ASK_ANYBODY = {"attrgetter", "methodcaller"}
_RUN = {"eval", "exec", "compile"}
_IMPORT = {"__import__", "import_module"}


@dataclass(frozen=True)
class Named:
    """A forbidden function, and the line that names it."""

    name: str
    line: int


@functools.lru_cache(maxsize=32)
def find(text: str, name: str, forbidden: Sequence[str]) -> Named | None:
    """The first forbidden function that the code of an exercise names.

    Args:
        text: the module's.
        name: the exercise's, ``"f"`` or ``"Class.method"``.
        forbidden: names of operators; ``nn.LogSoftmax`` is that of ``log_softmax``.
    """
    tree = _parse(text)
    if tree is None:
        return None
    function = name.partition(".")[0]
    reader = _Reader(_led_to(tree, function), function, {_plain(one) for one in forbidden})
    return min(reader.named(), key=lambda found: found.line, default=None)


class _Reader:
    """Reads statements. One pass from the leaves up tells torch and its tensors from the rest.

    Args:
        code: the statements.
        name: that of the exercise, whose arguments are tensors.
        forbidden: plain names.
    """

    def __init__(self, code: Iterable[ast.stmt], name: str, forbidden: set[str]):
        self._forbidden = forbidden
        self._nodes = [node for statement in code for node in _alive(statement)]
        self._texts: dict[ast.AST, str] = {}  # of nodes that are one
        self._library: set[ast.AST | str] = set()  # nodes and names that are torch's
        self._taken: dict[str, str] = {}  # name -> the forbidden function that it was imported as
        for node in self._nodes:
            if isinstance(node, _FUNCTIONS) and node.name == name:
                self._library |= {argument.arg for argument in node.args.args}
        self._read_texts()
        self._read_imports()
        for _ in range(_PASSES_MOST):
            known = len(self._library)
            for node in reversed(self._nodes):
                if self._is_library(node):
                    self._library.add(node)
            if len(self._library) == known:
                break

    def named(self) -> Iterator[Named]:
        for node in self._nodes:
            for name in self._names_in(node):
                if _plain(name) in self._forbidden:
                    yield Named(name, node.lineno)  # type: ignore[attr-defined]

    def _read_texts(self) -> None:
        for node in reversed(self._nodes):
            parts: Sequence[ast.expr] = ()
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._texts[node] = node.value
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                parts = [node.left, node.right]
            elif isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.FormattedValue) else v for v in node.values]
            found = [self._texts[part] for part in parts if part in self._texts]
            if parts and len(found) == len(parts) and sum(map(len, found)) < _TEXT_MOST:
                self._texts[node] = "".join(found)
        for node in list(self._nodes):
            if isinstance(node, ast.Call) and _last(node.func) in _RUN:
                for tree in filter(None, map(_parse, self._texts_of(node))):
                    inner = list(_alive(tree))
                    for one in inner:
                        one.lineno = node.lineno  # type: ignore[attr-defined]
                    self._nodes += inner

    def _read_imports(self) -> None:
        own = {name for node in self._nodes for name in _own(node)}
        for node in self._nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    source = alias.name if isinstance(node, ast.Import) else node.module or ""
                    if source.partition(".")[0] == "torch" and bound not in own:
                        self._library.add(bound)
                        self._taken[bound] = "" if isinstance(node, ast.Import) else alias.name
        if "*" in self._taken:
            names = [node.id for node in self._nodes if isinstance(node, ast.Name)]
            self._taken |= {name: name for name in names if name not in own}

    def _is_library(self, node: ast.AST) -> bool:
        """Whether this is torch, a part of it or a tensor, by what is known of its parts."""
        known = self._library
        if isinstance(node, ast.Name):
            return node.id in known
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            return node.value in known
        if isinstance(node, ast.BinOp):
            return node.left in known or node.right in known
        if isinstance(node, ast.UnaryOp):
            return node.operand in known
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value in known:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            known |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.Call):
            called = _last(node.func)
            if called in _IMPORT:
                return any(text.partition(".")[0] == "torch" for text in self._texts_of(node))
            owner = node.args[0] if called in ("getattr", "vars") and node.args else node.func
            return owner in known
        return isinstance(node, ast.NamedExpr) and node.value in known

    def _names_in(self, node: ast.AST) -> Iterable[str]:
        """The names by which this asks torch, a tensor or nobody in particular for something."""
        if isinstance(node, ast.Name):
            return [self._taken.get(node.id, "")] if isinstance(node.ctx, ast.Load) else []
        if isinstance(node, ast.Attribute):
            return [node.attr] if node.value in self._library else []
        if isinstance(node, ast.Subscript):
            return [self._texts.get(node.slice, "")] if node.value in self._library else []
        if not isinstance(node, ast.Call):
            return []
        called = _last(node.func)
        asks = called in _ASK_ANYBODY or (
            node in self._library and called in {"getattr", *_ASK_OWNER}
        )
        return ".".join(self._texts_of(node)).split(".") if asks else []

    def _texts_of(self, call: ast.Call) -> list[str]:
        return [self._texts[argument] for argument in call.args if argument in self._texts]


def _led_to(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of a module that bind a name, then those that bind the names in these, ...;
    and its imports, which say what the names mean.
    """
    bound: dict[str, list[ast.stmt]] = {}
    found: dict[ast.stmt, None] = {}
    for statement in _at_top(tree):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            found[statement] = None
        for target in _binds(statement):
            bound.setdefault(target, []).append(statement)
    waiting = [name]
    while waiting:
        for statement in bound.pop(waiting.pop(), []):
            if statement not in found:
                found[statement] = None
                waiting += [n.id for n in _alive(statement) if isinstance(n, ast.Name)]
    return list(found)


def _at_top(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, also those under its `if` and `try`."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            waiting += ast.iter_child_nodes(node)


def _binds(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return [statement.name]
    return [
        node.id
        for node in _alive(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def _own(node: ast.AST) -> list[str]:
    """The name that a node gives to something of the student's."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return [node.id]
    return [node.arg] if isinstance(node, ast.arg) else []


def _alive(root: ast.AST) -> Iterator[ast.AST]:
    """A node and all in it that can run: nothing behind a `return`, nor under `if False`."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list) and not (name == "body" and _is_never(node)):
                for item in filter(lambda item: isinstance(item, ast.AST), value):
                    waiting.append(item)
                    if isinstance(item, _ENDS):
                        break


def _is_never(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Constant) and not test.value


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _last(function: ast.expr) -> str:
    """The last name of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
