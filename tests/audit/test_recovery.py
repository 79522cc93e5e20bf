"""Priorities, budgets, smallest repairs and recombination, against sums written out and subsets tried one by one."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veristate.audit import (
    AtLeast,
    Blocks,
    Pair,
    Priority,
    Selection,
    TopK,
    boundary_margin,
    co_occurrence,
    constructed_states,
    decision_cost,
    decision_sensitivity,
    difference_energy,
    exposure,
    judge,
    mean_displacement,
    minimal_sets,
    new_endpoints,
    one_score_per_row,
    output_displacement,
    random_orders,
    recombine,
    recovery_curve,
    reduce_set,
    replays,
    scan_prefixes,
    state_cost,
    strict_partial_recovery,
)
from veristate.audit.recovery import (
    RowReplays,
    WholeReplays,
    area,
    doubling_budgets,
    joint_gain,
    relative_displacement,
    sensitivity,
)
from veristate.core import InputError

# Few values, so that ties, equal arrays and signed zeros are common.
FEW = (-1.0, -0.0, 0.0, 0.5, 1.0, 2.0, math.inf, math.nan)


def pairs(shape: tuple[int, ...], values: tuple[float, ...] = FEW) -> st.SearchStrategy[Pair]:
    """Pairs of arrays of few values."""
    n = math.prod(shape)
    arrays = st.lists(st.sampled_from(values), min_size=n, max_size=n).map(
        lambda xs: np.array(xs, dtype=np.float32).reshape(shape)
    )
    return st.builds(lambda h, c: Pair(h=h, c=c, name="x"), arrays, arrays)


def best(row: list[float], k: int) -> list[int]:
    """The k best of a row by the rule: highest first, ties to the smaller index, NaN as -infinity."""
    scores = [-math.inf if math.isnan(x) else x for x in row]
    return sorted(range(len(row)), key=lambda i: (-scores[i], i))[:k]


def lists(array: NDArray[Any], endpoint: TopK | AtLeast) -> list[list[int]]:
    """The endpoint of every row, as lists, by the rule."""
    rows = np.atleast_2d(array).tolist()
    if isinstance(endpoint, AtLeast):
        return [[i for i, x in enumerate(row) if x >= endpoint.threshold] for row in rows]
    found = [best(row, endpoint.k) for row in rows]
    return [sorted(row) for row in found] if endpoint.measure == "membership" else found


def distance(a: list[list[int]], b: list[list[int]], endpoint: TopK | AtLeast) -> int:
    """The distance of two endpoints, by its definition."""
    if isinstance(endpoint, AtLeast):
        return sum(len(set(x) ^ set(y)) for x, y in zip(a, b, strict=True))
    if endpoint.measure == "membership":
        return sum(endpoint.k - len(set(x) & set(y)) for x, y in zip(a, b, strict=True))
    return sum(sum(i != j for i, j in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True))


def replaced(pair: Pair, blocks: Blocks, chosen: tuple[int, ...], *, restoring: bool) -> NDArray[Any]:
    """R_S or T_S, one coordinate after the other."""
    inside, outside = (pair.h, pair.c) if restoring else (pair.c, pair.h)
    out = outside.copy()
    for index in np.ndindex(out.shape):
        if blocks.labels[index] in chosen:
            out[index] = inside[index]
    return out


def subsets(n: int) -> list[tuple[int, ...]]:
    """Every set of n blocks, small ones first."""
    return [s for size in range(n + 1) for s in itertools.combinations(range(n), size)]


ENDPOINTS = (TopK(k=2), TopK(k=2, measure="order"), TopK(k=4), AtLeast(threshold=0.5))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Blocks.of([0, 2]), "without gaps"),
        (lambda: Blocks.of([0, -2]), "without gaps"),
        (lambda: Blocks.rows((4,), 0), "use 1 or more"),
        (lambda: Blocks.tiles((4,), 2, 2), "no tiles"),
        (lambda: Blocks.rows((4,), 2).mask([2]), r"0\.\.1, got \[2\]"),
        (lambda: Blocks.rows((4,), 2).mask([-1]), r"0\.\.1"),
        (lambda: Blocks.rows((4,), 2).require_order([0, 0]), "each of the 2 blocks once"),
        (lambda: Pair(h=np.ones(3), c=np.ones(2)), "one shape"),
        (lambda: Pair(h=np.ones(3), c=np.ones(3, dtype=np.float32)), "one type"),
        (lambda: Pair(h=np.ones(3, dtype=int), c=np.ones(3, dtype=int)), "floats"),
        (lambda: replays(Pair(h=np.ones(3), c=np.ones(3)), Blocks.rows((4,), 2), TopK(k=1)), "don't fit"),
        (lambda: TopK(k=4)(np.ones(3)), r"K must be 1\.\.3"),
        (lambda: TopK(k=0)(np.ones(3)), r"K must be 1\.\.3"),
        (lambda: TopK(k=3).cutoff(np.ones(3)), "no cutoff"),
        (lambda: decision_sensitivity([], Blocks.rows((4,), 2), TopK(k=1)), "one development capture"),
        (lambda: area([(0, Fraction(1))], 0), "no block is eligible"),
        (lambda: recombine(3, 2, block_length=0, panels=1, seed=1), "1 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, said: str) -> None:
    """Gaps, blocks that aren't there, arrays that don't fit, and empty questions are refused with a reason."""
    with pytest.raises(InputError, match=said):
        make()


def test_blocks_are_the_runs_they_name() -> None:
    """Runs of rows, of columns and tiles are those of a table filled by hand; a rest may be left out."""
    assert Blocks.rows((5, 2), 2).labels.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1], [2, 2]]
    assert Blocks.rows((5, 2), 2, whole=True).labels.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1], [-1, -1]]
    assert Blocks.columns((2, 5), 3).labels.tolist() == [[0, 0, 0, 1, 1]] * 2
    assert Blocks.tiles((3, 3), 2, 2).labels.tolist() == [[0, 0, 1], [0, 0, 1], [2, 2, 3]]
    assert Blocks.single(Selection.coordinates((2, 2), [3, 0])).labels.tolist() == [[0, -1], [-1, 1]]
    c1 = Blocks.rows((1017,), 8, whole=True)
    assert (c1.count, c1.labels[1016], set(c1.sizes.tolist())) == (127, -1, {8})


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=str)
@given(pair=pairs((2, 5)), labels=st.lists(st.integers(-1, 2), min_size=10, max_size=10))
@settings(max_examples=60)
def test_every_intervention_by_row_is_that_of_the_whole_array(
    endpoint: TopK | AtLeast, pair: Pair, labels: list[int]
) -> None:
    """For all sets of blocks, both directions and both targets, distances are those of lists made by the rule."""
    numbers = np.unique([x for x in labels if x >= 0]).tolist()
    blocks = Blocks.of(np.array([numbers.index(x) if x >= 0 else -1 for x in labels]).reshape(2, 5))
    sets = subsets(blocks.count)
    by_row, whole = replays(pair, blocks, endpoint), WholeReplays(blocks=blocks, pair=pair, endpoint=endpoint)
    assert isinstance(by_row, RowReplays)
    for to, target in (("reference", pair.h), ("candidate", pair.c)):
        wanted = lists(target, endpoint)
        for restoring in (True, False):
            expected = [
                distance(lists(replaced(pair, blocks, s, restoring=restoring), endpoint), wanted, endpoint)
                for s in sets
            ]
            found = by_row.restored(sets, to=to) if restoring else by_row.transplanted(sets, to=to)
            plain = whole.restored(sets, to=to) if restoring else whole.transplanted(sets, to=to)
            assert found.tolist() == expected
            assert plain.tolist() == [int(d > 0) for d in expected]
    masks = np.array([blocks.mask(s) for s in sets]).reshape(len(sets), blocks.count)
    assert by_row.restored(masks).tolist() == by_row.restored(sets).tolist()
    assert whole.restored(masks).tolist() == whole.restored(sets).tolist()


def test_rows_of_very_different_length_agree_with_whole_arrays() -> None:
    """A row that broke everywhere beside rows with one change gives the lists of the whole array."""
    rng = np.random.default_rng(3)
    h = rng.standard_normal((6, 400)).astype(np.float32)
    c = h.copy()
    c[1] = rng.standard_normal(400) * 1e6
    c[2, 7], c[4, ::3] = np.nan, np.inf
    pair, blocks = Pair(h=h, c=c), Blocks.tiles((6, 400), 2, 50)
    sets = rng.random((40, blocks.count)) < 0.5
    found = replays(pair, blocks, TopK(k=10)).restored(sets)
    for chosen, value in zip(sets, found, strict=True):
        mixed = np.where(np.append(chosen, False)[blocks.labels], h, c)
        assert value == distance(lists(mixed, TopK(k=10)), lists(h, TopK(k=10)), TopK(k=10))


@given(
    row=st.lists(st.sampled_from(FEW), min_size=70, max_size=90),
    k=st.integers(1, 45),
    measure=st.sampled_from(["membership", "order"]),
)
def test_long_rows_are_cut_as_short_ones(row: list[float], k: int, measure: str) -> None:
    """Lists of rows too long to be sorted whole follow the rule, ties, infinities and NaN included."""
    endpoint = TopK(k=k, measure=measure)
    assert [list(x) for x in endpoint(np.array([row, row[::-1]]))] == lists(np.array([row, row[::-1]]), endpoint)


def by_hand(pairs_: list[Pair], blocks: Blocks, k: int) -> list[tuple[float, float, float]]:
    """(U, P, G) of every block, written out from C.1 with python's lists."""
    rows = []
    for j in range(blocks.count):
        members = [i for i in range(blocks.labels.size) if blocks.labels[i] == j]
        U = P = G = 0.0
        for pair in pairs_:
            h, s = [list(map(float, x)) for x in (pair.h, pair.c)]
            one = [s[i] if i in members else h[i] for i in range(len(h))]
            back = [h[i] if i in members else s[i] for i in range(len(h))]
            d = [k - len(set(best(x, k)) & set(best(h, k))) for x in (one, s, back)]
            ordered = sorted(h, reverse=True)
            cutoff = (ordered[k - 1] + ordered[k]) / 2
            P += max(abs(s[i] - h[i]) / (abs(h[i] - cutoff) + 2.0**-52) for i in members)
            U, G = U + d[0], G + d[1] - d[2]
        rows.append((U / len(pairs_), P / len(pairs_), G / len(pairs_)))
    return rows


@given(st.lists(pairs((9,), (0.0, 0.25, 0.5, 1.0, 2.0)), min_size=1, max_size=3))
@settings(max_examples=60)
def test_the_priorities_are_those_of_the_paper(found: list[Pair]) -> None:
    """U, P and G are the sums written out, and both orders are their descending order, ties to the smaller block."""
    development = [Pair(h=found[0].h, c=pair.c, name=f"dev{n}") for n, pair in enumerate(found)]
    blocks, endpoint = Blocks.rows((9,), 2, whole=True), TopK(k=3)
    expected = by_hand(development, blocks, 3)
    U, P, G = (f(development, blocks, endpoint).tolist() for f in (sensitivity, relative_displacement, joint_gain))
    assert pytest.approx([x[0] for x in expected], rel=1e-14) == U
    assert pytest.approx([x[1] for x in expected], rel=1e-14) == P
    assert pytest.approx([x[2] for x in expected], rel=1e-14) == G
    first = decision_sensitivity(development, blocks, endpoint)
    second = co_occurrence(development, blocks, endpoint)
    assert first.order.tolist() == sorted(range(4), key=lambda j: (-U[j], -P[j], j))
    assert second.order.tolist() == sorted(range(4), key=lambda j: (-G[j], -(U[j] + 1e-9 * P[j]), j))
    assert first.developed_on == tuple(pair.name for pair in development)


def test_the_priorities_of_one_example() -> None:
    """Six scores, K = 2: block 0 holds the list, block 1 the rival that the capture lifts, block 2 what nobody sees."""
    h = np.array([5.0, 4.0, 3.0, 1.0, 0.0, 0.0])
    s = np.array([5.0, 4.0, 4.5, 1.0, 0.5, 0.0])
    pair, blocks, endpoint = Pair(h=h, c=s, name="q"), Blocks.rows((6,), 2), TopK(k=2)
    assert sensitivity([pair], blocks, endpoint).tolist() == [0, 1, 0]
    assert joint_gain([pair], blocks, endpoint).tolist() == [0, 1, 0]
    # t = (4 + 3) / 2; the largest relative moves are 0, 1.5 / 0.5 and 0.5 / 3.5.
    assert relative_displacement([pair], blocks, endpoint).tolist() == pytest.approx([0, 3, 1 / 7])
    assert decision_sensitivity([pair], blocks, endpoint).order.tolist() == [1, 2, 0]
    assert co_occurrence([pair], blocks, endpoint).order.tolist() == [1, 2, 0]
    assert boundary_margin(h, blocks, endpoint).order.tolist() == [0, 1, 2]
    assert output_displacement(pair, blocks).order.tolist() == [1, 2, 0]
    hidden = Pair(h=np.zeros((3, 2)), c=np.array([[1.0, 1], [0, 1.5], [1, 1]]), name="q")
    assert difference_energy(hidden, Blocks.rows((3, 2), 1)).order.tolist() == [1, 0, 2]


def test_what_is_not_finite_comes_first_and_stops_nothing() -> None:
    """A NaN or an infinity in the candidate is the largest displacement; every priority is still an order."""
    h, c = np.arange(6.0), np.array([0.0, 1.0, np.nan, 3.0, 4.0, np.inf])
    pair, blocks, endpoint = Pair(h=h, c=c, name="q"), Blocks.rows((6,), 2), TopK(k=2)
    assert relative_displacement([pair], blocks, endpoint).tolist() == [0, math.inf, math.inf]
    assert output_displacement(pair, blocks).order.tolist() == [1, 2, 0]
    assert difference_energy(pair, blocks).order.tolist() == [1, 2, 0]
    for make in (decision_sensitivity, co_occurrence):
        assert sorted(make([pair], blocks, endpoint).order.tolist()) == [0, 1, 2]
    assert boundary_margin(c, blocks, endpoint).order.shape == (3,)


def test_a_priority_of_its_own_capture_is_made_for_each() -> None:
    """Current displacement is judged with each capture's own order: the two captures need one block each, their own."""
    h = np.array([9.0, 8.0, 1.0, 1.0, 0.0, 0.0])
    one, two = h.copy(), h.copy()
    one[2], one[4], two[4] = 8.5, 0.5, 8.5
    blocks, endpoint = Blocks.rows((6,), 2), TopK(k=2)
    confirmation = [Pair(h=h, c=c, name=name) for name, c in (("a", one), ("b", two))]
    found = judge(lambda pair: output_displacement(pair, blocks), confirmation, blocks, endpoint)
    assert [curve.first for curve in found.curves] == [1, 1]
    assert found.priority == "current output displacement"
    with pytest.raises(InputError, match="one confirmation capture"):
        judge(output_displacement(confirmation[0], blocks), [], blocks, endpoint)


def test_one_score_of_each_row_by_change_then_size_then_place() -> None:
    """H.3's mask by hand: a changed member before a larger move, the larger of two moves, the first of two equals."""
    h = np.array([[5.0, 4, 3, 0], [5, 4, 3, 0], [5, 4, 3, 0], [5, 4, 3, 0]])
    first, second = h.copy(), h.copy()
    first[0] = [5, 2.5, 3, -9]
    second[1] = [6, 4, 3, 1.5]
    first[2, 1:3] = [4.25, 3.25]
    found = one_score_per_row([Pair(h=h, c=first, name="a"), Pair(h=h, c=second, name="b")], TopK(k=2))
    assert found.indices.tolist() == [[0, 1], [1, 3], [2, 1]]
    order = mean_displacement([Pair(h=h[0], c=first[0], name="a")], Blocks.rows((4,), 1))
    assert (order.order.tolist(), order.developed_on) == ([3, 1, 0, 2], ("a",))
    for make in (lambda: one_score_per_row([], TopK(k=2)), lambda: mean_displacement([], Blocks.rows((4,), 1))):
        with pytest.raises(InputError, match="one development capture"):
            make()


def test_random_orders_are_permutations_fixed_by_their_seed() -> None:
    """128 different permutations; the first ones are the same when fewer are asked for, and others by another seed."""
    blocks = Blocks.rows((127,), 1)
    orders = [priority.order.tolist() for priority in random_orders(blocks, seed=5)]
    assert len(orders) == len({tuple(order) for order in orders}) == 128
    assert all(sorted(order) == list(range(127)) for order in orders)
    assert [p.order.tolist() for p in random_orders(blocks, seed=5, count=3)] == orders[:3]
    assert random_orders(blocks, seed=6, count=1)[0].order.tolist() != orders[0]


def test_development_captures_confirm_nothing() -> None:
    """A capture that a priority was developed on, or one without a name, is refused as confirmation."""
    pair = Pair(h=np.arange(6.0), c=np.arange(6.0), name="a")
    blocks, endpoint = Blocks.rows((6,), 2), TopK(k=2)
    priority = decision_sensitivity([pair], blocks, endpoint)
    for wrong in (pair, Pair(h=pair.h, c=pair.c)):
        with pytest.raises(InputError, match="can't confirm"):
            judge(priority, [wrong], blocks, endpoint)


@pytest.mark.parametrize("budgets", [(), (1, 2), (0, 2, 1), (0, 4), (0, 0)])
def test_budgets_that_do_not_grow_are_refused(budgets: tuple[int, ...]) -> None:
    """Budgets rise from 0 and end within the eligible blocks."""
    pair = Pair(h=np.arange(6.0), c=np.arange(6.0), name="a")
    with pytest.raises(InputError, match="budgets rise"):
        recovery_curve(pair, Blocks.rows((6,), 2), TopK(k=2), [0, 1, 2], budgets=budgets)


def test_the_budgets_are_those_of_algorithm_2() -> None:
    """127 eligible blocks are tried at 0, 1, 2, 4, 8, 16, 32, 64 and 127."""
    assert doubling_budgets(127) == (0, 1, 2, 4, 8, 16, 32, 64, 127)
    assert [doubling_budgets(n) for n in (0, 1, 2, 3, 4)] == [(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 4)]


@pytest.mark.parametrize(
    ("firsts", "published"), [((1, 2), 0.992), ((2, 4), 0.982), ((16, 32), 0.858), ((64, 64), 0.622)]
)
def test_the_areas_are_those_of_table_c1(firsts: tuple[int, int], published: float) -> None:
    """Two captures that first recover at these budgets have the area that the paper's table prints."""
    budgets = doubling_budgets(127)
    points = [(b, Fraction(sum(b >= first for first in firsts), 2)) for b in budgets]
    assert round(float(area(points, 127)), 3) == published


def test_a_curve_tells_what_is_recovered_and_what_remains() -> None:
    """A hand-made case: two of three changed scores matter, the region is a half, and one capture changed nothing."""
    h = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    c = np.array([6.0, 3.5, 4.5, 3.0, 2.0, 1.5])
    blocks, endpoint = Blocks.rows((6,), 1), TopK(k=2, measure="order")
    region = Selection.coordinates((6,), [0, 1, 2])
    changed, calm = Pair(h=h, c=c, name="a"), Pair(h=h, c=h, name="b")
    curve = recovery_curve(changed, blocks, endpoint, [5, 1, 2, 0, 3, 4], region=region, budgets=(0, 1, 2, 6))
    assert [step.recovered for step in curve.steps] == [False, False, True, True]
    assert [step.remaining for step in curve.steps] == [3, 2, 1, 0]
    at = curve.steps[2].exposure
    assert (at.b_global, at.f_exposed, at.n_remain, at.partial) == (Fraction(1, 3), Fraction(1, 2), 1, True)
    assert curve.first == 2
    priority = Priority(name="mine", order=np.array([5, 1, 2, 0, 3, 4]))
    found = judge(priority, [changed, calm], blocks, endpoint)
    assert [c.name for c in found.changed] == ["a"]
    assert found.recovered == ((0, 0), (1, 0), (2, 1), (4, 1), (6, 1))
    assert found.auc == (Fraction(1, 2) + 4) / 6
    assert found.first_for_all == 2
    nothing = judge(priority, [calm], blocks, endpoint)
    assert (nothing.auc, nothing.first_for_all, nothing.recovered) == (None, None, ())


@given(pair=pairs((2, 4)), chosen=st.sets(st.integers(0, 3)), region=st.lists(st.booleans(), min_size=8, max_size=8))
def test_exposure_counts_are_those_of_sets(pair: Pair, chosen: set[int], region: list[bool]) -> None:
    """b_global, f_exposed and n_remain are those of python's sets, and an empty denominator is no number."""
    blocks = Blocks.tiles((2, 4), 1, 2)
    omega = Selection.of(np.array(region).reshape(2, 4))
    found = exposure(blocks, sorted(chosen), Selection.of(pair.differing), omega)
    delta = {i for i in range(8) if pair.h.ravel()[i : i + 1].tobytes() != pair.c.ravel()[i : i + 1].tobytes()}
    inside = {i for i in range(8) if blocks.labels.ravel()[i] in chosen}
    visited = delta & {i for i in range(8) if region[i]}
    assert found.b_global == Fraction(len(chosen), 4)
    assert found.f_exposed == (Fraction(len(inside & visited), len(visited)) if visited else None)
    assert found.n_remain == len(visited - inside)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=str)
@given(pair=pairs((1, 6)), costs=st.lists(st.floats(0, 3), min_size=6, max_size=6))
@settings(max_examples=60)
def test_smallest_repairs_are_those_of_all_subsets(endpoint: TopK | AtLeast, pair: Pair, costs: list[float]) -> None:
    """rho_D, rho_state and the sets minimal under inclusion are found by trying every subset; rho_D <= rho_state."""
    blocks = Blocks.rows((6,), 1)
    pair = Pair(h=pair.h[0], c=pair.c[0], name="x")
    wanted = lists(pair.h, endpoint)
    works = [s for s in subsets(6) if lists(replaced(pair, blocks, s, restoring=True), endpoint) == wanted]
    exact = [s for s in works if replaced(pair, blocks, s, restoring=True).tobytes() == pair.h.tobytes()]
    replay = replays(pair, blocks, endpoint)
    rho_D = decision_cost(replay, pair, costs=costs)
    rho_state = state_cost(pair, blocks, costs=costs)
    assert rho_D.exact
    assert rho_D.upper == pytest.approx(min(math.fsum(costs[j] for j in s) for s in works))
    assert rho_state.upper == pytest.approx(min(math.fsum(costs[j] for j in s) for s in exact))
    assert rho_D.upper <= rho_state.upper
    assert lists(replaced(pair, blocks, rho_D.blocks, restoring=True), endpoint) == wanted
    minimal = [s for s in works if not any(set(o) < set(s) for o in works)]
    assert sorted(minimal_sets(replay, range(6))) == sorted(minimal)
    reduced = reduce_set(replay, range(6))
    assert reduced.blocks in minimal
    assert reduced.certificate == "every proper subset fails"


@given(pair=pairs((8,)), k=st.integers(1, 8))
def test_edits_are_never_fewer_than_the_members_exchanged(pair: Pair, k: int) -> None:
    """|M(h) ^ M(c)| / 2 is a lower bound of the scalar scores that must be replaced, as C.4 says."""
    blocks, endpoint = Blocks.rows((8,), 1), TopK(k=k)
    replay = replays(pair, blocks, endpoint)
    assert replay.restored([()])[0] <= decision_cost(replay, pair).upper


def test_recovery_that_does_not_grow_is_seen_through() -> None:
    """Where {0} and {0, 1, 2} recover and no pair does, deletion one by one stops early and the certificate doesn't."""
    pair = Pair(h=np.ones(3), c=np.zeros(3), name="x")
    good = {(1.0, 1.0, 1.0), (1.0, 0.0, 0.0)}

    def endpoint(x: NDArray[Any]) -> bool:
        return tuple(x.tolist()) in good

    replay = replays(pair, Blocks.rows((3,), 1), endpoint)
    found = reduce_set(replay, [0, 1, 2])
    assert (found.blocks, found.certificate) == ((0,), "every proper subset fails")
    assert minimal_sets(replay, [0, 1, 2]) == ((0,),)


def test_what_does_not_recover_has_no_repair() -> None:
    """A difference outside all blocks gives infinite costs and no set, and a start that fails is refused."""
    pair = Pair(h=np.array([1.0, 2.0]), c=np.array([3.0, 2.5]), name="x")
    blocks = Blocks.of([-1, 0])
    replay = replays(pair, blocks, TopK(k=1))
    for cost in (decision_cost(replay, pair), state_cost(pair, blocks)):
        assert (cost.lower, cost.upper, cost.blocks) == (math.inf, math.inf, None)
    assert minimal_sets(replay, [0]) == ()
    with pytest.raises(InputError, match="don't recover"):
        reduce_set(replay, [0])
    for costs in ([-1.0], [1.0, 1.0], [math.nan]):
        with pytest.raises(InputError, match="costs are 0 or more"):
            state_cost(pair, blocks, costs=costs)


def test_many_blocks_get_bounds_and_a_weaker_certificate() -> None:
    """With 40 blocks needed, deletion leaves all of them, and says that it tried single deletions only."""
    pair = Pair(h=np.zeros(40), c=np.ones(40), name="x")
    replay = replays(pair, Blocks.rows((40,), 1), AtLeast(threshold=0.5))
    found = reduce_set(replay, range(40))
    assert (len(found.blocks), found.certificate) == (40, "every set with one block less fails")
    cost = decision_cost(replay, pair)
    assert (cost.lower, cost.upper, cost.exact) == (1.0, 40.0, False)
    with pytest.raises(InputError, match="too many"):
        minimal_sets(replay, range(40))


def test_what_had_to_stay_is_asked_again() -> None:
    """Of 20 blocks the last can go only after the first went; deletion from the end comes back for it."""
    pair = Pair(h=np.ones(20), c=np.zeros(20), name="x")
    good = {frozenset(range(20)), frozenset(range(1, 20)), frozenset(range(1, 19))}

    def endpoint(x: NDArray[Any]) -> bool:
        return frozenset(np.flatnonzero(x).tolist()) in good

    found = reduce_set(replays(pair, Blocks.rows((20,), 1), endpoint), range(20))
    assert found.blocks == tuple(range(1, 19))
    assert found.tested == 1 + 20 + 19 + 18


def test_three_scores_as_in_the_paper_are_a_minimal_set() -> None:
    """C.2's case in small: three rivals that pushed a member out, of which two must be restored, never one."""
    h = np.array([9.0, 8.0, 7.0, 6.0, 3.0, 2.0, 1.0])
    c = np.array([9.0, 8.0, 7.0, 6.0, 6.5, 6.4, 6.3])
    pair, blocks, endpoint = Pair(h=h, c=c, name="x"), Blocks.rows((7,), 1), TopK(k=5)
    replay = replays(Pair(h=h, c=c, name="x"), blocks, AtLeast(threshold=6.35))
    assert minimal_sets(replay, range(7)) == ((4, 5),)
    # A list of five takes 4 back only when both rivals that are above it, as h has it, are gone.
    top = replays(pair, blocks, endpoint)
    assert minimal_sets(top, range(7)) == ((5, 6),)


@pytest.mark.parametrize("endpoint", ENDPOINTS[:2], ids=str)
@given(pair=pairs((2, 4)), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_prefixes_are_those_tried_one_by_one(endpoint: TopK, pair: Pair, seed: int) -> None:
    """Every prefix both ways, and the strict ones by I.3's definition, written out coordinate by coordinate."""
    blocks = Blocks.single(Selection.full((2, 4)))
    order = np.random.default_rng(seed).permutation(8)
    found = scan_prefixes(pair, blocks, endpoint, order)
    H, C = lists(pair.h, endpoint), lists(pair.c, endpoint)
    restores, transplants, strict = [], [], []
    for length in range(9):
        S = tuple(order[:length].tolist())
        back = lists(replaced(pair, blocks, S, restoring=True), endpoint) == H
        over = lists(replaced(pair, blocks, S, restoring=False), endpoint) == C
        restores += [length] * back
        transplants += [length] * over
        rows = [(set(np.flatnonzero(pair.differing[i]) + 4 * i), i) for i in range(2)]
        touched = [delta for delta, _ in rows if delta & set(S)]
        if back and over and H != C and touched and all(delta - set(S) for delta in touched):
            strict.append(length)
    assert (list(found.restores), list(found.transplants), list(found.strict)) == (restores, transplants, strict)


def test_a_prefix_that_rebuilds_what_is_visible_is_not_strict() -> None:
    """Where the agent sees the first score alone, and that is the one restored, nothing visible differs any more."""
    pair = Pair(h=np.array([[1.0, 2.0, 0.0]]), c=np.array([[3.0, 1.5, 1.0]]), name="x")
    blocks, endpoint = Blocks.columns((1, 3), 1), TopK(k=1)
    assert scan_prefixes(pair, blocks, endpoint, [0, 1, 2]).strict == (1, 2)
    assert scan_prefixes(pair, blocks, endpoint, [0, 1, 2], visible=lambda x: x[:, :1]).strict == ()


@pytest.mark.parametrize(
    ("restored", "transplanted", "verdict"),
    [
        ([True] * 8, [True] * 8, True),
        ([True] * 7, [True] * 7, False),
        ([True] * 7 + [None], [True] * 8, False),
        ([True] * 8, [True] * 7 + [False], False),
        ([], [], False),
    ],
)
def test_strict_recovery_needs_every_batch(restored: list[Any], transplanted: list[Any], verdict: bool) -> None:
    """Eight complete batches both ways; a missing batch is never a success, nor is a full or an empty replacement."""
    blocks, every = Blocks.rows((4,), 1), Selection.full((4,))
    part = exposure(blocks, [0, 1], every, every)
    assert strict_partial_recovery(part, restored, transplanted) is verdict
    for chosen in ([], [0, 1, 2, 3]):
        whole = exposure(blocks, chosen, every, every)
        assert not strict_partial_recovery(whole, restored, transplanted)
    assert not strict_partial_recovery(part, [], [], repeats=0)


@given(
    executions=st.integers(1, 8),
    calls=st.integers(1, 40),
    length=st.sampled_from([1, 4, 16, 32]),
    seed=st.integers(0, 9),
)
def test_recombination_keeps_what_each_call_shows(executions: int, calls: int, length: int, seed: int) -> None:
    """At every call each execution is used once, and inside a run of the block length none changes its source."""
    sources = recombine(executions, calls, block_length=length, panels=3, seed=seed)
    assert sources.shape == (3, executions, calls)
    for panel in sources:
        for call in range(calls):
            assert sorted(panel[:, call]) == list(range(executions))
            assert (panel[:, call] == panel[:, call - call % length]).all()
    assert np.array_equal(sources, recombine(executions, calls, block_length=length, panels=3, seed=seed))


def test_recombined_states_hold_the_residuals_of_their_sources() -> None:
    """Multiplicities and energy of a panel are those observed; coordinates of no call stay healthy."""
    rng = np.random.default_rng(2)
    h = rng.integers(0, 100, (5, 3)).astype(np.float32)
    residuals = rng.integers(-9, 9, (4, 5, 3)).astype(np.float32)
    calls = Blocks.of(np.broadcast_to(np.array([[0], [0], [1], [2], [-1]]), (5, 3)))
    sources = recombine(4, 3, block_length=1, panels=1, seed=3)[0]
    found = constructed_states(h, residuals, calls, sources, "fp32")
    for execution, i in itertools.product(range(4), range(5)):
        label = int(calls.labels[i, 0])
        expected = h[i] + (residuals[sources[execution, label], i] if label >= 0 else 0)
        assert found[execution, i].tolist() == expected.tolist()
    got = Counter(map(float, (found - h)[:, :4].ravel()))
    assert got == Counter(map(float, residuals[:, :4].ravel()))
    for wrong in (
        (h, residuals[:, :4], calls, sources),
        (h, residuals.astype(np.float64), calls, sources),
        (h, residuals, calls, sources[:3]),
    ):
        with pytest.raises(InputError):
            constructed_states(*wrong, "fp32")


def test_new_endpoints_are_those_no_source_shows() -> None:
    """Lists that an observed execution shows are not new, and each new one counts as often as it comes."""
    assert new_endpoints([(1, 2), (2, 3)], [(1, 2), (1, 3), (1, 3)]) == 2
    assert new_endpoints([], []) == 0
