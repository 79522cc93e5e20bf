"""How a trusted process ends: killed, orphaned, refused or closed, it leaves nothing behind and nobody waiting."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from device_cases import tiny_candidates, tiny_spec

from veristate.core import EnvironmentUnusableError, InputError, digest
from veristate.devices import LinearCall, Predictor, PredictorSpec, TrustedExecutor, run_suspect
from veristate.devices.trusted.slots import Slot


def alive(pid: int) -> bool:
    """Whether a process of that id runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually_dead(pid: int, seconds: float = 20) -> bool:
    """Whether the process ends in time."""
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


class Trap:
    """A pickle that writes a file when it is opened."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple:
        return (Path.touch, (self._marker,))


def test_a_wrong_digest_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    """A checkpoint with another digest is named with both digests, here, and its pickle never ran; asking the refused
    executor again repeats the answer instead of waiting for one.
    """
    path, marker = tmp_path / "trap.pt", tmp_path / "ran"
    path.write_bytes(pickle.dumps(Trap(marker)))
    wanted, found = "0" * 64, digest(path.read_bytes())
    spec = PredictorSpec(kind="chemprop", dtype="fp32", device="cpu", batch=8, members=(str(path),), digests=(wanted,))
    with TrustedExecutor(spec, tiny_candidates(2)) as executor:
        for ask in (lambda: executor.settings, executor.qualify, lambda: executor.recompute([(0, 0)])):
            with pytest.raises(InputError) as refusal:
                ask()
            for part in (str(path), wanted, found):
                assert part in str(refusal.value)
    assert not marker.exists()


def test_a_killed_process_is_named(tiny: Predictor) -> None:
    """After SIGKILL every request raises EnvironmentUnusableError with the process and its signal, at once."""
    call = LinearCall(layer="first", ordinal=0, X=torch.zeros(72, 8), Y=torch.zeros(72, 12))

    def suspect(executor: TrustedExecutor) -> None:
        with executor.checking() as stream:
            stream.put(0, 0, call)
            os.kill(executor.pid, signal.SIGKILL)
            for _ in range(9):
                stream.put(0, 0, call)

    with TrustedExecutor(tiny_spec(), tiny_candidates()) as executor:
        with pytest.raises(EnvironmentUnusableError, match=rf"trusted process {executor.pid} ended \(exit -9\)"):
            suspect(executor)
        for ask in (executor.qualify, lambda: executor.recompute([(0, 0)]), lambda: run_suspect(tiny, executor)):
            with pytest.raises(EnvironmentUnusableError, match="exit -9"):
                ask()


def test_a_process_that_crashes_says_why() -> None:
    """A factory that raises in the trusted process ends it; the error carries the end of what it wrote."""
    with TrustedExecutor(tiny_spec(), tiny_candidates(0)) as executor, pytest.raises(EnvironmentUnusableError) as end:
        executor.qualify()
    assert "ended (exit 1)" in str(end.value)
    assert "need at least one array to stack" in str(end.value)


def test_the_process_dies_with_its_parent() -> None:
    """When the parent is killed, its trusted process ends by itself."""
    script = (
        "import time\nfrom device_cases import *\nfrom veristate.devices import TrustedExecutor\n"
        "e = TrustedExecutor(tiny_spec(), tiny_candidates())\ne.settings\nprint(e.pid, flush=True)\ntime.sleep(99)\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=env) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    assert eventually_dead(child)


def descriptors() -> int:
    """How many file descriptors this process holds."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not walked


def shared_memory() -> int:
    """How many pieces of shared slots this process has mapped."""
    return Path("/proc/self/maps").read_text().count("veristate-slot")


def test_closing_leaves_nothing(tiny: Predictor) -> None:
    """Two executors opened, used and closed leave no descriptor, no mapping, no process and no zombie; closing twice
    does nothing.
    """
    before, maps, pids = descriptors(), shared_memory(), []
    for number in range(2):
        with TrustedExecutor(tiny_spec(), tiny_candidates()) as executor:
            pids.append(executor.pid)
            if number == 0:
                run_suspect(tiny, executor)
        executor.close()
    assert (descriptors(), shared_memory()) == (before, maps)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_process_that_never_starts_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends before it reads a large table is an error at the start, with nothing left open."""
    before = descriptors()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EnvironmentUnusableError, match=r"ended \(exit 1\)"):
        TrustedExecutor(tiny_spec(), tiny_candidates(100_000))
    assert descriptors() == before


def test_a_slot_grows_and_is_shared() -> None:
    """Both sides of a slot see the same bytes, also after it grew past its first megabyte on one side only."""
    ours = Slot.create()
    theirs = Slot(os.dup(ours.fd))
    assert len(ours.view(0)) == len(theirs.view(0)) == 0
    for size in (10, 1 << 20, (1 << 20) + 1, 5 << 20, 3):
        data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        np.frombuffer(ours.view(size), dtype=np.uint8)[:] = data
        assert np.array_equal(np.frombuffer(theirs.view(size), dtype=np.uint8), data)
    mapped = shared_memory()
    for slot in (ours, theirs):
        slot.close()
    assert shared_memory() == mapped - 2
