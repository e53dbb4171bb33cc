"""Checks of the unit `multihead`."""

from collections import Counter

import pytest
import torch

from grader.judge import clause, expect
from grader.judge.properties import leaves_inputs_alone, unmoved_by

CLASS = "multihead.MultiHeadAttention"
SPLIT = "multihead.MultiHeadAttention.split_heads"
FORWARD = "multihead.MultiHeadAttention.forward"


def layer_of(subject, draw, d_model, num_heads, plain=()):
    """A layer with drawn weights, small enough for a soft softmax.

    The Linears named in `plain` give back what they get, so that mistakes in them do not show.
    """
    layer = subject.multihead.MultiHeadAttention(d_model, num_heads)
    state = {name: 0.4 * value for name, value in draw.weights(layer).items()}
    for name in plain:
        state[f"{name}.weight"] = torch.eye(d_model, dtype=torch.float64)
        state[f"{name}.bias"] = torch.zeros(d_model, dtype=torch.float64)
    return layer.load(state).eval()


# The constructor


@clause(CLASS, 1)
def test_each_linear_has_its_own_weights(subject, draw):
    """w_q, w_k, w_v and w_o each keep a weight and a bias of their own"""
    layer = subject.multihead.MultiHeadAttention(12, 3)
    state = draw.weights(layer)
    layer.load(state)
    for name, value in state.items():
        expect(layer.get(name)).equals(value)


@clause(CLASS, 1)
def test_nothing_else_is_trained(subject):
    """Trained are two tensors in each of w_q, w_k, w_v and w_o, and no others"""
    layer, linears = subject.multihead.MultiHeadAttention(12, 3), ("w_q", "w_k", "w_v", "w_o")
    names = [f"{linear}.{part}" for linear in linears for part in ("weight", "bias")]
    frozen = [name for name in names if layer.get(f"{name}.requires_grad") is not True]
    expect(frozen).equals([])
    trained = layer.describe()["trained"]
    if len(trained) != len(names):  # else they are these, even under another name than the first
        owners = Counter(name.split(".")[-2:][0] for name in trained)
        expect(dict(owners)).equals(dict.fromkeys(linears, 2))


@clause(CLASS, 2)
def test_sizes_are_kept(subject):
    """num_heads is kept, and d_k is d_model / num_heads, an int"""
    layer = subject.multihead.MultiHeadAttention(12, 3)
    found = {name: layer.get(name) for name in ("num_heads", "d_k")}
    expect(str(found)).equals("{'num_heads': 3, 'd_k': 4}")


@clause(CLASS, 3)
@pytest.mark.parametrize("d_model, num_heads", [(10, 4), (4, 8)])
def test_heads_that_do_not_divide(subject, d_model, num_heads):
    """num_heads that do not divide d_model raise ValueError or AssertionError"""
    with subject.raises("ValueError", "AssertionError"):
        subject.multihead.MultiHeadAttention(d_model, num_heads)


# split_heads


@clause(SPLIT, 1)
def test_heads_stand_before_positions(subject, draw):
    """The output is [batch, num_heads, seq, d_k]"""
    layer = subject.multihead.MultiHeadAttention(12, 2)
    layer.split_heads(draw.tensor(3, 5, 12), 3)


@clause(SPLIT, 2)
def test_a_head_takes_neighbouring_features(subject, draw, reference):
    """Head h takes the features h * d_k, h * d_k + 1, ... of a token"""
    layer = subject.multihead.MultiHeadAttention(12, 2)
    call = layer.split_heads.on(draw.tensor(3, 1, 12), 3)  # one position: none to be mixed with
    expect(call()).equals(reference.call(call))


@clause(SPLIT, 3)
def test_positions_stay_apart(subject, draw):
    """A change at one position shows at that position alone, in every head"""
    layer = subject.multihead.MultiHeadAttention(12, 2)
    call = layer.split_heads.on(draw.tensor(3, 5, 12), 3)
    changed = torch.zeros(3, 5, 1, dtype=torch.bool)
    changed[0, 1] = True  # not in the middle, where a reversal would not show
    unmoved_by(call, draw, "x", changed, [~changed[:, None]])


# forward


@clause(FORWARD, 1)
def test_each_input_has_its_projection(subject, draw, reference):
    """w_q is for the query, w_k for the key and w_v for the value"""
    layer = layer_of(subject, draw, 6, 1, plain=["w_o"])  # one head: nothing to split or to join
    call = layer.on(draw.tensor(3, 4, 6), draw.tensor(3, 5, 6), draw.tensor(3, 5, 6))
    output, weights = call()
    expect(output).equals(reference.call(call)[0])
    expect(weights).equals(reference.call(call)[1])


@clause(FORWARD, 2)
def test_each_head_attends_on_its_slice(subject, draw, reference):
    """Each head's weights are those of its own slice, scaled by its own sqrt(d_k)"""
    layer = layer_of(subject, draw, 12, 2, plain=["w_q", "w_k"]).train()
    x = draw.tensor(3, 5, 12)
    call = layer.on(x, x, x)
    expect(call()[1]).equals(reference.call(call)[1])


@clause(FORWARD, 3)
def test_heads_are_joined_and_mixed(subject, draw, reference):
    """The heads' results are joined in order, and w_o mixes them"""
    layer = layer_of(subject, draw, 12, 2, plain=["w_q", "w_k"])
    # Matches so clear that a head sees one position: the first head its own, the second the next.
    own = 30 * torch.eye(5, 6, dtype=torch.float64)
    query = torch.cat([own, own], dim=1).repeat(3, 1, 1)
    key = torch.cat([own, own.roll(1, 0)], dim=1).repeat(3, 1, 1)
    call = layer.on(query, key, draw.tensor(3, 5, 12))
    expect(call()[0]).equals(reference.call(call)[0])


@clause(FORWARD, 4)
@pytest.mark.parametrize("seq_q, seq_k", [(4, 7), (7, 4)], ids=["more-keys", "fewer-keys"])
def test_one_row_for_each_query(subject, draw, seq_q, seq_k):
    """Each query has a row of its own, with more keys or with fewer"""
    layer = layer_of(subject, draw, 12, 2)
    query, key, value = (draw.tensor(3, seq, 12) for seq in (seq_q, seq_k, seq_k))
    call = layer.on(query, key, value)
    output, _ = call()
    some, _ = call.but(query=query[:, 1:3])()
    expect(some).equals(output[:, 1:3])


@clause(FORWARD, 4)
def test_heads_on_accelerator(subject, draw):
    """On an accelerator, all that forward uses is there too"""
    layer = layer_of(subject, draw, 12, 2)
    call = layer.on(*(draw.tensor(3, seq, 12) for seq in (4, 5, 5)), draw.mask(3, 1, 1, 5))
    subject.on_accelerator(call)


@clause(FORWARD, 5)
@pytest.mark.parametrize(
    "shape", [(4, 5), (3, 1, 1, 5), (3, 2, 4, 5)], ids=["queries", "sentences", "everything"]
)
def test_a_mask_hides_keys(subject, draw, shape):
    """A hidden key gets weight 0, and the visible ones share out 1"""
    layer = layer_of(subject, draw, 12, 2)
    mask = draw.mask(*shape)
    call = layer.on(*(draw.tensor(3, seq, 12) for seq in (4, 5, 5)))
    _, free = call()
    _, weights = call.but(mask=mask)()
    expect(weights, where=~mask).equals(0)
    visible = free * mask
    expect(weights).equals(visible / visible.sum(-1, keepdim=True))


@clause(FORWARD, 5)
def test_a_mask_reaches_the_output(subject, draw):
    """The value of a hidden key does not show in the output"""
    layer = layer_of(subject, draw, 12, 2)
    mask = draw.mask(3, 1, 1, 5)
    call = layer.on(*(draw.tensor(3, seq, 12) for seq in (4, 5, 5)), mask)
    expect(call()[1], where=~mask).equals(0)
    unmoved_by(call, draw, "value", ~mask[:, 0, 0, :, None], [None, None])


@clause(FORWARD, 6)
def test_gradients_reach_everything(subject, draw):
    """Gradients reach query, key, value and every parameter"""
    layer = layer_of(subject, draw, 12, 2)
    call = layer.on(*(draw.tensor(3, seq, 12) for seq in (4, 5, 5)))
    linears = ["w_q", "w_k", "w_v", "w_o"]
    parameters = [f"{linear}.{part}" for linear in linears for part in ("weight", "bias")]
    cotangents = draw.tensor(3, 4, 12), draw.tensor(3, 2, 4, 5)
    subject.vjp(call, cotangents, wrt=["query", "key", "value", *parameters])


@clause(FORWARD, 6)
def test_inputs_are_left_alone(subject, draw):
    """The inputs and the mask are the same after the call as before"""
    layer, mask = layer_of(subject, draw, 12, 2), draw.mask(3, 1, 4, 5)
    mask[1] = False  # who sees nothing may be treated apart
    call = layer.on(*(draw.tensor(3, seq, 12) for seq in (4, 5, 5)), mask)
    leaves_inputs_alone(subject, call)
