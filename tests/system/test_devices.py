"""The simulated accelerator accuses what CUDA would refuse, and nothing else."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.subject.devices import MixedDevices, Trace, on_accelerator

BATCH, LENGTH, WIDTH, HEADS, VOCABULARY = 2, 5, 8, 2, 11

CAUSAL = torch.ones(LENGTH, LENGTH).tril()

Case = tuple[Callable[..., Any], tuple[Any, ...], nn.Module | None]


def x() -> Tensor:
    return torch.randn(BATCH, LENGTH, WIDTH)


def tokens() -> Tensor:
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH))


def scores() -> Tensor:
    return torch.randn(BATCH, HEADS, LENGTH, LENGTH)


def sine_table(max_len: int = 12, width: int = WIDTH) -> Tensor:
    table = torch.zeros(max_len, width)
    position = torch.arange(max_len).float().unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10000.0) / width))
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table.unsqueeze(0)


class Positions(nn.Module):
    """The usual table of sines, kept in one of the usual ways."""

    pe: Any

    def __init__(self, keep: str):
        super().__init__()
        self.keep = keep
        self.dropout = nn.Dropout(0.1)
        table = sine_table()
        if keep == "parameter":
            self.pe = nn.Parameter(table, requires_grad=False)
        elif keep in ("buffer", "bypassed"):
            self.register_buffer("pe", table)
            self.table = table
        elif keep == "non-persistent":
            self.register_buffer("pe", table, persistent=False)
        else:
            self.pe = table

    def forward(self, x: Tensor) -> Any:
        length = x.shape[1]
        if self.keep == "bypassed":
            return x + self.table[:, :length]
        if self.keep == "lazy" and self.pe.device != x.device:
            self.pe = self.pe.to(x.device)
        if self.keep == "result discarded":
            self.pe.to(x.device)
        if self.keep == "moved":
            return self.dropout(x + self.pe[:, :length].to(x))
        return self.dropout(x + self.pe[:, :length].detach())


class Attention(nn.Module):
    """Multi-head attention; how its mask is made is the case."""

    weights: Any

    def __init__(self, make_mask: Callable[[Tensor], Tensor | None], fill: Any = -1e9):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.make_mask, self.fill, self.weights = make_mask, fill, None

    def split_heads(self, x: Tensor) -> Any:
        return self.query(x).view(*x.shape[:-1], HEADS, -1).transpose(1, 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        query, key, value = (
            linear(x).view(BATCH, LENGTH, HEADS, -1).transpose(1, 2)
            for linear, x in [(self.query, query), (self.key, key), (self.value, value)]
        )
        scores = query @ key.transpose(-2, -1) / torch.sqrt(torch.tensor(query.shape[-1]))
        mask = self.make_mask(scores)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, self.fill)
        self.weights = scores.softmax(dim=-1)
        return self.out((self.weights @ value).transpose(1, 2).contiguous().view(BATCH, LENGTH, -1))


class Embedding(nn.Module):
    def __init__(self, indices: Callable[[Tensor], Tensor]):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.positions = nn.Embedding(12, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.indices = indices

    def forward(self, tokens: Tensor) -> Any:
        embedded = self.tokens(tokens) * math.sqrt(WIDTH)
        return self.norm(embedded + self.positions(self.indices(tokens)))


class HandMadeNorm(nn.Module):
    def __init__(self, scale: Callable[[], Any]):
        super().__init__()
        self.scale, self.eps = scale(), 1e-6

    def forward(self, x: Tensor) -> Any:
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.scale * (x - mean) / torch.sqrt(variance + self.eps)


class Closure(nn.Module):
    """Holds a function that holds the module: a deep copy's function still means the original."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.steps = [lambda x: self.linear(x)]

    def forward(self, x: Tensor) -> Any:
        return self.steps[0](x)


class Heads(nn.Module):
    def __init__(self, container: Callable[[list[nn.Module]], Any]):
        super().__init__()
        self.heads = container([nn.Linear(WIDTH, 4) for _ in range(HEADS)])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=-1)


def tril_here(scores: Tensor) -> Tensor:
    return torch.tril(torch.ones(scores.shape[-2:], device=scores.device))


def triu_moved(scores: Tensor) -> Tensor:
    length = scores.shape[-1]
    return (torch.triu(torch.ones(1, length, length), diagonal=1) == 0).to(scores.device)


def from_positions(scores: Tensor) -> Tensor:
    positions = torch.arange(scores.shape[-1], device=scores.device)
    return positions[:, None] >= positions[None, :]


def written_row_by_row(scores: Tensor) -> Tensor:
    mask = scores.new_zeros(scores.shape[-2:], dtype=torch.bool)
    for row in range(scores.shape[-2]):
        mask[row, : row + 1] = True
    return mask


def additive_mask(scores: Tensor) -> Tensor:
    length = scores.shape[-1]
    hidden = torch.full((length, length), float("-inf"), device=scores.device)
    return (scores + torch.triu(hidden, diagonal=1)).softmax(-1)


def cpu_mask(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:]).tril()


def sdpa(mask: Callable[[Tensor], Tensor] | None, **options: Any) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        made = None if mask is None else mask(x).bool()
        return F.scaled_dot_product_attention(x, x, x, attn_mask=made, **options)

    return call


def square(x: Tensor) -> Tensor:
    return torch.ones(LENGTH, LENGTH, device=x.device).tril()


def with_masks(x: Tensor, masks: dict[str, Any], layers: list[nn.Module]) -> Tensor:
    for layer in layers:
        x = layer(x).masked_fill(masks["padding"][0].unsqueeze(-1), 0.0)
    return x


def in_place(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    out[:, 0] = 1.0
    out[:, 1:] = x[:, 1:]
    out += torch.tensor(2.0)
    out.mul_(0.5).clamp_(min=torch.tensor(0.0))
    same = torch.add(x, x, out=out)
    assert same is out
    return out.unsqueeze_(0).transpose_(0, 1)


def indexing(x: Tensor) -> Tensor:
    rows = x[:, torch.tensor([0, 2])]  # CUDA lets indices stay on the CPU
    x = x.clone()
    x[:, torch.tensor([0, 2])] = rows  # here too
    x[torch.tensor([True, False])] = 0.0
    x[x > 1] = torch.tensor(1.0)
    return x[torch.tensor([True, False])]


def many_operators(x: Tensor) -> Tensor:
    a = torch.einsum("bld,bmd->blm", x, x)
    b = torch.baddbmm(a, x, x.mT, alpha=0.5)
    c = torch.where(b > 0, b, torch.tensor(-1e9)).log_softmax(dim=-1)
    d = torch.maximum(c, c.permute(0, 2, 1)).cumsum(-1).topk(2, dim=-1).values
    e = torch.stack([d, d], dim=1).flatten(1).sort(dim=-1).indices
    f = e.to(x.dtype).expand(3, *e.shape).std(dim=0)
    g = torch.cat([f, x.new_full((BATCH, 1), 3.0)], dim=1)
    return F.gelu(g).repeat(1, 2).chunk(2, dim=1)[0].type_as(x)


def sampled(x: Tensor) -> Tensor:
    return torch.multinomial(x[:, 0].softmax(-1), num_samples=1)


def loss(x: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(x.reshape(-1, WIDTH), targets.reshape(-1) % WIDTH, ignore_index=0)


def printing(x: Tensor) -> Tensor:
    assert f"{x} {x.sum()!r} {[x]} {x.shape} {torch.ones(2, 2)}".count("tensor(") == 4
    return x


def to_the_cpu_and_back_without_values(x: Tensor) -> Tensor:
    pads = torch.zeros(BATCH, LENGTH)
    for row in range(BATCH):
        pads[row] = x[row, :, 0]  # a copy may cross
    pads = pads + torch.zeros(LENGTH).fill_(x.sum())
    return x + pads.unsqueeze(-1).to(x.device)


def catching(ask: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def call(x: Tensor) -> Any:
        try:
            return x * ask(x)
        except Exception:
            return x + torch.ones(WIDTH)

    return call


def put_at_mask(x: Tensor) -> Tensor:
    x = x.clone()
    x[x > 0] = torch.ones(3, device=x.device)  # as many as there are, who knows
    return x


def counted(indices: Tensor) -> Tensor:
    counts = torch.zeros(9)
    counts[indices] = 1.0
    return counts


def padding() -> dict[str, Any]:
    return {"padding": (torch.zeros(BATCH, LENGTH, dtype=torch.bool),)}


def linears() -> list[nn.Module]:
    return [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)]


def positions(keep: str) -> Case:
    return Positions.__call__, (x(),), Positions(keep)


def attention(make_mask: Callable[[Tensor], Tensor | None], fill: Any = -1e9) -> Case:
    same = x()
    return Attention.__call__, (same, same, same), Attention(make_mask, fill)


def embedding(indices: Callable[[Tensor], Tensor]) -> Case:
    return Embedding.__call__, (tokens(),), Embedding(indices)


def function(call: Callable[..., Any], *args: Any) -> Case:
    return call, args, None


def builtin(module: nn.Module, *args: Any) -> Case:
    return nn.Module.__call__, args, module


def without_gradients(module: nn.Module, *args: Any) -> Any:
    with torch.no_grad():  # and in eval(): then nn.MultiheadAttention takes its fast path
        return module.eval()(*args)


SOUND: dict[str, Callable[[], Case]] = {
    "positions: buffer": lambda: positions("buffer"),
    "positions: buffer that is not saved": lambda: positions("non-persistent"),
    "positions: frozen parameter": lambda: positions("parameter"),
    "positions: moved in forward": lambda: positions("moved"),
    "positions: moved once": lambda: positions("lazy"),
    "attention: no mask": lambda: attention(lambda scores: None),
    "attention: tril": lambda: attention(tril_here),
    "attention: triu, moved": lambda: attention(triu_moved),
    "attention: from positions": lambda: attention(from_positions),
    "attention: row by row": lambda: attention(written_row_by_row),
    "attention: type_as": lambda: attention(lambda scores: cpu_mask(scores).type_as(scores)),
    "attention: fill is a 0-dim tensor": lambda: attention(tril_here, torch.tensor(-1e9)),
    "attention: -inf": lambda: attention(tril_here, float("-inf")),
    "attention: a method": lambda: (Attention.split_heads, (x(),), Attention(tril_here)),
    "attention: a bound method": lambda: function(Attention(tril_here).split_heads, x()),
    "attention: additive mask": lambda: function(additive_mask, scores()),
    "embedding: arange": lambda: embedding(
        lambda tokens: torch.arange(tokens.shape[1], device=tokens.device)
    ),
    "embedding: cumsum": lambda: embedding(lambda tokens: (tokens != 0).long().cumsum(1)),
    "norm: parameter": lambda: builtin(HandMadeNorm(lambda: nn.Parameter(torch.ones(WIDTH))), x()),
    "norm: 0-dim tensor": lambda: builtin(HandMadeNorm(lambda: torch.tensor(2.0)), x()),
    "heads: ModuleList": lambda: builtin(Heads(nn.ModuleList), x()),
    "sdpa": lambda: function(sdpa(None, dropout_p=0.1), x()),
    "sdpa: causal": lambda: function(sdpa(None, is_causal=True), x()),
    "sdpa: mask": lambda: function(sdpa(square), x()),
    "nn.MultiheadAttention, training": lambda: builtin(
        nn.MultiheadAttention(WIDTH, HEADS, dropout=0.1, batch_first=True), x(), x(), x()
    ),
    "nn.MultiheadAttention, fast path": lambda: function(
        without_gradients, nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), *(x(),) * 3
    ),
    "nn.TransformerEncoderLayer": lambda: function(
        without_gradients, nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True), x()
    ),
    "nn.GRU": lambda: builtin(nn.GRU(WIDTH, 3), x()),
    "containers and module arguments": lambda: function(with_masks, x(), padding(), linears()),
    "in place": lambda: function(in_place, x()),
    "indexing": lambda: function(indexing, x()),
    "many operators": lambda: function(many_operators, x()),
    "sampling": lambda: function(sampled, x()),
    "linear algebra": lambda: function(lambda x: torch.linalg.inv(x.mT @ x), x()),
    "loss": lambda: function(loss, x(), tokens()),
    "one-hot": lambda: function(lambda tokens: F.one_hot(tokens, VOCABULARY), tokens()),
    "printing": lambda: function(printing, x()),
    "copies through the CPU": lambda: function(to_the_cpu_and_back_without_values, x()),
    "all on the CPU, and moved": lambda: function(lambda x: x @ cpu_mask(x.mT @ x).to(x), x()),
}

DECOMPOSED = "whatever torch makes of it"

FAULTY: dict[str, tuple[str, Callable[[], Case]]] = {
    "positions: plain attribute": ("add", lambda: positions("plain")),
    "positions: registered but bypassed": ("add", lambda: positions("bypassed")),
    "positions: .to() discarded": ("add", lambda: positions("result discarded")),
    "attention: mask made on the CPU": ("masked_fill", lambda: attention(cpu_mask)),
    "attention: a mask made at import": (
        "masked_fill",
        lambda: attention(lambda scores: CAUSAL),
    ),
    "attention: additive mask made on the CPU": (
        "add",
        lambda: function(lambda s: s + cpu_mask(s), scores()),
    ),
    "embedding: indices made on the CPU": (
        "embedding",
        lambda: embedding(lambda tokens: torch.arange(tokens.shape[1])),
    ),
    "embedding: one index made on the CPU": (
        "embedding",
        lambda: embedding(lambda tokens: torch.tensor(3)),
    ),
    "norm: gain is no parameter": (
        "mul",
        lambda: builtin(HandMadeNorm(lambda: torch.ones(8)), x()),
    ),
    "heads: a list": ("addmm", lambda: builtin(Heads(list), x())),
    "sdpa: mask made on the CPU": (
        DECOMPOSED,
        lambda: function(sdpa(lambda x: torch.ones(5, 5)), x()),
    ),
    "sdpa: boolean mask made on the CPU": (
        DECOMPOSED,
        lambda: function(sdpa(lambda x: torch.ones(5, 5).bool()), x()),
    ),
    "nn.MultiheadAttention: mask made on the CPU": (
        DECOMPOSED,
        lambda: function(
            lambda mha, x: mha(x, x, x, attn_mask=torch.zeros(5, 5).triu(1), need_weights=False),
            nn.MultiheadAttention(WIDTH, HEADS, batch_first=True),
            x(),
        ),
    ),
    "masked_fill_": (
        "masked_fill_",
        lambda: function(lambda s: s.masked_fill_(cpu_mask(s) == 0, 0.0), scores()),
    ),
    "where": ("where", lambda: function(lambda s: torch.where(cpu_mask(s) > 0, s, 0.0), scores())),
    "cat": ("cat", lambda: function(lambda x: torch.cat([torch.zeros(2, 5, 1), x], -1), x())),
    "cat, beginning with nothing": (
        "cat",
        lambda: function(lambda x: torch.cat([torch.tensor([]), x[0, 0]]), x()),
    ),
    "stack": ("stack", lambda: function(lambda x: torch.stack([x, torch.zeros(2, 5, 8)]), x())),
    "stack of scalars": (
        "stack",
        lambda: function(lambda x: torch.stack([x.sum(), torch.tensor(0.0)]), x()),
    ),
    "matmul": ("mm", lambda: function(lambda x: x[0] @ torch.ones(WIDTH, 2), x())),
    "einsum": (
        DECOMPOSED,
        lambda: function(lambda x: torch.einsum("bld,de->ble", x, torch.ones(8, 3)), x()),
    ),
    "in place, from the CPU": ("add_", lambda: function(lambda x: x.add_(torch.ones(WIDTH)), x())),
    "in place, into a scalar": (
        "add_",
        lambda: function(lambda x: torch.tensor(0.0).add_(x.sum()), x()),
    ),
    "into a buffer made on the CPU": (
        "add",
        lambda: function(lambda x: torch.add(x, x, out=torch.empty(2, 5, 8)), x()),
    ),
    "the accelerator's scalar": ("mul", lambda: function(lambda x: torch.ones(3) * x.sum(), x())),
    "CPU tensor, accelerator's indices": (
        "index",
        lambda: function(lambda tokens: sine_table()[0][tokens], tokens()),
    ),
    "CPU values": (
        "index_put_",
        lambda: function(lambda x: x.__setitem__(torch.tensor([0]), torch.zeros(1, 5, 8)), x()),
    ),
    "gather": ("gather", lambda: function(lambda x: x.gather(1, torch.zeros(2, 1, 8).long()), x())),
    "index_select": (
        "index_select",
        lambda: function(lambda x: x.index_select(1, torch.tensor([0])), x()),
    ),
    "gather, one index": (
        "gather",
        lambda: function(lambda x: x.sum().gather(0, torch.tensor(0)), x()),
    ),
    "index_select, one index": (
        "index_select",
        lambda: function(lambda x: x.index_select(1, torch.tensor(0)), x()),
    ),
    "into a scalar made on the CPU": (
        "add",
        lambda: function(lambda x: torch.add(x.sum(), 1.0, out=torch.tensor(0.0)), x()),
    ),
    "targets on the CPU": (
        "nll_loss_forward",
        lambda: function(lambda x: F.cross_entropy(x[0], torch.zeros(LENGTH).long()), x()),
    ),
    "after a copy to the CPU": (
        "add",
        lambda: function(lambda x: x + torch.zeros(WIDTH).copy_(x[0, 0]), x()),
    ),
    "a mask of ids on the CPU": (
        "masked_fill",
        lambda: attention(lambda scores: scores.detach().cpu() != 0),
    ),
    "a copy by .to": ("mul", lambda: function(lambda x: x * (x.to("cpu") > 0), x())),
    "a copy that was asked for in a try": (
        "add",
        lambda: function(catching(lambda x: x.cpu()), x()),
    ),
    "a fault inside a list of modules": (
        "masked_fill",
        lambda: function(lambda x, layers: with_masks(x, padding(), layers), x(), linears()),
    ),
}

NEEDS_DATA: dict[str, Callable[..., Any]] = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: x if (x > 0).any() else -x,
    "assert": lambda x: torch.allclose(x, x) and x,
    "equal": lambda x: torch.equal(x, x),
    "int": lambda x: x[: int(x[0, 0, 0])],
    "range": lambda x: list(range(x.long().max())),
    "index": lambda x: [10, 20, 30][x.long().max()],
    "nonzero": lambda x: (x > 0).nonzero(),
    "where": lambda x: torch.where(x > 0),
    "boolean mask": lambda x: x[x > 0],
    "values at a boolean mask": put_at_mask,
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "repeat_interleave": lambda x: x.repeat_interleave(x[:, 0, 0].long(), dim=0),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "cpu": lambda x: x.cpu().numpy(),
    "to": lambda x: x.detach().to("cpu").tolist(),
    "format": lambda x: f"{x.mean():.3f}",
    "tensor from tensors": lambda x: torch.tensor([x.sum(), 1.0]),
    "math": lambda x: math.sqrt(x.sum()),
    "one-hot of unknown size": lambda x: F.one_hot(x.long()),
    "bytes as a mask": lambda x: x[(x > 0).byte()],
    "item, in a try": catching(lambda x: x.sum().item()),
    "cpu, in a try": catching(lambda x: x.cpu().tolist()),
    "cpu, turned into numpy": lambda x: torch.from_numpy(np.asarray(x.cpu())),
    "cpu, an index": lambda x: torch.arange(3)[x.cpu().long().sum() + 9],
    "cpu, nonzero": lambda x: x.cpu().nonzero(),
    "a CPU tensor filled from there": lambda x: torch.zeros(8).copy_(x[0, 0]).sum().item(),
    "a CPU tensor written at indices from there": lambda x: counted(x[0, 0].long()).sum().item(),
    "indices filled from there": lambda x: torch.arange(5)[torch.zeros(5).copy_(x[0, :, 0]) > 0],
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # so small are these tensors that threads only wait for each other
    yield
    torch.set_num_threads(before)


def run(case: Case) -> tuple[Any, Trace]:
    call, args, module = case
    return on_accelerator(call, args, {}, module)


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for part in value or () for tensor in tensors_in(part)]


@pytest.mark.parametrize("name", SOUND)
def test_the_sound_pass_every_time(name: str) -> None:
    case = SOUND[name]()
    for _ in range(100):
        result, trace = run(case)
        assert trace.completed
        assert {tensor.device.type for tensor in tensors_in(result)} == {"meta"}


@pytest.mark.parametrize("name", SOUND)
def test_shapes_and_dtypes_are_those_of_the_cpu(name: str) -> None:
    call, args, module = copy.deepcopy(SOUND[name]())
    found, _ = on_accelerator(call, args, {}, module)
    expected = call(*args) if module is None else call(module, *args)
    for here, there in zip(tensors_in(expected), tensors_in(found), strict=True):
        assert (here.shape, here.dtype) == (there.shape, there.dtype)
        assert here.stride() == there.stride() or "fast path" in name  # the CPU alone takes it


@pytest.mark.parametrize("name", FAULTY)
def test_the_faulty_are_caught_where_they_fail(name: str) -> None:
    operator, case = FAULTY[name]
    for _ in range(3):
        with pytest.raises(MixedDevices, match="found at least two devices") as caught:
            run(case())
        assert operator in (caught.value.operator, DECOMPOSED)
        assert set(caught.value.devices) == {"accelerator", "cpu"}


@pytest.mark.parametrize("name", [*SOUND, *FAULTY])
def test_inference_mode_changes_nothing(name: str) -> None:
    """There, operators reach the rules before they are taken apart."""
    with torch.inference_mode():
        if name in SOUND:
            assert run(SOUND[name]())[1].completed or name == "one-hot"  # it asserts, there
        else:
            with pytest.raises(MixedDevices):
                run(FAULTY[name][1]())


@pytest.mark.parametrize("name", NEEDS_DATA)
def test_what_needs_data_is_followed_until_there(name: str) -> None:
    assert on_accelerator(NEEDS_DATA[name], (x(),)) == (None, Trace(completed=False))
    with torch.inference_mode():
        assert on_accelerator(NEEDS_DATA[name], (x(),)) == (None, Trace(completed=False))


def test_a_fault_before_data_is_needed_is_found() -> None:
    with pytest.raises(MixedDevices):
        on_accelerator(lambda x: (x + torch.ones(WIDTH)).sum().item(), (x(),))


def test_packed_sequences_are_not_accused_of_their_lengths() -> None:
    def call(rnn: nn.Module, x: Tensor) -> Any:
        lengths = torch.tensor([5, 3])  # torch wants them on the CPU
        return rnn(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))

    assert on_accelerator(call, (x(),), module=nn.GRU(WIDTH, 3)) == (None, Trace(False))


def test_a_result_left_on_the_cpu_comes_back_as_it_is() -> None:
    def results(x: Tensor) -> tuple[Tensor, ...]:
        return torch.ones(3), x.mean(), torch.zeros_like(x, device="cpu"), torch.zeros_like(x)

    found, trace = on_accelerator(results, (x(),))
    assert trace.completed
    assert [tensor.device.type for tensor in found] == ["cpu", "meta", "cpu", "meta"]

    def filled(x: Tensor) -> Tensor:
        out = torch.zeros(BATCH, LENGTH)
        for step in range(LENGTH):
            out[:, step] = x[:, step].sum(-1)
        return out

    result, trace = on_accelerator(filled, (x(),))
    assert trace.completed
    assert result.device.type == "cpu"


def test_what_is_fetched_is_followed() -> None:
    result, trace = on_accelerator(lambda x: (x.cpu() > 0, (x.cpu() * 2).to(x.device)), (x(),))
    assert [tensor.device.type for tensor in result] == ["cpu", "meta"]
    assert trace == Trace(completed=True, fetched=True)


def test_other_errors_are_the_students_own() -> None:
    with pytest.raises(RuntimeError, match="must match") as caught:
        on_accelerator(lambda x: x + x[:, :3], (x(),))
    assert not isinstance(caught.value, MixedDevices)
    with pytest.raises(NotImplementedError, match="attention"):
        on_accelerator(stub, (x(),))
    with pytest.raises(TypeError):
        on_accelerator(lambda: None, (x(),))


def stub(x: Tensor) -> Tensor:
    raise NotImplementedError("attention.stable_softmax")


def test_students_can_catch_it_as_they_would_on_cuda() -> None:
    def call(x: Tensor) -> Tensor:
        try:
            return x + torch.ones(WIDTH)
        except RuntimeError:
            return x

    assert on_accelerator(call, (x(),))[1].completed


def test_an_argument_given_twice_is_one_tensor_there() -> None:
    same = x()
    assert on_accelerator(lambda q, k, rest: q is k is rest["v"][0], (same, same, {"v": [same]}))[0]


def test_keyword_arguments_are_moved() -> None:
    assert on_accelerator(lambda *, x: x.is_meta, (), {"x": x()})[0]


def test_arguments_stand_where_they_stood() -> None:
    passed = ([x()], {"mask": (x(), None, 3, "causal")}, torch.float64)
    (found,), _ = on_accelerator(lambda *args: [args], passed)
    assert type(found[0]) is list
    assert found[1]["mask"][1:] == (None, 3, "causal")
    assert found[2] is torch.float64


@pytest.mark.parametrize("module", [None, "given"])
def test_the_original_is_left_as_it_was(module: str | None) -> None:
    model = Attention(tril_here)
    model.register_buffer("table", torch.ones(3))
    model(x(), x(), x()).sum().backward()  # it now keeps weights that have a history
    before, parts = copy.deepcopy(model.state_dict()), dict(model.named_parameters())
    weights, given = model.weights, x()
    kept = given.clone()
    if module is None:
        _, trace = on_accelerator(model, (given, given, given))
    else:
        _, trace = on_accelerator(Attention.forward, (given, given, given), module=model)
    assert trace.completed
    assert model.weights is weights
    assert all(parameter is parts[name] for name, parameter in model.named_parameters())
    assert all(parameter.grad is not None for parameter in (model.query.weight, model.out.bias))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(given, kept)


def test_inputs_can_be_changed_in_place_without_harm() -> None:
    given = x().requires_grad_()
    kept = given.detach().clone()
    result, trace = on_accelerator(lambda x: x.add_(1), (given,))
    assert trace.completed
    assert result.grad_fn is None
    assert torch.equal(given, kept)


def test_a_closure_over_the_original_module_is_not_accused() -> None:
    assert on_accelerator(Closure.__call__, (x(),), module=Closure()) == (None, Trace(False))


def test_gradients_may_be_asked_for() -> None:
    def step(model: nn.Module, x: Tensor) -> Any:
        model(x).pow(2).mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        return model.weight.grad

    result, trace = on_accelerator(step, (x(),), module=nn.Linear(WIDTH, 3))
    assert trace.completed
    assert result.device.type == "meta"


def test_first_use_is_cheap() -> None:
    """It imports neither sympy nor torch.compile, which take a second."""
    program = """
import sys, torch
from torch import nn
from grader.subject.devices import on_accelerator
layer = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Dropout(0.1))
def call(layer, tokens):
    x = layer(tokens) + torch.randn(8, device=tokens.device)
    scores = (x @ x.mT).masked_fill(torch.ones(5, 5, device=x.device).tril() == 0, -1e9)
    return torch.where(scores > 0, scores, 0.0).softmax(-1) @ x + torch.arange(8, device=x.device)
_, trace = on_accelerator(call, (torch.zeros(2, 5, dtype=torch.long),), module=layer)
assert trace.completed
print([name for name in ("sympy", "torch._dynamo") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
