"""A service for a locked fork that runs whatever Python it is sent, and says what came of it.

`grader doctor --walls` and the project's own tests send it attacks. Requests and answers are a
4-byte big-endian length, then UTF-8: source in, JSON out, of what the source left in `result` or
raised.
"""

import json
import socket
import struct
from typing import Any

LEAN = True  # no attack needs an optimizer


def send(end: socket.socket, text: str) -> None:
    """Send one text."""
    body = text.encode()
    end.sendall(struct.pack(">I", len(body)) + body)


def receive(end: socket.socket) -> str:
    """Take one text. Raises `EOFError` when the other end is gone."""
    (length,) = struct.unpack(">I", _exactly(end, 4))
    return _exactly(end, length).decode()


def _exactly(end: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = end.recv(count - len(got))
        if not piece:
            raise EOFError("the other end is closed")
        got += piece
    return got


def serve(end: socket.socket) -> None:
    """Run sources, each in the same namespace, until the other end is closed."""
    space: dict[str, Any] = {"__name__": "trial", "sock": end}
    while True:
        try:
            source = receive(end)
        except EOFError:
            return
        space["result"] = None
        try:
            exec(compile(source, "trial", "exec"), space)
            answer = {"result": space["result"]}
        except Exception as problem:
            number = getattr(problem, "errno", None)
            answer = {"raised": type(problem).__name__, "errno": number, "text": str(problem)}
        send(end, json.dumps(answer, default=repr))


def serve_bare(end: socket.socket) -> None:
    """The same for sources that need no torch: its parent is ready at once."""
    serve(end)


serve_bare.bare = True  # type: ignore[attr-defined]
