"""Scores of the simulated fault: by hand, by brute force over permutations, and on recorded sequences."""

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_faults import SEQUENCE

from veristate.core import InputError
from veristate.devices import FaultModel, fault_named, write_residuals
from veristate.devices.faults import SequenceFault, Site, read_residuals
from veristate.devices.faults.patterns import Replay
from veristate.devices.faults.scoring import (
    RecordedSequence,
    StaticRates,
    TemporalStatistics,
    accuracy,
    brier_score,
    magnitude_profile,
    predicted,
    profile_distance,
)

NO_ROWS = np.array([], dtype=np.intp)


def recorded(name: str, seed: int, shapes: list[tuple[int, int]], folder: Path) -> tuple[RecordedSequence, FaultModel]:
    """A pass under a simulated fault, written to a file and read back."""
    model = fault_named(name, seed)
    for number, (M, N) in enumerate(shapes):
        Y = torch.from_numpy(np.random.default_rng([seed, number]).standard_normal((M, N)).astype(np.float32))
        model.apply(Site(number=number, member=0, batch=0, layer="layer", shape=(M, N)), Y)
    path = folder / f"{name}-{seed}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        write_residuals(model.events, file.write)
    return RecordedSequence.of(shapes, read_residuals(path)), model


def shapes_of(seed: int, count: int) -> list[tuple[int, int]]:
    """Short and large calls in a random order."""
    rng = np.random.default_rng(seed)
    return [(int(M), 40) for M in rng.choice([31, 65, 600, 930, 1200], count)]


@pytest.mark.parametrize(
    ("probabilities", "events"),
    [([], []), ([0.5], [1, 0]), ([1.5], [1]), ([-0.1], [0]), ([math.nan], [1]), ([0.5], [2]), ([[0.5]], [1])],
)
def test_what_is_no_forecast_has_no_brier_score(probabilities: list, events: list) -> None:
    """Nothing forecast, counts that differ, probabilities or events that are none: refused."""
    with pytest.raises(InputError):
        brier_score(probabilities, events)


@pytest.mark.parametrize(
    ("probabilities", "events", "score", "share"),
    [
        ([1, 0, 1], [1, 0, 1], 0.0, 1.0),
        ([0, 1], [1, 0], 1.0, 0.0),
        ([0.5, 0.5], [1, 0], 0.25, 0.5),
        ([0.25, 0.75, 0.5, 1.0], [0, 1, 1, 0], (0.0625 + 0.0625 + 0.25 + 1) / 4, 0.5),
    ],
)
def test_brier_scores_by_hand(probabilities: list, events: list, score: float, share: float) -> None:
    """The mean squared difference, and the share of calls where the likelier outcome happened."""
    assert brier_score(probabilities, events) == pytest.approx(score, abs=1e-15)
    assert accuracy(probabilities, events) == share


def test_the_base_rate_scores_its_variance() -> None:
    """A constant forecast of the base rate p scores p (1 - p), and any other constant more."""
    events = np.array([1] * 3 + [0] * 7)
    assert brier_score(np.full(10, 0.3), events) == pytest.approx(0.21)
    assert all(brier_score(np.full(10, p), events) > 0.21 for p in (0.0, 0.25, 0.35, 1.0))


@pytest.mark.parametrize(
    ("magnitudes", "bins"), [([], (1.0,)), ([math.nan], (1.0,)), ([1.0], (2.0, 1.0)), ([1.0], (1.0, 1.0))]
)
def test_what_has_no_magnitudes_has_no_profile(magnitudes: list, bins: tuple) -> None:
    """No event, NaN, or bins that don't ascend: refused."""
    with pytest.raises(InputError):
        magnitude_profile(magnitudes, bins)


def test_bins_close_above() -> None:
    """E.3's bins are [0, 1e10], (1e10, 1e24], (1e24, infinity): a border belongs to the bin below it."""
    magnitudes = [0.0, 1.0, 1e10, math.nextafter(1e10, math.inf), 1e24, math.nextafter(1e24, math.inf), math.inf, 1e30]
    assert magnitude_profile(magnitudes).tolist() == [3 / 8, 2 / 8, 3 / 8]
    assert magnitude_profile([0.5, 1.0, 1.5], bins=(1.0,)).tolist() == [2 / 3, 1 / 3]
    assert magnitude_profile([3.0], bins=(1.0, 2.0)).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("p", "q"), [([], []), ([[1.0]], [[1.0], [0.0]]), ([1.0], [1.0]), ([[math.nan]], [[1.0]]), ([[1.0, 0]], [[1.0]])]
)
def test_collections_that_do_not_match_have_no_distance(p: list, q: list) -> None:
    """Empty collections, of different sizes or bins, or with NaN: refused."""
    with pytest.raises(InputError):
        profile_distance(p, q)


def by_brute_force(p: np.ndarray, q: np.ndarray) -> float:
    """The least mean L1 over all permutations, tried one by one."""
    return min(
        sum(abs(a - b) for i, j in enumerate(order) for a, b in zip(p[i], q[j], strict=True)) / len(p)
        for order in permutations(range(len(p)))
    )


profile = st.tuples(*[st.integers(0, 6)] * 3).filter(any).map(lambda c: np.array(c) / sum(c))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), n=st.integers(1, 6))
def test_the_matching_is_the_best_of_all_permutations(data: st.DataObject, n: int) -> None:
    """The distance is what trying every permutation gives; symmetric, within [0, 2], 0 for a reordered collection."""
    p, q = (np.array(data.draw(st.lists(profile, min_size=n, max_size=n))) for _ in range(2))
    distance = profile_distance(p, q)
    assert distance == pytest.approx(by_brute_force(p, q), abs=1e-12)
    assert distance == pytest.approx(profile_distance(q, p), abs=1e-12)
    assert 0 <= distance <= 2
    assert profile_distance(p, p[::-1]) == 0


def test_a_greedy_match_would_be_worse() -> None:
    """Each to its nearest in turn costs more than the best matching, which is taken."""
    p, q = np.array([[0.5, 0.5], [0.4, 0.6]]), np.array([[0.45, 0.55], [0.9, 0.1]])
    assert profile_distance(p, q) == pytest.approx((0.8 + 0.1) / 2)
    assert profile_distance([[1.0, 0.0]], [[0.0, 1.0]]) == 2.0


@pytest.mark.parametrize("short_calls", [True, False])
def test_the_model_predicts_the_table(short_calls: bool) -> None:
    """Predictions follow the table by hand of the four states: certain for short calls, the large share for large ones,
    and the columns of the state.
    """
    fault = SequenceFault(short_calls=short_calls, magnitude=(1.0, 2.0), rows=(8, 16), large_share=0.6, state=2)
    found = predicted(fault, [(rows, 300) for rows, _, _ in SEQUENCE])
    assert fault.state == 2
    for (rows, state, fires), prediction in zip(SEQUENCE, found, strict=True):
        expected = 0.0 if not fires else 0.6 if rows >= 512 else float(short_calls)
        assert prediction.probability == expected
        first, width = (128, 16) if rows < 512 else (32 if state in (1, 2) else 0, 32)
        assert prediction.columns.tolist() == list(range(first, first + width))


@pytest.mark.parametrize("name", ["case1", "case2"])
def test_predicted_chances_come_true(name: str, tmp_path: Path) -> None:
    """Over many calls events happen as often as predicted, never where the chance is 0, always where it is 1; and
    changed columns lie where predicted.
    """
    chances, events = [], []
    for seed in range(6):
        shapes = shapes_of(seed, 200)
        sequence, model = recorded(name, seed, shapes, tmp_path)
        found = predicted(model.fault, shapes)
        for call, (_, columns, _) in sequence.records.items():
            assert columns.tolist() == found[call].columns.tolist()
        chances += [prediction.probability for prediction in found]
        events += sequence.events.tolist()
    happened, forecast = np.array(events), np.array(chances)
    assert not happened[forecast == 0].any()
    assert happened[forecast == 1].all()
    share = 0.5 if name == "case1" else 0.6
    unsure = happened[forecast == share]
    assert len(unsure) > 200
    assert abs(unsure.mean() - share) < 4 * math.sqrt(share * (1 - share) / len(unsure))


def test_a_recorded_sequence_is_what_happened(tmp_path: Path) -> None:
    """Written and read back, a pass has its events, and of each the largest residual, at its call."""
    shapes = shapes_of(9, 120)
    sequence, model = recorded("case2", 9, shapes, tmp_path)
    assert np.flatnonzero(sequence.events).tolist() == [event.site.number for event in model.events if event.stored]
    expected = {event.site.number: float(np.abs(event.residuals).max()) for event in model.events}
    assert {n: m for n, m in enumerate(sequence.magnitudes) if m} == expected


def test_residuals_lost_in_storage_are_no_event() -> None:
    """A record whose every residual is 0 is a call that kept no difference."""
    zero = (np.array([1]), np.array([2]), np.zeros((1, 1)))
    empty = (NO_ROWS, NO_ROWS, np.zeros((0, 0)))
    sequence = RecordedSequence.of([(4, 4)] * 3, Replay(records={0: zero, 2: empty}))
    assert sequence.events.tolist() == [False] * 3


def test_a_record_beyond_the_sequence_is_refused() -> None:
    """Records of calls the sequence doesn't have belong to another one."""
    replay = Replay(records={3: (np.array([0]), np.array([0]), np.ones((1, 1)))})
    with pytest.raises(InputError, match="call 3 has a record, and the sequence 3 calls"):
        RecordedSequence.of([(4, 4)] * 3, replay)


def test_static_rates_by_hand() -> None:
    """The share of events by row count in all sequences together, and of all calls for counts that were not seen."""
    one = (np.array([0]), np.array([0]), np.ones((1, 1)))
    sequences = [
        RecordedSequence(shapes=((4, 9), (4, 9), (7, 9)), records={0: one}),
        RecordedSequence(shapes=((4, 2), (7, 2)), records={0: one, 1: one}),
    ]
    rates = StaticRates.fitted(sequences)
    assert rates.by_rows == {4: pytest.approx(2 / 3), 7: 0.5}
    assert rates.overall == 0.6
    assert rates.probabilities([(7, 1), (5, 1), (4, 1)]).tolist() == [0.5, 0.6, pytest.approx(2 / 3)]
    with pytest.raises(InputError, match="need recorded sequences"):
        StaticRates.fitted([])


def test_knowing_the_sequence_scores_better_than_the_rates(tmp_path: Path) -> None:
    """On sequences of seeds that neither saw, the four-state model's Brier score is below the static baseline's, and
    near what its own chances promise.
    """
    known = [recorded("case2", seed, shapes_of(seed, 128), tmp_path)[0] for seed in range(4)]
    rates = StaticRates.fitted(known)
    dynamic, static, promised = [], [], []
    for seed in range(100, 108):
        shapes = shapes_of(seed, 128)
        sequence, model = recorded("case2", seed, shapes, tmp_path)
        chances = np.array([prediction.probability for prediction in predicted(model.fault, shapes)])
        dynamic.append(brier_score(chances, sequence.events))
        static.append(brier_score(rates.probabilities(shapes), sequence.events))
        promised.append((chances * (1 - chances)).mean())
    assert np.mean(dynamic) < 0.5 * np.mean(static)
    assert np.mean(dynamic) == pytest.approx(np.mean(promised), rel=0.15)


@pytest.mark.parametrize("events", [[], [1]])
def test_one_call_has_no_temporal_statistics(events: list) -> None:
    """Nothing follows anything in fewer than two calls."""
    with pytest.raises(InputError, match="two calls"):
        TemporalStatistics.of(events)


def test_temporal_statistics_by_hand() -> None:
    """0 1 1 0 0 0 1: transitions, switches, runs of 1, 2, 3, 1 counted by hand; the correlation by its definition."""
    found = TemporalStatistics.of([0, 1, 1, 0, 0, 0, 1])
    assert found.transitions == pytest.approx((2 / 6, 2 / 6, 1 / 6, 1 / 6))
    assert found.switching == 0.5
    assert found.run_length == 7 / 4
    before, after = [0, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 1]
    covariance = sum(a * b for a, b in zip(before, after, strict=True)) / 6 - (2 / 6) * (3 / 6)
    assert found.lag_one == pytest.approx(covariance / math.sqrt(2 / 6 * 4 / 6 * 3 / 6 * 3 / 6))
    quiet = TemporalStatistics.of([0] * 5)
    assert (quiet.transitions, quiet.switching, quiet.lag_one, quiet.run_length) == ((1, 0, 0, 0), 0, 0, 5)
