"""Checks of the unit `limits`."""

import pytest
import torch
from torch import nn

from grader.judge import clause, expect
from grader.judge.numbers import give
from grader.judge.properties import leaves_inputs_alone

FIELD = "limits.receptive_field"
PATH = "limits.path_length"
STEPS = "limits.sequential_steps"
INFLUENCE = "limits.influence"


# receptive_field


@clause(FIELD, 1)
def test_one_layer(subject, reference):
    """One layer sees as many inputs as its kernel is wide"""
    calls = [subject.limits.receptive_field.on(kernel_size, 1) for kernel_size in (2, 3, 5, 8)]
    give(calls, [reference.call(call) for call in calls])


@clause(FIELD, 2)
def test_more_layers(subject, reference):
    """Every further layer sees what those below it saw, each input once"""
    stacks = [(3, 2), (2, 5), (3, 3), (5, 2), (4, 7)]
    calls = [subject.limits.receptive_field.on(*stack) for stack in stacks]
    give(calls, [reference.call(call) for call in calls])


@clause(FIELD, 3)
def test_nobody_looks_aside(subject, reference):
    """Without layers, or with kernels of 1, an output sees its own input alone"""
    calls = [subject.limits.receptive_field.on(*stack) for stack in [(3, 0), (1, 1), (1, 4)]]
    give(calls, [reference.call(call) for call in calls])


# path_length


@clause(PATH, 1)
def test_path_through_states(subject, reference):
    """Through "rnn", there is one step from each state to the next"""
    calls = [subject.limits.path_length.on("rnn", seq_len) for seq_len in (2, 3, 10, 50)]
    give(calls, [reference.call(call) for call in calls])


@clause(PATH, 2)
def test_path_through_layers(subject, reference):
    """Through "cnn", it takes the layers that the last output needs to see the first input"""
    cases = [(9, 3), (10, 3), (11, 3), (2, 2), (6, 2), (4, 5), (50, 5)]
    calls = [subject.limits.path_length.on("cnn", *case) for case in cases]
    give(calls, [reference.call(call) for call in calls])


@clause(PATH, 3)
def test_path_by_attention(subject, reference):
    """By "attention", it is one step"""
    calls = [subject.limits.path_length.on("attention", seq_len) for seq_len in (2, 10, 50)]
    give(calls, [reference.call(call) for call in calls])


@clause(PATH, 4)
def test_path_through_what(subject):
    """An unknown kind raises ValueError"""
    with subject.raises("ValueError"):
        subject.limits.path_length("lstm", 5, 3)


@clause(PATH, 4)
def test_path_without_kernel(subject):
    """`"cnn"` without a kernel_size raises ValueError"""
    with subject.raises("ValueError"):
        subject.limits.path_length("cnn", 5)


@clause(PATH, 4)
def test_path_of_kernels_of_1(subject):
    """`"cnn"` with kernels of 1, which get nowhere, raises ValueError"""
    with subject.raises("ValueError"):
        subject.limits.path_length("cnn", 5, 1)


# sequential_steps


@clause(STEPS, 1)
def test_states_wait(subject, reference):
    """In "rnn", each state waits for the state before it"""
    calls = [subject.limits.sequential_steps.on("rnn", seq_len) for seq_len in (1, 2, 10, 500)]
    give(calls, [reference.call(call) for call in calls])


@clause(STEPS, 2)
def test_neighbours_do_not_wait(subject, reference):
    """In "cnn", every output can be computed at once"""
    calls = [subject.limits.sequential_steps.on("cnn", seq_len) for seq_len in (1, 2, 10, 500)]
    give(calls, [reference.call(call) for call in calls])


@clause(STEPS, 3)
def test_queries_do_not_wait(subject, reference):
    """In "attention", every output can be computed at once, too"""
    calls = [
        subject.limits.sequential_steps.on("attention", seq_len) for seq_len in (1, 2, 10, 500)
    ]
    give(calls, [reference.call(call) for call in calls])


@clause(STEPS, 4)
def test_steps_of_what(subject):
    """An unknown kind raises ValueError"""
    with subject.raises("ValueError"):
        subject.limits.sequential_steps("lstm", 5)


# influence


def _filled(module, draw):
    """A real layer with drawn weights, in float64."""
    module.double()
    for parameter in module.parameters():
        parameter.data = 0.5 * draw.tensor(*parameter.shape)
    return module


@clause(INFLUENCE, 1)
def test_recurrence_is_a_triangle(subject, draw):
    """nn.RNN: each output sees all that came before it, and no more"""
    rnn = _filled(nn.RNN(3, 4), draw)
    found = subject.limits.influence(lambda x: rnn(x)[0], draw.tensor(5, 3))
    expect(found).equals(torch.ones(5, 5).tril().bool())


@clause(INFLUENCE, 1)
def test_convolution_is_a_band(subject, draw):
    """nn.Conv1d: each output sees its neighbours"""
    convolution = _filled(nn.Conv1d(3, 2, kernel_size=3, padding=1), draw)
    found = subject.limits.influence(lambda x: convolution(x.T).T, draw.tensor(6, 3))
    expect(found).equals(torch.ones(6, 6).tril(1).triu(-1).bool())


@clause(INFLUENCE, 1)
def test_attention_is_full(subject, draw):
    """nn.MultiheadAttention: every output sees every input"""
    attention = _filled(nn.MultiheadAttention(4, 2), draw)
    found = subject.limits.influence(lambda x: attention(x, x, x)[0], draw.tensor(5, 4))
    expect(found).equals(torch.ones(5, 5).bool())


@clause(INFLUENCE, 1)
def test_rows_are_outputs(subject, draw):
    """Row i says what output i sees"""
    weight = draw.tensor(3, 2)
    found = subject.limits.influence(lambda x: (x @ weight).roll(1, 0), draw.tensor(4, 3))
    expect(found).equals(torch.eye(4).roll(1, 0).bool())


@clause(INFLUENCE, 1)
def test_influence_at_this_input(subject, draw):
    """What counts is the derivative at x: where a ReLU is shut, or a clamp holds, there is none"""
    x = draw.tensor(4, 3).abs() + 0.1
    x[1] *= -1
    x[3] += 20

    def fn(x):
        return torch.cat([torch.relu(x[:3]), x[3:].clamp(max=9)])

    found = subject.limits.influence(fn, x)
    expect(found).equals(torch.tensor([1, 0, 1, 0]).diag().bool())


# Somewhere in each of these, nothing cancels, and every feature counts.


@clause(INFLUENCE, 2)
def test_features_of_an_output_that_cancel(subject, draw):
    """Features of an output that cancel in their sum are moved all the same"""
    weight = draw.tensor(3, 2)
    against = torch.tensor([1.0, 1, 1, 1, 2]).double()[:, None]

    def fn(x):
        row = (x @ weight).cumsum(0)
        return torch.cat([row, -against * row], dim=1)

    found = subject.limits.influence(fn, draw.tensor(5, 3))
    expect(found).equals(torch.ones(5, 5).tril().bool())


@clause(INFLUENCE, 2)
def test_features_of_an_input_that_cancel(subject, draw):
    """Features of an input that pull in opposite directions are seen all the same"""
    against = torch.tensor([2.0, 1, 1, 1, 1]).double()[:, None]
    found = subject.limits.influence(
        lambda x: (x[:, :2] - against * x[:, 2:]).sum(1, keepdim=True).cumsum(0), draw.tensor(5, 4)
    )
    expect(found).equals(torch.ones(5, 5).tril().bool())


@clause(INFLUENCE, 2)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_feature_moves(subject, draw, place):
    """One feature of an input is enough"""
    used = torch.zeros(4, 3).double()
    used[0], used[1:, place], used[-1, (place + 1) % 3] = 1, 1, 1  # or two of three
    found = subject.limits.influence(
        lambda x: (used * x).sum(1, keepdim=True).cumsum(0), draw.tensor(4, 3)
    )
    expect(found).equals(torch.ones(4, 4).tril().bool())


@clause(INFLUENCE, 2)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_feature_is_moved(subject, draw, place):
    """One feature of an output is enough"""
    used = torch.zeros(4, 3).double()
    used[-1], used[:-1, place], used[0, (place + 1) % 3] = 1, 1, 1  # or two of three
    found = subject.limits.influence(
        lambda x: used * x.sum(1, keepdim=True).cumsum(0), draw.tensor(4, 2)
    )
    expect(found).equals(torch.ones(4, 4).tril().bool())


@clause(INFLUENCE, 3)
def test_influence_that_is_weak(subject, draw):
    """A tiny derivative counts, and a negative one"""
    scale = torch.tensor([1.0, -1.0, 3e-8, -3e-10, 1e-30]).double()
    found = subject.limits.influence(lambda x: (scale[:, None] * x).cumsum(0), draw.tensor(5, 3))
    expect(found).equals(torch.ones(5, 5).tril().bool())


@clause(INFLUENCE, 4)
def test_fewer_outputs_than_inputs(subject, draw):
    """An output may stand for several inputs"""
    convolution = _filled(nn.Conv1d(3, 2, kernel_size=2, stride=2), draw)
    found = subject.limits.influence(lambda x: convolution(x.T).T, draw.tensor(6, 3))
    expect(found).equals(torch.eye(3).repeat_interleave(2, dim=1).bool())


@clause(INFLUENCE, 4)
def test_output_that_nothing_moves(subject, draw):
    """An output that no input moves has a row of False"""
    found = subject.limits.influence(
        lambda x: torch.cat([torch.ones(1, 3).double(), x[:-1]]), draw.tensor(4, 3)
    )
    expect(found).equals(torch.ones(3).diag(-1).bool())


@clause(INFLUENCE, 5)
def test_x_is_left_alone(subject, draw):
    """x is the same after the call as before"""
    call = subject.limits.influence.on(lambda x: x.cumsum(0), draw.tensor(4, 3))
    leaves_inputs_alone(subject, call)
