"""Each property holds of the reference, and fails on code that lacks it alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from grader.course import Course
from grader.judge import bank, properties
from grader.judge.draw import Draw
from grader.subject.faults import Failure
from grader.subject.host import Host
from grader.subject.proxy import Subject

SPOILED = """
def _spoil(name, spoiled):
    right = globals()[name]
    globals()[name] = lambda *args: spoiled(right, *args)
"""
ATTENTION = "scaled_dot_product_attention"
HEADS = """
split = MultiHeadAttention.split_heads
MultiHeadAttention.split_heads = lambda self, x, n: split(self, x * (1 + self.training), n)
"""
DROPPING = """
split = MultiHeadAttention.split_heads
MultiHeadAttention.split_heads = lambda self, x, n: split(
    self, nn.functional.dropout(x, 0.5, self.training), n)
"""
CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()


def softmax(subject: Subject, draw: Draw):
    return subject.attention.stable_softmax.on(draw.tensor(4, 3), -1)


def softmax_and_answer(subject: Subject, draw: Draw):
    call = softmax(subject, draw)
    return call, torch.softmax(call["scores"], -1)


def attention(subject: Subject, draw: Draw):
    return subject.attention.scaled_dot_product_attention.on(*draw.attention_inputs(3))


def causal(subject: Subject, draw: Draw):
    x = draw.tensor(3, 6, 4)
    return subject.attention.scaled_dot_product_attention.on(x, x, x, CAUSAL)


def heads(subject: Subject, draw: Draw):
    layer = subject.multihead.MultiHeadAttention(4, 2)
    layer.load(draw.weights(layer))
    return layer, layer.on(*(draw.tensor(3, 5, 4) for _ in range(3)))


def fit(subject: Subject, draw: Draw) -> None:
    features, targets = torch.eye(2).double(), torch.tensor([3.0, 4.0]).double()
    weights = subject.troubleshooting.fit_linear(features, targets, 100)
    start, end, least = (targets @ targets), (weights - targets).square().sum(), 0 * targets[0]
    properties.lowers_the_loss(weights, start, end, least, left=0.01)


Run = Callable[[Subject, Draw], None]
POSITIONS = {"query": [1], "key": [1], "value": [1], "mask": [0, 1]}

# property: how it is asked; the unit and the lines that spoil the reference.
CASES: dict[str, tuple[Run, str, str]] = {
    "alone_as_in_batch": (
        lambda s, d: properties.alone_as_in_batch(softmax(s, d), "scores"),
        "attention", "_spoil('stable_softmax', lambda f, x, dim: f(x, dim) * len(x))"),
    "permutes_alike": (
        lambda s, d: properties.permutes_alike(softmax(s, d), d, {"scores": [0]}, [(0,)]),
        "attention", "_spoil('stable_softmax', lambda f, x, dim: f(x, dim).cumsum(0))"),
    "unmoved_by": (
        lambda s, d: properties.unmoved_by(
            causal(s, d), d, "key", (torch.arange(6) == 5)[:, None],
            [(torch.arange(6) != 5)[:, None]] * 2),
        "attention", f"_spoil('{ATTENTION}', lambda f, q, k, v, m: f(q, k, v))"),
    "broadcasts": (
        lambda s, d: properties.broadcasts(causal(s, d)),
        "attention",
        f"_spoil('{ATTENTION}', lambda f, q, k, v, m: f(q, k, v, m if m.ndim > 2 else None))"),
    "prefix_stands": (
        lambda s, d: properties.prefix_stands(causal(s, d), 4, POSITIONS, [(1,), (1, 2)]),
        "attention", f"_spoil('{ATTENTION}', lambda f, q, k, v, m: f(q, k, v))"),
    "same_in_single_precision": (
        lambda s, d: properties.same_in_single_precision(softmax(s, d), "scores"),
        "attention", "_spoil('stable_softmax', lambda f, x, dim: f(x.double(), dim))"),
    "same_in_training": (
        lambda s, d: properties.same_in_training(*heads(s, d)),
        "multihead",
        HEADS),
    "layout_does_not_matter": (
        lambda s, d: properties.layout_does_not_matter(softmax(s, d), "scores"),
        "attention", "_spoil('stable_softmax', lambda f, x, dim: f(x.view(12).view(4, 3), dim))"),
    "leaves_inputs_alone": (
        lambda s, d: properties.leaves_inputs_alone(s, softmax(s, d)),
        "attention", "_spoil('stable_softmax', lambda f, x, dim: f(x.sub_(x.mean()), dim))"),
    "is_written_out": (
        lambda s, d: properties.is_written_out(s, *softmax_and_answer(s, d)),
        "attention", "_spoil('stable_softmax', lambda f, x, dim: x.softmax(dim))"),
    "stays_on_accelerator": (
        lambda s, d: properties.stays_on_accelerator(s, softmax(s, d)),
        "attention", "_spoil('stable_softmax', lambda f, x, dim: f(x.cpu(), dim))"),
    "lowers_the_loss": (
        fit,
        "troubleshooting", "_spoil('fit_linear', lambda f, x, y, n: f(x, y, n) * float('nan'))"),
    "repeats": (
        lambda s, d: properties.repeats(softmax(s, d)),
        "attention",
        "_spoil('stable_softmax', lambda f, x, dim: f(x, dim) + 1e-9 * torch.rand(3))"),
    "gradient_fits": (
        lambda s, d: properties.gradient_fits(s, attention(s, d), d, "query", "value"),
        "attention",
        f"_spoil('{ATTENTION}', lambda f, q, k, v: f(0.9 * q + 0.1 * q.detach(), k, v))"),
}  # fmt: skip


@pytest.fixture
def subject(course: Course):
    def subject(unit: str, lines: str = "") -> Subject:
        solution = bank.solution(course)
        text = solution.modules[unit].text + SPOILED + lines + "\n"
        host = Host(bank.edited(solution, unit, text, "spoiled"), [u.name for u in course.units])
        return Subject(course, host.perform)

    return subject


@pytest.mark.parametrize("name", CASES)
def test_a_property_holds_of_the_reference(subject, name: str) -> None:
    run, unit, _ = CASES[name]
    run(subject(unit), Draw(name))


@pytest.mark.parametrize("name", CASES)
def test_a_property_tells_who_lacks_it(subject, name: str) -> None:
    run, unit, lines = CASES[name]
    with pytest.raises(Failure):
        run(subject(unit, lines), Draw(name))


def test_every_property_is_here() -> None:
    """All that `properties` defines and that a check can ask."""
    public = {
        name
        for name, value in vars(properties).items()
        if getattr(value, "__module__", "") == properties.__name__ and not name.startswith("_")
    }
    assert public - {"in_training", "parts", "shared_out", "slope"} == set(CASES)


@pytest.mark.parametrize("lines, training", [("", True), (DROPPING, False)])
def test_a_layer_is_in_training_unless_it_is_random_there(subject, lines, training) -> None:
    layer, call = heads(subject("multihead", lines), Draw("in_training"))
    properties.in_training(layer, call)
    assert layer.get("training") is training


def test_what_hidden_keys_had_is_shared_out() -> None:
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    mask = torch.tensor([[True, True, False], [True, True, False]])
    expected = torch.tensor([[2 / 3, 1 / 3, 0.0], [0.0, 0.0, 0.0]])
    assert torch.allclose(properties.shared_out(weights, mask), expected)


def test_a_slope_of_what_bends() -> None:
    assert properties.slope(lambda far: math.exp(20 * far)) == pytest.approx(20, rel=1e-5)


def test_a_gradient_of_some_parts(subject) -> None:
    """Whoever returns the weights detached has the right gradients of the output."""
    lines = f"_spoil('{ATTENTION}', lambda f, *a: (f(*a)[0], f(*a)[1].detach()))"
    spoiled, draw = subject("attention", lines), Draw("parts")
    call = attention(spoiled, draw)
    properties.gradient_fits(spoiled, call, draw, "query", of=[0])
    with pytest.raises(Failure):
        properties.gradient_fits(spoiled, call, draw, "query")


def test_a_wrong_value_is_no_forbidden_call(subject) -> None:
    spoiled = subject("attention", "_spoil('stable_softmax', lambda f, x, dim: f(x, dim) * 2)")
    call = softmax(spoiled, Draw("value"))
    with pytest.raises(Failure) as caught:
        properties.is_written_out(spoiled, call, torch.softmax(call["scores"], -1))
    assert "calls nothing that is forbidden" in caught.value.message[0].text
    assert caught.value.message[1].text.startswith("expected")
