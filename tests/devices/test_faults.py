"""Simulated faults do what their docstrings say: seeded, finite, silent, and at the places they name."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from device_cases import one_herg_member

from veristate.core import InputError, Verdict
from veristate.devices import Event, FaultModel, Granularity, Predictor, ProductSettings, fault_named, watch
from veristate.devices.checking import Checker
from veristate.devices.faults import BitFlips, Fault, Rectangle, SequenceFault, Site, injecting
from veristate.devices.trusted.server import capture_of

NAMES = ("case1", "case2", "bitflip", "multibit", "stripe", "tile", "stuck")
SHAPES = [(600, 300), (65, 300), (31, 31), (700, 300), (64, 1), (1024, 40), (5, 200), (2, 300)] * 12


def output(shape: tuple[int, int], number: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A layer's output, a function of its number."""
    return torch.from_numpy(np.random.default_rng(number).standard_normal(shape)).to(dtype)


def passed(model: FaultModel, shapes: list[tuple[int, int]], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """The outputs of a pass of calls of those shapes, after the fault."""
    outputs = []
    for number, shape in enumerate(shapes):
        Y = output(shape, number, dtype)
        model.apply(Site(number=number, member=0, batch=0, layer="layer", shape=shape), Y)
        outputs.append(Y)
    return outputs


def unnamed(fault: Fault, seed: int = 0) -> FaultModel:
    """A model of that fault."""
    return FaultModel(name="test", fault=fault, seed=seed)


@pytest.mark.parametrize("name", ["", "case3", "Case1", "replay", "replay:", "tile:3"])
def test_unknown_names_are_refused(name: str) -> None:
    """A name that is none is an InputError that lists the names."""
    with pytest.raises(InputError, match=r"known are case1, case2, bitflip.*replay:FILE"):
        fault_named(name, 0)


def test_a_negative_seed_is_refused() -> None:
    """Seeds are 0 or more."""
    with pytest.raises(InputError, match="--seed -1"):
        fault_named("case1", -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_a_fault_is_its_seed(name: str, dtype: torch.dtype) -> None:
    """The same seed gives the same bits, another seed others; every value stays finite, in each format."""
    first, again, other = (fault_named(name, seed) for seed in (4, 4, 5))
    outputs = passed(first, SHAPES, dtype)
    assert all(torch.equal(a, b) for a, b in zip(outputs, passed(again, SHAPES, dtype), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(outputs, passed(other, SHAPES, dtype), strict=True))
    assert all(Y.isfinite().all() for Y in outputs)
    assert first.events


@pytest.mark.parametrize("name", NAMES)
def test_events_say_what_was_changed(name: str) -> None:
    """An event's residuals are the stored outputs less the healthy ones, and nothing outside its rectangle moved."""
    for dtype in (torch.float32, torch.bfloat16):
        model = fault_named(name, 4)
        outputs = passed(model, SHAPES, dtype)
        events = {event.site.number: event for event in model.events}
        for number, Y in enumerate(outputs):
            moved = Y.double().numpy() - output(SHAPES[number], number, dtype).double().numpy()
            if number in events:
                event = events[number]
                index = np.ix_(event.rows, event.columns)
                assert np.array_equal(event.residuals, moved[index])
                assert event.stored == np.count_nonzero(event.residuals)
                moved[index] = 0
            assert not moved.any()
        assert sum(event.stored for event in model.events)


@pytest.mark.parametrize("name", NAMES)
def test_calls_draw_for_themselves(name: str) -> None:
    """What happens in one call depends on its number and the shapes before it, not on other calls' values."""
    model = fault_named(name, 9)
    outputs = passed(model, SHAPES)
    spoilt = fault_named(name, 9)
    for number, shape in enumerate(SHAPES):
        site = Site(number=number, member=0, batch=0, layer="layer", shape=shape)
        Y = output(shape, number + (1000 if number % 2 else 0))
        spoilt.apply(site, Y)
        if number % 2 == 0:
            assert torch.equal(Y, outputs[number])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "fault",
    [SequenceFault(short_calls=True, magnitude=(4.0, 8.0), rows=(8, 16), large_share=0.6), Rectangle(4, 0, share=1.0)],
)
def test_huge_outputs_stay_finite(fault: Fault, dtype: torch.dtype) -> None:
    """Outputs near the largest value are moved to at most that, without a warning."""
    model = unnamed(fault)
    for number in range(20):
        Y = torch.full((600, 40), 3.3e38, dtype=dtype)
        model.apply(Site(number=number, member=0, batch=0, layer="layer", shape=(600, 40)), Y)
        assert Y.isfinite().all()
    assert model.events


@pytest.mark.parametrize("name", NAMES)
def test_a_call_without_rows_is_left_alone(name: str) -> None:
    """A call with no rows can't be changed, and does not stop the fault."""
    model = fault_named(name, 1)
    passed(model, [(0, 300), (0, 1)] * 40)
    assert model.events == []


# By hand, from the rule in SequenceFault's docstring: rows of a call, the state before it, whether it fires for Case 2
# (with large calls always firing where they may). Binary digits: 512 to 1023 have 10, 1024 and 2047 have 11, 4096 13.
SEQUENCE = [
    (600, 0, False),
    (31, 1, False),
    (65, 2, False),
    (1024, 3, True),
    (700, 1, False),
    (100, 2, False),
    (8, 3, True),
    (513, 0, False),
    (31, 1, False),
    (900, 2, True),
    (9, 3, True),
    (511, 0, False),
    (2047, 1, False),
    (512, 3, True),
    (4096, 0, False),
    (511, 2, False),
    (511, 3, True),
]


@pytest.mark.parametrize("short_calls", [True, False])
def test_states_follow_the_table(short_calls: bool) -> None:
    """The state steps by call shapes alone, and calls fire in the states and at the columns a table by hand says."""
    fault = SequenceFault(short_calls=short_calls, magnitude=(1.0, 2.0), rows=(8, 16), large_share=1.0)
    model = unnamed(fault, seed=2)
    for number, (rows, state, fires) in enumerate(SEQUENCE):
        assert fault.state == state
        model.apply(
            Site(number=number, member=0, batch=0, layer="layer", shape=(rows, 300)), output((rows, 300), number)
        )
        fires &= short_calls or rows >= 512
        event = {e.site.number: e for e in model.events}.get(number)
        assert (event is not None) == fires
        if event is not None:
            first, width = (128, 16) if rows < 512 else ({1: 32, 2: 32, 3: 0, 0: 0}[state], 32)
            assert event.columns.tolist() == list(range(first, first + width))


def test_case_1_never_fires_on_short_calls() -> None:
    """Case 1 fires on calls of 512 rows and more alone, Case 2 on shorter ones too and on the large ones of Case 1."""
    rows = np.random.default_rng(0).integers(1, 1200, 600)
    shapes = [(int(n), 40) for n in rows]
    fired = {}
    for name in ("case1", "case2"):
        model = fault_named(name, 3)
        passed(model, shapes)
        fired[name] = [event.site.shape[0] for event in model.events]
    assert min(fired["case1"]) >= 512
    assert min(fired["case2"]) < 512
    large = [n for n in fired["case2"] if n >= 512]
    assert len(large) > len(fired["case1"])
    assert not Counter(fired["case1"]) - Counter(large)
    possible = sum(n >= 512 for n in rows)
    # Half the states; of those half in Case 1, six of ten in Case 2.
    assert abs(len(fired["case1"]) / possible - 0.25) < 0.1
    assert abs(len(large) / possible - 0.3) < 0.1


def test_patches_lie_inside_their_call() -> None:
    """Rows are inside the call and 16 apart, 16 at most; columns an interval inside the layer; sizes as declared."""
    rng = np.random.default_rng(1)
    shapes = [(int(m), int(n)) for m, n in zip(rng.integers(1, 900, 300), rng.integers(1, 400, 300), strict=True)]
    model = fault_named("case2", 8)
    passed(model, shapes)
    assert len(model.events) > 50
    for event in model.events:
        (M, N), rows, columns = event.site.shape, event.rows, event.columns
        assert rows.min() >= 0
        assert rows.max() < M
        assert 1 <= len(rows) <= 16
        assert (np.diff(rows) == 16).all()
        assert columns.min() >= 0
        assert columns.max() < N
        assert len(columns) == min(N, 32 if M >= 512 else 16)
        assert (np.diff(columns) == 1).all()
        mean = float(output((M, N), event.site.number).abs().double().mean())
        sizes = np.abs(event.residuals) / mean
        assert sizes.min() >= 0.5e-3 * 0.99
        assert sizes.max() <= 8 * 1.01
        assert sizes.max() / sizes.min() <= 2.01


def test_rows_move_about() -> None:
    """Over many calls of one shape every part of the call is hit: no unit is always the one."""
    model = fault_named("case1", 0)
    passed(model, [(640, 40)] * 400)
    hit = np.bincount(np.concatenate([event.rows for event in model.events]), minlength=640)
    assert (hit.reshape(-1, 16).sum(axis=1) > 0).all()
    assert hit.max() < len(model.events) / 4


@pytest.mark.parametrize("bits", [1, 3])
def test_flips_change_bits_of_one_stored_word(bits: int) -> None:
    """Exactly so many bits of one element differ, in the 32 bits of float32 or the 16 of bfloat16."""
    for dtype, word in ((torch.float32, torch.int32), (torch.bfloat16, torch.int16)):
        model = unnamed(BitFlips(bits=bits, share=1.0))
        shapes = [(40, 30)] * 60
        outputs = passed(model, shapes, dtype)
        places = set()
        for number, Y in enumerate(outputs):
            difference = (Y.view(word) ^ output((40, 30), number, dtype).view(word)).numpy().astype(np.int64)
            changed = np.argwhere(difference)
            assert len(changed) == 1
            pattern = int(difference[tuple(changed[0])]) & (0xFFFF if word is torch.int16 else 0xFFFFFFFF)
            assert pattern.bit_count() == bits
            places |= {tuple(changed[0])} | {("bit", b) for b in range(32) if pattern >> b & 1}
        assert len([p for p in places if p[0] == "bit"]) > (12 if word is torch.int16 else 20)
        assert len([p for p in places if p[0] != "bit"]) > 50


@pytest.mark.parametrize(
    ("name", "shape"), [("stripe", (1, 300)), ("tile", (16, 16)), ("stuck", (90, 1)), ("bitflip", (1, 1))]
)
def test_patterns_have_their_shape(name: str, shape: tuple[int, int]) -> None:
    """A stripe is one whole row, a tile 16 by 16, a stuck lane one whole column of one value, a flip one element; in a
    smaller call they are cut to it.
    """
    model = fault_named(name, 2)
    outputs = passed(model, [(90, 300)] * 300)
    assert model.events
    for event in model.events:
        assert (len(event.rows), len(event.columns)) == shape
        assert (np.diff(event.rows) == 1).all()
        assert (np.diff(event.columns) == 1).all()
        if name == "stuck":
            assert len(outputs[event.site.number][:, event.columns[0]].unique()) == 1
    small = fault_named(name, 2)
    passed(small, [(3, 2)] * 300)
    assert {(len(e.rows), len(e.columns)) for e in small.events} == {(min(shape[0], 3), min(shape[1], 2))}


def test_the_fault_acts_before_the_watch() -> None:
    """In a model the watcher sees the changed output, and so does the next layer; calls are counted over the pass."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 20), torch.nn.Linear(20, 5)).eval()
    model = unnamed(Rectangle(2, 2, size=3.0, share=1.0))
    X = torch.randn(2, 4, 6)
    seen = []
    with torch.inference_mode():
        for batch in range(2):
            with injecting(net, model, 0, batch), watch(net, lambda c: seen.append((c.X.clone(), c.Y.clone()))):
                net(X)
        healthy = net[0](X).reshape(8, 20)
    assert [(e.site.number, e.site.batch, e.site.layer) for e in model.events] == [
        (0, 0, "0"),
        (1, 0, "1"),
        (2, 1, "0"),
        (3, 1, "1"),
    ]
    for call, event in ((0, model.events[0]), (2, model.events[2])):
        moved = (seen[call][1].double() - healthy.double()).numpy()
        assert np.array_equal(moved[np.ix_(event.rows, event.columns)], event.residuals)
        assert torch.equal(seen[call + 1][0], seen[call][1])
    assert not any(layer._forward_hooks for layer in net)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_magnitudes_straddle_the_bound(dtype: str) -> None:
    """On a real member's layers, in bfloat16, Case 2 stores events that the checks flag and events that their sums
    can't see, until a fault is proven: from then on every element is looked at. In float32 the same sizes stand out.
    """
    drugs = (
        "CC(=O)Oc1ccccc1C(=O)O",
        "CN1CCC[C@H]1c1cccnc1",
        "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
        "CC(C)Cc1ccc(C(C)C(=O)O)cc1",
    )
    predictor = one_herg_member(drugs * 6, dtype=dtype, batch=64)
    alerted = checker_of(predictor)
    flagged, unseen, unseen_by_alerted = 0, 0, 0
    for seed in range(10):
        for checker in (checker_of(predictor), alerted):
            events, verdicts = checked(predictor, checker, fault_named("case2", seed))
            missed = [e for e in events if verdicts[e.site.number] is not Verdict.FLAG and e.stored]
            clean = set(range(len(verdicts))) - {e.site.number for e in events if e.stored}
            assert {verdicts[n] for n in clean} <= {Verdict.PASS}
            if checker is alerted:
                unseen_by_alerted += len(missed)
            else:
                flagged += sum(verdicts[e.site.number] is Verdict.FLAG for e in events)
                unseen += len(missed)
    assert flagged >= 5
    if dtype == "bf16":
        assert unseen > unseen_by_alerted
    else:
        assert flagged >= 0.9 * (flagged + unseen)


def checker_of(predictor: Predictor) -> Checker:
    """A checker that has proven nothing yet."""
    return Checker(predictor, settings=ProductSettings.read("cpu"), granularity=Granularity(draws=1))


def checked(predictor: Predictor, checker: Checker, model: FaultModel) -> tuple[list[Event], list[Verdict]]:
    """The events of one group under a fault, and the verdicts of its calls."""
    verdicts: list[Verdict] = []

    def seen(call: object) -> None:
        verdicts.append(checker.check(capture_of(call, 0, 0), bytes([len(verdicts)]) * 16).verdict)

    with injecting(predictor.models[0], model, 0, 0), watch(predictor.models[0], seen):
        predictor.run(0, 0)
    return model.events, verdicts


def test_log_uniform_sizes_reach_both_ends() -> None:
    """Event sizes spread over their declared range evenly in the logarithm."""
    fault = SequenceFault(short_calls=True, magnitude=(1e-3, 8.0), rows=(8, 16), large_share=1.0)
    model = unnamed(fault)
    passed(model, [(600, 64)] * 500)
    sizes = [float(np.abs(e.residuals).max() / output((600, 64), e.site.number).abs().mean()) for e in model.events]
    shares = [(math.log(s) - math.log(1e-3)) / (math.log(8) - math.log(1e-3)) for s in sizes]
    counts, _ = np.histogram(shares, bins=4, range=(-0.01, 1.01))
    assert counts.min() > len(sizes) / 4 * 0.6
