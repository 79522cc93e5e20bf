"""Claim: a Top-K certificate of 10^8 scores takes at most 0.3 of the time of np.partition and 50 MB beside the scores.

One thread, interleaved repeats, medians of processor time; each method is given the same array or the same mapped file.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.record import Claim, note, write
from veristate.decisions import certify_threshold, certify_top_k

SIZES = {10**7: 10**4, 10**8: 10**5}
REPEATS = {10**7: 15, 10**8: 7}
OPEN_RADIUS = 1e-3  # some candidates stay open at every size
ORDERS = ("ascending", "descending", "all equal", "two values")
METHODS = ("array", "mapped", "array, open", "np.partition")


def main() -> None:
    """Measures and writes, or measures one method's memory, as the child that `memory` starts."""
    if len(sys.argv) > 1:
        print(json.dumps(held(sys.argv[1], Path(sys.argv[2]))))
        return
    torch.set_num_threads(1)
    started, data, claims = time.time(), {}, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores"
        for n, k in SIZES.items():
            scores = np.random.default_rng(n).standard_normal(n, dtype=np.float32)
            scores.tofile(path)
            data[f"{n}"] = compare(scores, path, k)
            claims += speed_claims(n, k, data[f"{n}"])
            if n == min(SIZES):
                data["orders"] = {order: compare_order(arranged(order, scores), k) for order in ORDERS}
                claims += order_claims(data["orders"], data[f"{n}"])
        del scores
        data["memory"] = {method: memory(method, path) for method in METHODS}
    data["load_average_afterwards"] = os.getloadavg()
    claims += memory_claims(data["memory"])
    write("certificate_scale", claims, data, started)


def compare(scores: np.ndarray, path: Path, k: int) -> dict:
    """Seconds of every method for one size, and the outcome that they agree on."""
    n = len(scores)
    ranked = np.sort(np.partition(scores, n - k - 1)[-k - 1 :])
    radius = 0.4 * (float(ranked[1]) - float(ranked[0]))
    certificate = certify_top_k(scores, k, radius=radius)
    assert certificate.certified
    assert np.array_equal(np.sort(scores[certificate.chosen]), ranked[1:])
    is_open = certify_top_k(scores, k, radius=OPEN_RADIUS)
    assert not is_open.certified
    radii, room, tensor = np.full(n, radius, dtype=np.float32), np.empty_like(scores), torch.from_numpy(scores)
    times = interleaved(
        {
            "certificate": lambda: certify_top_k(scores, k, radius=radius),
            "np.partition": lambda: np.partition(scores, n - k),
            "np.partition, memory kept": lambda: partition_kept(scores, k, room),
            "np.partition and mask": lambda: partition_and_mask(scores, k),
            "torch.topk": lambda: torch.topk(tensor, k),
            "certificate, mapped": lambda: certify_top_k(mapped(path), k, radius=radius),
            "np.partition, mapped": lambda: np.partition(mapped(path), n - k),
            "certificate, open": lambda: certify_top_k(scores, k, radius=OPEN_RADIUS),
            "certificate, exact scores": lambda: certify_top_k(scores, k),
            "certificate, a radius each": lambda: certify_top_k(scores, k, radius=radii),
            "threshold": lambda: certify_threshold(scores, 3.0, radius=radius),
        },
        REPEATS[n],
    )
    return {"radius": radius, "gap": certificate.gap_lower, "open": is_open.open_count, "times": times}


def compare_order(scores: np.ndarray, k: int) -> dict:
    """Seconds of the certificate, for exact scores, and of np.partition."""
    wanted = np.argsort(-scores, kind="stable")[:k]
    assert np.array_equal(certify_top_k(scores, k).chosen, np.sort(wanted))
    return interleaved(
        {
            "certificate": lambda: certify_top_k(scores, k),
            "np.partition": lambda: np.partition(scores, len(scores) - k),
        },
        REPEATS[len(scores)],
    )


def arranged(order: str, scores: np.ndarray) -> np.ndarray:
    """The same number of scores in an order, or with ties, that may be hard."""
    if order == "all equal":
        return np.full_like(scores, 0.5)
    if order == "two values":
        return (scores > 0).astype(np.float32)
    ascending = np.sort(scores)
    return ascending if order == "ascending" else ascending[::-1].copy()


def partition_kept(scores: np.ndarray, k: int, room: np.ndarray) -> None:
    """np.partition without what its fresh copy costs: the system clears memory for that, more or less slowly."""
    np.copyto(room, scores)
    room.partition(len(scores) - k)


def partition_and_mask(scores: np.ndarray, k: int) -> np.ndarray:
    """The positions that np.partition leads to; ties at the boundary would need more."""
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    return np.flatnonzero(scores >= least)


def mapped(path: Path) -> np.ndarray:
    """The scores as a file mapped anew."""
    return np.memmap(path, dtype=np.float32, mode="r")


def interleaved(methods: dict[str, Callable[[], object]], repeats: int) -> dict:
    """Median, least and most seconds of each, processor and wall; all take turns, after one turn that isn't counted."""
    cpu: dict[str, list[float]] = {name: [] for name in methods}
    wall: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(repeats + 1):
        for name, method in methods.items():
            before, start = time.process_time(), time.perf_counter()
            method()
            if number:
                cpu[name].append(time.process_time() - before)
                wall[name].append(time.perf_counter() - start)
    medians = {name: float(np.median(cpu[name])) for name in methods}
    note(", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in medians.items()))
    return {
        name: {
            "cpu": medians[name],
            "wall": float(np.median(wall[name])),
            "least": min(cpu[name]),
            "most": max(cpu[name]),
        }
        for name in methods
    }


def memory(method: str, path: Path) -> dict:
    """What a fresh process holds beside the scores while it runs one method, in MB."""
    command = [sys.executable, "-m", "benchmarks.certificate_scale", method, str(path)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


def held(method: str, path: Path) -> dict:
    """MB beside the scores at the peak of one method, everything loaded and compiled beforehand.

    `anonymous` is sampled every millisecond; `resident` is the kernel's own peak, mapped file pages included.
    """
    for radius in (1e-9, 1.0):
        certify_top_k(np.linspace(0, 1, 1 << 17, dtype=np.float32), 100, radius=radius)
    scores = mapped(path) if method == "mapped" else np.fromfile(path, dtype=np.float32)
    k, samples, stop = SIZES[len(scores)], [], threading.Event()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again from here
    before = status()

    def sample() -> None:
        while not stop.wait(0.001):
            samples.append(status()["RssAnon"])

    thread = threading.Thread(target=sample)
    thread.start()
    if method == "np.partition":
        np.partition(scores, len(scores) - k)
    else:
        certify_top_k(scores, k, radius=OPEN_RADIUS if "open" in method else 1e-9)
    after = status()
    stop.set()
    thread.join()
    return {
        "anonymous": max(0.0, *samples, after["RssAnon"]) - before["RssAnon"],
        "resident": after["VmHWM"] - before["VmRSS"],
        "samples": len(samples),
    }


def status() -> dict[str, float]:
    """This process's resident memory, in MB: now, at its peak, and what of it is no file."""
    lines = (line.split() for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return {line[0][:-1]: int(line[1]) * 1024 / 1e6 for line in lines if line[0] in ("VmRSS:", "VmHWM:", "RssAnon:")}


def speed_claims(n: int, k: int, measured: dict) -> list[Claim]:
    """The certificate against the partition of the same scores, in memory and in a mapped file."""
    times = measured["times"]
    cpu = {name: entry["cpu"] for name, entry in times.items()}
    barred, what = n == max(SIZES), f"n = {n:.0e}, K = {k:.0e}, float32".replace("e+0", "e")
    claims = []
    for name, against in (("certificate", "np.partition"), ("certificate, mapped", "np.partition, mapped")):
        ratio = cpu[name] / cpu[against]
        details = [
            f"{1e3 * cpu[name]:.1f} ms against {1e3 * cpu[against]:.1f} ms",
            f"wall {times[name]['wall'] / times[against]['wall']:.2f}",
        ]
        if name == "certificate":
            kept, topk = cpu["np.partition, memory kept"], cpu["torch.topk"]
            details.append(f"{cpu[name] / kept:.2f} of a partition in memory kept ready ({1e3 * kept:.1f} ms)")
            details.append(
                f"{cpu[name] / topk:.3f} of torch.topk ({1e3 * topk:.0f} ms); polars is no dependency and left out"
            )
        claims.append(
            Claim(
                claim=f"Top-K {name}, {what}, against np.partition",
                measured=f"{ratio:.2f}",
                unit="of its processor time, 1 thread",
                bar="<= 0.3" if barred else "reported",
                met=ratio <= 0.3 if barred else None,
                detail="; ".join(details),
            )
        )
    rest = ("certificate, exact scores", "certificate, open", "certificate, a radius each", "threshold")
    claims.append(
        Claim(
            claim=f"other certificates, {what}, against np.partition",
            measured=" / ".join(f"{cpu[name] / cpu['np.partition']:.2f}" for name in rest),
            unit="of its processor time: exact scores / open / a radius each / threshold",
            bar="reported",
            met=None,
            detail=f"open: {measured['open']} candidates at a radius of {OPEN_RADIUS}",
        )
    )
    return claims


def order_claims(orders: dict, random: dict) -> list[Claim]:
    """The hardest order against random scores, and against the partition of the same order."""
    base = random["times"]["certificate, exact scores"]["cpu"]
    slower = {order: entry["certificate"]["cpu"] / base for order, entry in orders.items()}
    ratios = {order: entry["certificate"]["cpu"] / entry["np.partition"]["cpu"] for order, entry in orders.items()}
    return [
        Claim(
            claim="the slowest of four orders, n = 1e7, K = 1e4, against random scores",
            measured=f"{max(slower.values()):.1f}",
            unit="times the processor time",
            bar="<= 4",
            met=max(slower.values()) <= 4,
            detail="; ".join(
                f"{order} {slower[order]:.1f}, {ratios[order]:.2f} of np.partition on the same scores"
                for order in orders
            ),
        )
    ]


def memory_claims(measured: dict) -> list[Claim]:
    """The most that a certificate held beside its input."""
    array, is_open, file = measured["array"]["resident"], measured["array, open"]["resident"], measured["mapped"]
    most = max(array, is_open, file["anonymous"])
    return [
        Claim(
            claim="memory beside 1e8 float32 scores, K = 1e5",
            measured=f"{most:.1f}",
            unit="MB at the peak, the most of three",
            bar="< 50",
            met=most < 50,
            detail=f"array {array:.1f}, array with open candidates {is_open:.1f}, mapped file {file['anonymous']:.1f} "
            f"(its pages are the system's, {file['resident']:.0f} MB of them resident); np.partition "
            f"{measured['np.partition']['resident']:.0f}",
        )
    ]


if __name__ == "__main__":
    main()
