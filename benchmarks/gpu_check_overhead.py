"""Claim: on a GPU the guard costs less than computing the bare linear layer a second time.

Both are timed with the device's own events, in turns, and compared by their medians; a call of the guard is all its
launches, its answer is read once after them. Where there is no CUDA device, the result says so and nothing else.
"""

import statistics
import time
from typing import Any

import torch

from benchmarks.record import Claim, note, write
from veristate.devices.cuda import CudaGuard, CudaWeights
from veristate.numerics import bf16_arithmetic, fp32_arithmetic

SHAPES = ((7000, 300, 300), (2048, 1024, 4096))
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Interleaved repeats; a repeat is this many calls, so that launching, and not one event's resolution, is what is timed.
REPEATS, CALLS = 31, 20


def main() -> None:
    """Times every shape and format and writes the figures."""
    started = time.time()
    if not torch.cuda.is_available():
        write("gpu_check_overhead", [nothing_measured()], {}, started)
        return
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    data: dict[str, Any] = {"device": torch.cuda.get_device_name()}
    claims = []
    for shape in SHAPES:
        for name, dtype in FORMATS.items():
            found = data[f"{name} {shape}"] = measured(shape, dtype)
            note(f"{name} {shape}: {found}")
            claims.append(as_claim(shape, name, found, data["device"]))
    write("gpu_check_overhead", claims, data, started)


def measured(shape: tuple[int, int, int], dtype: torch.dtype) -> dict[str, float]:
    """Medians in microseconds of a bare linear layer, of its check on the device, and of launching the check."""
    M, K, N = shape
    make = torch.Generator(device="cuda").manual_seed(0)
    X, W, b = (torch.randn(*size, generator=make, device="cuda").to(dtype) for size in ((M, K), (N, K), (N,)))
    Y = torch.nn.functional.linear(X, W, b)
    weights = CudaWeights.of(W, b)
    arithmetic = bf16_arithmetic(bias=True) if dtype == torch.bfloat16 else fp32_arithmetic(bias=True, flush=False)
    coefficients = weights.coefficients(arithmetic)
    signs = torch.ones(1, M, dtype=torch.int8, device="cuda")
    guard = CudaGuard("cuda", calls=CALLS)
    work = {
        "forward": lambda: torch.nn.functional.linear(X, W, b),
        "check": lambda: guard.check(X, Y, weights, coefficients, signs),
    }
    times: dict[str, list[float]] = {"forward": [], "check": [], "check_launching": []}
    undecided = 0
    for repeat in range(REPEATS + 3):
        for name, step in work.items():
            device, host = timed(step)
            # The first turns compile and warm up.
            if repeat >= 3:
                times[name].append(device)
                if name == "check":
                    times["check_launching"].append(host)
        undecided += len(guard.undecided())
    medians = {name: statistics.median(values) for name, values in times.items()}
    return medians | {"ratio": medians["check"] / medians["forward"], "undecided_calls": undecided}


def timed(step: Any) -> tuple[float, float]:
    """Microseconds a call of `step` takes on the device, and on the host to launch."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    host = time.perf_counter()
    for _ in range(CALLS):
        step()
    host = time.perf_counter() - host
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / CALLS, host * 1e6 / CALLS


def as_claim(shape: tuple[int, int, int], name: str, found: dict[str, float], device: str) -> Claim:
    """The row of one shape and format."""
    M, K, N = shape
    return Claim(
        claim=f"check over bare linear {M:,} x {K:,} -> {N:,}, {name}, on the GPU",
        measured=f"{found['ratio']:.2f}",
        unit="times the forward's device time",
        bar="under 1",
        met=found["ratio"] < 1,
        detail=f"{device}: forward {found['forward']:.1f} us, check {found['check']:.1f} us "
        f"(launching {found['check_launching']:.1f} us); {found['undecided_calls']:.0f} calls undecided",
    )


def nothing_measured() -> Claim:
    """The row of a machine without a GPU."""
    return Claim(
        claim="check over bare linear on a GPU",
        measured="nothing",
        unit="times the forward's device time",
        bar="under 1",
        met=None,
        detail="no CUDA device was at hand; the kernels are tested in Triton's interpreter",
    )


if __name__ == "__main__":
    main()
