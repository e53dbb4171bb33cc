"""Which repairs are as they were given: code that runs, and nobody's work yet.

A stub that raises NotImplementedError says by itself that it is not attempted. A repair is given as
code that runs, so its text decides. Comments, layout and docstrings do not matter.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping

from grader.model import Submission


def untouched(submission: Submission, given: Mapping[str, str]) -> frozenset[str]:
    """The repairs that nobody has begun.

    Args:
        submission: the student's modules.
        given: repair -> its definition as students get it.
    """
    found = set()
    for id, text in given.items():
        unit, _, name = id.partition(".")
        with contextlib.suppress(KeyError, SyntaxError, ValueError, RecursionError, MemoryError):
            if _is(name, submission.modules[unit].text, text):
                found.add(id)
    return frozenset(found)


def _is(name: str, text: str, given: str) -> bool:
    """Whether a module has this definition, and does no more about the name."""
    body = ast.parse(text).body
    own = [node for node in body if getattr(node, "name", None) == name]
    if len(own) != 1 or _code(own[0]) != _code(ast.parse(given).body[0]):
        return False
    # Outside of its definition, code could still put something in its place.
    others = (part for node in body if node is not own[0] for part in ast.walk(node))
    return not any(isinstance(part, ast.Name) and part.id == name for part in others)


def _code(node: ast.AST) -> str:
    """A definition without its docstrings, in a form that tells no layouts apart."""
    for part in ast.walk(node):
        if (
            isinstance(part, (ast.FunctionDef, ast.ClassDef))
            and ast.get_docstring(part) is not None
        ):
            part.body = part.body[1:]
    return ast.dump(node)
