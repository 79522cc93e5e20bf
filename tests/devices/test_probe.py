"""Probes on this processor: healthy, and with faults simulated below torch, whose coordinates the tests choose."""

import itertools
import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from probe_faults import Act, Kernels, add, long_call, refuse, rows_of

from veristate.core import EnvironmentUnusableError, InputError
from veristate.devices import (
    FaultPattern,
    ProbeHistory,
    ProbeOptions,
    ProbeRun,
    ProbeVerdict,
    Repetition,
    Replayed,
    default_history,
    read_record,
    record_of,
    replay_failures,
    run_probes,
)
from veristate.devices.probe.identity import DeviceIdentity
from veristate.devices.probe.outcome import Failure
from veristate.devices.probe.plan import planned
from veristate.devices.probe.running import Running
from veristate.devices.switches import ProductSettings

# Multiplied in software on a processor and small: the quickest format to run whole.
QUICK = "fp8-e5m2"


def probe(*formats: str, seed: int = 1, iterations: int | None = 1, **options: Any) -> ProbeRun:
    """One run on this processor."""
    given = {name: options.pop(name) for name in ("clock", "now") if name in options}
    asked = ProbeOptions(seed=seed, iterations=iterations, formats=formats, **options)
    return run_probes(asked, progress=lambda *_: None, **given)


def failing(act: Act, *formats: str, names: tuple[str, ...] | None = None, **options: Any) -> ProbeRun:
    """One run while `act` acts on kernels."""
    with Kernels(act, *([names] if names else [])):
        return probe(*(formats or (QUICK,)), **options)


@pytest.fixture(scope="module")
def healthy() -> ProbeRun:
    """One whole iteration of everything, here and now."""
    return probe()


def test_a_healthy_processor_passes_everything(healthy: ProbeRun) -> None:
    """No false alarm: every format, pattern, layout, layer and round trip; each short and long."""
    assert healthy.verdict() is ProbeVerdict.PASS
    assert healthy.pattern() is FaultPattern.NONE
    assert not healthy.failures
    assert {(row.kind, row.format) for row in healthy.rows} >= {
        ("integers", "fp32"),
        ("integers", "bf16"),
        ("layer", "fp32"),
        ("layer", "bf16"),
        ("bytes", "bytes"),
    }
    for row in healthy.rows:
        assert row.verdict() is ProbeVerdict.PASS
        assert row.calls >= 4
        assert {r.size for r in healthy.rows if (r.kind, r.format) == (row.kind, row.format)} == {"short", "long"}


def test_the_run_says_which_bits_were_toggled(healthy: ProbeRun) -> None:
    """All stored significand bits of both operands: 23 of fp32, 7 of bf16."""
    masks = {t.format: (t.left, t.right) for t in healthy.toggled}
    assert masks["fp32"] == (0x7FFFFF, 0x7FFFFF)
    assert masks["bf16"] == (0x7F, 0x7F)


def test_many_seeds_raise_no_alarm() -> None:
    """Other operands, other layers: none of them fails here."""
    for seed in range(20):
        assert probe(QUICK, seed=seed).verdict() is ProbeVerdict.PASS


@pytest.mark.soak
def test_no_false_alarm_in_many_iterations() -> None:
    """Everything, again and again with new operands: three hundred million elements."""
    run = probe(seed=7, iterations=8)
    assert run.verdict() is ProbeVerdict.PASS
    assert sum(row.compared for row in run.rows if row.kind == "integers") > 3e8


@pytest.mark.parametrize(
    ("when", "pattern"),
    [
        (long_call, FaultPattern.SIZE_DEPENDENT),
        (lambda _: True, FaultPattern.EXPANDED_TRIGGER),
        (lambda result: not long_call(result), FaultPattern.SHORT_ONLY),
    ],
)
def test_which_calls_fail_is_told(when: Any, pattern: FaultPattern) -> None:
    """Long ones alone, both, short ones alone: the classes of the paper, from the calls of either size."""
    run = failing(add((3, 5), when=when))
    assert run.verdict() is ProbeVerdict.FAULT
    assert run.pattern() is pattern
    fired = {"short": pattern is not FaultPattern.SIZE_DEPENDENT, "long": pattern is not FaultPattern.SHORT_ONLY}
    for row in run.rows:
        assert row.failed_calls == row.wrong == (row.calls if fired[row.size] else 0)


@pytest.mark.parametrize(
    ("name", "kernel", "kind"), [("bf16", "mm", "integers"), ("bf16", "bmm", "integers"), ("bf16", "addmm", "layer")]
)
def test_a_fault_of_one_kernel_shows_where_it_runs(name: str, kernel: str, kind: str) -> None:
    """Products mm in the three plain layouts, bmm in the batched one, addmm in the layers; the others pass."""
    run = failing(add((3, 5), amount=2.0**20, when=long_call), name, names=(kernel,))
    assert run.pattern() is FaultPattern.SIZE_DEPENDENT
    layouts = {"mm": {"contiguous", "transposed", "strided"}, "bmm": {"batched"}, "addmm": {""}}
    assert {failure.probe.layout for failure in run.failures} == layouts[kernel]
    assert {failure.probe.kind for failure in run.failures} == {kind}
    assert {failure.probe.size for failure in run.failures} == {"long"}


def test_a_fault_names_its_elements_calls_and_values() -> None:
    """Call 2 and 5 of eight, at the two coordinates that were changed, by the amount they were changed by."""
    calls = itertools.count(-1)  # the tiny product that tries the format out comes first
    change = add((3, 5), (17, 2), amount=-146.75)

    def act(name: str, result: torch.Tensor) -> None:
        if next(calls) % 8 in (2, 5):
            change(name, result)

    run = failing(act)
    assert run.failed_probes == len(run.failures) == 6
    for failure in run.failures:
        assert failure.failed_calls == (2, 5)
        assert failure.wrong == 4
        assert failure.elements == ((3, 5), (17, 2))
        assert [e.index for e in failure.first] == [(3, 5), (17, 2)]
        for element in failure.first:
            assert float(element.observed) == int(element.expected) - 146.75


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0])
def test_values_that_compare_oddly(value: float) -> None:
    """A NaN and an infinity are wrong; a zero of either sign is zero."""

    def act(_name: str, result: torch.Tensor) -> None:
        if value == 0:
            result[result == 0] = value
        else:
            result[0, 0] = value

    run = failing(act)
    if value == 0:
        assert run.verdict() is ProbeVerdict.PASS
    else:
        assert {e.observed for failure in run.failures for e in failure.first} == {str(value)}
        assert json.loads(json.dumps(record_of(run)), parse_constant=pytest.fail)


def test_one_unit_in_a_sum_of_millions_is_seen() -> None:
    """fp32 results are compared without tolerance, however large they are; the batch's other matrices are looked at."""
    run = failing(add((0, 0), when=lambda result: rows_of(result) == 64), "fp32", names=("mm", "bmm"))
    wrong = {(f.probe.pattern, f.probe.layout) for f in run.failures}
    assert wrong == set(
        itertools.product(
            ("positive", "signed", "balanced", "wide-left", "wide-right"),
            ("contiguous", "transposed", "strided", "batched"),
        )
    )
    assert {f.probe.size for f in run.failures} == {"short"}
    largest = max(abs(int(e.expected)) for f in run.failures for e in f.first)
    assert largest > 2**20


def test_bytes_that_come_back_changed() -> None:
    """A byte with one bit turned over is named with what it was; arithmetic is not accused."""

    def act(_name: str, result: torch.Tensor) -> None:
        if result.dtype is torch.uint8 and result.numel() == 2**16:
            result[1234] ^= 0x10

    run = failing(act, "bytes", names=("bitwise_xor",))
    assert run.verdict() is ProbeVerdict.FAULT
    assert run.pattern() is FaultPattern.BYTES_ONLY
    assert {f.probe.pattern for f in run.failures} == {"xor-55", "xor-aa", "xor-ff"}
    for failure in run.failures:
        (element,) = failure.first
        assert element.index == (1234,)
        assert int(element.observed, 16) == int(element.expected, 16) ^ 0x10


def test_counters_do_not_overflow() -> None:
    """Every element of every call wrong: the counts are exact Python integers."""

    def act(_name: str, result: torch.Tensor) -> None:
        result += 1

    run = failing(act)
    for row in run.rows:
        assert type(row.wrong) is int
        assert row.wrong == row.compared == row.calls * row.shape[0] * row.shape[2]


def test_nothing_ran_is_incomplete() -> None:
    """No iteration, or no second: not a pass."""
    none = probe(QUICK, iterations=0)
    assert none.verdict() is ProbeVerdict.INCOMPLETE
    assert not none.rows
    late = probe(QUICK, iterations=None, seconds=0.0)
    assert late.verdict() is ProbeVerdict.INCOMPLETE
    assert {gap.reason for gap in late.not_run} == {"not reached in 0.0 s"}
    assert len(late.not_run) == 6


MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize("error", [MEMORY, RuntimeError("DefaultCPUAllocator: can't allocate memory"), MemoryError()])
def test_a_probe_without_memory_is_incomplete_and_named(error: BaseException) -> None:
    """Never a pass, and never the end of the run: the short probes ran."""
    run = failing(refuse(error, when=long_call))
    assert run.verdict() is ProbeVerdict.INCOMPLETE
    assert {gap.name for gap in run.not_run} == {
        f"{QUICK} integers {pattern} long column-major" for pattern in ("positive", "signed", "balanced")
    }
    assert all(type(error).__name__ in gap.reason for gap in run.not_run)
    assert {row.size: row.verdict() for row in run.rows} == {
        "short": ProbeVerdict.PASS,
        "long": ProbeVerdict.INCOMPLETE,
    }


def test_a_fault_stands_beside_what_did_not_run() -> None:
    """Short calls are wrong and long ones find no memory: FAULT, the gap named, the pattern not claimed."""
    change = add((0, 0))

    def act(name: str, result: torch.Tensor) -> None:
        if long_call(result):
            raise MEMORY
        change(name, result)

    run = failing(act)
    assert run.verdict() is ProbeVerdict.FAULT
    assert run.not_run
    assert run.pattern() is FaultPattern.UNDETERMINED


def test_what_a_probe_had_found_before_it_broke_off_stands() -> None:
    """Its first call is wrong, its second finds no memory: a failure of that call, and a gap."""
    calls = itertools.count(-1)
    change = add((0, 0))

    def act(name: str, result: torch.Tensor) -> None:
        if next(calls) == 1:
            raise MEMORY
        change(name, result)

    run = failing(act)
    assert run.failures[0].failed_calls == (0,)
    assert len(run.not_run) == 1
    assert run.not_run[0].name == run.failures[0].probe.name
    assert run.verdict() is ProbeVerdict.FAULT


def test_a_size_dependent_fault_needs_the_short_calls_to_have_run() -> None:
    """Long calls are wrong, a short probe did not run: undetermined."""
    calls = itertools.count(-1)
    change = add((0, 0), when=long_call)

    def act(name: str, result: torch.Tensor) -> None:
        if next(calls) == 3:
            raise MEMORY
        change(name, result)

    assert failing(act).pattern() is FaultPattern.UNDETERMINED


def test_an_optional_format_is_left_out_by_name_and_one_that_was_asked_for_is_missed() -> None:
    """int8 and FP8 where the library has no such product: not tested; asked for, INCOMPLETE."""
    with Kernels(refuse(NotImplementedError("no such product\nand more")), ("_int_mm", "_scaled_mm")):
        names, untested = Running("cpu", lambda: "", lambda: 0.0).testable(())
    assert names == ("fp32", "bf16", "fp16", "bytes")
    assert dict(untested)["fp8-e4m3"] == dict(untested)["fp8-e5m2"] == "no such product"
    assert "int8" in dict(untested)
    asked = failing(refuse(NotImplementedError("no such product")))
    assert asked.verdict() is ProbeVerdict.INCOMPLETE
    assert [(gap.name, gap.reason) for gap in asked.not_run] == [(QUICK, "no such product")]


def test_a_required_format_the_device_lacks_is_incomplete() -> None:
    """bf16 that can't be multiplied: every probe named."""
    run = failing(refuse(NotImplementedError('"addmm" not implemented for BFloat16')), "bf16")
    assert run.verdict() is ProbeVerdict.INCOMPLETE
    assert all("not implemented for BFloat16" in gap.reason for gap in run.not_run)
    assert not sum(row.calls for row in run.rows)


def test_narrowed_products_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a variable that lets oneDNN narrow float32 products, fp32 is not probed: exact sums can't be demanded."""
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    run = probe("fp32")
    assert run.verdict() is ProbeVerdict.INCOMPLETE
    assert all("ONEDNN_DEFAULT_FPMATH_MODE" in gap.reason for gap in run.not_run)


def test_a_processor_without_the_instructions_is_probed_with_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept from them, bf16 takes shapes that end in seconds, and int8, whose sums then saturate, is not tested."""
    names = ("fp32", "bf16", "int8")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    switches = ProductSettings.read("cpu")
    fewer = {p.format: p.shape for p in planned(names, switches, 0, 0) if (p.size, p.kind) == ("long", "integers")}
    assert fewer["fp32"] == (640, 4096, 128)
    assert np.prod(fewer["bf16"]) < np.prod(fewer["fp32"]) / 10
    assert fewer["bf16"][0] > 512
    run = probe("int8")
    assert run.verdict() is ProbeVerdict.INCOMPLETE
    assert [gap.reason for gap in run.not_run] == ["without AVX512-VNNI sums of int8 products may saturate"]


@pytest.mark.parametrize("wrong", [False, True])
def test_an_interrupt_ends_the_run_and_keeps_what_it_found(wrong: bool) -> None:
    """The rest is named as interrupted; a fault found before stays one."""
    calls = itertools.count(-1)
    change = add((0, 0))

    def act(name: str, result: torch.Tensor) -> None:
        if next(calls) == 12:
            raise KeyboardInterrupt
        if wrong:
            change(name, result)

    run = failing(act)
    assert run.interrupted
    assert run.verdict() is (ProbeVerdict.FAULT if wrong else ProbeVerdict.INCOMPLETE)
    assert sum(row.calls for row in run.rows) == 12
    assert [gap.reason for gap in run.not_run] == ["interrupted"] * 5


def test_seconds_go_on_with_new_operands() -> None:
    """The clock passes one second a look: several iterations, each with operands of its own, all reached once."""
    ticks = itertools.count()
    run = failing(add((0, 0)), iterations=None, seconds=40.0, now=lambda: float(next(ticks)))
    assert run.iterations == 3
    assert run.verdict() is ProbeVerdict.FAULT
    assert not run.not_run
    digests = [failure.operands_digest for failure in run.failures]
    assert len(set(digests)) == len(digests) >= 18


@pytest.mark.parametrize(
    "options",
    [
        {"iterations": 1, "seconds": 1.0},
        {"iterations": -1},
        {"seconds": -1.0},
        {"seconds": float("nan")},
        {"seed": -1},
        {"seed": 2**53},
        {"formats": ("fp12",)},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    """By the name of the option."""
    with pytest.raises(InputError, match=f"--{list(options)[-1].rstrip('s')}"):
        ProbeOptions(**{"seed": 0} | options)


def test_a_device_that_is_not_there_is_refused() -> None:
    """CUDA without CUDA, a word torch doesn't know, a backend that was not compiled in."""
    for device in ("cuda:99", "xpu"):
        with pytest.raises(EnvironmentUnusableError, match=device):
            probe(QUICK, device=device)
    with pytest.raises(InputError, match="abacus"):
        probe(QUICK, device="abacus")


# Records and replays.


def recorded(run: ProbeRun, folder: Path) -> tuple[Failure, ...]:
    """The failures of a run, by way of a file."""
    path = folder / "record.json"
    path.write_text(json.dumps(record_of(run)))
    found = read_record(path)
    assert (found.device, found.failed_probes) == ("cpu", run.failed_probes)
    return found.failures


def replayed(failures: tuple[Failure, ...], act: Act | None) -> tuple[ProbeRun, tuple[Replayed, ...]]:
    """A replay, with or without a fault."""
    with Kernels(act or (lambda *_: None)):
        return replay_failures(failures, "cpu", progress=lambda *_: None)


@pytest.fixture
def failures(tmp_path: Path) -> tuple[Failure, ...]:
    """Three failing probes, long ones, from the second iteration's operands too."""
    run = failing(add((3, 5), (17, 2), when=long_call), iterations=2)
    assert len(run.failures) == 6
    found = recorded(run, tmp_path)
    assert found == run.failures
    return found


def test_a_replay_repeats_exactly_the_failing_probes(failures: tuple[Failure, ...]) -> None:
    """With the same fault: the same elements, from the same operands; the short probes are not run."""
    run, found = replayed(failures, add((3, 5), (17, 2), when=long_call))
    assert run.verdict() is ProbeVerdict.FAULT
    assert [item.repetition for item in found] == [Repetition.SAME_ELEMENTS] * 6
    assert run.failures == failures
    assert {row.size for row in run.rows} == {"long"}


def test_a_replay_tells_other_elements(failures: tuple[Failure, ...]) -> None:
    """One coordinate as before and a new one: fails again, elsewhere, with one in common."""
    run, found = replayed(failures, add((3, 5), (40, 1)))
    assert run.verdict() is ProbeVerdict.FAULT
    assert {(item.repetition, item.common) for item in found} == {(Repetition.OTHER_ELEMENTS, 1)}


def test_a_replay_without_the_fault_passes(failures: tuple[Failure, ...]) -> None:
    """What does not fail again is said to pass now."""
    run, found = replayed(failures, None)
    assert run.verdict() is ProbeVerdict.PASS
    assert {item.repetition for item in found} == {Repetition.PASSES}


def test_a_replay_that_can_not_run_is_incomplete(failures: tuple[Failure, ...]) -> None:
    """No memory, operands that its seed no longer gives, and nothing to repeat."""
    run, found = replayed(failures, refuse(MEMORY))
    assert run.verdict() is ProbeVerdict.INCOMPLETE
    assert {item.repetition for item in found} == {Repetition.NOT_RUN}
    other = [Failure(**{n: getattr(f, n) for n in f.__slots__} | {"operands_digest": "0" * 64}) for f in failures]
    run, found = replayed(tuple(other), None)
    assert run.verdict() is ProbeVerdict.INCOMPLETE
    assert all("other operands" in item.reason for item in found)
    assert replayed((), None)[0].verdict() is ProbeVerdict.INCOMPLETE


def test_layers_and_bytes_are_replayed_too(tmp_path: Path) -> None:
    """Every kind of probe comes back from its record: same operands, same elements."""
    flip = Kernels(lambda _name, result: result[5:9].add_(1), ("bitwise_xor",))
    with flip:
        bytes_failures = recorded(probe("bytes"), tmp_path)
        _, found = replay_failures(bytes_failures, "cpu", progress=lambda *_: None)
    assert {(item.repetition, item.common) for item in found} == {(Repetition.SAME_ELEMENTS, 4)}
    spoil = add((7, 7), amount=1e6, when=lambda result: result.shape[-1] == 300)
    with Kernels(spoil, ("addmm",)):
        run = probe("bf16")
    layers = recorded(run, tmp_path)
    assert {f.probe.kind for f in layers} == {"layer"}
    assert {item.repetition for item in replayed(layers, spoil)[1]} == {Repetition.SAME_ELEMENTS}
    for failure in layers:
        assert abs(float(failure.first[0].observed) - float(failure.first[0].expected) - 1e6) < 1e4


def test_a_record_is_exact_text() -> None:
    """JSON without a float: what matters travels as decimal strings and integers."""
    run = failing(add((3, 5), amount=0.25))
    text = json.dumps(record_of(run))
    content = json.loads(text, parse_float=pytest.fail, parse_constant=pytest.fail)
    assert content["verdict"] == "FAULT"
    assert content["device"]["name"]
    assert content["settings"]["torch"] == torch.__version__
    assert {row["verdict"] for row in content["rows"]} == {"FAULT"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"format": "veristate.probe/9"}, "format is not veristate.probe/1"),
        (lambda c: {k: v for k, v in c.items() if k != "failures"}, "failures"),
        (lambda c: c | {"device": "cpu"}, "no record"),
        (lambda c: c | {"failures": [c["failures"][0] | {"surprise": 1}]}, "surprise"),
        (lambda c: changed_probe(c, pattern="gaussian"), "no probe"),
        (lambda c: changed_probe(c, kind="quantum"), "no probe"),
        (lambda c: changed_probe(c, shape=[8, 8]), "shape"),
        (lambda c: changed_probe(c, shape=[8, 0, 8]), "shape"),
        (lambda c: changed_probe(c, seed=-1), "whole numbers"),
        (lambda c: changed_probe(c, calls=True), "whole numbers"),
        (lambda c: [c], "format"),
    ],
)
def test_a_record_that_is_none_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    """Whatever is wrong with it, an input error that says so."""
    content = record_of(failing(add((3, 5), when=long_call)))
    path = tmp_path / "record.json"
    path.write_text(json.dumps(change(content)))
    with pytest.raises(InputError, match=message):
        read_record(path)


def changed_probe(content: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The record with its first failing probe changed."""
    first = content["failures"][0]
    return content | {"failures": [first | {"probe": first["probe"] | values}]}


def test_a_record_that_is_not_there_or_not_json(tmp_path: Path) -> None:
    """By its path."""
    with pytest.raises(InputError, match=r"none\.json"):
        read_record(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"format": "veristate.pro')
    with pytest.raises(InputError, match=r"cut\.json"):
        read_record(tmp_path / "cut.json")


# Histories.


@pytest.fixture(scope="module")
def run() -> ProbeRun:
    """A short run."""
    return probe("bytes")


def test_a_history_grows_by_a_line_a_run(tmp_path: Path, run: ProbeRun) -> None:
    """In the device's own file, in order; a folder that is not there has none."""
    history = ProbeHistory(tmp_path / "new" / "folder")
    assert history.read().runs == ()
    history.prepare()
    paths = {history.append(run, record=None, replay_of=None) for _ in range(3)}
    assert len(paths) == 1
    found = history.read()
    assert [line["verdict"] for line in found.runs] == ["PASS"] * 3
    assert found.broken == ()
    assert found.runs[0]["name"] == run.device.name
    assert found.runs[0]["calls"] == 8


@pytest.mark.parametrize("tail", [b'{"format": "veristate.probe.hist', b"\xff\xfe", b"[1]", b'{"format": "else"}\n'])
def test_a_broken_last_line_is_reported_and_nothing_is_lost(tmp_path: Path, run: ProbeRun, tail: bytes) -> None:
    """A run that was cut off while writing: its line is named, the lines before and after it are read."""
    history = ProbeHistory(tmp_path)
    path = history.append(run, record=None, replay_of=None)
    with path.open("ab") as file:
        file.write(tail)
    assert len(history.read().runs) == 1
    history.append(run, record=None, replay_of=None)
    found = history.read()
    assert len(found.runs) == 2
    assert [str(path) in line and "line 2" in line for line in found.broken] == [True]


def test_lines_of_runs_at_once_stay_whole(tmp_path: Path, run: ProbeRun) -> None:
    """Forty appends from eight threads: forty runs."""
    history = ProbeHistory(tmp_path)

    def append() -> None:
        for _ in range(5):
            history.append(run, record=None, replay_of=None)

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(history.read().runs), history.read().broken) == (40, ())


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """No file grows beyond a size, the test report's own among them: so only while this is open."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_is_there_whole_or_not_at_all(tmp_path: Path, run: ProbeRun) -> None:
    """The disk takes ten bytes of it: an error that names the folder, and the file as it was."""
    history = ProbeHistory(tmp_path)
    path = history.append(run, record=None, replay_of=None)
    before = path.read_bytes()
    with small_files(len(before) + 10), pytest.raises(EnvironmentUnusableError, match="choose another folder"):
        history.append(run, record=None, replay_of=None)
    assert path.read_bytes() == before


def test_a_folder_that_can_not_be_used_is_named_before_anything_runs() -> None:
    """By the option."""
    with pytest.raises(EnvironmentUnusableError, match="--history /proc/none"):
        ProbeHistory(Path("/proc/none")).prepare()


def test_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """$XDG_STATE_HOME where it is an absolute path, else ~/.local/state."""
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert default_history() == Path("/s/veristate/probes")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", ignored)
        assert default_history() == Path("/h/.local/state/veristate/probes")


def test_a_device_keeps_its_history_when_indices_change() -> None:
    """A GPU is known by its uuid; processors by name and host."""
    common = {"name": "H200 (x)", "driver": "550", "host": "n1", "cores": "0"}
    one = DeviceIdentity(device="cuda:0", index=0, uuid="4f-a", **common)
    assert one.key == DeviceIdentity(device="cuda:3", index=3, uuid="4f-a", **common).key == "cuda-4f-a"
    assert one.key != DeviceIdentity(device="cuda:0", index=0, uuid="4f-b", **common).key
    assert DeviceIdentity(device="cpu", index=0, uuid="", **common).key == "cpu-h200-x-n1"


def test_the_record_names_this_device(healthy: ProbeRun) -> None:
    """Name, index, driver, host and cores, and the switches it computed with."""
    device = healthy.device
    assert device.device == "cpu"
    assert device.name
    assert device.host
    assert device.cores
    assert healthy.settings["device_name"].strip() == device.name
    assert np.isfinite(healthy.seconds)
