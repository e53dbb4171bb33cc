"""What the report says where a module is not made as its contract says."""

from __future__ import annotations

import pytest

from grader.course import Course
from grader.judge.draw import Draw
from grader.subject.faults import Failure
from grader.subject.host import Host
from grader.subject.proxy import Module, Subject

HEADS = """
import torch
from torch import nn

class MultiHeadAttention(nn.Module):
    def __init__(self, {init}):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = ({linear} for _ in range(4))

    def forward(self, {forward}):
        return query, key
"""
RIGHT = {
    "init": "d_model, num_heads",
    "linear": "nn.Linear(d_model, d_model)",
    "forward": "query, key, value, mask=None",
}
TABLE = """
from torch import nn

class LearnedPositionalEmbedding(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.embedding = nn.Embedding(width, rows)

class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.0, max_len=512):
        super().__init__()
"""
LAYER = """
from torch import nn

class TransformerEncoderLayerSimple(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.norm1 = nn.BatchNorm1d(d_model)

    def forward(self, x, mask=None):
        return self.norm1(x)
"""


@pytest.fixture
def subject(course: Course, submit):
    def subject(unit: str, text: str) -> Subject:
        host = Host(submit(**{unit: text}), [each.name for each in course.units])
        return Subject(course, host.perform)

    return subject


def words(call) -> str:
    """What is said of a call that fails."""
    with pytest.raises(Failure) as caught:
        call()
    return " ".join(line.text.format(**line.args) for line in caught.value.message)


def heads(subject, **changes: str) -> Module:
    made = subject("multihead", HEADS.format(**RIGHT | changes))
    return made.multihead.MultiHeadAttention(12, 3)


def load(layer: Module) -> None:
    layer.load(Draw("some check").weights(layer))


def test_what_is_made_right_is_taken(subject, course: Course) -> None:
    load(heads(subject))


@pytest.mark.parametrize("init", ["num_heads, d_model", "num_heads, d_model=512", "h=1, d_model=1"])
def test_arguments_in_another_order(subject, init: str) -> None:
    said = words(lambda: heads(subject, init=init))
    assert said == f"Its arguments should be (d_model, num_heads); yours are ({init})."


def test_arguments_of_a_method_in_another_order(subject) -> None:
    layer, x = heads(subject, forward="value, key, query, mask=None"), Draw("c").tensor(3, 5, 12)
    assert "should be (query, key, value, mask); yours are (value" in words(lambda: layer(x, x, x))


def test_an_argument_that_is_put_between(subject) -> None:
    said = words(lambda: subject("positional", TABLE).positional.PositionalEncoding(8, 11))
    assert "should be (d_model, max_len); yours are (d_model, dropout=0.0, max_len=512)" in said


@pytest.mark.parametrize(
    "init", ["d_model, num_heads, bias=True", "d_model, num_heads, *rest", "*args"]
)
def test_other_names_and_more_arguments_are_taken(subject, init: str) -> None:
    text = HEADS.format(**RIGHT | {"init": init})
    if init == "*args":
        text = text.replace("super()", "d_model, num_heads = args; super()")
    subject("multihead", text).multihead.MultiHeadAttention(12, 3)


def test_a_linear_without_bias(subject) -> None:
    layer = heads(subject, linear="nn.Linear(d_model, d_model, bias=False)")
    assert words(lambda: load(layer)) == (
        "`w_q.bias` is None: `bias=False` leaves it out, and the contract asks for it."
    )


def test_something_else_in_place_of_a_linear(subject) -> None:
    layer = heads(subject, linear="nn.Identity()")
    assert words(lambda: load(layer)) == (
        "`w_q` is of the class Identity and has no `weight`. Make it as the contract says."
    )


def test_a_list_in_place_of_a_linear(subject) -> None:
    layer = heads(subject, linear="[nn.Linear(d_model, d_model)]")
    assert "`w_q` is of the class list and has no `weight`" in words(lambda: load(layer))


def test_sizes_that_are_exchanged(subject) -> None:
    layer = subject("positional", TABLE).positional.LearnedPositionalEmbedding(11, 6)
    assert words(lambda: load(layer)) == (
        "`embedding.weight` should have shape [11, 6]; found [6, 11] The sizes are exchanged:"
        " look at the order in which you hand them on."
    )


def test_a_batch_norm_for_a_layer_norm(subject) -> None:
    layer = subject("encoder", LAYER).encoder.TransformerEncoderLayerSimple(8, 2, 7)
    said = words(lambda: layer.get("norm1.normalized_shape"))
    assert said.startswith("`norm1` is of the class BatchNorm1d and has no `normalized_shape`.")
    said = words(lambda: layer(Draw("c").tensor(3, 5, 8).float()))
    assert "A batch norm takes axis 1" in said
    assert "nn.LayerNorm" in said


EXCHANGED = """
import torch

def scaled_dot_product_attention(query, key, value, mask=None):
    weights = torch.softmax(query @ key.mT, -1)
    return weights, weights @ value
"""


def test_results_that_are_exchanged(subject) -> None:
    attend = subject("attention", EXCHANGED).attention.scaled_dot_product_attention
    draw = Draw("c")
    query, key, value = draw.tensor(2, 3, 6), draw.tensor(2, 5, 6), draw.tensor(2, 5, 4)
    assert words(lambda: attend(query, key, value)) == (
        "The results look exchanged: first comes [... seq_q d_v], then [... seq_q seq_k]."
    )
    odd = EXCHANGED.replace("return weights,", "return weights[0],")
    attend = subject("attention", odd).attention.scaled_dot_product_attention
    assert "expected shape [... seq_q d_v]" in words(lambda: attend(query, key, value))
