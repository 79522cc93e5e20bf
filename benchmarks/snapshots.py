"""Claim: of a large workspace of which one percent changed, a snapshot is taken no slower than by git, restic or
dvc-data, restored within 1.2 times the fastest and stored within 1.2 times the smallest; every restore is identical.

One tree for all: small text files in folders and large files of random bytes; 1 % of the small files are rewritten and
1 % of the bytes in place in one large file. Each tool takes both states, the second on what it kept of the first, and
restores the first into an empty folder; each step is a process of its own, of installed (so compiled) code. git runs
without compression, its quickest setting. Between the steps the disk is left to settle, and nothing is removed before
all is measured: ext4 without a journal steps over every inode freed in the last minutes when a file is made.
"""

import argparse
import hashlib
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.record import Claim, note, write
from benchmarks.snapshot_tools import PROMISES, Certifying, Dvc, Git, Restic, Tool, Veristate

FOLDER = 100
LARGE = 16


def fill(work: Path, *, small: int, total: int, seed: int = 1) -> None:
    """The tree: `small` files of about 2 kB of text in folders of a hundred, and 16 of random bytes, `total` in all."""
    draw = random.Random(seed)
    for number in range(small):
        path = work / f"folder-{number // FOLDER:03d}" / f"table-{number:05d}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{number},{row},{draw.random():.9f}\n" for row in range(100)))
    for number in range(LARGE):
        (work / f"weights-{number:02d}.bin").write_bytes(draw.randbytes(total // LARGE))


def change(work: Path, *, small: int, total: int) -> None:
    """One percent: of the small files, and of the bytes, in one place of one large file."""
    draw = random.Random(2)
    for number in range(0, small, 100):
        path = work / f"folder-{number // FOLDER:03d}" / f"table-{number:05d}.csv"
        path.write_text("".join(f"{number},{row},{draw.random():.9f}\n" for row in range(100)))
    with (work / "weights-03.bin").open("r+b") as file:
        file.seek(total // LARGE // 3)
        file.write(draw.randbytes(total // 100))


def tree_digest(folder: Path) -> str:
    """SHA-256 over every path and content, by plain calls. Permissions are left out: git and dvc keep few of them."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        whole.update(f"{path.relative_to(folder)}\0{content}\n".encode())
    return whole.hexdigest()


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, processor seconds of the processes that were run, and the result; begun when the disk is quiet."""
    os.sync()
    begun, used = time.perf_counter(), os.times()
    result = call()
    seconds, now = time.perf_counter() - begun, os.times()
    cpu_s = now.children_user + now.children_system - used.children_user - used.children_system
    return seconds, cpu_s, result


def measured(tool: Tool, base: Path, sizes: dict[str, int], wanted: list[str]) -> dict[str, Any]:
    """One tool on a fresh tree: seconds of each step, bytes on the disk, whether what came back is the same.

    `wanted`: the digests of the tree's two states; filled by the first tool, for the tree is the same for all.
    """
    fill(tool.work, **sizes)
    if not wanted:
        wanted.append(tree_digest(tool.work))
    tool.begin()
    time.sleep(0.2)
    first_s, first_cpu_s, name = timed(tool.take)
    first_bytes = disk_bytes(tool.kept)
    change(tool.work, **sizes)
    if len(wanted) == 1:
        wanted.append(tree_digest(tool.work))
    time.sleep(0.2)
    next_s, next_cpu_s, later = timed(tool.take)
    extra = disk_bytes(tool.kept) - first_bytes
    same = True
    seconds: list[tuple[float, float]] = []
    for snapshot, digest in zip((name, later), wanted, strict=True):
        folder = base / f"restored-{len(seconds)}"
        folder.mkdir()
        seconds.append(timed(lambda f=folder, s=snapshot: tool.restore(s, f))[:2])
        same = same and tree_digest(folder) == digest
    return {
        "first_s": first_s,
        "first_cpu_s": first_cpu_s,
        "incremental_s": next_s,
        "incremental_cpu_s": next_cpu_s,
        "restore_s": seconds[0][0],
        "restore_cpu_s": seconds[0][1],
        "restore_later_s": seconds[1][0],
        "disk_bytes": first_bytes,
        "extra_bytes": extra,
        "identical": same,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Measures and writes. A round is one pass over all tools; medians are compared."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", type=int, default=10_000)
    options.add_argument("--total", type=int, default=2**30)
    options.add_argument("--rounds", type=int, default=3, help="each takes five times four times the tree on the disk")
    options.add_argument("--dvc-python", default="", help="a Python with dvc-data; without it that tool is left out")
    options.add_argument("--folder", default=None, help="where the trees are made")
    given = options.parse_args()
    started = time.time()
    sizes = {"small": given.small, "total": given.total}
    Dvc.python = given.dvc_python
    makers = [Veristate, Git, Restic, *([Dvc] if given.dvc_python else []), Certifying]
    rounds: dict[str, list[dict[str, Any]]] = {}
    wanted: list[str] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        for number in range(given.rounds):
            for make in makers[number % len(makers) :] + makers[: number % len(makers)]:
                base = Path(name) / f"{number}-{make.__name__}"
                base.mkdir()
                done = measured(make(base, base / "work"), base, sizes, wanted)
                rounds.setdefault(make.name, []).append(done)
                note(f"{make.name}: {done}")
        write("snapshots", claims(rounds, sizes), {"sizes": sizes, "rounds": rounds}, started)


def claims(rounds: dict[str, list[dict[str, Any]]], sizes: dict[str, int]) -> list[Claim]:
    """The rows."""
    medians = {
        tool: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for tool, runs in rounds.items()
    }
    ours = medians.pop(Veristate.name)
    slow = medians.pop(Certifying.name)
    detail = f"{sizes['small']:,} small files and {sizes['total'] / 2**20:,.0f} MiB, 1 % changed; medians of "
    detail += f"{len(rounds[Veristate.name])} rounds on a shared machine; peers: "

    def row(claim: str, key: str, factor: float, unit: str, scale: float = 1.0) -> Claim:
        best = min(medians, key=lambda tool: float(medians[tool][key]))
        upper = factor * medians[best][key]
        said = ", ".join(f"{tool} {each[key] / scale:.3g}" for tool, each in medians.items())
        return Claim(
            claim=claim,
            measured=f"{ours[key] / scale:.3g}",
            unit=unit,
            bar=f"<= {upper / scale:.3g} ({factor:g} x {best})",
            met=bool(ours[key] <= upper),
            detail=detail + said + f"; every byte read: {slow[key] / scale:.3g}",
        )

    identical = all(run["identical"] for tool in (Veristate.name, Certifying.name) for run in rounds[tool])
    peers = {tool: all(run["identical"] for run in runs) for tool, runs in rounds.items()}
    return [
        row("incremental snapshot no slower than the fastest peer", "incremental_s", 1.0, "s"),
        row("restore into an empty folder within 1.2 x of the fastest peer", "restore_s", 1.2, "s"),
        row("extra disk of the change within 1.2 x of the smallest peer", "extra_bytes", 1.2, "MB", 1e6),
        Claim(
            claim="every restore is byte-identical",
            measured="yes" if identical else "no",
            unit="",
            bar="yes",
            met=identical,
            detail=", ".join(f"{tool} {'yes' if same else 'no'}" for tool, same in peers.items()) + f"; {PROMISES}",
        ),
        row("incremental snapshot, processor time", "incremental_cpu_s", 1.0, "s"),
        row("restore into an empty folder, processor time", "restore_cpu_s", 1.2, "s"),
        row("first snapshot beside the peers", "first_s", 1.0, "s"),
    ]


if __name__ == "__main__":
    main()
