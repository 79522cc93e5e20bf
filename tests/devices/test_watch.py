"""The watch sees every linear call as it was, and nothing else."""

import pytest
import torch
from torch import nn

from veristate.devices import LinearCall, linear_layers, watch
from veristate.devices.watch import OURS


class Doubling(nn.Linear):
    """A linear layer with a forward of its own: another computation."""

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Twice the product."""
        return super().forward(X) * 2


class Renamed(nn.Linear):
    """A linear layer that keeps its forward."""


class Net(nn.Module):
    """Layers that are reused, nested, tied and given three-dimensional inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.inner = nn.Sequential(Renamed(4, 4, bias=False), nn.ReLU(inplace=True))
        self.own = Doubling(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.inner[0].weight
        self.again = self.first

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """`inner` twice, `first` under two names."""
        return self.again(self.tied(self.own(self.inner(self.inner(self.first(X)))))[..., :3])


@pytest.fixture
def net() -> Net:
    """The net with weights from a seed."""
    torch.manual_seed(3)
    return Net().eval()


def seen_by(net: nn.Module, X: torch.Tensor) -> list[LinearCall]:
    """Copies of the calls of one pass, as a watcher must take them."""
    calls: list[LinearCall] = []

    def keep(call: LinearCall) -> None:
        calls.append(LinearCall(layer=call.layer, ordinal=call.ordinal, X=call.X.clone(), Y=call.Y.clone()))

    with torch.inference_mode(), watch(net, keep):
        net(X)
    return calls


def by_hand(net: Net, X: torch.Tensor) -> list[tuple[str, int, torch.Tensor, torch.Tensor]]:
    """The calls the watch must tell, from the layers' weights alone."""
    linear = nn.functional.linear
    told = []

    def step(name: str, ordinal: int, layer: nn.Linear, X: torch.Tensor) -> torch.Tensor:
        Y = linear(X, layer.weight, layer.bias)
        told.append((name, ordinal, X.reshape(-1, X.shape[-1]).clone(), Y.reshape(-1, Y.shape[-1]).clone()))
        return Y

    with torch.inference_mode():
        hidden = step("first", 0, net.first, X)
        hidden = torch.relu(step("inner.0", 0, net.inner[0], hidden))
        hidden = torch.relu(step("inner.0", 1, net.inner[0], hidden))
        hidden = linear(hidden, net.own.weight, net.own.bias) * 2
        hidden = step("tied", 0, net.tied, hidden)
        step("first", 1, net.first, hidden[..., :3])
    return told


@pytest.mark.parametrize("shape", [(7, 3), (5, 2, 3), (2, 3, 2, 3), (3,)])
def test_calls_are_told_as_they_were(net: Net, shape: tuple[int, ...]) -> None:
    """Names, order, ordinals and the bits of X and Y are those of a forward pass written by hand."""
    X = torch.randn(shape)
    found, expected = seen_by(net, X), by_hand(net, X)
    assert [(c.layer, c.ordinal) for c in found] == [(name, ordinal) for name, ordinal, _, _ in expected]
    for call, (_, _, inputs, outputs) in zip(found, expected, strict=True):
        assert torch.equal(call.X, inputs)
        assert torch.equal(call.Y, outputs)


def test_strided_inputs_are_flattened_in_their_own_order(net: Net) -> None:
    """A transposed three-dimensional input gives rows in the order of its leading dimensions."""
    X = torch.randn(4, 5, 3).transpose(0, 1)
    assert torch.equal(seen_by(net, X)[0].X, X.reshape(-1, 3))


def test_a_call_without_rows_is_told(net: Net) -> None:
    """A call with no rows (a batch of molecules without bonds) is a call with empty X and Y."""
    calls = seen_by(net, torch.zeros(0, 3))
    assert [(c.X.shape, c.Y.shape) for c in calls[:2]] == [((0, 3), (0, 4)), ((0, 4), (0, 4))]


def test_an_input_given_by_name_is_seen(net: Net) -> None:
    """A model may call its layer with input=...: the watcher sees the same call."""
    found: list[LinearCall] = []
    X = torch.randn(2, 3)
    with torch.inference_mode(), watch(net, found.append):
        Y = net.first(input=X)
    assert torch.equal(found[0].X, X)
    assert torch.equal(found[0].Y, Y)


def test_another_forward_is_not_linear(net: Net) -> None:
    """A subclass with a forward of its own is not watched; one that keeps it is, and tied layers are two layers."""
    assert list(linear_layers(net)) == ["first", "inner.0", "tied"]


def test_a_layer_with_somebody_elses_hook_is_not_watched(net: Net) -> None:
    """Such a hook may change what the layer gave, and then Y is not X W^T + b: the other layers are watched."""
    everything = {call.layer for call in seen_by(net, torch.randn(2, 3))}
    hooks = [net.first.register_forward_hook(lambda layer, inputs, output: output + 1)]
    assert {call.layer for call in seen_by(net, torch.randn(2, 3))} == everything - {"first"}
    hooks[0].remove()
    assert {call.layer for call in seen_by(net, torch.randn(2, 3))} == everything


def test_our_own_earlier_hooks_act_first(net: Net) -> None:
    """What a simulated fault changed before the watch was opened is what the watch sees."""

    def double(layer: torch.nn.Module, inputs: object, output: torch.Tensor) -> None:
        output.mul_(2)

    setattr(double, OURS, True)
    handle = net.first.register_forward_hook(double)
    X = torch.randn(2, 3)
    with torch.inference_mode():
        calls = seen_by(net, X)
    handle.remove()
    assert torch.equal(calls[0].Y, by_hand(net, X)[0][3] * 2)


def test_nothing_is_seen_afterwards(net: Net) -> None:
    """After the watch ends no call is told, also when the pass raised."""
    found: list[LinearCall] = []
    with pytest.raises(RuntimeError), watch(net, found.append):
        net(torch.zeros(2, 99))
    assert found == []
    net(torch.zeros(2, 3))
    assert found == []
    assert not any(layer._forward_hooks for layer in net.modules())


def test_ordinals_start_anew(net: Net) -> None:
    """Each watch counts its own calls."""
    X = torch.randn(2, 3)
    assert [c.ordinal for c in seen_by(net, X)] == [c.ordinal for c in seen_by(net, X)] == [0, 0, 1, 0, 1]
