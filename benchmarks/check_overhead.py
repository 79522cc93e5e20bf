"""Claim: checks of linear layers cost a few percent of the layer, and a whole model under checks stays usable.

Ratios of processor time, one thread, interleaved in one run, medians. The weights are prepared once, as in use.
"""

import csv
import gc
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.record import Claim, machine, note, write
from veristate.devices.checking import float32_product
from veristate.numerics import Guard, Operands, Stored, Weights, bf16_arithmetic, fp32_arithmetic
from veristate.numerics.kernels import native

REPEATS = 21
SHAPES = ((7000, 300, 300), (2048, 1024, 4096), (300, 512, 5183), (128, 300, 300))
DRAWS = (1, 2, 4, 7)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
# (shape, whole sums or blocks, kernel): the bar in percent.
BARS = {
    ((7000, 300, 300), "whole", "numba"): 30.0,
    ((7000, 300, 300), "whole", "c"): 18.0,
    ((7000, 300, 300), "blocks", "numba"): 35.0,
    ((7000, 300, 300), "blocks", "c"): 35.0,
    ((2048, 1024, 4096), "whole", "c"): 5.0,
    ((2048, 1024, 4096), "blocks", "c"): 9.0,
    ((300, 512, 5183), "whole", "c"): 16.0,
}
ANCHORS = {
    (7000, 300, 300): "naive FP64 371-518 %, double run 122 %",
    (2048, 1024, 4096): "naive FP64 167-190 %, double run 106 %",
    (300, 512, 5183): "naive FP64 313-382 %",
    (128, 300, 300): "naive FP64 426-520 %",
}


def main() -> None:
    """Measures in child processes, one for each kernel, and writes the figures."""
    started, data = time.time(), {}
    if sys.argv[1:] == ["--here"]:
        json.dump(measured(), sys.stdout)
        return
    for kernel, value in (("c", "1"), ("numba", "0")):
        note(f"kernel: {kernel}")
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.check_overhead", "--here"]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, env=os.environ | ONE_THREAD | {"VERISTATE_NATIVE": value}
        )
        data[kernel] = json.loads(done.stdout)
    claims = [*layer_claims(data), *draw_claims(data), *herg_claims(data)]
    write("check_overhead", claims, data, started)


def measured() -> dict[str, Any]:
    """Everything under the kernel that this process loaded."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    found: dict[str, Any] = {"native": native.native is not None, "layers": [], "draws": [], "herg": {}}
    for shape in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            found["layers"].append(layer(shape, dtype, comparators=dtype is torch.float32))
            note(f"{shape} {found['layers'][-1]}")
    for draws in DRAWS:
        found["draws"].append({"draws": draws} | layer(SHAPES[0], torch.float32, draws=draws, whole=False))
    found["herg"] = {dtype: herg(dtype) for dtype in ("fp32", "bf16")}
    note(f"hERG {found['herg']}")
    return found


def layer(
    shape: tuple[int, int, int], dtype: torch.dtype, *, draws: int = 1, whole: bool = True, comparators: bool = False
) -> dict[str, Any]:
    """Median processor time of a bare layer in ms, and of its checks as percent of it."""
    M, K, N = shape
    generator = torch.Generator().manual_seed(1)
    X, W, b = (torch.randn(size, generator=generator).to(dtype) for size in ((M, K), (N, K), (N,)))
    narrow = dtype is torch.bfloat16
    arithmetic = bf16_arithmetic(bias=True) if narrow else fp32_arithmetic(bias=True, flush=False)
    guard, weights = Guard(product=float32_product), Weights.of(W.float().numpy(), b.float().numpy())

    def check(Y: torch.Tensor, block: int | None) -> None:
        call = Operands.of(held(X), weights, None, held(Y))
        done = guard.check(call, arithmetic, block=block, seed=secrets.token_bytes(16), draws=draws)
        assert done.undecided == 0
        assert done.verdict() == "PASS"

    jobs: dict[str, Callable[[torch.Tensor], Any]] = {"blocks": lambda Y: check(Y, 32)}
    if whole:
        jobs["whole"] = lambda Y: check(Y, None)
    if comparators:
        jobs["double"] = lambda Y: torch.equal(torch.nn.functional.linear(X, W, b), Y)
        jobs["naive"] = lambda Y: naive(X, W, b, Y)
    # The comparators run in a loop of their own: the float64 copies of the naive one would push everything else out of
    # the processor's cache.
    percents: dict[str, float] = {}
    for group in (("blocks", "whole"), ("double", "naive")):
        chosen = {name: jobs[name] for name in group if name in jobs}
        if chosen:
            base, found = timed(lambda: torch.nn.functional.linear(X, W, b), chosen)
            percents |= found
            if "blocks" in chosen:
                layer_time = base
    return {
        "shape": shape,
        "dtype": str(dtype).removeprefix("torch."),
        "layer_ms": round(1e3 * layer_time, 3),
    } | percents


def held(a: torch.Tensor) -> np.ndarray | Stored:
    """The values as a check reads them: float32 in place, bfloat16 as the bits it is stored in."""
    if a.dtype is torch.float32:
        return a.numpy()
    return Stored(bits=a.view(torch.int16).numpy().view(np.uint16), representation="bf16")


def timed(
    layer: Callable[[], torch.Tensor], jobs: dict[str, Callable[[torch.Tensor], Any]]
) -> tuple[float, dict[str, float]]:
    """The layer's median processor time in s, and each job's in percent of it, interleaved."""
    times: dict[str, list[float]] = {name: [] for name in jobs} | {"layer": []}
    for repeat in range(REPEATS + 2):
        for name, job in jobs.items():
            start = time.process_time()
            Y = layer()
            middle = time.process_time()
            job(Y)
            if repeat > 1:  # the first two warm up
                times["layer"].append(middle - start)
                times[name].append(time.process_time() - middle)
    base = statistics.median(times.pop("layer"))
    return base, {name: round(100 * statistics.median(spent) / base, 1) for name, spent in times.items()}


def naive(X: torch.Tensor, W: torch.Tensor, b: torch.Tensor, Y: torch.Tensor) -> bool:
    """The check in float64 as one would write it first: row, column and absolute sums, nothing kept."""
    X64, W64, b64, Y64 = (a.double() for a in (X, W, b, Y))
    rows = Y64.sum(1) - (X64 @ W64.sum(0) + b64.sum())
    columns = Y64.sum(0) - (X64.sum(0) @ W64.T + len(X) * b64)
    row_mass = X64.abs() @ W64.abs().sum(0) + b64.abs().sum() + Y64.abs().sum(1)
    column_mass = X64.abs().sum(0) @ W64.abs().T + len(X) * b64.abs() + Y64.abs().sum(0)
    u = 2.0**-23 * (X.shape[1] + 3)
    return bool((rows.abs() <= u * row_mass).all() and (columns.abs() <= u * column_mass).all())


def herg(dtype: str) -> dict[str, float]:
    """The whole pass of the five hERG members over 512 drugs: plain, checked, with a quarter of the sums, and twice."""
    from veristate.devices import Candidates, PredictorSpec, checked, load_predictor
    from veristate.screening.cases.herg import ID_COLUMN, MEMBER_DIGESTS, OUTPUT, SMILES_COLUMN, herg_files, herg_table

    files = herg_files()
    with herg_table().open(newline="", encoding="utf-8") as file:
        rows = [(row[ID_COLUMN], row[SMILES_COLUMN]) for row in csv.DictReader(file)][:512]
    spec = PredictorSpec(
        kind="chemprop",
        dtype=dtype,
        device="cpu",
        batch=128,
        members=tuple(map(str, files.members)),
        digests=MEMBER_DIGESTS,
        output=OUTPUT,
    )
    predictor = load_predictor(
        spec, Candidates(ids=tuple(row[0] for row in rows), inputs=tuple(row[1] for row in rows))
    )

    def run() -> np.ndarray:
        return np.concatenate(
            [predictor.run(m, b) for m in range(len(predictor.models)) for b in range(len(predictor.batches))]
        )

    def under_checks(**options: Any) -> np.ndarray:
        scores = []
        for m, model in enumerate(predictor.models):
            with checked(model, **options) as checks:
                scores += [predictor.run(m, b) for b in range(len(predictor.batches))]
            assert checks.verdict() == "PASS", checks.report()
        return np.concatenate(scores)

    jobs = {
        "default": lambda: under_checks(),
        "a quarter of the sums": lambda: under_checks(sums=0.25),
        "twice": lambda: np.array_equal(run(), run()),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs} | {"plain": []}
    for repeat in range(5):
        for name, job in {"plain": run, **jobs}.items():
            gc.collect()
            start = time.process_time()
            job()
            if repeat:
                times[name].append(time.process_time() - start)
    plain = statistics.median(times["plain"])
    found = {name: round(100 * (statistics.median(times[name]) / plain - 1), 1) for name in jobs}
    return {"plain_s": round(plain, 3)} | found


def layer_claims(data: dict[str, Any]) -> list[Claim]:
    """One row for a shape, granularity and kernel in float32; bfloat16 reported."""
    claims = []
    units = ", ".join(machine()["instructions"])
    for kernel in ("c", "numba"):
        for found in data[kernel]["layers"]:
            shape, dtype = tuple(found["shape"]), found["dtype"]
            for kind in ("whole", "blocks"):
                bar = BARS.get((shape, kind, kernel)) if dtype == "float32" else None
                anchor = ANCHORS[shape] if dtype == "float32" else f"this processor has {units}"
                here = f"; naive {found['naive']} %, double run {found['double']} % here" if "naive" in found else ""
                claims.append(
                    Claim(
                        claim=f"check of a bare layer {shape[0]}x{shape[1]}->{shape[2]}, {dtype}, "
                        f"{'whole rows + columns' if kind == 'whole' else 'rows + blocks of 32'}, {kernel} kernel",
                        measured=f"{found[kind]}",
                        unit="% of the layer",
                        bar="reported" if bar is None else f"<= {bar:g}",
                        met=None if bar is None else found[kind] <= bar,
                        detail=f"layer {found['layer_ms']} ms; {anchor}{here}",
                    )
                )
    return claims


def draw_claims(data: dict[str, Any]) -> list[Claim]:
    """What more sign draws cost."""
    parts = "; ".join(
        f"{kernel}: " + ", ".join(f"s = {found['draws']}: {found['blocks']} %" for found in data[kernel]["draws"])
        for kernel in ("c", "numba")
    )
    shape = "x".join(map(str, SHAPES[0]))
    return [
        Claim(
            claim=f"cost of s sign draws, {shape}, float32, rows + blocks of 32",
            measured=" / ".join(str(found["blocks"]) for found in data["c"]["draws"]),
            unit="% of the layer at s = 1 / 2 / 4 / 7",
            bar="reported",
            met=None,
            detail=f"an error that cancels within a block is missed with probability 2^-s; {parts}",
        )
    ]


def herg_claims(data: dict[str, Any]) -> list[Claim]:
    """The whole forward pass."""
    claims = []
    for dtype in ("fp32", "bf16"):
        c, numba = data["c"]["herg"][dtype], data["numba"]["herg"][dtype]
        claims.append(
            Claim(
                claim=f"the whole hERG forward under `checked`, {dtype}, five members, default mode",
                measured=str(c["default"]),
                unit="% over the forward",
                bar="<= 8" if dtype == "fp32" else "reported",
                met=c["default"] <= 8 if dtype == "fp32" else None,
                detail=f"512 drugs, {c['plain_s']} s plain; numba kernel {numba['default']} %; with a quarter of the "
                f"columns of sums by destination {c['a quarter of the sums']} %; run twice and compared "
                f"{c['twice']} %. Paper: +25.8 % streaming, +88.7 % double (its GPU). What it is made of, and what was "
                "tried: docs/decisions/20-checks-in-one-call.md",
            )
        )
    return claims


if __name__ == "__main__":
    main()
