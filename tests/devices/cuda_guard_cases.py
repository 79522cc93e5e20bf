"""What the CUDA guard must do. Run by `test_cuda_guard.py` in processes of its own: in Triton's interpreter on the CPU,
and on a GPU where there is one.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from exact_cells import Call, blocks_of, exact_bound, exact_cells, numbers
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import EnvironmentUnusableError, InputError
from veristate.devices.cuda import Coefficients, CudaGuard, CudaWeights, guard, verdicts
from veristate.devices.cuda.passes import TILE, sum_tiles
from veristate.devices.dispatching import DispatchMode
from veristate.numerics import fp32_arithmetic

DEVICE = torch.device(os.environ.get("VERISTATE_GUARD_DEVICE", "cpu"))
FP32, BF16, FP16 = torch.float32, torch.bfloat16, torch.float16
# M, K, N: single rows and columns, one row more than a block, one column more than a tile, nothing to multiply.
SHAPES = [(1, 7, 1), (33, 7, 5), (32, 300, 1), (40, 33, 300), (1, 300, 33), (3, 0, 4), (2, TILE + 1, 3)]

both_products = pytest.mark.parametrize("products", ["float64", "float32"])


@pytest.fixture(autouse=True)
def _numbers_may_be_none() -> Iterator[None]:
    """The interpreter computes with numpy, which warns where a GPU does not."""
    with np.errstate(all="ignore"):
        yield


def a_call(
    shape: tuple[int, int, int], dtype: torch.dtype = FP32, *, bias: bool = True, draws: int = 1, seed: int = 0
) -> Call:
    """A healthy layer over normal numbers, computed by torch on the device."""
    M, K, N = shape
    make = torch.Generator().manual_seed(seed)
    X, W, b = (torch.randn(*size, generator=make).to(dtype).to(DEVICE) for size in ((M, K), (N, K), (N,)))
    Y = torch.nn.functional.linear(X, W, b if bias else None)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, M))
    return Call(X=X, W=W, b=b if bias else None, Y=Y, signs=signs)


def outcome(call: Call, products: str = "float64", arithmetic: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The undecided rows and column cells of one call, all decided where the guard lists nothing."""
    guarding = CudaGuard(DEVICE)
    weights = CudaWeights.of(call.W, call.b, products=products)
    guarding.check(call.X, call.Y, weights, weights.coefficients(arithmetic or call.arithmetic), call.signs)
    found = guarding.undecided()
    if not found:
        M, N = call.Y.shape
        return np.zeros(M, dtype=bool), np.zeros((len(call.signs), -(-M // 32), N), dtype=bool)
    (only,) = found
    rows, columns = only.cells()
    assert only.count == rows.sum() + columns.sum()
    return rows, columns


def close(found: torch.Tensor, expected: np.ndarray, sizes: np.ndarray) -> None:
    """Asserts that these are two orders of a float64 sum of at most a thousand terms."""
    assert np.all(abs(numbers(found) - expected) <= 1000 * 2.0**-52 * sizes)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1, 1), FP32), ((33, 1), BF16), ((32, 32), FP16), ((40, 300), BF16), ((65, 2 * TILE + 3), FP32)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_tile_sums_are_those_of_float64(shape: tuple[int, int], dtype: torch.dtype, weighted: bool) -> None:
    """By row, by column, plain, absolute and weighted: numpy's float64 sums in another order."""
    rng = np.random.default_rng(1)
    values = torch.from_numpy(rng.normal(size=shape)).to(dtype).to(DEVICE)
    w = rng.normal(size=(2, shape[1])) if weighted else np.ones((2, shape[1]))
    signs = rng.choice([-1, 1], size=(2, shape[0])).astype(np.int8)
    weights = tuple(torch.from_numpy(w).to(DEVICE)) if weighted else None
    sums = sum_tiles(values, torch.from_numpy(signs).to(DEVICE), weights)
    v = numbers(values)
    for tile, start in enumerate(range(0, shape[1], TILE)):
        for found, terms in zip(sums.by_row[:, tile], (v * w[0], abs(v) * w[1]), strict=True):
            part = terms[:, start : start + TILE]
            close(found, part.sum(axis=1), abs(part).sum(axis=1))
    for block, rows in enumerate(blocks_of(shape[0])):
        size = abs(v[rows]).sum(axis=0)
        close(sums.absolute[block], size, size)
        for draw in range(2):
            close(sums.signed[draw, block], signs[draw, rows] @ v[rows], size)


@both_products
@pytest.mark.parametrize("dtype", [FP32, BF16])
@pytest.mark.parametrize("shape", SHAPES)
def test_healthy_calls_pass_whole(shape: tuple[int, int, int], dtype: torch.dtype, products: str) -> None:
    """No cell of a healthy call is undecided, in any shape: the definition is not called."""
    assert not any(cells.any() for cells in outcome(a_call(shape, dtype, bias=shape[0] != 40, draws=2), products))


def test_healthy_float16_calls_pass_whole() -> None:
    """The narrow format with few exponents goes the same way."""
    assert not any(cells.any() for cells in outcome(a_call((33, 40, 5), FP16)))


@pytest.mark.parametrize(
    "change",
    [
        lambda X, W, Y: (X.repeat(1, 2)[:, : X.shape[1]], W, Y),
        lambda X, W, Y: (X.T.contiguous().T, W, Y),
        lambda X, W, Y: (X, W.T.contiguous().T, Y.repeat_interleave(2, dim=0)[::2]),
        lambda X, W, Y: (X, W, Y.T.contiguous().T),
    ],
    ids=["rows apart", "inputs by column", "transposed weights, every other row", "outputs by column"],
)
def test_a_layout_changes_no_answer(change: Callable[..., Any]) -> None:
    """The same numbers laid out otherwise leave the same cells undecided."""
    call = a_call((33, 20, 7), draws=2)
    call.Y[5, 3] += 1.0
    before = outcome(call)
    call.X, call.W, call.Y = change(call.X, call.W, call.Y)
    for one, other in zip(before, outcome(call), strict=True):
        assert np.array_equal(one, other)
    assert np.flatnonzero(before[0]).tolist() == [5]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from([FP32, BF16]),
    products=st.sampled_from(["float64", "float32"]),
    bias=st.booleans(),
    faults=st.lists(st.tuples(st.sampled_from([0, 31, 32, 33]), st.integers(0, 2), st.floats(0.2, 5.0)), max_size=4),
)
def test_no_cell_above_its_exact_bound_passes(
    seed: int, dtype: torch.dtype, products: str, bias: bool, faults: list[tuple[int, int, float]]
) -> None:
    """Whatever residual exceeds the bound in exact arithmetic is left to the definition."""
    call = a_call((34, 5, 3), dtype, bias=bias, draws=2, seed=seed)
    rows, _ = exact_cells(call)
    for i, j, size in faults:
        # Around the row's bound, where the two answers part.
        call.Y[i, j] += size * float(exact_bound(call.arithmetic, 5, rows[i,][1:]))
    for undecided, cells in zip(outcome(call, products), exact_cells(call), strict=True):
        for at, (residual, *sums) in cells.items():
            assert undecided[at] or residual <= exact_bound(call.arithmetic, 5, tuple(sums)), at


@dataclass(frozen=True)
class Sharp:
    """An arithmetic whose bound is a chosen share of sum |x||w| + |b|, or of sum |Y|."""

    products: float
    stored: float
    bias: str = "fused"
    flush: bool = False

    def bound_upper(self, products: float, stored: float, *_: float, **__: float) -> float:
        """The bound, as numerics asks for it."""
        return self.products * products + self.stored * stored


def below(share: Fraction) -> float:
    """The largest float64 below a fraction."""
    nearest = float(share)
    return nearest if nearest < share else math.nextafter(nearest, -math.inf)


@pytest.mark.parametrize("by_output", [False, True])
@pytest.mark.parametrize(
    ("kind", "products", "error", "seen"),
    [(0, "float64", 1.0, 1e-9), (1, "float64", 1.0, 1e-9), (1, "float32", 1e-3, 0.5)],
)
def test_the_guard_parts_at_the_bound_and_on_its_safe_side(
    kind: int, products: str, error: float, seen: float, by_output: bool
) -> None:
    """A bound one last bit below the exact residual passes nothing; one larger by the share `seen` is seen to hold."""
    for seed in range(2):
        call = a_call((33, 30, 3), seed=seed)
        call.Y += error * torch.randn(call.Y.shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        cells = exact_cells(call)[kind]
        # In every other turn a cell of the short block.
        at = max((cell for cell in cells if not kind or cell[1] == seed % 2), key=lambda cell: cells[cell][0])
        residual, size, stored, *_ = cells[at]
        share = residual / (stored if by_output else size)
        for c, undecided in ((below(share), True), (float(share) * (1 + seen), False)):
            sharp = Sharp(products=0.0 if by_output else c, stored=c if by_output else 0.0)
            assert outcome(call, products, sharp)[kind][at] == undecided


@both_products
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_passes(value: float, products: str) -> None:
    """Its rows and its column cells are undecided, and cells that hold none of it are not."""
    for operand in ("X", "Y", "W", "b"):
        call = a_call((40, 6, 5), draws=2)
        getattr(call, operand)[(2,) if operand == "b" else (2, 3)] = value
        rows, columns = outcome(call, products)
        assert rows[2 if operand in "XY" else slice(None)].all()
        assert columns[:, 0, 3 if operand == "Y" else slice(None) if operand == "X" else 2].all()
        assert not columns[:, 1, 0].any()


@both_products
@pytest.mark.parametrize("largest", [3.0e38, 2.0**-140])
def test_no_cell_passes_wrongly_at_the_ends_of_float32(largest: float, products: str) -> None:
    """Where sums overflow or operands are subnormal, what exceeds its exact bound still never passes."""
    call = a_call((33, 8, 3), seed=4)
    call.X = torch.sign(call.X) * largest
    call.W = torch.where(call.W > 0, 1.0, -0.5)
    call.Y = torch.nn.functional.linear(call.X, call.W, call.b)
    call.Y[0, 0], call.Y[32, 1] = 1e30, -1e-3
    rows, columns = outcome(call, products)
    assert rows[[0, 32]].all()
    for undecided, cells in zip((rows, columns), exact_cells(call), strict=True):
        for at, (residual, *sums) in cells.items():
            assert undecided[at] or residual <= exact_bound(call.arithmetic, 8, tuple(sums))


@pytest.mark.parametrize("shape", [(0, 7, 3), (4, 7, 0), (0, 0, 0)])
def test_a_call_without_cells_is_not_a_pass(shape: tuple[int, int, int]) -> None:
    """Nothing was checked: the call is listed, with no count."""
    call = a_call(shape)
    weights = CudaWeights.of(call.W, call.b)
    guarding = CudaGuard(DEVICE)
    guarding.check(call.X, call.Y, weights, weights.coefficients(call.arithmetic), call.signs)
    (only,) = guarding.undecided()
    assert only.count is None
    assert only.cells()[0].shape == (shape[0],)


def test_errors_that_cancel_under_one_draw_show_under_another() -> None:
    """Signs that set two rows apart make their column undecided, in their draw and block alone."""
    call = a_call((40, 6, 5))
    call.signs = np.ones((3, 40))
    call.signs[1, 34], call.signs[2, 3] = -1, -1
    call.Y[33, 1] += 8.0
    call.Y[34, 1] -= 8.0
    rows, columns = outcome(call)
    assert np.flatnonzero(rows).tolist() == [33, 34]
    assert np.argwhere(columns).tolist() == [[1, 1, 1]]


def test_a_sign_that_is_none_is_refused_or_makes_its_block_undecided() -> None:
    """A zero among the signs is refused on the host; on the device its block's sums become no number."""
    call = a_call((40, 6, 5))
    call.signs[0, 35] = 0.0
    with pytest.raises(InputError, match="signs"):
        outcome(call)
    sums = sum_tiles(call.Y, torch.from_numpy(call.signs).to(DEVICE))
    assert torch.isnan(sums.signed[0, 1]).all()
    assert not torch.isnan(sums.signed[0, 0]).any()


class NoReads(DispatchMode):
    """Fails on every operation that makes the host wait for a value of the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """The operation's result, if it is no read."""
        assert func.overloadpacket.__name__ not in {"_local_scalar_dense", "nonzero", "equal", "is_nonzero"}, func
        result = func(*args, **kwargs or {})
        if isinstance(result, torch.Tensor) and result.device.type != DEVICE.type:
            assert not any(isinstance(a, torch.Tensor) and a.device.type == DEVICE.type for a in args), func
        return result


def test_a_forward_pass_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four calls, more than there was room for, give their answers in one read; the next pass counts from nothing."""
    call = a_call((33, 6, 5), draws=2)
    weights = CudaWeights.of(call.W, call.b)
    coefficients = weights.coefficients(call.arithmetic)
    wrong = call.Y.clone()
    wrong[7, 4] += 3.0
    reads: list[torch.Size] = []
    read = verdicts._to_host
    monkeypatch.setattr(verdicts, "_to_host", lambda values: reads.append(values.shape) or read(values))
    guarding = CudaGuard(DEVICE, calls=3)
    for _ in range(2):
        reads.clear()
        with NoReads():
            if DEVICE.type == "cuda":
                torch.cuda.set_sync_debug_mode("error")
            given = [guarding.check(call.X, Y, weights, coefficients, call.signs) for Y in (call.Y, wrong) * 2]
        if DEVICE.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")
        assert given == list(range(4))
        assert not reads
        found = guarding.undecided()
        assert len(reads) == 1
        assert [(u.call, u.count) for u in found] == [(number, 3) for number in (1, 3)]
        rows, columns = found[0].cells()
        assert np.flatnonzero(rows).tolist() == [7]
        assert np.argwhere(columns).tolist() == [[0, 0, 4], [1, 0, 4]]
    assert guarding.undecided() == []


def test_a_call_that_was_not_judged_is_undecided_in_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that no kernel wrote to is not a pass, whatever stood in it in the pass before."""
    call = a_call((33, 6, 5))
    weights = CudaWeights.of(call.W, call.b)
    guarding = CudaGuard(DEVICE)
    arguments = (call.X, call.Y, weights, weights.coefficients(call.arithmetic), call.signs)
    guarding.check(*arguments)
    assert guarding.undecided() == []
    monkeypatch.setattr(guard, "judge", lambda *_: None)
    guarding.check(*arguments)
    (only,) = guarding.undecided()
    assert (only.call, only.count) == (0, None)
    assert all(cells.all() for cells in only.cells())


def test_autocast_does_not_narrow_the_products() -> None:
    """A hook runs inside the model's autocast, which would multiply float32 block sums in bfloat16."""
    with torch.autocast(DEVICE.type, dtype=BF16):
        assert not any(cells.any() for cells in outcome(a_narrowing_call(), "float32"))


def a_narrowing_call() -> Call:
    """A float32 call made outside autocast."""
    with torch.autocast(DEVICE.type, enabled=False):
        return a_call((33, 20, 7), seed=2)


def test_a_call_gives_the_same_bits_again() -> None:
    """Sums are taken in one order."""
    call = a_call((65, 300, 3))
    signs = torch.from_numpy(call.signs).to(DEVICE)
    one, other = (sum_tiles(call.X, signs) for _ in range(2))
    for name in ("by_row", "signed", "absolute"):
        assert torch.equal(getattr(one, name), getattr(other, name))


def test_calls_that_do_not_fit_are_refused() -> None:
    """Shapes, formats and coefficients of other products; what was refused takes no number."""
    call = a_call((4, 6, 5))
    weights, other = (CudaWeights.of(call.W, call.b, products=p) for p in ("float64", "float32"))
    coefficients = weights.coefficients(call.arithmetic)
    guarding = CudaGuard(DEVICE)
    wrong = [
        (call.X[:, 1:], call.Y, weights, coefficients, call.signs),
        (call.X, call.Y[:3], weights, coefficients, call.signs),
        (call.X.double(), call.Y, weights, coefficients, call.signs),
        (call.X, call.Y, other, coefficients, call.signs),
        (call.X, call.Y, weights, coefficients, call.signs[:, :3]),
        (call.X, call.Y, weights, coefficients, np.ones((0, 4))),
    ]
    for arguments in wrong:
        with pytest.raises(InputError):
            guarding.check(*arguments)
    assert guarding.undecided() == []


def test_weights_and_coefficients_that_do_not_fit_are_refused() -> None:
    """A bias that is not declared, wider weights, a bias of other columns, products in another format."""
    call = a_call((4, 6, 5))
    with pytest.raises(InputError, match="bias"):
        CudaWeights.of(call.W, call.b).coefficients(fp32_arithmetic(bias=False, flush=False))
    with pytest.raises(InputError, match="float64"):
        CudaWeights.of(call.W.double(), None)
    with pytest.raises(InputError, match="needed"):
        CudaWeights.of(call.W, call.b[1:])
    with pytest.raises(InputError, match="bfloat16"):
        Coefficients.of(call.arithmetic, terms=6, columns=5, largest_weight=1.0, products="bfloat16")


def test_float32_products_are_refused_where_they_may_be_narrower() -> None:
    """float64 products don't mind the switch that lets float32 ones be multiplied in a narrower format."""
    call = a_call((4, 6, 5))
    torch.set_float32_matmul_precision("high")
    assert not any(cells.any() for cells in outcome(call))
    with pytest.raises(EnvironmentUnusableError, match="float32 products"):
        outcome(call, "float32")
