"""Further checks of the unit `limits`, for grading."""

import pytest
import torch
from torch import nn

from grader.judge import clause, expect
from grader.judge.numbers import give
from grader.judge.properties import leaves_inputs_alone, repeats

FIELD = "limits.receptive_field"
PATH = "limits.path_length"
STEPS = "limits.sequential_steps"
INFLUENCE = "limits.influence"


def _seen(kernel_size, num_layers, seq_len=32):
    """What the last output of a real stack of causal convolutions sees, found by its gradients."""
    x = torch.ones(1, seq_len, requires_grad=True)
    weight = torch.ones(1, 1, kernel_size)
    out = x
    for _ in range(num_layers):
        out = nn.functional.conv1d(nn.functional.pad(out, (kernel_size - 1, 0)), weight)
    out[0, -1].backward()
    return x.grad[0] != 0


# receptive_field


@clause(FIELD, 1)
def test_one_layer_of_any_kernel(subject):
    """One layer sees as many inputs as its kernel is wide, whatever that is"""
    sizes = range(1, 12)
    give([subject.limits.receptive_field.on(size, 1) for size in sizes], list(sizes))


@clause(FIELD, 2)
def test_a_real_stack_sees_as_much(subject):
    """The gradients of a real stack of convolutions say the same"""
    stacks = [(2, 2), (2, 9), (3, 4), (4, 3), (6, 5), (7, 2)]
    calls = [subject.limits.receptive_field.on(*stack) for stack in stacks]
    give(calls, [int(_seen(*stack).sum()) for stack in stacks])


@clause(FIELD, 2)
def test_arguments_by_name(subject, reference):
    """Many layers of wide kernels, by name"""
    call = subject.limits.receptive_field.on(num_layers=40, kernel_size=9)
    give([call], [reference.call(call)])


@clause(FIELD, 3)
def test_nothing_to_see_but_oneself(subject):
    """However many layers of kernel 1 there are, and without any, one input is seen"""
    stacks = [(1, 0), (1, 30), (2, 0), (9, 0)]
    give([subject.limits.receptive_field.on(*stack) for stack in stacks], [1] * 4)


# path_length


@clause(PATH, 1)
def test_path_through_states_of_any_number(subject):
    """The number of steps grows with the length; a kernel_size changes nothing"""
    lengths = range(2, 40)
    kind = "".join("rnn")  # another object than the `"rnn"` in somebody's code
    calls = [subject.limits.path_length.on(kind, n) for n in lengths]
    give(calls, [n - 1 for n in lengths])
    give([call.but(kernel_size=3) for call in calls], [n - 1 for n in lengths])


@clause(PATH, 2)
def test_path_through_a_real_stack(subject):
    """One layer less, and a real stack of convolutions does not get there"""
    cases = [(seq_len, kernel_size) for seq_len in range(2, 14) for kernel_size in (2, 3, 5, 20)]
    expected = []
    for seq_len, kernel_size in cases:
        layers = 1
        while not _seen(kernel_size, layers, seq_len)[0]:
            layers += 1
        expected.append(layers)
    give([subject.limits.path_length.on("".join("cnn"), *case) for case in cases], expected)


@clause(PATH, 2)
def test_path_through_layers_by_name(subject, reference):
    """kernel_size may be given by name"""
    call = subject.limits.path_length.on("cnn", 45, kernel_size=4)
    give([call], [reference.call(call)])


@clause(PATH, 3)
def test_path_by_attention_of_any_length(subject):
    """It is one step for any length; a kernel_size changes nothing"""
    calls = [subject.limits.path_length.on("".join("attention"), n) for n in range(2, 40)]
    give(calls, [1] * len(calls))
    give([call.but(kernel_size=3) for call in calls], [1] * len(calls))


@clause(PATH, 4)
@pytest.mark.parametrize(
    "arguments", [("RNN", 5), ("", 5, 3), ("transformer", 9, 3), ("cnn", 7, 0), ("cnn", 2, 1)]
)
def test_no_path_at_all(subject, arguments):
    """What leads nowhere raises ValueError"""
    with subject.raises("ValueError"):
        subject.limits.path_length(*arguments)


# sequential_steps


@clause(STEPS, 1)
def test_states_wait_at_any_length(subject):
    """A recurrent network takes as many steps as there are positions"""
    give([subject.limits.sequential_steps.on("rnn", n) for n in range(1, 40)], list(range(1, 40)))


@clause(STEPS, 2)
def test_neighbours_do_not_wait_at_any_length(subject):
    """All outputs at once, whatever the length"""
    give([subject.limits.sequential_steps.on("cnn", n) for n in range(1, 40)], [1] * 39)


@clause(STEPS, 3)
def test_queries_do_not_wait_at_any_length(subject):
    """All outputs at once, whatever the length"""
    give([subject.limits.sequential_steps.on("attention", n) for n in range(1, 40)], [1] * 39)


@clause(STEPS, 4)
@pytest.mark.parametrize("kind", ["RNN", "", "transformer"])
def test_steps_of_nothing_known(subject, kind):
    """What is not one of the three raises ValueError"""
    with subject.raises("ValueError"):
        subject.limits.sequential_steps(kind, 7)


# influence


def _filled(module, draw, dtype=torch.float64):
    module.to(dtype)
    for parameter in module.parameters():
        parameter.data = 0.5 * draw.tensor(*parameter.shape, dtype=dtype)
    return module


@clause(INFLUENCE, 1)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_causal_convolutions(subject, draw, dtype):
    """Two causal convolutions: each output sees their receptive field, in float32, too"""
    layers = [_filled(nn.Conv1d(2, 2, kernel_size=3), draw, dtype) for _ in range(2)]

    def fn(x):
        x = x.T
        for layer in layers:
            x = layer(nn.functional.pad(x, (2, 0)))
        return x.T

    found = subject.limits.influence(fn, draw.tensor(7, 2, dtype=dtype))
    expect(found).equals(torch.ones(7, 7).tril().triu(-4).bool())


@clause(INFLUENCE, 1)
def test_attention_under_a_mask(subject, draw):
    """Under a mask, an output sees what the mask lets it see"""
    attention = _filled(nn.MultiheadAttention(4, 1), draw)
    visible = draw.mask(5, 5) | torch.eye(5).bool()

    def fn(x):
        return attention(x, x, x, attn_mask=~visible)[0]

    # Each sees itself: as a query, a position always moves its own output.
    expect(subject.limits.influence(fn, draw.tensor(5, 4))).equals(visible)


@clause(INFLUENCE, 1)
def test_recurrence_from_the_end(subject, draw):
    """Read backwards, each output sees all inputs that come after it"""
    rnn = _filled(nn.GRU(2, 3), draw)
    found = subject.limits.influence(lambda x: rnn(x.flip(0))[0].flip(0), draw.tensor(5, 2))
    expect(found).equals(torch.ones(5, 5).triu().bool())


@clause(INFLUENCE, 1)
def test_any_links(subject, draw):
    """Whatever is linked is found, and nothing else"""
    links = draw.mask(5, 6)
    weight = draw.tensor(5, 6) * links
    feature = draw.tensor(3, 2)
    found = subject.limits.influence(lambda x: torch.tanh(weight @ x @ feature), draw.tensor(6, 3))
    expect(found).equals(links)


@clause(INFLUENCE, 1)
def test_influence_repeats(subject, draw):
    """The same call gives the same entries again"""
    repeats(subject.limits.influence.on(lambda x: torch.tanh(x).cumsum(0), draw.tensor(4, 3)))


@clause(INFLUENCE, 1)
def test_shut_gates(subject, draw):
    """A gate that is shut at x lets nothing through, though it would open elsewhere"""
    x = draw.tensor(5, 3).abs() + 0.5
    x[[0, 3]] *= -1
    open_ = torch.tensor([0, 1, 1, 0, 1]).bool()
    found = subject.limits.influence(lambda x: torch.relu(x).cumsum(0), x)
    expect(found).equals(torch.ones(5, 5).tril().bool() & open_)


@clause(INFLUENCE, 2)
def test_softmax_over_features(subject, draw):
    """The features of a softmax sum to 1, and are moved all the same"""
    scale = torch.tensor([1.0, -1.0]).double()

    def fn(x):
        half = torch.sigmoid(x[:, :1].cumsum(0))
        return half * scale + torch.tensor([0.0, 1.0]).double()  # [p, 1 - p]

    found = subject.limits.influence(fn, draw.tensor(5, 3))
    expect(found).equals(torch.ones(5, 5).tril().bool())


@clause(INFLUENCE, 2)
def test_features_that_cancel_across(subject, draw):
    """Two paths of opposite sign, one through each feature, are both seen"""
    sign = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).double()
    found = subject.limits.influence(lambda x: (x @ sign).cumsum(0), draw.tensor(4, 2))
    expect(found).equals(torch.ones(4, 4).tril().bool())


@clause(INFLUENCE, 2)
@pytest.mark.parametrize("place", [0, 4])
def test_first_and_last_feature(subject, draw, place):
    """Each feature is looked at, from first to last"""
    found = subject.limits.influence(
        lambda x: x[:, place : place + 1].flip(0).cumsum(0), draw.tensor(3, 5)
    )
    expect(found).equals(torch.ones(3, 3).tril().fliplr().bool())


@clause(INFLUENCE, 3)
def test_long_recurrence(subject, draw):
    """However little is left of what came first, it counts"""
    weight = torch.tensor([[0.01]]).double()

    def fn(x):
        state, states = torch.zeros(1, 1).double(), []
        for row in x:
            state = torch.tanh(row + state @ weight)
            states.append(state)
        return torch.cat(states)

    found = subject.limits.influence(fn, 0.1 * draw.tensor(9, 1))  # 1e-16 from first to last
    expect(found).equals(torch.ones(9, 9).tril().bool())


@clause(INFLUENCE, 3)
def test_negative_influence(subject, draw):
    """Where every derivative is negative, all are seen"""
    found = subject.limits.influence(lambda x: -x.exp().cumsum(0), draw.tensor(4, 2))
    expect(found).equals(torch.ones(4, 4).tril().bool())


@clause(INFLUENCE, 4)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 4, 2, 3), (6, 1, 3, 2), (2, 5, 1, 4)])
def test_any_sizes(subject, draw, sizes):
    """Lengths and features may be of any number"""
    seq_out, seq_in, d_in, d_out = sizes
    mix, feature = draw.tensor(seq_out, seq_in), draw.tensor(d_in, d_out)
    found = subject.limits.influence(lambda x: mix @ x @ feature, draw.tensor(seq_in, d_in))
    expect(found).equals(torch.ones(seq_out, seq_in).bool())


@clause(INFLUENCE, 4)
def test_inputs_that_move_nothing(subject, draw):
    """An input that moves nothing has a column of False"""
    found = subject.limits.influence(lambda x: x[1:3].repeat(2, 1), draw.tensor(5, 3))
    expect(found).equals(torch.eye(5)[1:3].repeat(2, 1).bool())


@clause(INFLUENCE, 5)
def test_x_is_left_alone_by_a_layer(subject, draw):
    """x stays the same where the layer is a real one, too"""
    rnn = _filled(nn.RNN(2, 2), draw)
    leaves_inputs_alone(
        subject, subject.limits.influence.on(lambda x: rnn(x)[0], draw.tensor(4, 2))
    )
