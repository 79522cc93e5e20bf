"""The design: states of every condition, selections, environments, order, and what is counted, against loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from veristate.audit import Capture, Provenance, Saved, Selection, TopK
from veristate.audit.design import (
    ALGORITHM_1,
    CELLS,
    FACTORIAL,
    Condition,
    PlannedGroup,
    Replacement,
    Role,
    across,
    changed_rows,
    constructed_from,
    developed_selection,
    in_environment,
    interleaved,
    key_of,
    minimal_selection,
    parting,
    partings,
    reaching,
    schedule,
    treat,
)
from veristate.audit.endpoints import Comparison, Component, Endpoint, Exchange, Path
from veristate.audit.endpoints.divergence import Parting
from veristate.audit.statistics import Attempt, Outcome, grouped
from veristate.core import InputError, Site

SITE = Site(layer="scores")
READS = Endpoint(component=Component.READ, comparison=Comparison.MEMBERSHIP)
# Few different values, so that ties and equal coordinates are common.
matrices = arrays(np.float32, (3, 6), elements=st.sampled_from([0.125, 0.25, 0.5, 0.75, 1.0]))


def saved(values, *, order="", constructed=False):
    """Values at the site."""
    return Saved.of(
        np.asarray(values, dtype=np.float32), site=SITE, provenance=Provenance(order=order, constructed=constructed)
    )


def capture(h, c):
    """The capture of two matrices."""
    return Capture.of(saved(h), saved(c, constructed=True))


def bits(array):
    """The stored bits, so that -0.0 and 0.0 differ."""
    return np.asarray(array, dtype=np.float32).view(np.uint32).tolist()


@given(matrices, matrices, arrays(np.bool_, (3, 6)))
def test_states_are_put_together_coordinate_by_coordinate(h, c, mask):
    """Every condition's state is what a loop over coordinates builds, bit for bit."""
    made = {name: treat(capture(h, c), name, Selection.of(mask)).state for name in ALGORITHM_1}
    for row, column in np.ndindex(h.shape):
        here = (row, column)
        wanted = {
            "H1": h[here],
            "H2": h[here],
            "C": c[here],
            "full": h[here],
            "selected": h[here] if mask[here] else c[here],
            "transplant": c[here] if mask[here] else h[here],
            "zero": h[here],
        }
        assert {name.value: state[here] for name, state in made.items()} == wanted


@given(matrices, matrices, arrays(np.bool_, (3, 6)))
def test_a_replacement_without_effect_is_known(h, c, mask):
    """An intervention has an effect exactly when a selected coordinate differs."""
    for name in (Condition.SELECTED, Condition.TRANSPLANT):
        assert treat(capture(h, c), name, Selection.of(mask)).has_effect == bool((mask & (h != c)).any())
    assert not treat(capture(h, c), Condition.ZERO).has_effect


def test_lists_and_values_are_crossed():
    """Each cell of the factorial ranks by one side and shows the values of the other, the reference first."""
    found = capture([[1, 2]], [[3, 4]])
    sides = {0: [[1, 2]], 1: [[3, 4]]}
    for i, j in itertools.product(range(2), range(2)):
        made = treat(found, FACTORIAL[i][j])
        assert (made.state.tolist(), made.shown.tolist()) == (sides[i], sides[j])
    assert {cell for row in FACTORIAL for cell in row} == set(CELLS)


def test_what_is_not_exact_or_not_given_is_refused():
    """A zero residual that turns -0.0 into 0.0 is no control; a selective condition needs a selection."""
    with pytest.raises(InputError, match="missed 1 coordinates"):
        treat(capture([[-0.0, 1]], [[1, 1]]), Condition.ZERO)
    with pytest.raises(InputError, match="replaces a selection of coordinates, and none was given"):
        treat(capture([[1, 2]], [[2, 1]]), Condition.SELECTED)


def top(row, k):
    """The oracle: the k best of a row, ties to the smaller index, as a set."""
    return frozenset(sorted(range(len(row)), key=lambda i: (-row[i], i))[:k])


@settings(max_examples=60)
@given(matrices, matrices)
def test_a_minimal_selection_recovers_and_has_none_to_spare(h, c):
    """In each changed row the restored list is the reference's, and that of every proper subset is not."""
    found = minimal_selection(capture(h, c), TopK(k=2), range(3))
    changed = [row for row in range(3) if top(h[row], 2) != top(c[row], 2)]
    assert changed_rows(capture(h, c), TopK(k=2)) == tuple(changed)
    for row in range(3):
        chosen = np.flatnonzero(found.mask[row])
        if row not in changed:
            assert not len(chosen)
            continue
        for size in range(len(chosen) + 1):
            for part in itertools.combinations(chosen, size):
                mixed = [h[row][i] if i in part else c[row][i] for i in range(6)]
                assert (top(mixed, 2) == top(h[row], 2)) == (size == len(chosen))


def test_a_selection_is_fixed_on_development_captures():
    """It names at most one coordinate of each row, of those captures alone; without any it is refused."""
    found = developed_selection([capture([[5, 4, 3, 2]], [[5, 1, 3, 2]])], TopK(k=2))
    assert found.indices.tolist() == [[0, 1]]
    with pytest.raises(InputError, match="role is development"):
        developed_selection([], TopK(k=2))


@given(matrices, matrices, matrices)
def test_a_residual_is_put_on_the_reference_of_another_environment(h, c, other):
    """The candidate there is Q(h_B + FP32(c) - FP32(h)), and is constructed."""
    there = in_environment(capture(h, c), saved(other))
    assert bits(there.c) == bits(other + (c - h))
    assert bits(there.h) == bits(other)
    assert there.constructed


def test_another_environment_has_the_same_documents_in_the_same_order():
    """A reference of another order or shape is refused."""
    with pytest.raises(InputError, match="different document order"):
        in_environment(capture([[1, 2]], [[2, 1]]), saved([[1, 2]], order="0" * 64))
    with pytest.raises(InputError, match="don't fit a reference of shape"):
        constructed_from(saved([[1, 2]]), np.zeros((2, 2), dtype=np.float32), "made")


@given(st.sets(st.sampled_from(ALGORITHM_1)), st.integers(0, 20))
def test_references_stand_between_the_others(some, turn):
    """Each condition once, H1 first, and as many others before H2 as after it, one more at most."""
    conditions = tuple(name for name in ALGORITHM_1 if name in some)
    order = interleaved(conditions, turn)
    assert sorted(order) == sorted(conditions)
    if "H1" in some:
        assert order[0] == "H1"
    if {"H1", "H2"} <= some:
        place = order.index("H2")
        assert place - 1 - (len(order) - 1 - place) in (0, 1)


def test_the_order_turns_and_nothing_runs_twice():
    """Every attempt is planned once, and over the groups every condition follows every reference."""
    groups = [PlannedGroup(capture="c", task=str(t), role=Role.CHOSEN, conditions=ALGORITHM_1) for t in range(5)]
    plan = list(schedule(groups, ["0", "1"]))
    places = [(p.group.capture, p.group.task, p.repeat, p.condition) for p in plan]
    assert len(places) == len(set(places)) == 5 * 2 * 7
    followers = {b.condition for a, b in itertools.pairwise(plan) if a.condition == "H1" and a.group == b.group}
    assert followers == set(ALGORITHM_1) - {"H1", "H2"}
    with pytest.raises(InputError, match="once"):
        list(schedule([groups[0], groups[0]], ["0"]))
    with pytest.raises(InputError, match="stands twice"):
        interleaved(("H1", "H1"), 0)


def attempt(condition, read, task="t", outcome=Outcome.COMPLETED, exposed=True):
    """An attempt that read the letters of `read`, or did not complete where it is None."""
    if read is None:
        outcome = Outcome.INCOMPLETE
    path = Path(read=tuple(read or ""))
    return Attempt(capture="c", task=task, repeat="0", condition=condition, outcome=outcome, exposed=exposed, path=path)


letters = st.sampled_from(["a", "b", "ab", None])
tables = st.lists(st.tuples(letters, letters, letters, letters), max_size=8)
amounts = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(
    lambda pair: Replacement(selected=4, effective=min(pair), differing=max(pair))
)


@given(tables, st.lists(amounts, min_size=8, max_size=8))
def test_what_a_condition_reaches_is_counted_over_the_changed_groups(table, replaced):
    """Successes, incomplete groups, replacements without effect and parts agree with a loop."""
    groups = grouped(
        attempt(name, read, task=str(number))
        for number, reads in enumerate(table)
        for name, read in zip(("H1", "C", "selected", "transplant"), reads, strict=True)
    )
    held = {(key_of(g), Condition.SELECTED): replaced[int(g.task)] for g in groups}
    found = reaching(groups, Condition.SELECTED, READS, held)
    changed = [(n, r) for n, r in enumerate(table) if None not in r[:2] and set(r[0]) != set(r[1])]
    compared = [(n, r) for n, r in changed if r[2] is not None]
    hit = [(n, r) for n, r in compared if set(r[2]) == set(r[0])]
    part = [n for n, _ in compared if 0 < replaced[n].effective < replaced[n].differing]
    assert (found.changed, found.compared, found.reached) == (len(changed), len(compared), len(hit))
    assert found.ineffective == sum(replaced[n].effective == 0 for n, _ in compared)
    assert (found.partial, found.reached_partial) == (len(part), sum(n in part for n, _ in hit))
    back = reaching(groups, Condition.TRANSPLANT, READS, {})
    assert back.reached == sum(r[3] is not None and set(r[3]) == set(r[1]) for _, r in changed)
    assert (back.ineffective, back.partial) == (0, 0)


def test_where_attempts_part_is_planted_and_found():
    """A reply that differs under one request parts by response; a list that differs parts by request at the next."""
    same = (Exchange(request="r0", response="search"), Exchange(request="r1", response="read 1"))
    planted = {
        "by reply": (same[0], Exchange(request="r1", response="read 2")),
        "by list": (same[0], Exchange(request="R1", response="read 1")),
        "shorter": same[:1],
        "never": same,
    }
    groups, exchanges = [], {}
    for task, other in planted.items():
        (group,) = grouped([attempt("H1", "a", task=task), attempt("C", "a", task=task)])
        groups.append(group)
        exchanges |= {(key_of(group), "H1"): same, (key_of(group), "C"): other}
    found = partings(groups, exchanges, Condition.C)
    assert (found.groups, found.same) == (4, 1)
    assert dict(found.by) == {Parting.RESPONSE: 1, Parting.REQUEST: 1, Parting.LENGTH: 1}
    assert parting(exchanges, key_of(groups[0]), Condition.C).exchange == 1
    assert parting(exchanges, key_of(groups[3]), Condition.C) is None


@given(tables, tables)
def test_presentations_are_compared_where_both_count(one, other):
    """Masked against shown: counted pairs of the same place, and how many differ."""
    shown, masked = (
        [attempt("H1", reads[0], task=str(number)) for number, reads in enumerate(table)] for table in (one, other)
    )
    found = across(shown, masked, "H1", READS)
    pairs = [(a[0], b[0]) for a, b in zip(one, other, strict=False) if a[0] is not None and b[0] is not None]
    assert (found.one, found.other) == tuple(sum(r[0] is not None for r in table) for table in (one, other))
    assert (found.compared, found.differing) == (len(pairs), sum(set(a) != set(b) for a, b in pairs))
