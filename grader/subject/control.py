"""What the judge and the warm parent say to each other: short JSON messages, one a packet.

The judge says `{"settings": ...}` once, then `{"fork": n}` (with the fork's end of a socket pair
beside it) and `{"end": n}`; `{"judge": true}` brings the control socket of one more judge. The
parent says `{"ready": ...}` to the first, and to each `{"born": n, "report": {...}}` or
`{"failed": n, "why": "..."}`, and for every fork that was born `{"ended": n, "status": s}` once.
"""

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_LONGEST = 1 << 16

PRESENT = "present"
Report = dict[str, str]  # a protection's name -> "present", or "absent: " and why


@dataclass(frozen=True)
class Limits:
    """What one fork may use, beyond what it shares with its parent."""

    memory: int = 2 << 30  # bytes
    cpu: int = 600  # seconds of processor time, all threads together
    scratch: int = 64 << 20  # bytes on its own disk, which is memory
    files: int = 64  # descriptors at once
    threads: int = 64


# A GPU's driver maps much, keeps many files open and starts threads. What memory it has when a
# worker is locked does not count.
GPU_LIMITS = Limits(memory=8 << 30, files=1024, threads=256)


@dataclass(frozen=True)
class Settings:
    """All that the warm parent is told, and a spawned worker too."""

    service: str  # "module:function"; a fork is locked, then calls it with its socket
    scratch: str  # a folder for each fork's own disk to stand on
    readable: list[str]  # what a fork may read
    become: int | None = None  # the user and group that the parent turns into, when it is root
    spawn: bool = False  # a worker is a fresh interpreter, which imports torch by itself
    device: str = "cpu"  # or "cuda", which a worker wakes before it is locked
    devices: list[str] = field(default_factory=list)  # files by which a worker talks to it
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def of(cls, told: dict[str, Any]) -> "Settings":
        """The settings that crossed as plain data."""
        return cls(**{**told, "limits": Limits(**told["limits"])})


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message, and descriptors beside it. Raises `OSError` where nobody listens."""
    packet = json.dumps(message).encode()
    if descriptors:
        socket.send_fds(end, [packet], list(descriptors))
    else:
        end.send(packet)


def receive(end: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Take one message and its descriptors.

    Raises:
        EOFError: the other end is closed.
        TimeoutError: nothing came within the socket's own timeout.
    """
    packet, descriptors, _, _ = socket.recv_fds(end, _LONGEST, 4)
    if not packet:
        raise EOFError("the other end is closed")
    return json.loads(packet), descriptors
