"""The CUDA guard: its cases in Triton's interpreter and on a GPU, its kernels compiled for GPUs that are not here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from veristate.core import EnvironmentUnusableError
from veristate.devices import cuda
from veristate.devices.cuda.passes import CELLS, OPTIONS, STEP, TILE, TILES, load_kernels

CASES = Path(__file__).with_name("cuda_guard_cases.py")
SOURCES = sorted(Path(cuda.__file__).parent.glob("*.py"))


def run_cases(**environment: str) -> None:
    """Runs the cases in a process of their own: Triton reads whether to interpret when it is first imported."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_case_holds_in_the_interpreter() -> None:
    """On the CPU, kernel by kernel as plain Python."""
    pytest.importorskip("triton")
    run_cases(TRITON_INTERPRET="1", VERISTATE_GUARD_DEVICE="cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is at hand")
def test_every_case_holds_on_the_gpu() -> None:
    """The compiled kernels, where there is a device to run them."""
    run_cases(TRITON_INTERPRET="0", VERISTATE_GUARD_DEVICE="cuda")


def test_importing_the_room_needs_no_triton() -> None:
    """Where Triton can't be imported the rest of the room can, and no kernel is loaded before it is used.

    torch itself may import Triton (its counter of operations does), so that it was imported says nothing.
    """
    code = "import sys; sys.modules['triton'] = None; import veristate.devices, veristate.devices.cuda as cuda; "
    code += "sys.exit(hasattr(cuda, 'kernels'))"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0


def test_without_triton_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard is optional: whoever asks for it where it can't be is told what is missing."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "veristate.devices.cuda.kernels", raising=False)
    monkeypatch.delattr(cuda, "kernels", raising=False)
    with pytest.raises(EnvironmentUnusableError, match="install"):
        cuda.CudaGuard("cuda")


def test_a_processor_is_refused() -> None:
    """Without the interpreter the kernels run on CUDA devices alone."""
    pytest.importorskip("triton")
    with pytest.raises(EnvironmentUnusableError, match="cpu"):
        cuda.CudaGuard("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_machine_without_a_gpu_says_so() -> None:
    """Triton alone is not enough."""
    pytest.importorskip("triton")
    with pytest.raises(EnvironmentUnusableError, match="no CUDA device"):
        cuda.CudaGuard("cuda")


def test_one_place_reads_from_the_device_and_none_adds_atomically() -> None:
    """What the source says: a sum that two programs add to could differ from run to run."""
    text = {path.name: path.read_text(encoding="utf-8") for path in SOURCES}
    assert len(text) > 5
    assert not any("atomic" in content for content in text.values())
    reads = re.compile(r"\.(cpu|item|tolist|numpy|synchronize)\(\)")
    assert {name: len(reads.findall(content)) for name, content in text.items() if reads.search(content)} == {
        "verdicts.py": 2  # .cpu().numpy(), one expression
    }


# What a launch passes. An argument that happens to be 1 is compiled in as a constant, and is code of its own.
SUMS = {"values": "*bf16", "stride": "i64", "signs": "*i8", "rows": "i32", "columns": "i32"}
ROWS = {"output_tiles": "i32", "input_tiles": "i32", "bits": "*i32", "counts": "*i32", "rows": "i32", "columns": "i32"}
COLUMNS = {"products": "*fp32", "expected": "*fp32", "signs": "*i8", "bits": "*i32", "counts": "*i32"}
COLUMNS |= {"rows": "i32", "columns": "i32"}
ONES = ("rows", "columns", "stride", "output_tiles", "input_tiles")
KERNELS = [
    ("sum_tiles", SUMS, {"WEIGHTED": True, "DRAWS": 2, "TILE": TILE, "STEP": STEP}, 1),
    ("sum_tiles", SUMS | {"values": "*fp32"}, {"WEIGHTED": False, "DRAWS": 1, "TILE": TILE, "STEP": STEP}, 1),
    ("judge_rows", ROWS, {"CELLS": CELLS, "TILES": TILES}, 4),
    ("judge_columns", COLUMNS, {"DRAWS": 2, "CELLS": CELLS}, 4),
]


@pytest.mark.parametrize(("name", "signature", "constants", "warps"), KERNELS)
@pytest.mark.parametrize("single", [False, True], ids=["many", "one row and column"])
def test_kernels_compile_for_data_centre_gpus(
    name: str,
    signature: dict[str, str],
    constants: dict[str, int],
    warps: int,
    single: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """To machine code for A100s and H100s, without atomic additions and without flushing subnormals."""
    triton = pytest.importorskip("triton")
    compiler = pytest.importorskip("triton.backends.compiler")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = getattr(load_kernels(torch.device("cuda")), name)
    fixed = constants | ({one: 1 for one in ONES if one in signature} if single else {})
    types = {arg: "constexpr" if arg in fixed else signature.get(arg, "*fp64") for arg in kernel.arg_names}
    source = triton.compiler.ASTSource(kernel, types, fixed)
    for capability in (90,) if single else (80, 90):
        target = compiler.GPUTarget("cuda", capability, 32)
        found = triton.compile(source, target=target, options={"num_warps": warps} | OPTIONS)
        assert found.asm["cubin"]
        assert not re.search(r"^\s*(@%p\d+ )?(atom|red)\.", found.asm["ptx"], flags=re.MULTILINE)
        assert ".ftz" not in found.asm["ptx"]
