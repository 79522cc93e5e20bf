"""What an intervention replaces, what it rebuilds, and what it says of what it did not."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from veristate.audit import (
    Capture,
    Saved,
    Selection,
    controls,
    restore,
    restore_by_residual,
    transplant,
    transplant_by_residual,
    with_residual,
)
from veristate.core import InputError, Site
from veristate.numerics import Representation, storage_bits, stored

SITE = Site(layer="score")
KINDS: tuple[Representation, ...] = ("fp32", "bf16", "fp16")
TORCH = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SHAPE = (3, 4)


def capture_of(h: Any, c: Any, kind: Representation = "fp32") -> Capture:
    """A capture of two arrays, rounded to storage."""
    return Capture.of(
        *(Saved.of(stored(np.asarray(x, dtype=np.float32), kind), site=SITE, representation=kind) for x in (h, c))
    )


def same(a: NDArray[Any], b: NDArray[Any], kind: Representation) -> bool:
    """Whether two stored arrays have the same bits."""
    return bool(np.array_equal(storage_bits(a, kind), storage_bits(b, kind)))


floats = st.floats(width=32, allow_nan=False)
masks = st.lists(st.booleans(), min_size=12, max_size=12).map(lambda bits: np.array(bits).reshape(SHAPE))
arrays = st.lists(floats, min_size=12, max_size=12).map(lambda xs: np.array(xs, dtype=np.float32).reshape(SHAPE))
moderate = st.lists(st.floats(-100, 100, width=32), min_size=12, max_size=12).map(
    lambda xs: np.array(xs, dtype=np.float32).reshape(SHAPE)
)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Selection.rows(SHAPE, [3]), "axis 0 lie in 0..2, got 3"),
        (lambda: Selection.columns(SHAPE, [-1]), "axis 1 lie in 0..3, got -1"),
        (lambda: Selection.coordinates(SHAPE, [[0, 4]]), "axis 1 lie in 0..3, got 4"),
        (lambda: Selection.coordinates(SHAPE, [12]), "flat indices lie in 0..11, got 12"),
        (lambda: Selection.coordinates(SHAPE, [[0, 1, 2]]), r"\[n, 2\]"),
        (lambda: Selection.rows(SHAPE, [0.5]), "whole numbers"),
        (lambda: Selection.rows(SHAPE, [True]), "whole numbers"),
        (lambda: Selection.rows((), [0]), "no rows"),
        (lambda: Selection.of(np.ones(SHAPE)), "mask of true and false"),
        (lambda: Selection.full(SHAPE) | Selection.full((4, 3)), "can't be joined"),
        (lambda: restore(capture_of(np.ones(2), np.ones(2)), Selection.full((3,))), "can't be made"),
        (lambda: restore_by_residual(capture_of(np.ones(2), np.ones(2)), Selection.full((3,))), "can't be made"),
        (lambda: transplant_by_residual(capture_of([1.0], [1.0]), Selection.full((1,)), np.ones(1)), "float64"),
        (
            lambda: transplant_by_residual(capture_of([1.0], [1.0]), Selection.full((1,)), np.ones(2, np.float32)),
            r"\(2,\)",
        ),
    ],
)
def test_what_is_outside_is_refused(make: Any, said: str) -> None:
    """Indices outside the shape, selections of other shapes and residuals of other types are refused."""
    with pytest.raises(InputError, match=said):
        make()


def test_selections_are_the_sets_they_name() -> None:
    """Rows, columns, tiles and coordinates are the sets of pairs that one would write down."""
    every = {(i, j) for i in range(3) for j in range(4)}
    for found, expected in [
        (Selection.empty(SHAPE), set()),
        (Selection.full(SHAPE), every),
        (Selection.rows(SHAPE, [2, 0]), {(i, j) for i, j in every if i in (0, 2)}),
        (Selection.columns(SHAPE, 3), {(i, j) for i, j in every if j == 3}),
        (Selection.tile(SHAPE, [0, 1], [1, 3]), {(0, 1), (0, 3), (1, 1), (1, 3)}),
        (Selection.coordinates(SHAPE, [[2, 1], [0, 0], [2, 1]]), {(2, 1), (0, 0)}),
        (Selection.coordinates(SHAPE, [5, 0]), {(1, 1), (0, 0)}),
        (Selection.coordinates(SHAPE, []), set()),
    ]:
        assert {tuple(map(int, index)) for index in found.indices} == expected
        assert len(found) == len(expected)


@given(masks, masks)
def test_selections_obey_the_laws_of_sets(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> None:
    """De Morgan, difference, complement and equality are those of python's sets."""
    A, B = Selection.of(a), Selection.of(b)
    sets = [set(map(tuple, s.indices.tolist())) for s in (A, B, A | B, A & B, A - B, ~A)]
    assert sets[2:5] == [sets[0] | sets[1], sets[0] & sets[1], sets[0] - sets[1]]
    assert ~(A | B) == ~A & ~B
    assert (Selection.full(SHAPE), Selection.empty(SHAPE)) == (A | ~A, A & ~A)
    assert (A == B) == (sets[0] == sets[1])
    assert A != B or hash(A) == hash(B)


@pytest.mark.parametrize("kind", KINDS)
@given(h=arrays, c=arrays, mask=masks)
def test_selection_by_values_is_exact_everywhere(
    kind: Representation, h: NDArray[Any], c: NDArray[Any], mask: NDArray[np.bool_]
) -> None:
    """R_S and T_S take every coordinate from the state they name, by its bits, and the two complement each other."""
    capture, S = capture_of(h, c, kind), Selection.of(mask)
    R, T = restore(capture, S), transplant(capture, S)
    bits = {name: storage_bits(x, kind) for name, x in (("h", capture.h), ("c", capture.c))}
    for i, j in np.ndindex(SHAPE):
        inside = mask[i, j]
        assert storage_bits(R.state, kind)[i, j] == bits["h" if inside else "c"][i, j]
        assert storage_bits(T.state, kind)[i, j] == bits["c" if inside else "h"][i, j]
    assert R.exact
    assert T.exact
    assert same(restore(capture, ~S).state, T.state, kind)
    assert R.effective | R.ineffective == S
    assert R.effective == Selection.of(capture.differing) & S


@pytest.mark.parametrize("kind", KINDS)
@given(h=moderate, c=moderate, mask=masks)
def test_residual_forms_are_their_formulas(
    kind: Representation, h: NDArray[Any], c: NDArray[Any], mask: NDArray[np.bool_]
) -> None:
    """R~ and T~ are Q(FP32(c) - 1r) and Q(FP32(h) + 1r) by exact fractions rounded twice, and misses are told."""
    capture, S = capture_of(h, c, kind), Selection.of(mask)
    R, T = restore_by_residual(capture, S), transplant_by_residual(capture, S)
    for i, j in np.ndindex(SHAPE):
        a, b = Fraction(float(capture.h[i, j])), Fraction(float(capture.c[i, j]))
        r = Fraction(float(np.float32(float(b - a)))) if mask[i, j] else Fraction(0)
        for outcome, exact, wanted in ((R, b - r, a if mask[i, j] else b), (T, a + r, b if mask[i, j] else a)):
            once = torch.tensor(float(exact), dtype=torch.float64).float().to(TORCH[kind])
            assert float(once) == float(outcome.state[i, j])
            if float(once) != float(wanted):
                assert outcome.missed.mask[i, j]
    for outcome, target in ((R, restore(capture, S)), (T, transplant(capture, S))):
        assert outcome.exact == same(outcome.state, target.state, kind)


def test_a_float_sum_that_misses_is_counted_and_named() -> None:
    """1e30 and 1 differ by 1e30 in float32; subtracting it gives 0, which is reported and can't be had silently."""
    capture = capture_of([[1.0, 2.0, 3.0]], [[1e30, 2.0, 4.0]])
    outcome = restore_by_residual(capture, Selection.full((1, 3)))
    assert outcome.state.tolist() == [[0.0, 2.0, 3.0]]
    assert outcome.missed.indices.tolist() == [[0, 0]]
    with pytest.raises(InputError, match=r"missed 1 coordinates.*\(0, 0\)"):
        outcome.require_exact()
    rest = restore_by_residual(capture, Selection.columns((1, 3), [1, 2]))
    assert rest.require_exact()[0, 1:].tolist() == [2.0, 3.0]


def test_what_is_not_finite_spoils_nothing_outside() -> None:
    """An infinite or NaN residual outside S leaves S and the rest alone; inside S it is a miss, not a success."""
    capture = capture_of([[1.0, 2.0, 3.0]], [[np.inf, np.nan, 4.0]])
    last = restore_by_residual(capture, Selection.columns((1, 3), 2))
    assert last.exact
    assert last.state[0, 2] == 3.0
    assert restore_by_residual(capture, Selection.full((1, 3))).missed.indices.tolist() == [[0, 0], [0, 1]]


def test_a_zero_that_loses_its_sign_is_a_miss() -> None:
    """-0.0 + 0.0 is 0.0: the bits changed outside S, so the empty transplantation control fails."""
    capture = capture_of([[-0.0, 1.0]], [[-0.0, 2.0]])
    assert controls(capture)["empty transplantation"].missed.indices.tolist() == [[0, 0]]
    assert controls(capture)["empty restoration"].exact


@pytest.mark.parametrize("kind", KINDS)
def test_the_controls_of_a_plain_capture_are_exact(kind: Representation) -> None:
    """Empty, full and zero treatments rebuild c, h and c, and the other way round, bit for bit."""
    rng = np.random.default_rng(7)
    h = stored(rng.uniform(0.5, 1, SHAPE).astype(np.float32), kind)
    capture = capture_of(h, h * np.float32(1.25), kind)
    found = controls(capture)
    assert len(found) == 6
    assert all(outcome.exact for outcome in found.values())
    expected = {"empty r": capture.c, "full r": capture.h, "zero r": capture.c}
    expected |= {"empty t": capture.h, "full t": capture.c, "zero t": capture.h}
    for name, outcome in found.items():
        assert same(outcome.state, expected[name[: name.index(" ") + 2]], kind)
    assert not found["zero restoration"].effective.mask.any()


def test_replacements_without_effect_are_named() -> None:
    """Where h and c agree, and where Q swallows the residual, the coordinates stand in `ineffective`."""
    capture = capture_of([[1.0, 2.0, 3.0, 5.0]], [[1.0, 2.5, 3.5, 6.0]], "bf16")
    S = Selection.columns((1, 4), [0, 1, 2])
    tiny = np.array([[0.5, 2.0**-12, 0.5, 1.0]], dtype=np.float32)
    assert restore(capture, S).ineffective.indices.tolist() == [[0, 0]]
    assert restore_by_residual(capture, S, tiny).ineffective.indices.tolist() == [[0, 1]]
    assert restore_by_residual(capture, S, tiny).effective.indices.tolist() == [[0, 0], [0, 2]]


def test_one_residual_on_two_references() -> None:
    """Q(h_e + r) adds the same residual to the reference of each environment, inside S alone."""
    r = np.array([0.5, -1.0, 2.0], dtype=np.float32)
    S = Selection.coordinates((3,), [0, 2])
    for h in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        found = with_residual(np.array(h, dtype=np.float32), r, S, "fp32")
        assert found.tolist() == [h[0] + 0.5, h[1], h[2] + 2.0]
