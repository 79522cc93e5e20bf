"""How much is watched, counted by hand; the switches of a process, tried out."""

import os
from types import SimpleNamespace

import pytest
import torch
from device_cases import one_herg_member
from torch import nn

from veristate.core import EnvironmentUnusableError, InputError
from veristate.devices import Coverage, Predictor, TrustedExecutor, measure_coverage, prepare_process, read_settings


def coverage_of(net: nn.Module, X: torch.Tensor) -> Coverage:
    """The coverage of a model of one member and one batch."""

    def run(member: int, batch: int) -> object:
        with torch.inference_mode():
            return net(X).numpy()

    return measure_coverage(SimpleNamespace(models=(net.eval(),), run=run))


class Beside(nn.Module):
    """A watched layer, and a product beside it."""

    def __init__(self, product: str) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 5)
        self.W = nn.Parameter(torch.ones(3, 5))
        self.product = product

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """[7, 4] to [7, 3]."""
        hidden = self.layer(X)
        if self.product == "linear":
            return nn.functional.linear(hidden, self.W)
        return torch.mm(hidden, self.W.T) if self.product == "mm" else hidden @ self.W.T


@pytest.mark.parametrize(("product", "name"), [("linear", "linear"), ("mm", "mm"), ("matmul", "matmul")])
def test_a_product_beside_the_layers_is_named(product: str, name: str) -> None:
    """A matrix product outside a layer lowers the share and is named, though watched layers use the same operation."""
    found = coverage_of(Beside(product), torch.ones(7, 4))
    assert (found.watched, found.total) == (7 * 4 * 5, 7 * 4 * 5 + 7 * 5 * 3)
    assert found.share == 140 / 245
    assert dict(found.unwatched) == {name: 1}


def test_attention_is_not_covered_by_its_layer() -> None:
    """Torch's attention uses its projections' weights without calling them: counted, but none of it is watched."""
    net = nn.MultiheadAttention(4, 2, batch_first=True)
    X = torch.ones(1, 6, 4)

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            return self.net(X, X, X, need_weights=True)[0]

    found = coverage_of(Wrapped(), X)
    projections, heads = 6 * 4 * 4 * 4, 2 * (6 * 6 * 2) * 2
    assert (found.watched, found.total, found.share) == (0, projections + heads, 0.0)


def test_a_transformer_layer_is_not_fused_away() -> None:
    """The two layers behind the attention are watched: the fused path that would hide them is switched off."""
    net = nn.TransformerEncoderLayer(4, 2, dim_feedforward=16, batch_first=True)
    found = coverage_of(net, torch.ones(1, 6, 4))
    assert (found.layers, found.watched) == (("linear1", "linear2"), 2 * 6 * 4 * 16)
    assert found.total == found.watched + 6 * 4 * 4 * 4
    assert dict(found.unwatched)["scaled_dot_product_attention"] == 1


def test_a_model_of_layers_alone_is_covered() -> None:
    """Layers in a row are watched whole; what has no multiply-adds is named all the same."""
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2, bias=False), nn.Sigmoid())
    found = coverage_of(net, torch.ones(3, 5, 4))
    assert (found.watched, found.total) == (15 * 4 * 6 + 15 * 6 * 2, 15 * 4 * 6 + 15 * 6 * 2)
    assert found.share == 1.0
    assert (found.layers, dict(found.unwatched)) == (("0", "2"), {"relu": 1, "sigmoid": 1})


def test_a_pass_without_products_is_not_covered() -> None:
    """Nothing watched is a share of 0, never of 1."""
    assert coverage_of(nn.Sequential(nn.ReLU()), torch.ones(2, 2)).share == 0.0


def test_measuring_leaves_no_hook(tiny: Predictor) -> None:
    """After measuring, the model's layers carry no hooks."""
    found = measure_coverage(tiny)
    assert found.watched == 2 * (72 * 8 * 12 + 72 * 12 * 40 + 24 * 40)
    assert not any(m._forward_hooks or m._forward_pre_hooks for net in tiny.models for m in net.modules())


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_chemprops_products_are_all_watched(dtype: str) -> None:
    """Ethanol alone: 4 directed bonds, 3 atoms, 1 molecule through the layers' published sizes, all of it watched."""
    found = measure_coverage(one_herg_member(("CCO",), dtype=dtype))
    expected = 4 * 86 * 300 + 2 * 4 * 300 * 300 + 3 * 372 * 300 + 300 * 300 + 300 * 31
    assert (found.watched, found.total, found.share) == (expected, expected, 1.0)


def test_both_processes_have_the_same_settings(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """The trusted process computes with the settings of this one, read there; its checks' BLAS has one thread."""
    prepare_process("cpu", 1)
    assert trusted.settings == read_settings("cpu") | {"openblas_num_threads": "1"} | tiny.libraries()
    assert trusted.settings["threads"] == "1"


def test_flushed_subnormals_are_noticed() -> None:
    """The setting follows the processor's switch, found by trying it."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no such switch")
    assert read_settings("cpu")["flush_denormal"] == "true"
    torch.set_flush_denormal(False)
    assert read_settings("cpu")["flush_denormal"] == "false"


def test_kernel_variables_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that chooses other kernels makes other settings."""
    before = read_settings("cpu")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    after = read_settings("cpu")
    assert {k for k in after if after[k] != before[k]} == ({"mkl_cbwr"} if os.environ["MKL_CBWR"] else set())


def test_preparing_asks_for_full_products() -> None:
    """Preparing a process undoes a narrower product format and sets the threads."""
    torch.set_float32_matmul_precision("medium")
    prepare_process("cpu", 1)
    settings = read_settings("cpu")
    assert (settings["full_float32_products"], settings["threads"]) == ("true", "1")


def test_a_device_that_is_not_there_is_refused() -> None:
    """A CUDA device where torch sees none, or one too many, is an environment that can't be used."""
    wanted = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(EnvironmentUnusableError, match=f"--device {wanted}"):
        prepare_process(wanted, 1)


def test_a_device_that_is_no_name_is_refused() -> None:
    """A device torch has no name for is the user's mistake."""
    with pytest.raises(InputError, match="--device abacus"):
        prepare_process("abacus", 1)
