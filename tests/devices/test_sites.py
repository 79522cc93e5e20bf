"""Saving what any module gave, and continuing a run from there."""

import numpy as np
import pytest
import torch
from torch import nn

from veristate.core import InputError, Site
from veristate.devices import continue_from, list_sites, save_sites

NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
DTYPES = tuple(NAMES)


class Block(nn.Module):
    """A residual block with a module that is called twice, one that works in place, and one that gives its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.act = nn.ReLU(inplace=True)
        self.same = nn.Identity()
        self.last = nn.Linear(6, 2)
        self.norm = nn.LayerNorm(6)
        self.pair = nn.GRU(6, 6, batch_first=True)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Two passes through `first`, the input kept beside the second."""
        hidden = self.act(self.first(X))
        kept = self.same(hidden)
        hidden = hidden + self.act(self.first(kept))
        deep, _ = self.pair(self.norm(hidden))
        return self.last(deep)


@pytest.fixture
def block() -> Block:
    """The block with weights from a seed."""
    torch.manual_seed(5)
    return Block().eval()


def data(dtype: torch.dtype) -> torch.Tensor:
    """Four sequences of three."""
    return torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(1)).to(dtype)


def bits(a: torch.Tensor) -> bytes:
    """The bits of a tensor."""
    return a.detach().contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (Site(layer="nowhere"), "no layer 'nowhere'"),
        (Site(layer="first", ordinal=2), "call 2 of layer 'first' did not happen"),
        (Site(layer="pair"), "gives tuple"),
    ],
)
def test_a_site_that_is_none_is_refused(block: Block, site: Site, said: str) -> None:
    """A missing layer, a call that never happens and an output that is no tensor are named, when saving and after."""
    X = data(torch.float32)
    with torch.inference_mode():
        with pytest.raises(InputError, match=said):
            save_sites(block, [site], lambda: block(X))
        with pytest.raises(InputError, match=said):
            continue_from(block, {site: np.zeros((4, 3, 6), dtype=np.float32)}, lambda: block(X))
    assert not any(module._forward_hooks for module in block.modules())


def test_values_of_another_shape_are_refused(block: Block) -> None:
    """Values that would broadcast into the output are not its values."""
    with pytest.raises(InputError, match=r"\(1, 3, 6\).*\(4, 3, 6\)"):
        continue_from(
            block,
            {Site(layer="first"): np.zeros((1, 3, 6), dtype=np.float32)},
            lambda: block(data(torch.float32)),
        )
    assert not any(module._forward_hooks for module in block.modules())


@pytest.mark.parametrize("dtype", DTYPES)
def test_replacing_by_what_was_saved_repeats_the_run(block: Block, dtype: torch.dtype) -> None:
    """At every site of the model, hidden ones, the second call and the model itself, the output's bits come back."""
    block.to(dtype)
    X = data(dtype)
    with torch.inference_mode():
        plain = block(X)
        sites = list_sites(block, lambda: block(X))
        assert Site(layer="first", ordinal=1) in sites
        assert Site(layer="") in sites
        result, saved = save_sites(block, sites, lambda: block(X))
        assert bits(result) == bits(plain)
        for site in sites:
            again = continue_from(block, {site: saved[site].values}, lambda: block(X))
            assert bits(again) == bits(plain), site
        together = {site: found.values for site, found in saved.items()}
        assert bits(continue_from(block, together, lambda: block(X))) == bits(plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_saved_values_are_those_the_module_gave(block: Block, dtype: torch.dtype) -> None:
    """What is saved before an in-place module is what the layer computed by itself, not what became of it."""
    block.to(dtype)
    X = data(dtype)
    with torch.inference_mode():
        _, saved = save_sites(block, [Site(layer="first")], lambda: block(X))
        by_hand = nn.functional.linear(X, block.first.weight, block.first.bias)
    found = saved[Site(layer="first")]
    assert (found.values < 0).any()
    held = torch.float32 if dtype == torch.bfloat16 else dtype
    assert found.values.tobytes() == by_hand.to(held).numpy().tobytes()
    assert found.representation == NAMES[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_run_continues_with_the_values_put_in(block: Block, dtype: torch.dtype) -> None:
    """From the second call of a layer on, the run is that of a hand-written continuation with the same values."""
    block.to(dtype)
    X, site = data(dtype), Site(layer="first", ordinal=1)
    with torch.inference_mode():
        _, saved = save_sites(block, [Site(layer="same"), site], lambda: block(X))
        values = saved[site].values.copy()
        values[2, 1, :] = [8, -8, 0.5, -0.0, np.inf, 3]
        found = continue_from(block, {site: values}, lambda: block(X))
        hidden = torch.from_numpy(saved[Site(layer="same")].values).to(dtype)
        hidden = hidden + torch.relu(torch.from_numpy(values).to(dtype))
        by_hand = block.last(block.pair(block.norm(hidden))[0])
    assert bits(found) == bits(by_hand)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_bit_goes_in_and_out(dtype: torch.dtype) -> None:
    """All 65,536 patterns, NaN payloads included, pass through a site unchanged."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    X = torch.from_numpy(patterns.view(np.int16)).view(dtype)
    model, site = nn.Sequential(nn.Identity()), Site(layer="0")
    with torch.inference_mode():
        _, saved = save_sites(model, [site], lambda: model(X))
        found = continue_from(model, {site: saved[site].values}, lambda: model(torch.zeros_like(X)))
    assert bits(found) == patterns.tobytes()


def test_wider_values_are_rounded_to_storage() -> None:
    """A float32 value put into a bfloat16 site is rounded to nearest, as torch's conversion does."""
    model = nn.Sequential(nn.Identity())
    values = np.random.default_rng(2).standard_normal((3, 5)).astype(np.float32)
    zeros = torch.zeros(3, 5, dtype=torch.bfloat16)
    found = continue_from(model, {Site(layer="0"): values}, lambda: model(zeros))
    assert bits(found) == bits(torch.from_numpy(values).to(torch.bfloat16))
    assert not zeros.any()


def test_memory_layout_is_kept() -> None:
    """The replaced output of a convolution in channels-last order stays in that order."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Identity()).to(memory_format=torch.channels_last).eval()
    X = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    site = Site(layer="0")
    with torch.inference_mode():
        plain, saved = save_sites(model, [site], lambda: model(X))
        again = continue_from(model, {site: saved[site].values}, lambda: model(X))
    assert again.stride() == plain.stride()
    assert bits(again) == bits(plain)
