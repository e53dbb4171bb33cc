"""Messages between judge and worker: a small header, then raw tensor bytes. No pickle.

    4 bytes  length of the header          the header is JSON: kind, number, value, tensors
    8 bytes  length of the body            the body is the tensors' memory, end to end

A tensor's memory crosses once, however many views of it a message holds, and a tensor that stands
in a message twice is one tensor on the other side, with its strides.

What a worker sends is hostile until it is parsed: every length is capped, every size is checked
against the bytes that came, depth is bounded, and nothing but plain data and tensors can come out.
"""

from __future__ import annotations

import hashlib
import json
import math
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grader.subject.faults import Ref

_PREFIX = struct.Struct("<IQ")
_HEADER_MOST = 1 << 20
_BODY_MOST = 256 << 20
_ENTRIES_MOST = 1 << 24  # of one tensor: a few bytes with a stride of 0 can claim any number
_AXES_MOST = 16
_BITS_MOST = 1 << 12  # of an integer
_DEPTH_MOST = 16

_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
        torch.complex128,
    )
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class WireError(Exception):
    """What came is not a message, or says what no honest peer would say."""


class WireClosed(WireError):
    """Nobody is there any more."""


class TooLarge(WireError):
    """What was to be sent is more than may cross."""


class Message(NamedTuple):
    """What is sent: a kind, the number of the question that it asks or answers, and a value."""

    kind: str
    number: int
    value: Any


class Raw(NamedTuple):
    """A message as it came, not yet believed in anything."""

    head: memoryview
    body: memoryview

    @property
    def asks(self) -> bool:
        """It is a question, as an honest peer begins one."""
        return bytes(self.head[:10]) == b'{"k":"ask"'

    @property
    def digest(self) -> bytes:
        digest = hashlib.sha256(self.head)
        digest.update(self.body)
        return digest.digest()


def send(
    end: socket.socket,
    message: Message,
    lend: Callable[[Any], int],
    deadline: float = math.inf,
) -> None:
    """Send a message; see `pack` and `push`."""
    push(end, pack(message, lend), deadline)


def pack(message: Message, lend: Callable[[Any], int]) -> bytes:
    """A message as it crosses.

    Args:
        message: its value is plain data, dtypes, devices, tensors, `Ref`, and callables.
        lend: gives a callable, which stays here, a number.

    Raises:
        WireError: the value holds something else.
    """
    packer = _Packer(lend)
    header = {
        "k": message.kind,
        "n": message.number,
        "v": packer.pack(message.value, 0),
        "s": [len(memory) for memory in packer.memories],
        "t": packer.tensors,
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    if len(head) > _HEADER_MOST:
        raise WireError(f"the message is too long: {len(head)} bytes")
    body = b"".join(packer.memories)
    return _PREFIX.pack(len(head), len(body)) + head + body


def push(end: socket.socket, packed: bytes, deadline: float = math.inf) -> None:
    """Send what was packed.

    Args:
        end: a connected stream socket.
        packed: by `pack`.
        deadline: of `time.monotonic`: who never reads must not hold us.

    Raises:
        TimeoutError: the deadline has passed.
        WireClosed: the other end is gone.
    """
    _limit(end, deadline)
    try:
        end.sendall(packed)
    except TimeoutError:
        raise
    except OSError as error:
        raise WireClosed(str(error)) from None


def receive(end: socket.socket, deadline: float, borrow: Callable[[int], Any]) -> Message:
    """Receive a message; see `pull` and `parse`."""
    return parse(pull(end, deadline), borrow)


def pull(end: socket.socket, deadline: float) -> Raw:
    """Receive a message and leave it as it came.

    Args:
        end: a connected stream socket.
        deadline: of `time.monotonic`; infinite for none.

    Raises:
        TimeoutError: the deadline has passed.
        WireClosed: the other end is gone.
        WireError: it announces more than may come.
    """
    head_size, body_size = _PREFIX.unpack(_exactly(end, _PREFIX.size, deadline))
    if head_size > _HEADER_MOST or body_size > _BODY_MOST:
        raise WireError(f"it announces {head_size} + {body_size} bytes")
    return Raw(_exactly(end, head_size, deadline), _exactly(end, body_size, deadline))


def parse(raw: Raw, borrow: Callable[[int], Any]) -> Message:
    """The message that came.

    Args:
        raw: what came.
        borrow: makes something of the number of a callable on the other side.

    Raises:
        WireError: it is no message.
    """
    body = raw.body
    try:
        header = json.loads(bytes(raw.head))
        memories, at = [], 0
        for size in header["s"]:
            # A copy of its own, so that each memory begins on a boundary that torch likes.
            memories.append(bytearray(body[at : at + _count(size, len(body) - at)]))
            at += size
        unpacker = _Unpacker([_tensor(entry, memories) for entry in header["t"]], borrow)
        kind, number = header["k"], header["n"]
        if not isinstance(kind, str) or type(number) is not int:
            raise WireError("a header's field has the wrong type")
        return Message(kind, number, unpacker.unpack(header["v"], 0))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, RuntimeError) as error:
        raise WireError(f"it is no message: {error}") from None


def _exactly(end: socket.socket, size: int, deadline: float) -> memoryview:
    buffer = memoryview(bytearray(size))
    got = 0
    while got < size:
        _limit(end, deadline)
        try:
            count = end.recv_into(buffer[got:])
        except TimeoutError:
            raise
        except OSError as error:
            raise WireClosed(str(error)) from None
        if not count:
            raise WireClosed("closed")
        got += count
    return buffer


def _limit(end: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    end.settimeout(None if math.isinf(left) else left)


class _Packer:
    def __init__(self, lend: Callable[[Any], int]):
        self._lend = lend
        self._tensor_numbers: dict[int, int] = {}
        self._memory_numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # an id() is good as long as its object is
        self.tensors: list[Any] = []
        self.memories: list[bytes] = []
        self._room = _BODY_MOST

    def pack(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, (bool, float, str)):
            return value
        if isinstance(value, int):
            if value.bit_length() > _BITS_MOST:
                raise WireError("a number of too many digits")
            return value
        if depth > _DEPTH_MOST:
            raise WireError("the value is nested too deeply")
        if isinstance(value, Tensor):
            return ["T", self._tensor(value)]
        if isinstance(value, (list, tuple)):
            tag = "l" if isinstance(value, list) else "t"
            return [tag, *(self.pack(item, depth + 1) for item in value)]
        if isinstance(value, dict):
            return ["d", *([str(key), self.pack(item, depth + 1)] for key, item in value.items())]
        if isinstance(value, torch.dtype):
            return ["D", _name(value)]
        if isinstance(value, torch.device):
            return ["V", str(value)]
        if isinstance(value, Ref):
            return ["R", value.number, value.type_name, value.is_module]
        if callable(value):
            return ["C", self._lend(value)]
        raise WireError(f"a {type(value).__name__} cannot cross")

    def _tensor(self, tensor: Tensor) -> int:
        if id(tensor) in self._tensor_numbers:
            return self._tensor_numbers[id(tensor)]
        self._alive.append(tensor)
        number = self._tensor_numbers[id(tensor)] = len(self.tensors)
        try:
            plain = tensor.detach().cpu()
            if plain.layout != torch.strided:  # as_subclass refuses such
                plain = plain.to_dense()
            plain = plain.as_subclass(Tensor).resolve_conj().resolve_neg()
        except RuntimeError as error:  # it is on the device `meta`, say
            raise WireError(f"a tensor cannot cross: {error}") from None
        name = _name(plain.dtype)
        if plain.numel() > _ENTRIES_MOST:
            raise TooLarge(f"a tensor of {plain.numel()} entries")
        memory = self._memory(plain)
        entry = [memory, name, plain.storage_offset(), list(plain.shape), list(plain.stride())]
        self.tensors.append(entry)
        return number

    def _memory(self, tensor: Tensor) -> int:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if not address or address not in self._memory_numbers:
            self._alive.append(storage)
            self._memory_numbers[address] = len(self.memories)
            self._room -= storage.nbytes()
            if self._room < 0:
                raise TooLarge(f"a message of more than {_BODY_MOST} bytes")
            flat = torch.empty(0, dtype=torch.uint8).set_(storage)
            self.memories.append(flat.numpy().tobytes())
        return self._memory_numbers[address]


class _Unpacker:
    def __init__(self, tensors: list[Tensor], borrow: Callable[[int], Any]):
        self._tensors = tensors
        self._borrow = borrow

    def unpack(self, node: Any, depth: int) -> Any:
        if not isinstance(node, list):
            if isinstance(node, dict):
                raise WireError("a bare object")
            return node
        if depth > _DEPTH_MOST:
            raise WireError("the value is nested too deeply")
        tag, *rest = node
        if tag == "T":
            return self._tensors[_count(rest[0], len(self._tensors) - 1)]
        if tag == "l":
            return [self.unpack(item, depth + 1) for item in rest]
        if tag == "t":
            return tuple(self.unpack(item, depth + 1) for item in rest)
        if tag == "d":
            return {str(key): self.unpack(item, depth + 1) for key, item in rest}
        if tag == "D":
            return _DTYPES[rest[0]]
        if tag == "V":
            return torch.device(str(rest[0]))
        if tag == "R":
            return Ref(_count(rest[0], 1 << 30), text(str(rest[1]), 100), rest[2] is True)
        if tag == "C":
            return self._borrow(_count(rest[0], 1 << 30))
        raise WireError(f"an unknown tag {tag!r:.20}")


def text(given: str, most: int) -> str:
    """Text that a terminal and a file can take: no half characters, no escape sequences."""
    shown = (c if c == "\n" or c.isprintable() else "?" for c in given[:most])
    return "".join(shown).encode("utf-8", "replace").decode()


def _name(dtype: torch.dtype) -> str:
    if dtype not in _NAMES:
        raise WireError(f"{dtype} cannot cross")
    return _NAMES[dtype]


def _tensor(entry: Any, memories: list[bytearray]) -> Tensor:
    """A tensor over bytes that came, if it stays within them."""
    number, name, offset, shape, stride = entry
    memory = memories[_count(number, len(memories) - 1)]
    dtype = _DTYPES[name]
    if len(shape) > _AXES_MOST or len(shape) != len(stride):
        raise WireError("a tensor has too many axes, or strides that are not its own")
    entries = math.prod(_count(size, _ENTRIES_MOST) for size in shape)
    _count(entries, _ENTRIES_MOST)
    if not entries:
        return torch.empty(shape, dtype=dtype)
    room = len(memory) // dtype.itemsize
    last = _count(offset, room) + sum(
        (size - 1) * _count(step, _ENTRIES_MOST) for size, step in zip(shape, stride)
    )
    if last >= room:
        raise WireError("a tensor reaches beyond its memory")
    flat = torch.frombuffer(memory, dtype=dtype, count=room)
    return flat.as_strided(shape, stride, offset)


def _count(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise WireError(f"{value!r:.20} is not a number from 0 to {most}")
    return value
