"""The wire: what is sent arrives as it was, and what is hostile is refused, quickly."""

from __future__ import annotations

import contextlib
import json
import math
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from grader.subject import wire
from grader.subject.faults import Fault, Ref
from grader.subject.peer import Peer, seconds_from_now
from grader.subject.wire import Message, WireClosed, WireError

REFUSED = (WireError, TimeoutError)  # WireClosed is a WireError
DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip


def lend(function: Callable[..., Any]) -> int:
    raise WireError("nothing is lent here")


def borrow(number: int) -> str:
    return f"lent {number}"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def crossed(value: Any) -> Any:
    """What comes out at the other end."""
    one, other = socket.socketpair()
    with one, other:
        sender = threading.Thread(target=wire.send, args=(one, Message("ask", 7, value), lend))
        sender.start()
        kind, number, found = wire.receive(other, seconds_from_now(20), borrow)
        sender.join()
    assert (kind, number) == ("ask", 7)
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return (
            isinstance(other, Tensor)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and (one.stride() == other.stride() or not one.numel())
            and torch.equal(bits(one), bits(other))
        )
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


def bits(tensor: Tensor) -> Tensor:
    """NaN equals itself in these."""
    return tensor.contiguous().flatten().view(torch.uint8)


# Round trips.

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=5)  # lone surrogates, too
    | st.sampled_from([*DTYPES, torch.device("cpu"), torch.device("cuda:1")])
    | st.builds(Ref, st.integers(0, 9), st.sampled_from(["A", "ü"]), st.booleans()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Of any dtype and shape, whole or seen through a view that isn't contiguous."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=4))
    nbytes = math.prod(shape) * dtype.itemsize
    most = 1 if dtype == torch.bool else 255
    values = draw(st.lists(st.integers(0, most), min_size=nbytes, max_size=nbytes))
    whole = torch.tensor(values, dtype=torch.uint8).view(dtype).reshape(shape)
    look = draw(st.sampled_from(["whole", "transposed", "strided", "narrowed", "expanded"]))
    if look == "transposed":
        return whole.permute([*reversed(range(whole.ndim))])
    if look == "strided" and shape and shape[-1]:
        return whole[..., ::2]
    if look == "narrowed" and shape and shape[0]:
        return whole[1:]
    return whole.expand(2, *shape) if look == "expanded" else whole


@given(plain)
def test_plain_data_arrives_as_it_was(value: Any) -> None:
    assert same(value, crossed(value))


@given(st.lists(tensors() | plain, max_size=4))
def test_tensors_arrive_as_they_were(value: list[Any]) -> None:
    assert same(value, crossed(value))


def test_the_same_tensor_twice_is_one_tensor() -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 3)
    a, b, (c, d), e = crossed((x, y, [x, y], {"x": x}))
    assert a is c is e["x"]
    assert b is d
    assert a is not b


def test_views_share_their_memory_on_the_other_side() -> None:
    whole = torch.zeros(4, 6)
    views = crossed([whole, whole[1:3], whole.T, whole[:, 2], whole.view(torch.int32)])
    first, *others = views
    first.fill_(1.0)
    assert all(bool((view != 0).all()) for view in others)
    assert {view.untyped_storage().data_ptr() for view in views} == {first.data_ptr()}


def test_an_expanded_tensor_crosses_as_one_entry(ends) -> None:
    one, other = ends
    wire.send(one, Message("answer", 1, torch.ones(1).expand(1000, 1000)), lend)
    assert len(other.recv(1 << 20, socket.MSG_PEEK)) < 1000
    assert wire.receive(other, math.inf, borrow).value.shape == (1000, 1000)


@pytest.mark.parametrize(
    "odd",
    [
        torch.nn.Parameter(torch.ones(2, 3)),
        torch.ones(2, 3, requires_grad=True) * 2,
        torch.eye(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
    ],
    ids=["parameter", "in a graph", "sparse", "conjugate", "negative"],
)
def test_odd_tensors_arrive_as_plain_ones(odd: Tensor) -> None:
    found = crossed(odd)
    assert type(found) is Tensor
    assert not found.requires_grad
    expected = odd.detach()
    assert torch.equal(found, expected.to_dense() if expected.is_sparse else expected)


def test_a_callable_is_lent_and_borrowed(ends) -> None:
    one, other = ends
    wire.send(one, Message("ask", 1, [print, len]), [print, len].index)
    assert wire.receive(other, math.inf, borrow).value == ["lent 0", "lent 1"]


def nested(depth: int, inner: Any = None) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


CANNOT_CROSS: dict[str, Callable[[], Any]] = {
    "an object": object,
    "a set": lambda: {1, 2},
    "bytes": lambda: b"bytes",
    "a complex number": lambda: 3j,
    "a number of too many digits": lambda: 10**5000,
    "too deep": lambda: nested(40),
    "too long a text": lambda: "x" * (1 << 20),
    "too long a list": lambda: [0] * (1 << 20),
    "a tensor without data": lambda: torch.empty(2, device="meta"),
    "a tensor of an odd dtype": lambda: torch.ones(2).to(torch.float8_e5m2),
    "an odd dtype": lambda: torch.float8_e5m2,
    "too large a tensor": lambda: torch.empty(257 << 20, dtype=torch.uint8)[:1],
    "too many entries": lambda: torch.empty(20_000_000),
}


@pytest.mark.parametrize("what", CANNOT_CROSS)
def test_what_cannot_cross_is_said_so(ends, what: str) -> None:
    one, other = ends
    with pytest.raises(WireError):
        wire.send(one, Message("ask", 1, CANNOT_CROSS[what]()), lend)
    other.setblocking(False)
    with pytest.raises(BlockingIOError):  # and nothing has gone out that would confuse the other
        other.recv(1)


@pytest.mark.parametrize("what", ["too large a tensor", "too many entries"])
def test_what_is_too_large_is_said_to_be(ends, what: str) -> None:
    with pytest.raises(wire.TooLarge):
        wire.send(ends[0], Message("ask", 1, CANNOT_CROSS[what]()), lend)


def test_the_name_of_a_class_is_text() -> None:
    assert crossed(Ref(1, "\ud800\x1b[2J\u202e" + "x" * 200, True)).type_name == "??[2J?" + "x" * 94


def test_a_key_is_text_on_the_other_side() -> None:
    assert crossed({1: "a", (2, 3): "b"}) == {"1": "a", "(2, 3)": "b"}


# Hostile frames.


def frame(header: Any, body: bytes = b"") -> bytes:
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<IQ", len(head), len(body)) + head + body


def message(value: Any = None, tensors: Any = (), sizes: Any = (), **more: Any) -> dict[str, Any]:
    return {"k": "answer", "n": 1, "v": value, "t": tensors, "s": sizes} | more


def with_tensor(*entry: Any, body: bytes = bytes(64)) -> bytes:
    return frame(message(["T", 0], [entry], [len(body)]), body)


def hostile(blob: bytes, close: bool = True) -> Any:
    """What becomes of bytes that come in, within two seconds."""
    one, other = socket.socketpair()

    def attack() -> None:
        with contextlib.suppress(OSError):  # refused before all of it was read
            one.sendall(blob)
            if close:
                one.close()

    with one, other:
        attacker = threading.Thread(target=attack)
        attacker.start()
        began = time.monotonic()
        try:
            return wire.receive(other, seconds_from_now(2.0 if close else 0.1), borrow)
        finally:
            assert time.monotonic() - began < 1.5
            other.close()
            attacker.join()


BIG = 1 << 62
FRAMES: dict[str, bytes] = {
    "nothing": b"",
    "half a prefix": b"\0" * 5,
    "half a header": frame(message())[:-3],
    "half a body": with_tensor(0, "int64", 0, [8], [1])[:-3],
    "a giant header": struct.pack("<IQ", 0xFFFFFFFF, 0),
    "a giant body": struct.pack("<IQ", 2, 0xFFFFFFFFFFFFFFFF) + b"{}",
    "an empty header": frame(b""),
    "no JSON": frame(b"\x80\x04K\x01."),
    "no UTF-8": frame(b'{"k": "\xff\xfe"}'),
    "UTF-16": frame(json.dumps(message()).encode("utf-16")[:-1]),
    "deep JSON": frame(b"[" * 500_000),
    "deep JSON, closed": frame(b"[" * 100_000 + b"]" * 100_000),
    "deep value": frame(message(nested(200, ["l"]))),
    "deep list": frame(message(eval('["l", ' * 30 + "1" + "]" * 30))),
    "a number of too many digits": frame(b'{"n": ' + b"9" * 900_000 + b"}"),
    "a list": frame([1, 2, 3]),
    "a number": frame(3),
    "text": frame("header"),
    "null": frame(None),
    "no fields": frame({}),
    "kind of the wrong type": frame(message(k=["answer"])),
    "number of the wrong type": frame(message(n="1")),
    "number that is NaN": frame(message(n=math.nan)),
    "number that is infinite": frame(message(n=math.inf)),
    "number that is a fraction": frame(message(n=1.5)),
    "number that is a bool": frame(message(n=True)),
    "sizes of the wrong type": frame(message(sizes=3)),
    "sizes that are null": frame(message(sizes=None)),
    "a negative size": frame(message(sizes=[-1])),
    "a size that is NaN": frame(message(sizes=[math.nan])),
    "a size that is text": frame(message(sizes=["8"])),
    "a size that is a bool": frame(message(sizes=[True]), b"x"),
    "a size beyond the body": frame(message(sizes=[9]), bytes(8)),
    "sizes that sum beyond the body": frame(message(sizes=[5, 5]), bytes(8)),
    "a huge size": frame(message(sizes=[10**400])),
    "tensors of the wrong type": frame(message(tensors=3)),
    "a tensor that is a number": frame(message(tensors=[3])),
    "a tensor with too few fields": with_tensor(0, "int64", 0, [8]),
    "an unknown tag": frame(message(["X", 1])),
    "a tag of the wrong type": frame(message([["T"], 0])),
    "no tag": frame(message([])),
    "a bare object": frame(message({"a": 1})),
    "a bare object inside": frame(message(["l", {"a": 1}])),
    "no such tensor": frame(message(["T", 0])),
    "a negative tensor": frame(message(["T", -1], [[0, "int64", 0, [8], [1]]], [64]), bytes(64)),
    "a tensor without a number": frame(message(["T"])),
    "a dict of no pairs": frame(message(["d", [1]])),
    "a dict of numbers": frame(message(["d", 1])),
    "no such dtype": frame(message(["D", "float7"])),
    "a dtype of the wrong type": frame(message(["D", ["float32"]])),
    "no such device": frame(message(["V", "nowhere:1"])),
    "a device of too high a number": frame(message(["V", f"cuda:{10**30}"])),
    "a handle without a name": frame(message(["R", 1])),
    "a negative handle": frame(message(["R", -1, "A", True])),
    "a huge handle": frame(message(["R", BIG, "A", True])),
    "a negative callable": frame(message(["C", -1])),
    "a tensor of no memory": with_tensor(1, "int64", 0, [8], [1]),
    "a tensor of an unknown dtype": with_tensor(0, "qint8", 0, [8], [1]),
    "a tensor of a dtype that is a list": with_tensor(0, [], 0, [8], [1]),
    "a size too large": with_tensor(0, "int64", 0, [9], [1]),
    "a size of a giant": with_tensor(0, "int64", 0, [BIG], [0]),
    "sizes whose product is a giant": with_tensor(0, "int64", 0, [1 << 20] * 4, [0] * 4),
    "giants with a zero": with_tensor(0, "int64", 0, [1 << 24] * 8 + [0], [0] * 9),
    "a negative size of a tensor": with_tensor(0, "int64", 0, [-1], [1]),
    "two negative sizes": with_tensor(0, "int64", 0, [-2, -2], [1, 1]),
    "a stride too long": with_tensor(0, "int64", 0, [2], [8]),
    "a giant stride": with_tensor(0, "int64", 0, [2], [BIG]),
    "a negative stride": with_tensor(0, "int64", 7, [8], [-1]),
    "an offset beyond": with_tensor(0, "int64", 8, [1], [1]),
    "an offset beyond, of one": with_tensor(0, "int64", 8, [], []),
    "a negative offset": with_tensor(0, "int64", -1, [1], [1]),
    "a giant offset": with_tensor(0, "int64", BIG, [1], [1]),
    "an offset that is NaN": with_tensor(0, "int64", math.nan, [1], [1]),
    "an offset that is a bool": with_tensor(0, "int64", True, [1], [1]),
    "sizes that are a number": with_tensor(0, "int64", 0, 8, 1),
    "sizes that are text": with_tensor(0, "int64", 0, "8", "1"),
    "sizes that are an object": with_tensor(0, "int64", 0, {"8": 1}, {"1": 1}),
    "sizes that are nothing": with_tensor(0, "int64", 0, None, None),
    "more strides than sizes": with_tensor(0, "int64", 0, [8], [1, 1]),
    "too many axes": with_tensor(0, "int64", 0, [1] * 70, [1] * 70),
    "a memory that is half an entry": with_tensor(0, "int64", 0, [1], [1], body=bytes(7)),
    "a memory of nothing": with_tensor(0, "int64", 0, [1], [0], body=b""),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_a_hostile_frame_is_refused(name: str) -> None:
    with pytest.raises(WireError):
        hostile(FRAMES[name])


@pytest.mark.parametrize(
    "blob", [b"", b"\0" * 5, frame(message())[:-3], struct.pack("<IQ", 2, 200 << 20) + b"{}"],
    ids=["nothing", "half a prefix", "half a header", "a body that does not come"],
)  # fmt: skip
def test_who_does_not_go_on_meets_the_deadline(blob: bytes) -> None:
    with pytest.raises(TimeoutError):
        hostile(blob, close=False)


def test_who_sends_a_byte_at_a_time_meets_the_deadline(ends) -> None:
    one, other = ends
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.02):
            one.sendall(b"\1")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            wire.receive(other, seconds_from_now(0.2), borrow)
        assert time.monotonic() - began < 1
    finally:
        stop.set()
        thread.join()


def test_who_does_not_read_meets_the_deadline(ends) -> None:
    one, _ = ends
    peer = Peer(one, lambda question: None, borrow)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        peer.ask(torch.zeros(1 << 23), seconds_from_now(0.2))
    assert time.monotonic() - began < 1


def test_the_end_of_the_other_is_noticed(ends) -> None:
    one, other = ends
    other.close()
    with pytest.raises(WireClosed):
        wire.send(one, Message("ask", 1, torch.zeros(1 << 20)), lend)
    with pytest.raises(WireClosed):
        wire.receive(one, math.inf, borrow)


json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 1 << 65)
    | st.floats()
    | st.sampled_from("TltdDVRC"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("kvnst"), inner, max_size=4)
    ),
    max_leaves=10,
)
tagged = st.recursive(
    json_data,
    lambda inner: st.lists(inner, max_size=3).flatmap(
        lambda items: st.sampled_from("TltdDVRC").map(lambda tag: [tag, *items])
    ),
    max_leaves=6,
)


@given(tagged, st.lists(json_data, max_size=2), st.lists(json_data, max_size=2))
def test_any_header_gives_a_message_or_is_refused(value: Any, tensors: Any, sizes: Any) -> None:
    try:
        kind, number, _ = hostile(frame(message(value, tensors, sizes), bytes(64)))
    except REFUSED:
        return
    assert (kind, number) == ("answer", 1)


@given(st.binary(max_size=40))
def test_any_bytes_are_refused(blob: bytes) -> None:
    with pytest.raises(WireError):
        hostile(frame(blob, blob))


counts = st.integers(-2, 9) | st.sampled_from([1 << 24, (1 << 24) + 1, BIG])


@given(st.data())
def test_a_tensor_never_reaches_beyond_its_memory(data: st.DataObject) -> None:
    shape = data.draw(st.lists(counts, max_size=4))
    stride = data.draw(st.lists(counts, min_size=len(shape), max_size=len(shape)))
    offset = data.draw(counts)
    try:
        found = hostile(with_tensor(0, "int16", offset, shape, stride, body=bytes(range(40)))).value
    except REFUSED:
        return
    assert list(found.shape) == shape
    if found.numel():
        last = offset + sum((size - 1) * step for size, step in zip(shape, stride))
        assert 0 <= last < 20


def test_a_message_with_any_byte_changed_is_a_message_or_refused() -> None:
    one, other = socket.socketpair()
    with one, other:
        value = [torch.arange(6.0).view(2, 3).T, {"a": (1, "x")}, Ref(1, "A", True)]
        wire.send(one, Message("answer", 1, value), lend)
        blob = other.recv(1 << 16)
    random_bytes = random.Random(0)
    for place in range(12, len(blob)):  # the prefix: see the giants above
        spoiled = bytearray(blob)
        spoiled[place] = random_bytes.randrange(256)
        with contextlib.suppress(*REFUSED):
            assert isinstance(hostile(bytes(spoiled)), Message)


# Peers.


class Pair:
    """Two peers; the second one serves in a thread, as a worker would."""

    def __init__(self, here: Callable[[Any], Any], there: Callable[[Pair, Any], Any]):
        one, other = socket.socketpair()
        self.here = Peer(one, here, lambda number: self._call(self.here, number))
        self.there = Peer(other, lambda q: there(self, q), lambda n: self._call(self.there, n))
        self._sockets = one, other
        self._thread = threading.Thread(target=self.there.serve)
        self._thread.start()

    @staticmethod
    def _call(peer: Peer, number: int) -> Callable[[Any], Any]:
        return lambda value: peer.ask({"lent": number, "value": value})

    def ask(self, question: Any) -> Any:
        return self.here.ask(question, seconds_from_now(20))

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self._sockets[0].close()
        self._thread.join(20)
        self._sockets[1].close()
        assert not self._thread.is_alive()


def test_calls_nest_both_ways() -> None:
    """The sum 1 + ... + n, each side asking the other for what is left of it."""

    def here(n: int) -> int:
        return n + pair.ask(n - 1) if n else 0

    def there(pair: Pair, n: int) -> int:
        return n + pair.there.ask(n - 1) if n else 0

    with Pair(here, there) as pair:
        for n in (0, 1, 10, 31):
            assert pair.ask(n) == n * (n + 1) // 2


def test_a_lent_function_runs_at_home() -> None:
    threads = []

    def double(x: Tensor) -> Tensor:
        threads.append(threading.current_thread())
        return 2 * x

    def here(question: dict[str, Any]) -> Any:
        return pair.here.lent(question["lent"])(question["value"])

    def there(pair: Pair, question: Any) -> Any:
        function, x = question
        return function(function(x))

    with Pair(here, there) as pair:
        assert torch.equal(pair.ask((double, torch.ones(2))), torch.full((2,), 4.0))
    assert threads == [threading.current_thread()] * 2
    assert pair.here.lend(double) == 0
    for number in (-1, 1):
        with pytest.raises(WireError):
            pair.here.lent(number)


def test_a_fault_crosses() -> None:
    fault = Fault(
        "missing", {"where": "attention.py", "name": "f", "near": ["g"]}, ["a.py, line 1"]
    )

    def there(pair: Pair, question: Any) -> Any:
        raise fault

    with Pair(lambda q: None, there) as pair:
        for _ in range(2):  # and the peers go on
            with pytest.raises(Fault) as caught:
                pair.ask(1)
            found = caught.value
            assert (found.kind, found.detail, found.frames) == (
                fault.kind, fault.detail, fault.frames)  # fmt: skip


def test_an_answer_that_cannot_cross_is_a_fault() -> None:
    with Pair(lambda q: None, lambda pair, question: torch.empty(2, device="meta")) as pair:
        for _ in range(2):  # and the peers go on
            with pytest.raises(Fault) as caught:
                pair.ask(1)
            assert caught.value.kind == "strange"


@pytest.mark.parametrize("what", ["too many entries", "too large a tensor"])
def test_an_answer_that_is_too_large_is_a_fault(what: str) -> None:
    with Pair(lambda q: None, lambda pair, question: CANNOT_CROSS[what]()) as pair:
        for _ in range(2):  # and the peers go on
            with pytest.raises(Fault) as caught:
                pair.ask(1)
            assert caught.value.kind == "too_large"


def test_memory_that_runs_out_while_an_answer_is_sent_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(wire._Packer):
        def pack(self, value: Any, depth: int) -> Any:
            if value == "much":
                raise MemoryError
            return super().pack(value, depth)

    monkeypatch.setattr(wire, "_Packer", Full)
    with Pair(lambda q: None, lambda pair, question: "much") as pair:
        with pytest.raises(Fault) as caught:
            pair.ask(1)
        assert caught.value.kind == "too_large"


def test_the_texts_of_a_fault_are_bounded() -> None:
    detail = {"types": ["A" * 600] * 100, "text": "\x1b" * 999}
    with pytest.raises(Fault) as caught:
        answered_by(("fault", 1, ["raised", detail, ["\x1b" * 400] * 25]))
    assert len(caught.value.detail["types"]) * 500 + 20 * 300 < 30_000
    assert max(map(len, caught.value.detail["types"])) == len(caught.value.detail["text"]) == 500
    assert [len(frame) for frame in caught.value.frames] == [300] * 20
    assert "\x1b" not in repr(caught.value.detail["text"] + "".join(caught.value.frames))


def test_of_a_fault_only_what_its_kind_tells_is_taken() -> None:
    detail = {"found": "NoneType", "types": 5, "importing": "attention"}
    with pytest.raises(Fault) as caught:
        answered_by(("fault", 1, ["no_tensor", detail, []]))
    assert caught.value.detail == {"found": "NoneType", "importing": "attention"}


def answered_by(*replies: tuple[str, int, Any]) -> Any:
    """What asking gives where the other side says this, whatever it was asked."""
    one, other = socket.socketpair()
    with one, other:
        for reply in replies:
            wire.send(other, Message(*reply), lend)
        return Peer(one, lambda question: "mine", borrow).ask("?", seconds_from_now(2))


def test_an_answer_comes() -> None:
    assert answered_by(("answer", 1, "yes")) == "yes"
    assert answered_by(("ask", 5, "what?"), ("answer", 1, "yes")) == "yes"


FAULT = ["missing", {"where": "a", "name": "b", "near": []}, []]
REPLIES: dict[str, tuple[str, int, Any]] = {
    "to another question": ("answer", 2, "yes"),
    "to a question of nobody": ("answer", 0, "yes"),
    "a fault of another question": ("fault", 2, FAULT),
    "of an unknown kind": ("shout", 1, "yes"),
    "a fault that is text": ("fault", 1, "missing"),
    "a fault that is nothing": ("fault", 1, None),
    "a fault with too few parts": ("fault", 1, FAULT[:2]),
    "a fault of an unknown kind": ("fault", 1, ["strange", {}, []]),
    "a fault of a kind that is a list": ("fault", 1, [["missing"], FAULT[1], []]),
    "a fault without its detail": ("fault", 1, ["missing", {"where": "a"}, []]),
    "a fault with a detail of the wrong type": (
        "fault", 1, ["missing", {"where": 3, "name": "b", "near": []}, []]),
    "a fault with a list in place of a detail": ("fault", 1, ["missing", [1], []]),
    "a fault with a number in place of frames": ("fault", 1, ["missing", FAULT[1], 3]),
    "a fault with an object in place of frames": ("fault", 1, ["missing", FAULT[1], {"a": 1}]),
    "a fault that raised nothing": ("fault", 1, ["raised", {"types": [], "text": ""}, []]),
    "a fault that raised numbers": ("fault", 1, ["raised", {"types": [1], "text": ""}, []]),
    "a fault that called nothing forbidden": ("fault", 1, ["forbidden", {"operators": []}, []]),
    "a fault of a giant size": ("fault", 1, ["shape", {"found": [1 << 64], "expected": []}, []]),
    "a fault near to numbers": (
        "fault", 1, ["missing", {"where": "a", "name": "b", "near": [3]}, []]),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_an_implausible_reply_is_refused(name: str) -> None:
    with pytest.raises(WireError):
        answered_by(REPLIES[name])


def test_an_answer_that_nobody_asked_for_is_refused(ends) -> None:
    one, other = ends
    wire.send(other, Message("answer", 1, None), lend)
    with pytest.raises(WireError):
        Peer(one, lambda question: None, borrow).serve()


def test_who_asks_without_end_is_refused(ends) -> None:
    one, other = ends
    peer = Peer(one, lambda question: peer.ask(question, seconds_from_now(2)), borrow)
    for number in range(100):
        wire.send(other, Message("ask", number, "again?"), lend)
    with pytest.raises(WireError, match="without end"):
        peer.ask("?", seconds_from_now(2))
