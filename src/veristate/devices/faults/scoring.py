"""Scores of the simulated four-state fault against recorded sequences, as E.3 scores its sequence model.

The recorded sequences are the simulation's own, of other seeds: the scores tell whether the model predicts what it
does, beside a baseline that ignores the order of calls. They say nothing about faulty hardware.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from veristate.core import InputError
from veristate.devices.faults.cases import SequenceFault
from veristate.devices.faults.patterns import Record, Replay

FloatArray = NDArray[np.float64]
Shape = tuple[int, int]

# The upper ends of E.3's magnitude bins but the last: [0, 1e10], (1e10, 1e24], (1e24, infinity).
PAPER_BINS = (1e10, 1e24)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSequence:
    """The calls of one pass, in order, and the residuals recorded of those that an event changed."""

    shapes: tuple[Shape, ...]
    records: dict[int, Record]

    @classmethod
    def of(cls, shapes: Iterable[Shape], replay: Replay) -> "RecordedSequence":
        """The sequence of those shapes with the records of a file. Raises: InputError for a call it doesn't have."""
        shapes = tuple(shapes)
        beyond = [call for call in replay.records if call >= len(shapes)]
        if beyond:
            raise InputError(f"call {min(beyond)} has a record, and the sequence {len(shapes)} calls")
        return cls(shapes=shapes, records=replay.records)

    @property
    def magnitudes(self) -> FloatArray:
        """[calls], the largest absolute residual of each; 0 where none was recorded."""
        found = np.zeros(len(self.shapes))
        for call, (_, _, residuals) in self.records.items():
            found[call] = np.abs(residuals).max(initial=0.0)
        return found

    @property
    def events(self) -> NDArray[np.bool_]:
        """[calls], those that kept a difference in storage."""
        return self.magnitudes > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the four-state model says of a call before it is made: the chance of an event, and where it would lie."""

    probability: float
    columns: NDArray[np.intp]


def predicted(fault: SequenceFault, shapes: Iterable[Shape]) -> list[Prediction]:
    """The model's predictions of a sequence of calls from state 0, from their shapes alone. `fault` is left alone."""
    model, found = replace(fault, state=0), []
    for M, N in shapes:
        found.append(Prediction(probability=model.event_probability(M), columns=model.event_columns(M, N)))
        model.step(M)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRates:
    """The baseline: the share of events among the calls of a row count, whatever came before them."""

    by_rows: dict[int, float]
    overall: float

    @classmethod
    def fitted(cls, sequences: Sequence[RecordedSequence]) -> "StaticRates":
        """The rates in recorded sequences. Raises: InputError when they have no calls."""
        rows = np.array([M for sequence in sequences for M, _ in sequence.shapes])
        if not len(rows):
            raise InputError("event rates need recorded sequences with calls")
        events = np.concatenate([sequence.events for sequence in sequences])
        rates = {int(M): float(events[rows == M].mean()) for M in np.unique(rows)}
        return cls(by_rows=rates, overall=float(events.mean()))

    def probabilities(self, shapes: Iterable[Shape]) -> FloatArray:
        """[calls], the rate of each call's row count; of all calls where that count was not seen."""
        return np.array([self.by_rows.get(M, self.overall) for M, _ in shapes])


def brier_score(probabilities: ArrayLike, events: ArrayLike) -> float:
    """The mean squared difference between predicted probabilities and what happened (1 or 0); 0 is best.

    Shapes: alike, not empty. Raises: InputError for other shapes, or probabilities outside [0, 1].
    """
    forecast, happened = np.asarray(probabilities, dtype=np.float64), np.asarray(events, dtype=np.float64)
    if forecast.shape != happened.shape or not forecast.size:
        raise InputError(f"{forecast.shape} probabilities need as many events, got {happened.shape}")
    if not ((forecast >= 0) & (forecast <= 1)).all() or not np.isin(happened, (0.0, 1.0)).all():
        raise InputError("a Brier score needs probabilities in [0, 1] and events that are 0 or 1")
    return float(np.mean((forecast - happened) ** 2))


def accuracy(probabilities: ArrayLike, events: ArrayLike) -> float:
    """The share of calls where the likelier outcome happened; at one half, no event is predicted."""
    return float(np.mean((np.asarray(probabilities) > 0.5) == np.asarray(events, dtype=bool)))


def magnitude_profile(magnitudes: ArrayLike, bins: Sequence[float] = PAPER_BINS) -> FloatArray:
    """The shares of event calls whose magnitude falls into each bin: (-infinity, b1], (b1, b2], ... (b_last, infinity).

    Shapes: [events] to [len(bins) + 1]. Raises: InputError without an event, for NaN, or for bins that don't ascend.
    Source: BioAgent-DF E.3, with its bins by default.
    """
    values = np.asarray(magnitudes, dtype=np.float64)
    if not values.size or np.isnan(values).any() or np.any(np.diff(bins) <= 0):
        raise InputError("a magnitude profile needs events with magnitudes, and bins that ascend")
    counts = np.bincount(np.searchsorted(bins, values, side="left"), minlength=len(bins) + 1)
    return np.asarray(counts / len(values))


def profile_distance(observed: ArrayLike, simulated: ArrayLike) -> float:
    """The least mean L1 distance between two collections of profiles, each matched with one of the other; in [0, 2].

    Maths: min over permutations pi of (1/n) sum_i |p_i - q_pi(i)|_1. Shapes: both [n, bins], n above 0.
    Raises: InputError for other shapes, or values that are not finite. Source: BioAgent-DF E.3.
    """
    p, q = np.asarray(observed, dtype=np.float64), np.asarray(simulated, dtype=np.float64)
    if p.ndim != 2 or p.shape != q.shape or not len(p) or not np.isfinite(p - q).all():
        raise InputError(f"profiles match one to one: finite and [n, bins] twice, got {p.shape} and {q.shape}")
    costs = np.abs(p[:, None, :] - q[None, :, :]).sum(axis=2)
    rows, columns = linear_sum_assignment(costs)
    return float(costs[rows, columns].mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalStatistics:
    """How events follow each other: shares of the four transitions (none-none, none-event, event-none, event-event),
    of calls unlike the one before, the correlation with the one before (0 where nothing varies), the mean run length.
    """

    transitions: tuple[float, float, float, float]
    switching: float
    lag_one: float
    run_length: float

    @classmethod
    def of(cls, events: ArrayLike) -> "TemporalStatistics":
        """The statistics of one sequence. Raises: InputError below two calls."""
        happened = np.asarray(events, dtype=bool)
        if len(happened) < 2:
            raise InputError("temporal statistics need two calls or more")
        before, after = happened[:-1], happened[1:]
        counts = np.bincount(2 * before + after, minlength=4) / len(after)
        switches = int((before != after).sum())
        varies = before.any() and after.any() and not before.all() and not after.all()
        return cls(
            transitions=(float(counts[0]), float(counts[1]), float(counts[2]), float(counts[3])),
            switching=switches / len(after),
            lag_one=float(np.corrcoef(before, after)[0, 1]) if varies else 0.0,
            run_length=len(happened) / (switches + 1),
        )
