"""One trusted process checks, recomputes and qualifies: what it says is what an in-process run and numpy say."""

import hashlib
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from device_cases import herg_candidates, herg_spec, tiny_candidates, tiny_spec

from veristate.core import EnvironmentUnusableError, InputError, Verdict, digest
from veristate.devices import (
    FaultModel,
    Granularity,
    LinearCall,
    Predictor,
    TrustedExecutor,
    load_predictor,
    run_suspect,
    summarise,
)
from veristate.devices.faults import Patch, Rectangle, Site
from veristate.devices.trusted.process import SLOTS


def scored(predictor: Predictor) -> dict[tuple[int, int], np.ndarray]:
    """All groups, computed here."""
    groups = [(m, b) for m in range(len(predictor.models)) for b in range(len(predictor.batches))]
    return {group: predictor.run(*group) for group in groups}


def tile(seed: int = 1) -> FaultModel:
    """A fault that spoils a rectangle in every call."""
    return FaultModel(name="tile", fault=Rectangle(height=4, width=4, size=2.0, share=1.0), seed=seed)


def test_bits_that_change_disqualify(trusted: TrustedExecutor, mood: Path) -> None:
    """A process whose scores differ from its earlier ones by a hidden state is refused; repeating them is enough."""
    first = trusted.qualify()
    mood.write_text("drift")
    with pytest.raises(EnvironmentUnusableError, match="does not repeat its own bits"):
        trusted.qualify()
    mood.unlink()
    assert trusted.qualify()["bits"] == first["bits"]


def test_qualifying_names_the_sample(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """Qualifying gives the digest of the first and last batch of every member, computed again here."""
    bits = hashlib.sha256()
    for group in ((0, 0), (0, 2), (1, 0), (1, 2)):
        bits.update(tiny.run(*group).tobytes())
    found = trusted.qualify()
    assert (found["bits"], found["groups"]) == (bits.hexdigest(), "4")
    assert int(found["calls"]) in (12, 24)


def test_other_weights_are_refused_not_accused() -> None:
    """A factory that makes other weights in each process is the user's mistake; no fault is claimed."""
    spec, table = tiny_spec("moody_weights"), tiny_candidates()
    with TrustedExecutor(spec, table) as executor:
        suspect = load_predictor(spec, table)
        assert suspect.weight_digests() != executor.weight_digests
        with pytest.raises(InputError, match="other weights"):
            run_suspect(suspect, executor)


@pytest.mark.parametrize("entropy", ["xyz", "abc", "äöüß"])
def test_entropy_that_is_no_bytes_is_refused(trusted: TrustedExecutor, tiny: Predictor, entropy: str) -> None:
    """Entropy that is not whole bytes in hexadecimal is an InputError and leaves the process alive."""
    with pytest.raises(InputError, match="hexadecimal"):
        run_suspect(tiny, trusted, entropy=entropy)
    assert run_suspect(tiny, trusted, entropy="ABcd").checked.entropy == "abcd"


def test_a_lying_map_of_rows_ends_the_pass(trusted: TrustedExecutor, tiny: Predictor, mood: Path) -> None:
    """A user's wrong rows() ends the pass with an InputError, without a hang, and the next pass is clean."""
    mood.write_text("lie")
    with pytest.raises(InputError, match=r"rows\(\) must give 72 table positions"):
        run_suspect(tiny, trusted, fault=tile())
    mood.unlink()
    assert run_suspect(tiny, trusted).checked.findings.verdict() is Verdict.PASS


class Raising:
    """A fault that raises at its tenth call, as a broken suspect would."""

    def patch(self, site: Site, Y: np.ndarray, rng: np.random.Generator) -> Patch | None:
        """Raises at call 9."""
        if site.number == 9:
            raise RuntimeError("the suspect broke")
        return None


def test_a_suspect_that_raises_leaves_the_process_usable(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """An exception in the middle of a pass passes through; the next pass has its own findings only."""
    with pytest.raises(RuntimeError, match="the suspect broke"):
        run_suspect(tiny, trusted, fault=FaultModel(name="raising", fault=Raising(), seed=0))
    assert len(run_suspect(tiny, trusted).checked.findings.calls) == 2 * 3 * 3


def test_a_healthy_pass_passes_with_the_same_bits(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """A healthy pass gives the in-process bits, one PASS a call in order, and no unit to recompute."""
    expected = scored(tiny)
    done = run_suspect(tiny, trusted)
    for (member, batch), scores in expected.items():
        positions = tiny.batches[batch]
        assert np.array_equal(done.scores[member, positions.start : positions.stop], scores)
    findings = done.checked.findings
    assert [(c.member, c.batch, c.layer) for c in findings.calls] == [
        (m, b, layer) for m in range(2) for b in range(3) for layer in ("first", "second", "last")
    ]
    assert findings.verdict() is Verdict.PASS
    assert not findings.marked_units(2, 64).any()
    assert summarise(findings.calls)["passed"] == 18
    assert findings.checked_on == "trusted executor on cpu"


def test_recomputed_groups_are_the_in_process_bits(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """Recomputing everything, or one group alone, gives the bits of a run in this process, the short batch included."""
    expected, told = scored(tiny), []
    everything = trusted.recompute(expected, told.append)
    assert told == list(expected)
    for group, scores in expected.items():
        assert np.array_equal(everything[group], scores)
    for group in ((1, 2), (0, 1)):
        alone = trusted.recompute([group])
        assert list(alone) == [group]
        assert np.array_equal(alone[group], everything[group])
    assert len(everything[0, 2]) == 64 - 48
    assert trusted.recompute([]) == {}


def test_a_changed_weight_of_the_suspect_is_flagged(trusted: TrustedExecutor) -> None:
    """The trusted process checks against the weights it loaded itself."""
    suspect = load_predictor(tiny_spec(), tiny_candidates())
    with torch.no_grad():
        suspect.models[1].second.weight[4] *= 1.01
    findings = run_suspect(suspect, trusted).checked.findings
    assert {(c.member, c.layer) for c in findings.flagged()} == {(1, "second")}


def test_the_suspects_switches_decide(
    trusted: TrustedExecutor, tiny: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products that the suspect's process may compute in an unknown format are INAPPLICABLE, not passed or accused."""
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "ANY")
    findings = run_suspect(tiny, trusted).checked.findings
    assert {c.verdict for c in findings.calls} == {Verdict.INAPPLICABLE}
    assert all("ONEDNN_DEFAULT_FPMATH_MODE" in c.reason for c in findings.calls)
    assert findings.marked_units(2, 64).all()


def test_fixed_entropy_repeats_the_signs(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """Given entropy gives each call, each time, the first 16 bytes of SHA-256 of it and the call's number as seed."""
    entropy = "00ff" * 16
    passes = [run_suspect(tiny, trusted, entropy=entropy).checked for _ in range(2)]
    expected = [
        hashlib.sha256(bytes.fromhex(entropy) + number.to_bytes(8, "big")).hexdigest()[:32] for number in range(18)
    ]
    for checked in passes:
        assert [c.seed for c in checked.findings.calls] == expected
        assert checked.entropy == entropy


def test_drawn_entropy_is_fresh_and_revealed(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """Without given entropy every pass has other signs; what is revealed afterwards repeats them."""
    first, second = (run_suspect(tiny, trusted).checked for _ in range(2))
    assert first.entropy != second.entropy
    assert not {c.seed for c in first.findings.calls} & {c.seed for c in second.findings.calls}
    again = run_suspect(tiny, trusted, entropy=second.entropy).checked
    assert again.findings == second.findings


def test_evidence_repeats_the_check(trusted: TrustedExecutor, tiny: Predictor) -> None:
    """With numpy and the weights, each evidence row exceeds the bound of its whole sum or of one of its elements."""
    checked = run_suspect(tiny, trusted, fault=tile()).checked
    by_finding: dict[int, dict[str, np.ndarray]] = {}
    for item in checked.evidence:
        assert digest(item.data) == item.blob
        finding = checked.findings.calls[item.finding]
        assert (finding.verdict, item.rows) == (Verdict.FLAG, finding.rows)
        array = np.frombuffer(item.data, dtype=item.dtype).reshape(item.shape)
        by_finding.setdefault(item.finding, {})[item.name] = array
    assert len(by_finding) > 10
    for number, operands in by_finding.items():
        finding = checked.findings.calls[number]
        layer = getattr(tiny.models[finding.member], finding.layer)
        X, W, Y = (a.astype(np.float64) for a in (operands["X"], layer.weight.detach().numpy(), operands["Y"]))
        b = 0.0 if layer.bias is None else layer.bias.detach().double().numpy()
        errors = Y - (X @ W.T + b)
        bounds = 2.0**-23 * (X.shape[1] + 3) * (np.abs(X) @ np.abs(W).T + np.abs(b))
        in_row = np.abs(errors.sum(axis=1)) > bounds.sum(axis=1)
        assert (in_row | (np.abs(errors) > bounds).any(axis=1)).all()


def test_the_draws_asked_for_are_drawn(tiny: Predictor) -> None:
    """An error [[+e, -e], [-e, +e]] within a block escapes one sign draw about every other time, and 16 never here."""
    layer = tiny.models[0].second
    X = torch.from_numpy(np.random.default_rng(2).normal(size=(72, layer.weight.shape[1])).astype(np.float32))
    Y = layer(X).detach()
    Y[[3, 21], [1, 2]] += 8
    Y[[3, 21], [2, 1]] -= 8
    seen = {}
    for draws in (1, 16):
        seen[draws] = 0
        with TrustedExecutor(tiny_spec(), tiny_candidates(), granularity=Granularity(draws=draws)) as executor:
            for number in range(24):  # a pass each: after a proven fault every element is looked at
                with executor.checking(entropy=f"{number:04x}") as stream:
                    stream.put(0, 0, LinearCall(layer="second", ordinal=0, X=X, Y=Y))
                seen[draws] += stream.result.findings.verdict() is Verdict.FLAG
    assert seen[16] == 24
    assert 2 <= seen[1] <= 22


@pytest.mark.parametrize("wrong", [{"block": 0}, {"draws": 0}, {"draws": 17}])
def test_a_granularity_that_checks_nothing_is_refused(wrong: dict[str, int]) -> None:
    """No rows in a block and no draws are an InputError, and so are more draws than there are."""
    with pytest.raises(InputError):
        Granularity(**wrong)


def test_the_suspect_is_held_back(trusted: TrustedExecutor) -> None:
    """While the trusted process stands still the suspect gets three captures ahead and no further."""
    call = LinearCall(layer="first", ordinal=0, X=torch.zeros(72, 8), Y=torch.zeros(72, 12))
    done = []
    with trusted.checking() as stream:

        def suspect() -> None:
            for number in range(SLOTS + 4):
                stream.put(0, 0, call)
                done.append(number)

        os.kill(trusted.pid, signal.SIGSTOP)
        thread = threading.Thread(target=suspect)
        try:
            thread.start()
            time.sleep(0.5)
            assert done == list(range(SLOTS)) == [0, 1, 2]
        finally:
            os.kill(trusted.pid, signal.SIGCONT)
            thread.join(timeout=30)
    assert len(done) == SLOTS + 4
    assert stream.result is not None
    assert stream.result.findings.verdict() is Verdict.PASS


def test_captures_of_every_format_and_size_arrive() -> None:
    """float32, bfloat16, float64, float16 and captures of several megabytes in one pass: seen bit for bit, so that
    healthy calls pass, one wrong element in a growing slot is found, and float16 is not judged.
    """
    spec, table = tiny_spec("formats"), tiny_candidates()
    suspect = load_predictor(spec, table)
    with TrustedExecutor(spec, table) as executor:
        calls = run_suspect(suspect, executor).checked.findings.calls
        big = LastElement(layer="first", rows=72, columns=12_000)
        flagged = run_suspect(suspect, executor, fault=FaultModel(name="last", fault=big, seed=0)).checked.findings
    judged = {m: {c.verdict for c in calls if c.member == m} for m in range(5)}
    assert judged == {m: {Verdict.INAPPLICABLE if m == 3 else Verdict.PASS} for m in range(5)}
    assert max(c.shape[0] * c.shape[2] * 4 for c in calls) > 3 << 20
    assert [(c.member, c.batch, c.rows, c.units) for c in flagged.flagged()] == [
        (4, 0, (71,), (23,)),
        (4, 1, (71,), (47,)),
    ]


class LastElement:
    """Moves the last element of calls of one shape."""

    def __init__(self, *, layer: str, rows: int, columns: int) -> None:
        self._at = (layer, (rows, columns))

    def patch(self, site: Site, Y: np.ndarray, rng: np.random.Generator) -> Patch | None:
        """One element, by one."""
        if (site.layer, site.shape) != self._at:
            return None
        last = [np.array([n - 1]) for n in site.shape]
        return Patch(rows=last[0], columns=last[1], values=Y[-1:, -1:] + np.float32(1))


def test_bf16_autocast_passes_through_the_process() -> None:
    """Under autocast X arrives in float32 and Y in bfloat16; healthy calls pass and recomputation repeats the bits."""
    spec, table = tiny_spec(dtype="bf16"), tiny_candidates()
    suspect = load_predictor(spec, table)
    with TrustedExecutor(spec, table) as executor:
        done = run_suspect(suspect, executor)
        again = executor.recompute([(1, 2)])[1, 2]
    assert done.checked.findings.verdict() is Verdict.PASS
    assert np.array_equal(again, done.scores[1, 48:])
    assert (done.scores.view(np.uint32) & 0xFFFF == 0).all()


def test_herg_passes_with_the_same_bits(herg_hundred: Predictor) -> None:
    """Five real members over a hundred drugs: every call passes and all recomputed bits are the suspect's; a tile
    fault is flagged at the calls it was stored in.
    """
    with TrustedExecutor(herg_spec(), herg_candidates(100)) as executor:
        executor.qualify()
        done = run_suspect(herg_hundred, executor)
        everything = executor.recompute(scored(herg_hundred))
        fault = FaultModel(name="tile", fault=Rectangle(height=16, width=16, size=0.5, share=0.2), seed=3)
        spoilt = run_suspect(herg_hundred, executor, fault=fault)
        executor.qualify()
    findings = done.checked.findings
    assert findings.verdict() is Verdict.PASS
    assert len(findings.calls) == 5 * 2 * 6
    for (member, batch), scores in everything.items():
        positions = herg_hundred.batches[batch]
        assert np.array_equal(scores, done.scores[member, positions.start : positions.stop])
    flagged = {n for n, c in enumerate(spoilt.checked.findings.calls) if c.verdict is Verdict.FLAG}
    assert flagged == {event.site.number for event in fault.events if event.stored}
    # A unit whose scores moved is among the units to recompute.
    moved = spoilt.scores != done.scores
    assert moved.any()
    assert not (moved & ~spoilt.checked.findings.flagged_units(5, 100)).any()
