"""Claim: the log takes 3,000 durable appends a second in batches, proves an entry in under a millisecond, and a million
entries are verified by an independent reader in minutes.

Entries are of the size of a real envelope. Everything that an append promises is forced to the disk of the temporary
folder; the box is shared, so the load average stands beside the figures.
"""

import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import Claim, note, write
from veristate.attest import UNWITNESSED, Recorder, SigningKey, TileLog, check_log
from veristate.attest.log import extends

ORIGIN = "bench.example/log"
ENTRIES = 1_000_000
ENTRY_BYTES = 1480
BATCHES = {1: 100, 10: 1_000, 100: 20_000, 1000: 50_000}
PROOFS = 2_000


def main() -> None:
    """Measures and writes; a number as argument replaces the million."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    started = time.time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = {"batches": {batch: batched(folder / f"log{batch}", batch, n) for batch, n in BATCHES.items()}}
        note(f"batches: { {batch: round(rate) for batch, rate in data['batches'].items()} }")
        data["whole chain"] = whole_chain(folder / "chain")
        log, data["million"] = filled(folder / "million", total)
        note(f"{total} entries at {data['million']['appends_per_s']:.0f}/s")
        data["proofs"] = proofs(log, total)
        data["fsck"] = verified(log, total)
        data["disk_mb"] = sum(f.stat().st_size for f in log.folder.rglob("*") if f.is_file()) / 1e6
    data["load_average_afterwards"] = os.getloadavg()
    write("log_throughput", claims(data, total), data, started)


def entries(start: int, count: int) -> list[bytes]:
    """Entries of an envelope's size, each once."""
    return [b"%020d" % n + bytes(ENTRY_BYTES - 20) for n in range(start, start + count)]


def opened(folder: Path) -> TileLog:
    """A new log that asks no witness."""
    return TileLog.open(folder, origin=ORIGIN, key=SigningKey.new(), quorum=UNWITNESSED)


def batched(folder: Path, batch: int, count: int) -> float:
    """Appends per second in batches of that size, until the last has returned."""
    log, rows = opened(folder), entries(0, count)
    begun = time.perf_counter()
    for at in range(0, count, batch):
        log.append(rows[at : at + batch])
    return count / (time.perf_counter() - begun)


def whole_chain(folder: Path, count: int = 300) -> dict[str, float]:
    """Commitments per second: made one by one, each durable with its artifacts; then delivered into the log at once."""
    with Recorder.open(folder / "run") as recorder:
        begun = time.perf_counter()
        for n in range(count):
            recorder.commit_to("step", inputs={"x": b"%d" % n}, outputs={"y": b"out %d" % n}, context={})
        made = time.perf_counter() - begun
        log = TileLog.open(folder / "log", origin=recorder.origin, key=SigningKey.new(), quorum=UNWITNESSED)
        begun = time.perf_counter()
        delivered = recorder.outbox.flush(log.append)
        sent = time.perf_counter() - begun
    assert delivered.logged == count + 1
    return {"committed_per_s": count / made, "delivered_per_s": count / sent}


def filled(folder: Path, total: int, batch: int = 1000) -> tuple[TileLog, dict[str, float]]:
    """A log of `total` entries, and how fast it was filled."""
    log, spent = opened(folder), []
    for at in range(0, total, batch):
        rows = entries(at, batch)
        begun = time.perf_counter()
        log.append(rows)
        spent.append(time.perf_counter() - begun)
        if at % (total // 10 or 1) == 0:
            note(f"{at} entries")
    slowest = sorted(spent)[-max(1, len(spent) // 100)]
    return log, {"appends_per_s": total / sum(spent), "batch_ms_p99": 1e3 * slowest}


def proofs(log: TileLog, total: int) -> dict[str, float]:
    """Milliseconds per inclusion proof at random places, each verified by itself first, and per consistency proof."""
    chance, spent, worked = random.Random(7), [], []
    key = [log.key]
    for _ in range(PROOFS):
        index = chance.randrange(total)
        begun, busy = time.perf_counter(), time.process_time()
        proof = log.prove(index)
        spent.append(1e3 * (time.perf_counter() - begun))
        worked.append(1e3 * (time.process_time() - busy))
        proof.trusted(entries(index, 1)[0], origin=ORIGIN, keys=key)
    warm = []
    for index in [chance.randrange(total - 256, total) for _ in range(PROOFS)]:
        begun = time.perf_counter()
        log.prove(index)
        warm.append(1e3 * (time.perf_counter() - begun))
    reader, between = log.reader(log.published()), []
    head = reader.head
    for _ in range(200):
        old = chance.randrange(1, total)
        begun = time.perf_counter()
        path = reader.consistency(old)
        between.append(1e3 * (time.perf_counter() - begun))
        assert extends(old, reader.root(old), head.size, head.root, path)
    return {
        "random_ms": statistics.median(spent),
        "random_processor_ms": statistics.median(worked),
        "random_ms_p99": sorted(spent)[-PROOFS // 100],
        "latest_ms": statistics.median(warm),
        "consistency_ms": statistics.median(between),
    }


def verified(log: TileLog, total: int) -> dict[str, float]:
    """Seconds in which the independent reader reads every byte."""
    begun = time.perf_counter()
    report = check_log(log.folder, str(log.key))
    spent = time.perf_counter() - begun
    assert (report.size, report.findings) == (total, ()), report.findings[:5]
    return {"seconds": spent, "entries_per_s": total / spent}


def claims(data: dict, total: int) -> list[Claim]:
    """The rows."""
    batches, proof, fsck = data["batches"], data["proofs"], data["fsck"]
    rate = data["million"]["appends_per_s"]
    spread = ", ".join(f"{batch}: {value:,.0f}/s" for batch, value in batches.items())
    return [
        Claim(
            claim=f"Durable appends in batches of 1,000, over {total:,} entries of {ENTRY_BYTES} bytes",
            measured=f"{rate:,.0f}",
            unit="/s",
            bar=">= 3,000/s (Tessera claims 2,900/s on POSIX with 12 cores)",
            met=rate >= 3000,
            detail=f"batch size on a new log: {spread}; 99th percentile {data['million']['batch_ms_p99']:.0f} ms",
        ),
        Claim(
            claim="Inclusion proof at a random place, made, checked against the signed root, median",
            measured=f"{proof['random_ms']:.2f}",
            unit="ms",
            bar="< 1 ms",
            met=proof["random_ms"] < 1,
            detail=f"{proof['random_processor_ms']:.2f} ms of processor time; 99th percentile "
            f"{proof['random_ms_p99']:.2f} ms; among the latest {proof['latest_ms']:.2f} ms; "
            f"consistency proof {proof['consistency_ms']:.2f} ms",
        ),
        Claim(
            claim=f"{total:,} entries read and verified by the independent reader",
            measured=f"{fsck['seconds']:.0f}",
            unit="s",
            bar="minutes (< 300 s)",
            met=fsck["seconds"] < 300,
            detail=f"{fsck['entries_per_s']:,.0f} entries a second, {data['disk_mb']:,.0f} MB on disk, one process",
        ),
        Claim(
            claim="Commitments made one by one, artifacts and journal durable; then delivered",
            measured=f"{data['whole chain']['committed_per_s']:,.0f}",
            unit="/s",
            bar="",
            met=None,
            detail=f"signed, journaled, two artifacts each; delivery {data['whole chain']['delivered_per_s']:,.0f}/s",
        ),
    ]


if __name__ == "__main__":
    main()
