"""`checked(model)`: whatever torch computes is seen, honest work passes, a spoiled output is flagged where it is."""

import os

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import veristate
from veristate.core import FaultProvenError, InputError, Verdict
from veristate.devices.checked import checked
from veristate.numerics import Screen


class Spoiled(TorchDispatchMode):
    """Stands for a faulty device: changes one output of the operations of one name, after the first `skip`."""

    def __init__(self, name, place, by, skip=0):
        super().__init__()
        self.name, self.place, self.by, self.skip = name, place, by, skip

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Runs the operation and spoils its output."""
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ == self.name:
            if self.skip == 0:
                out[self.place] += self.by
            self.skip -= 1
        return out


def torch_seed():
    """A fixed generator."""
    torch.manual_seed(3)


def attention():
    """Scores and weighted values, from products."""
    q, k, v = (torch.randn(6, 40, 16) for _ in range(3))
    return lambda: torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 4, dim=-1), v)


def scattered(kind):
    """Sums of 300 rows into 70 places."""
    rows, index = torch.randn(300, 9), torch.randint(0, 70, (300,))
    wide = index[:, None].repeat(1, 9)
    return {
        "index_add_": lambda: torch.zeros(70, 9).index_add_(0, index, rows),
        "index_add": lambda: torch.ones(70, 9).index_add(0, index, rows),
        "scatter_add": lambda: torch.randn(70, 9).scatter_add(0, wide, rows),
        "scatter_reduce_": lambda: torch.ones(70, 9).scatter_reduce_(0, wide, rows, "sum", include_self=False),
    }[kind]


WORK = {
    "mm": lambda: (lambda a, b: lambda: a @ b)(torch.randn(50, 20), torch.randn(20, 30)),
    "addmm": lambda: (lambda m, x: lambda: m(x))(nn.Linear(20, 30), torch.randn(50, 20)),
    "bmm": attention,
    "mv": lambda: (lambda a, v: lambda: a @ v)(torch.randn(50, 20), torch.randn(20)),
    "convolution": lambda: (lambda m, x: lambda: m(x))(nn.Conv2d(4, 6, 3, groups=2), torch.randn(2, 4, 9, 8)),
    "embedding": lambda: (lambda m, i: lambda: m(i))(nn.Embedding(40, 12), torch.randint(0, 40, (5, 7))),
    "index_add_": lambda: scattered("index_add_"),
    "index_add": lambda: scattered("index_add"),
    "scatter_add": lambda: scattered("scatter_add"),
    "scatter_reduce_": lambda: scattered("scatter_reduce_"),
}
PLACES = {"mv": (7,), "convolution": (1, 2, 3, 4), "embedding": (2, 3, 5), "bmm": (3, 21, 11)}


@pytest.mark.parametrize("name", WORK)
def test_one_wrong_output_of_any_operation_is_flagged(name):
    """A changed output is a FLAG that names the operation, and `require` raises; untouched, the same work passes."""
    torch_seed()
    work = WORK[name]()
    with checked() as clean:
        work()
    assert clean.verdict() is Verdict.PASS, clean.report()
    clean.require()
    with Spoiled(name, PLACES.get(name, (7, 5)), 0.5), checked() as checks:
        work()
    assert checks.verdict() is Verdict.FLAG
    assert [flag.operation for flag in checks.flags] == [name]
    assert name in checks.report()
    with pytest.raises(FaultProvenError, match=name):
        checks.require()


def test_the_wrong_element_is_named():
    """The finding of a product gives the row and column of the change, its layer and a seed."""
    torch_seed()
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 40))
    with Spoiled("addmm", (17, 33), 0.25, skip=1), checked(model) as checks:
        model(torch.randn(64, 20))
    (flag,) = checks.flags
    assert (flag.layer, flag.elements, flag.rows, flag.shape) == ("2", ((17, 33),), 1, (64, 30, 40))
    assert len(flag.seed) == 32


def test_a_fault_of_the_backward_pass_is_flagged_with_its_weight():
    """Products of the backward pass are checked too, and named by the parameter they multiply."""
    torch_seed()
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 1))
    loss = lambda: model(torch.randn(64, 20)).square().mean()  # noqa: E731
    with checked(model) as checks:
        loss().backward()
    assert checks.verdict() is Verdict.PASS
    assert any(layer == "backward of 2.weight" for layer in checks.layers)
    with Spoiled("mm", (3, 2), 1e-3), checked(model) as checks:
        loss().backward()
    assert checks.verdict() is Verdict.FLAG


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(7, 20), (3, 5, 20), (2, 3, 4, 20), (1, 20), (20,)])
def test_inputs_of_any_rank_and_format_pass(dtype, shape):
    """3-D, broadcast and single-row inputs, without a bias and with one, permuted and strided, in every format."""
    torch_seed()
    with checked() as checks:
        for bias in (True, False):
            layer = nn.Linear(20, 30, bias=bias).to(dtype)
            layer(torch.randn(shape).to(dtype))
        a, b = torch.randn(40, 30).to(dtype), torch.randn(40, 50).to(dtype)
        a.t() @ b
        a.t()[::2, ::4] @ b[::4, 3::5]
        torch.randn(1, 30, 20).to(dtype).expand(4, 30, 20) @ torch.randn(4, 20, 10).to(dtype)
    assert checks.verdict() is Verdict.PASS, checks.report()
    assert checks.counts[Verdict.PASS] == 5
    assert not checks.unresolved


def test_autocast_is_checked_in_the_format_that_was_multiplied():
    """Under autocast the products are bfloat16, and pass as such."""
    torch_seed()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    with checked(model) as checks, torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.randn(100, 64))
    assert checks.verdict() is Verdict.PASS
    assert checks.counts[Verdict.PASS] == 2


def test_zero_rows_and_empty_products_are_no_alarm():
    """Rows of zeros pass; a product without terms is zero and passes; one without outputs has nothing to check."""
    with checked() as checks:
        nn.functional.linear(torch.zeros(40, 8), torch.randn(5, 8))
        torch.randn(3, 0) @ torch.randn(0, 4)
    assert checks.verdict() is Verdict.PASS
    with checked() as checks:
        torch.randn(0, 4) @ torch.randn(4, 5)
    assert checks.verdict() is Verdict.INAPPLICABLE
    assert "nothing to check" in checks.report()


def test_nothing_that_ran_is_not_a_pass():
    """Checks that saw no operation are INAPPLICABLE."""
    with checked(nn.Linear(2, 2)) as checks:
        pass
    assert checks.verdict() is Verdict.INAPPLICABLE


def test_an_update_in_place_is_noticed():
    """Optimizer steps, and changes that torch does not count, don't turn stale sums into an alarm."""
    torch_seed()
    layer = nn.Linear(30, 20)
    X = torch.randn(50, 30)
    with checked(layer) as checks:
        layer(X)
        with torch.no_grad():
            layer.weight.add_(1.0)
        layer(X)
        layer.weight.data.mul_(-3.0)
        layer(X)
        layer.weight.data = torch.randn(20, 30)
        layer(X)
    assert checks.verdict() is Verdict.PASS, checks.report()
    assert checks.counts[Verdict.PASS] == 4


def test_tied_weights_are_one_parameter():
    """An output layer that shares the embedding's weights is checked with them, before and after an update."""
    torch_seed()
    table = nn.Embedding(30, 16)
    head = nn.Linear(16, 30, bias=False)
    head.weight = table.weight
    model = nn.Sequential(table, head)
    with checked(model) as checks:
        model(torch.arange(10))
        with torch.no_grad():
            table.weight.mul_(2.0)
        model(torch.arange(10))
    assert checks.verdict() is Verdict.PASS
    assert checks.counts[Verdict.PASS] == 4


def test_what_is_fused_is_counted_and_unfused_on_request():
    """Fused attention is not watched, which the report says with its share; `unfuse` computes it in products."""
    torch_seed()
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(True)
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True).eval()
    X = torch.randn(4, 20, 32)
    with torch.inference_mode():
        with checked(layer) as fused:
            layer(X)
        with checked(layer, unfuse=True) as apart:
            layer(X)
    assert fused.beside["_native_multi_head_attention"] == 1
    assert "_native_multi_head_attention" in fused.report()
    assert "uncounted" in fused.report()
    assert apart.verdict() is Verdict.PASS
    assert apart.share == 1.0
    assert torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(before)


def test_multiply_adds_are_those_that_torch_counts():
    """Watched and total agree with torch's own counter."""
    torch_seed()
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 10))
    X = torch.randn(5, 3, 8, 8)
    with FlopCounterMode(display=False) as counter:
        model(X)
    with checked(model) as checks:
        model(X)
    assert checks.watched == checks.total == counter.get_total_flops() // 2


def test_outside_counters_and_faults_do_not_see_the_checks_own_products():
    """A mode around the checks counts the model's operations alone."""
    torch_seed()
    model = nn.Linear(20, 30)
    X = torch.randn(64, 20)
    with FlopCounterMode(display=False) as counter, checked(model):
        model(X)
    assert counter.get_total_flops() == 2 * 64 * 20 * 30


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_is_watched():
    """While checks are open its products are seen."""
    torch_seed()
    model = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)))
    with torch.no_grad(), checked(model) as checks:
        model(torch.randn(40, 8))
    assert checks.counts[Verdict.PASS] == 2


@pytest.mark.filterwarnings("ignore")
def test_a_distributed_model_is_watched():
    """Wrapped for data-parallel training, forward and backward products are seen and named."""
    torch_seed()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
        with checked(model) as checks:
            model(torch.randn(40, 8)).sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    assert checks.verdict() is Verdict.PASS
    assert "module" in checks.layers


def test_a_suspicion_is_no_accusation():
    """With a screen far too low healthy work is unresolved, never flagged, and says so."""
    torch_seed()
    model = nn.Linear(64, 64)
    with checked(model, screen=Screen(stored=1e-6, accumulated=1e-6)) as checks:
        model(torch.randn(100, 64))
    assert checks.verdict() is Verdict.PASS
    assert checks.unresolved
    assert "compute it again" in checks.report()


def test_a_screen_is_calibrated_on_healthy_passes_of_the_model():
    """It stands its margin above the loudest of them, so passes like them raise nothing."""
    torch_seed()
    model = nn.Linear(64, 48)
    inputs = [torch.randn(96, 64) for _ in range(4)]

    def passed(screen):
        with checked(model, screen=screen) as checks:
            for x in inputs:
                model(x)
        return checks

    default = Screen()
    seen = [passed(default).loudest for _ in range(12)]
    assert 0 < min(seen) <= max(seen) < 2
    own = default.calibrated(seen, margin=3)
    assert own.stored == pytest.approx(default.stored * max(seen) * 3)
    # Every pass draws other signs for its sums: single passes differ by more than a factor of two.
    assert 0 < passed(own).loudest < 1
    assert not passed(own).unresolved


def test_a_share_of_the_sums_columns_is_said():
    """Fewer columns of a sum by destination are a choice that the report states; a share of none is refused."""
    torch_seed()
    rows, index = torch.randn(300, 64), torch.randint(0, 70, (300,))
    with checked() as whole:
        torch.zeros(70, 64).index_add_(0, index, rows)
    with checked(sums=0.25) as some:
        torch.zeros(70, 64).index_add_(0, index, rows)
    assert whole.verdict() is some.verdict() is Verdict.PASS
    assert "by destination" not in whole.report()
    assert "25% of the columns" in some.report()
    with pytest.raises(InputError, match="sums"), checked(sums=0.0):
        pass


def test_more_draws_are_said_and_checked():
    """The report states the chance that cancelling errors go unseen; an impossible number of draws is refused."""
    with checked(draws=7) as checks:
        torch.randn(40, 8) @ torch.randn(8, 8)
    assert "2^-7" in checks.report()
    for draws in (0, 17):
        with pytest.raises(InputError, match="draws"), checked(draws=draws):
            pass


class Cancelling(TorchDispatchMode):
    """Stands for a faulty device: errors that cancel along rows and columns, in the operations of one name."""

    def __init__(self, name, places):
        super().__init__()
        self.name, self.places = name, places

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Runs the operation and spoils its output."""
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ == self.name:
            for place, move in zip(self.places, (4.0, -4.0, -4.0, 4.0), strict=True):
                out[place] += move
        return out


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("mm", ((3, 7), (3, 8), (21, 7), (21, 8))),
        ("bmm", ((2, 3, 7), (2, 3, 8), (2, 21, 7), (2, 21, 8))),
        ("index_add_", ((3, 7), (3, 8), (21, 7), (21, 8))),
    ],
)
def test_errors_that_cancel_are_seen_by_the_draws_in_every_kind_of_check(name, places):
    """Of errors [[+e, -e], [-e, +e]] in one block 16 draws miss one in 65,536, one draw about half."""
    torch_seed()
    work = WORK[name]()
    seen = {}
    for draws in (1, 16):
        seen[draws] = 0
        for _ in range(24):
            with Cancelling(name, places), checked(draws=draws) as checks:
                work()
            seen[draws] += checks.verdict() is Verdict.FLAG
    assert seen[16] == 24
    assert 2 <= seen[1] <= 22


def test_hooks_and_modes_are_gone_afterwards():
    """A model is as it was, also after an error inside."""
    model = nn.Linear(4, 4)
    with pytest.raises(ZeroDivisionError), checked(model):
        1 / 0  # noqa: B018
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    model(torch.randn(2, 4))


def test_factors_and_addends_are_said_not_to_be_checked():
    """A scaled product is INAPPLICABLE with its reason, never a silent pass."""
    with checked() as checks:
        torch.addmm(torch.randn(4), torch.randn(3, 5), torch.randn(5, 4), alpha=2.0)
        torch.zeros(4, 3).scatter_reduce_(0, torch.zeros(2, 3, dtype=torch.int64), torch.randn(2, 3), "amax")
    assert checks.verdict() is Verdict.INAPPLICABLE
    assert [finding.reason for finding in checks.inapplicable] == [
        "a product or bias with a factor is not checked",
        "a amax by destination is not checked",
    ]


def test_a_switch_that_is_turned_meanwhile_accuses_nobody():
    """Products that a switch lets a unit read in a narrower format pass under it, also when it is turned inside."""
    torch_seed()
    X, W = torch.randn(200, 300), torch.randn(300, 300)
    before = torch.get_float32_matmul_precision()
    try:
        with checked() as checks:
            X @ W
            torch.set_float32_matmul_precision("medium")
            X @ W
            torch.set_float32_matmul_precision("highest")
            X @ W
    finally:
        torch.set_float32_matmul_precision(before)
    assert checks.verdict() is Verdict.PASS, checks.report()


def test_arrays_are_checked_without_torch():
    """`veristate.check_product` on numpy arrays: an honest product passes, a changed element is found."""
    rng = np.random.default_rng(1)
    A, B, b = rng.normal(size=(60, 20)), rng.normal(size=(20, 30)), rng.normal(size=30)
    for dtype in (np.float64, np.float32):
        given = [a.astype(dtype) for a in (A, B, b)]
        Y = given[0] @ given[1] + given[2]
        assert veristate.check_product(given[0], given[1], Y, given[2]).verdict() is Verdict.PASS
        Y[40, 11] += 0.01
        found = veristate.check_product(given[0], given[1], Y, given[2], draws=3)
        assert found.verdict() is Verdict.FLAG
        assert (found.elements.rows.tolist(), found.elements.columns.tolist()) == ([40], [11])
    with pytest.raises(InputError, match="arithmetic"):
        veristate.check_product(A, B, (A @ B).astype(np.int64))
