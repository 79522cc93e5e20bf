"""The operands of exact probes, as Python integers, Fractions and the very bits of their formats."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from veristate.devices.probe.formats import FORMATS, ProbedFormat, host_values, probed_format
from veristate.devices.probe.outcome import Probe
from veristate.devices.probe.patterns import IntegerOperands, Widths, draw_operands, exact_product
from veristate.devices.probe.plan import planned
from veristate.devices.probe.products import placed, stream
from veristate.devices.switches import ProductSettings

NAMES = tuple(f.name for f in FORMATS)


def drawn(probe: Probe) -> IntegerOperands:
    """The operands of a planned probe."""
    M, K, N = probe.shape
    widths = probed_format(probe.format).widths(probe.pattern)  # type: ignore[arg-type]
    return draw_operands(probe.pattern, (M, K, N), widths, stream(probe))  # type: ignore[arg-type]


def sets(seed: int = 0) -> list[Probe]:
    """One probe for each operand set that a run on a processor draws."""
    found = {
        probe.operands: probe
        for probe in planned(NAMES, ProductSettings.read("cpu"), seed, 0)
        if probe.kind == "integers"
    }
    return list(found.values())


def each_set(test: object) -> object:
    """The test for every operand set."""
    return pytest.mark.parametrize("probe", sets(), ids=lambda p: f"{p.format}-{p.pattern}-{p.size}")(test)


@each_set
def test_every_partial_sum_is_exact_in_every_order(probe: Probe) -> None:
    """In Python integers the sum of all |a||b| stays below the accumulator's limit, so any partial sum does; and A B is
    their sum.
    """
    chosen, found = probed_format(probe.format), drawn(probe)
    limit = 2**13 if probe.format.startswith("fp8") else 2**24
    # All cells by float64, which is exact below 2^53; some again in Python integers.
    assert (np.abs(found.A).astype(float) @ np.abs(found.B).astype(float)).max() <= found.largest_sum < limit
    for i in range(0, probe.shape[0], probe.shape[0] // 6):
        for j in range(0, probe.shape[2], probe.shape[2] // 6):
            products = [a * b for a, b in zip(found.A[i].tolist(), found.B[:, j].tolist(), strict=True)]
            assert sum(map(abs, products)) <= found.largest_sum
            assert found.product[i, j] == sum(products)
    # The format holds every operand: as Fractions, A as it is and B in units of 2^-shift.
    for values, side in ((found.A[:3], 0), (found.B[:, :3], 1)):
        held = host_values(
            chosen.operand(values, side) if probe.format[:3] != "fp8" else chosen.operand(values, side).float()
        )
        for number, value in zip(held.ravel().tolist(), values.ravel().tolist(), strict=True):
            assert Fraction(number) == Fraction(value, 2 ** (chosen.shift * side))


@each_set
def test_no_row_or_column_is_a_multiple_of_another_and_ranks_are_full(probe: Probe) -> None:
    """Rows and columns over their divisor and sign differ; the ranks, over the reals and modulo a prime, are full."""
    found = drawn(probe)
    for matrix in (found.A, found.B):
        for vectors in (matrix, matrix.T):
            divisor = np.gcd.reduce(np.abs(vectors), axis=1)
            assert divisor.all()
            first = np.take_along_axis(vectors, (vectors != 0).argmax(axis=1)[:, None], 1)[:, 0]
            primitive = vectors // (divisor * np.sign(first))[:, None]
            assert len({row.tobytes() for row in np.ascontiguousarray(primitive)}) == len(vectors)
        rows = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        # A part of the columns will do: it has no higher rank than the whole.
        assert np.linalg.matrix_rank(rows[:, : 2 * len(rows)].astype(float)) == len(rows)
        if probe.size == "short":
            assert rank_modulo(matrix, 2_147_483_647) == min(matrix.shape)


def rank_modulo(matrix: np.ndarray, prime: int) -> int:
    """The rank modulo a prime, by elimination: never above the true one."""
    rows = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    work, rank = rows[:, : 3 * len(rows)] % prime, 0
    for column in range(work.shape[1]):
        pivots = np.flatnonzero(work[rank:, column])
        if not len(pivots):
            continue
        work[[rank, rank + pivots[0]]] = work[[rank + pivots[0], rank]]
        work[rank] = work[rank] * pow(int(work[rank, column]), -1, prime) % prime
        others = work[rank + 1 :]
        others -= others[:, column : column + 1] * work[rank] % prime
        others %= prime
        rank += 1
        if rank == len(work):
            break
    return rank


# The stored significand bits of a value, from its memory.
SIGNIFICANDS = {
    torch.float32: (torch.int32, 0x7FFFFF),
    torch.bfloat16: (torch.int16, 0x7F),
    torch.float16: (torch.int16, 0x3FF),
    torch.float8_e4m3fn: (torch.uint8, 0x7),
    torch.float8_e5m2: (torch.uint8, 0x3),
    torch.int8: (torch.uint8, 0xFF),
}


@pytest.mark.parametrize("size", ["short", "long"])
@pytest.mark.parametrize("chosen", FORMATS, ids=NAMES)
def test_every_significand_bit_of_the_format_is_set_and_cleared(chosen: ProbedFormat, size: str) -> None:
    """fp32 all 23 stored bits, bf16 7, fp16 10, e4m3 3, e5m2 2, int8 8: read from memory, in A and in B."""
    stored = {
        "fp32": (23, 23),
        "bf16": (7, 7),
        "fp16": (10, 10),
        "int8": (8, 8),
        "fp8-e4m3": (3, 3),
        "fp8-e5m2": (2, 3),
    }
    assert chosen.stored_bits == stored[chosen.name]
    ever, never, said = [0, 0], [0, 0], [0, 0]
    for probe in (p for p in sets() if (p.format, p.size) == (chosen.name, size)):
        found = drawn(probe)
        for side, values in ((0, found.A[:64]), (1, found.B[:, :64])):
            view, mask = SIGNIFICANDS[chosen.dtypes[side]]
            bits = chosen.operand(values[values != 0], side).view(view).numpy().astype(np.int64) & mask
            ever[side] |= int(np.bitwise_or.reduce(bits))
            never[side] |= int(np.bitwise_or.reduce(~bits & mask))
            said[side] |= chosen.toggled(values, side)
    masks = [SIGNIFICANDS[dtype][1] for dtype in chosen.dtypes]
    assert [e & n for e, n in zip(ever, never, strict=True)] == masks == said


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_dense_operands_have_every_bit_in_every_row(name: str) -> None:
    """Not by luck of the draw: each row of A and each column of B holds the two complementary values."""
    chosen = probed_format(name)
    for probe in (p for p in sets() if p.format == name and p.pattern == "signed"):
        found = drawn(probe)
        top = chosen.dense[0]
        for vectors in (np.abs(found.A), np.abs(found.B).T):
            wide = [row[row >= 1 << (top - 1)] for row in vectors]
            assert all(np.bitwise_or.reduce(w) & ~np.bitwise_and.reduce(w) == (1 << (top - 1)) - 1 for w in wide)


@given(st.integers(0, 2**53 - 1), st.sampled_from(FORMATS), st.integers(2, 9), st.integers(40, 300), st.integers(2, 9))
def test_any_seed_and_shape_stay_below_the_limit(seed: int, chosen: ProbedFormat, M: int, K: int, N: int) -> None:
    """The proven sum is an upper bound in Python integers, and the product is theirs."""
    for pattern in chosen.patterns:
        found = draw_operands(pattern, (M, K, N), chosen.widths(pattern), np.random.default_rng(seed))
        A, B = found.A.tolist(), list(zip(*found.B.tolist(), strict=True))
        sums = [[sum(abs(a * b) for a, b in zip(row, column, strict=True)) for column in B] for row in A]
        assert max(map(max, sums)) <= found.largest_sum < chosen.limit
        assert found.product.tolist() == [[sum(a * b for a, b in zip(r, c, strict=True)) for c in B] for r in A]


def test_a_limit_without_room_is_refused() -> None:
    """More terms than the limit has units can't be summed exactly: said, never cut short."""
    with pytest.raises(ValueError, match="don't fit below 100"):
        draw_operands("signed", (4, 200, 4), Widths(left=3, right=3, limit=100), np.random.default_rng(0))


def test_balanced_results_are_small() -> None:
    """Partial sums go up to millions, results stay within thousands: storage in 8 or 11 bits hides little."""
    for probe in (p for p in sets() if p.pattern == "balanced" and p.size == "long" and p.format in ("bf16", "fp16")):
        found = drawn(probe)
        half = exact_product(found.A[:, : probe.shape[1] // 2], found.B[: probe.shape[1] // 2])
        assert np.abs(found.product).max() < 2**13 < np.abs(half).max() / 8


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
@pytest.mark.parametrize("side", [0, 1])
def test_layouts_change_memory_and_not_values(layout: str, side: int) -> None:
    """The same matrix, with the strides that the layout names; between strided values stands NaN."""
    values = torch.arange(12.0).reshape(3, 4)
    found = placed(values, layout, side, torch.device("cpu"))  # type: ignore[arg-type]
    assert torch.equal(found, values)
    strides = {"contiguous": (4, 1), "transposed": (1, 3), "strided": (11, 1 + side)}
    assert found.stride() == strides[layout]
    if layout == "strided":
        memory = torch.as_strided(found, (5 * 11,), (1,), 0)
        assert int(memory.isnan().sum()) == 5 * 11 - 12
