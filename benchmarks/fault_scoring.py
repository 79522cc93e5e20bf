"""Claim: the four-state fault model predicts recorded sequences better than baselines that ignore the order of calls.

Sequences are recorded from the simulation, written and read back as residual files; 128 calls a session and 8, 16 and
32 sessions, as in E.3. The paper's figures stand beside them as anchors: they were measured on faulty GPUs, ours are
simulated and score the simulator against itself.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.record import Claim, note, write
from veristate.devices import fault_named, write_residuals
from veristate.devices.faults import Site, read_residuals
from veristate.devices.faults.scoring import (
    PAPER_BINS,
    RecordedSequence,
    StaticRates,
    TemporalStatistics,
    accuracy,
    brier_score,
    magnitude_profile,
    predicted,
    profile_distance,
)

CALLS = 128
SESSIONS = (8, 16, 32)
# E.3's row counts and two that step the state by two; four layers whose outputs differ in scale: 32 conditions.
ROWS = (31, 65, 879, 930, 945, 946, 1100, 1400)
LAYERS = ((40, 2.0**-6), (64, 2.0**-2), (48, 2.0**2), (32, 2.0**6))
# Magnitudes here are finite and modest: the paper's bins hold all of them in the first.
BINS = (0.1, 1.0)
# Sessions of the same calls but other draws: what is observed, what baselines were fitted to, what the model simulates.
OBSERVED, KNOWN, SIMULATED = 0, 1000, 2000
ANCHORS = {"brier": (0.0902, 0.1851), "accuracy": (0.8636, 0.6818), "profile": (0.15836, 0.21794)}


def main() -> None:
    """Records, scores and writes the figures."""
    started, claims, data = time.time(), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("case1", "case2"):
            data[name] = {}
            for sessions in SESSIONS:
                note(f"{name}: {sessions} sessions")
                data[name][sessions] = scores(name, sessions, Path(folder))
            claims += claims_of(name, data[name])
    write("fault_scoring", claims, data, started)


def session(name: str, number: int, draw: int, folder: Path) -> RecordedSequence:
    """The calls of one session under a fault: their order is the session's, the values and the fault are the draw's."""
    order = np.random.default_rng(number).integers(len(ROWS) * len(LAYERS), size=CALLS)
    shapes = [(ROWS[c // len(LAYERS)], LAYERS[c % len(LAYERS)][0]) for c in order]
    model = fault_named(name, draw + number)
    for call, ((M, N), condition) in enumerate(zip(shapes, order, strict=True)):
        values = np.random.default_rng([draw + number, call]).standard_normal((M, N), dtype=np.float32)
        Y = torch.from_numpy(values * np.float32(LAYERS[condition % len(LAYERS)][1]))
        model.apply(Site(number=call, member=0, batch=0, layer="layer", shape=(M, N)), Y)
    path = folder / "residuals.jsonl"
    with path.open("w", encoding="utf-8") as file:
        write_residuals(model.events, file.write)
    return RecordedSequence.of(shapes, read_residuals(path))


def scores(name: str, sessions: int, folder: Path) -> dict:
    """Both predictors' scores of events, and the distances of both ways to draw magnitudes."""
    observed, known, simulated = (
        [session(name, number, draw, folder) for number in range(sessions)] for draw in (OBSERVED, KNOWN, SIMULATED)
    )
    events = np.concatenate([sequence.events for sequence in observed])
    rates = StaticRates.fitted(known)
    fault = fault_named(name, 0).fault
    found = [prediction for sequence in observed for prediction in predicted(fault, sequence.shapes)]
    dynamic = np.array([prediction.probability for prediction in found])
    static = np.concatenate([rates.probabilities(sequence.shapes) for sequence in observed])
    return {
        "events": int(events.sum()),
        "calls": len(events),
        "brier": {"dynamic": brier_score(dynamic, events), "static": brier_score(static, events)},
        # What a forecaster who knows every chance still scores: the fault draws lots in states 2 and 3.
        "irreducible": float((dynamic * (1 - dynamic)).mean()),
        "accuracy": {"dynamic": accuracy(dynamic, events), "static": accuracy(static, events)},
        "columns_as_predicted": columns_as_predicted(observed, found),
        "profile": profiles(observed, known, simulated),
        "temporal_error": temporal_errors(observed, simulated, static),
    }


def columns_as_predicted(observed: list[RecordedSequence], found: list) -> float:
    """The share of events whose changed columns lie in the predicted interval."""
    inside = []
    for number, sequence in enumerate(observed):
        for call, (_, columns, residuals) in sequence.records.items():
            moved = columns[np.any(residuals != 0, axis=0)]
            if len(moved):
                inside.append(np.isin(moved, found[number * CALLS + call].columns).all())
    return float(np.mean(inside))


def by_condition(sequences: list[RecordedSequence]) -> dict:
    """The magnitudes of events by the condition (shape) of their call."""
    bank: dict = {}
    for sequence in sequences:
        for shape, magnitude in zip(sequence.shapes, sequence.magnitudes, strict=True):
            if magnitude > 0:
                bank.setdefault(shape, []).append(float(magnitude))
    return bank


def profiles(observed: list, known: list, simulated: list) -> dict:
    """Profile distances to the observed magnitudes: of the model's own simulation, and of records drawn again within
    each condition or from all conditions together.
    """
    seen, bank, drawn = by_condition(observed), by_condition(known), by_condition(simulated)
    conditions = sorted(set(seen) & set(bank) & set(drawn))
    rng = np.random.default_rng(0)
    pool = [magnitude for shape in sorted(bank) for magnitude in bank[shape]]
    ways = {
        "dynamic": [drawn[c] for c in conditions],
        "resampled_within_conditions": [rng.choice(bank[c], len(drawn[c])) for c in conditions],
        "resampled_from_all": [rng.choice(pool, len(drawn[c])) for c in conditions],
    }
    result: dict = {"conditions": len(conditions)}
    for label, bins in (("bins", BINS), ("paper_bins", PAPER_BINS)):
        target = [magnitude_profile(seen[c], bins) for c in conditions]
        result[label] = {
            way: profile_distance(target, [magnitude_profile(m, bins) for m in values]) for way, values in ways.items()
        }
    return result


def temporal_errors(observed: list, simulated: list, static: np.ndarray) -> dict:
    """Absolute errors of the mean temporal statistics: of the model's simulation, and of events at static rates."""
    rng = np.random.default_rng(1)
    chances = static.reshape(len(observed), CALLS)
    ways = {
        "dynamic": [sequence.events for sequence in simulated],
        "static": [rng.random(CALLS) < chance for chance in chances],
    }
    target = mean_statistics([sequence.events for sequence in observed])
    return {
        way: {key: abs(value - target[key]) for key, value in mean_statistics(events).items()}
        for way, events in ways.items()
    }


def mean_statistics(sequences: list) -> dict[str, float]:
    """The statistics' means over sequences, the four transitions by name."""
    found = [TemporalStatistics.of(events) for events in sequences]
    names = ("none_none", "none_event", "event_none", "event_event")
    rows = [
        {"switching": s.switching, "lag_one": s.lag_one, "run_length": s.run_length}
        | dict(zip(names, s.transitions, strict=True))
        for s in found
    ]
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def claims_of(name: str, data: dict) -> list[Claim]:
    """The rows of one fault class, at the largest number of sessions."""
    last = data[SESSIONS[-1]]
    about = f"simulated {name}, {last['calls']} calls, {last['events']} events"
    brier, right, profile = last["brier"], last["accuracy"], last["profile"]
    d, s = ANCHORS["brier"]
    p, q = ANCHORS["profile"]
    a, b = ANCHORS["accuracy"]
    spread = ", ".join(f"{n}: {v['brier']['dynamic']:.4f} / {v['brier']['static']:.4f}" for n, v in data.items())
    return [
        Claim(
            claim=f"{name}: Brier score of events, dynamic / static",
            measured=f"{brier['dynamic']:.4f} / {brier['static']:.4f}",
            unit="lower is better",
            bar=f"dynamic below static; {d} / {s} in the paper, from faulty GPUs",
            met=brier["dynamic"] < brier["static"],
            detail=f"{about}; the fault's own lots leave {last['irreducible']:.4f} to anyone; by sessions {spread}",
        ),
        Claim(
            claim=f"{name}: accuracy of events, dynamic / static",
            measured=f"{right['dynamic']:.4f} / {right['static']:.4f}",
            unit="share of calls",
            bar=f"reported; {a} / {b} in the paper, from faulty GPUs",
            met=None,
            detail=f"{about}; changed columns as predicted in {last['columns_as_predicted']:.4f} of the events",
        ),
        Claim(
            claim=f"{name}: magnitude profile distance, dynamic / resampled within conditions / from all",
            measured=" / ".join(f"{value:.4f}" for value in profile["bins"].values()),
            unit="mean L1 of matched profiles, 0 to 2",
            bar=f"reported; {p} / {q} in the paper, from faulty GPUs",
            met=None,
            detail=f"{about}; {profile['conditions']} conditions, bins up to {BINS[0]:g}, {BINS[1]:g} and above; in "
            f"the paper's bins all are {max(profile['paper_bins'].values()):.0f}",
        ),
    ]


if __name__ == "__main__":
    main()
