"""Claim: over random partitions, kills and reorganisations no commitment is lost, none is doubled, and order is kept.

A recorder process commits, delivers, has its heads witnessed and anchored; it is killed by SIGKILL at random moments
and started again. The log and the witness are real and on the disk. Network and chain are simulated: an answer may be
lost before or after the log has written; blocks may be taken back, also below what counted as final.
"""

import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.record import Claim, note, write
from veristate.attest import (
    Commitment,
    Envelope,
    KeyHistory,
    NoteKey,
    NoteKind,
    Quorum,
    Recorder,
    SigningKey,
    State,
    TileLog,
    Witness,
    check_log,
    witness_head,
)
from veristate.attest.witness import Answer
from veristate.core import TamperError

ORIGIN = "bench.example/partition"
LOG_KEY, WITNESS_KEY = SigningKey.new(lambda n: b"1" * n), SigningKey.new(lambda n: b"2" * n)
LOG = NoteKey(name=ORIGIN, kind=NoteKind.LOG, public=LOG_KEY.public)
WITNESS = NoteKey(name="witness.example", kind=NoteKind.WITNESS, public=WITNESS_KEY.public)
FINAL_DEPTH = 3


class Faults:
    """What goes wrong, drawn anew in every process, and told as it happens: a kill forgets nothing."""

    def __init__(self, seed: int, tell: int) -> None:
        self.chance = random.Random(seed)
        self._tell = tell
        self._partition = 0

    def happened(self, what: str) -> None:
        """Tells it."""
        os.write(self._tell, f"!{what}\n".encode())

    def network(self) -> None:
        """Raises while a partition lasts; each lasts for some calls."""
        if self._partition == 0 and self.chance.random() < 0.15:
            self._partition = self.chance.randrange(1, 8)
            self.happened("partitions")
        if self._partition:
            self._partition -= 1
            raise ConnectionResetError("partition")

    def answer(self) -> None:
        """Raises when the answer of what was done is lost."""
        if self.chance.random() < 0.15:
            self.happened("lost answers")
            raise TimeoutError("the answer was lost")


class Chain:
    """Heads by block, in a file. Blocks may be taken back."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def blocks(self) -> list[int]:
        """The size anchored in each block."""
        return json.loads(self._path.read_text()) if self._path.exists() else []

    def mine(self, size: int) -> None:
        """One more block."""
        self._put([*self.blocks(), size])

    def take_back(self, count: int) -> None:
        """A reorganisation: the last blocks are gone."""
        self._put(self.blocks()[: -count or None])

    def _put(self, blocks: list[int]) -> None:
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(blocks))
        draft.rename(self._path)


def open_log(folder: Path) -> TileLog:
    """The log, which publishes what the witness cosigned."""
    quorum = Quorum(members=(WITNESS,), threshold=1)
    return TileLog.open(folder / "log", origin=ORIGIN, key=LOG_KEY, quorum=quorum)


def run(folder: Path, total: int, seed: int, tell: int) -> None:
    """The recorder process: goes on where the one before it was killed, and tells of each commitment it made."""
    faults = Faults(seed, tell)
    log, chain = open_log(folder), Chain(folder / "chain.json")
    witness = Witness(folder / "witness", name=WITNESS.name, key=WITNESS_KEY, logs=[LOG])

    def submit(entries: Sequence[bytes]) -> Sequence[int]:
        faults.network()
        places = log.append(entries)
        faults.answer()
        return places

    def ask(body: bytes) -> Answer:
        faults.network()
        answer = witness.add_checkpoint(body)
        faults.answer()
        return answer

    with Recorder.open(folder / "run", origin=ORIGIN) as recorder:
        number = len(recorder.outbox.items()) - 1
        while number < total:
            recorder.commit_to("step", inputs={}, outputs={"y": b"%d" % number}, context={}, execution=f"e{number}")
            os.write(tell, b"%d\n" % number)
            number += 1
            if faults.chance.random() < 0.2:
                recorder.outbox.flush(submit)
            if faults.chance.random() < 0.1:
                publish(recorder, log, ask)
            if faults.chance.random() < 0.1:
                anchor(recorder, chain, faults)
        while recorder.outbox.pending():
            recorder.outbox.flush(submit)
        while not publish(recorder, log, ask):
            pass


def publish(recorder: Recorder, log: TileLog, ask: object) -> bool:
    """Whether the witness cosigned the log's head."""
    done = witness_head(log, [(WITNESS, ask)])  # type: ignore[list-item]
    if done.checkpoint:
        recorder.outbox.witnessed(done.checkpoint.head.size, str(done.checkpoint), done.times)
    return done.checkpoint is not None


def anchor(recorder: Recorder, chain: Chain, faults: Faults) -> None:
    """Anchors the witnessed entries; final is what lies under `FINAL_DEPTH` blocks. Some blocks are taken back."""
    witnessed = sum(1 for _, state in recorder.outbox.items() if state in (State.WITNESSED, State.ANCHORED))
    chain.mine(witnessed)
    if faults.chance.random() < 0.3:
        faults.happened("reorganisations")
        chain.take_back(faults.chance.randrange(1, FINAL_DEPTH + 2))
    final = max(chain.blocks()[:-FINAL_DEPTH] or [0])
    told = sum(1 for _, state in recorder.outbox.items() if state is State.ANCHORED)
    if final > told:
        recorder.outbox.anchored(final, {"chain": "simulated"})
    elif final < told:
        recorder.outbox.unanchored(final, "blocks were taken back")


def endure(folder: Path, total: int, seed: int) -> dict[str, int]:
    """Runs and kills until everything is delivered; how often what went wrong."""
    chance, seen, told = random.Random(seed), Counter(), set()
    while True:
        done, tell = os.pipe()
        mine = chance.randrange(2**32)
        process = os.fork()
        if process == 0:
            os.close(done)
            try:
                run(folder, total, mine, tell)
                os._exit(0)
            except BaseException as error:
                print(f"child: {error!r}", file=sys.stderr, flush=True)
                os._exit(1)
        os.close(tell)
        deadline = time.time() + chance.expovariate(1 / 3.0)
        with os.fdopen(done, "rb", buffering=0) as lines:
            ended = wait_until(process, deadline)
            said = b"".join(iter(lambda: lines.read(65536), b"")).split(b"\n")
        told |= {int(line) for line in said if line.isdigit()}
        seen.update(line[1:].decode() for line in said if line.startswith(b"!"))
        inspect(folder)
        if ended == 0:
            return dict(seen) | {"told": len(told)}
        assert ended == -signal.SIGKILL, ended
        seen["kills"] += 1
        note(f"{len(told)} of {total} commitments, {seen['kills']} kills")


def wait_until(process: int, deadline: float) -> int:
    """The exit code of the process; at the deadline it is killed."""
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.time() > deadline:
            os.kill(process, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        time.sleep(0.005)


def inspect(folder: Path) -> None:
    """After every process: what is published is whole, and nothing is shown as further than it is."""
    if (folder / "log" / "checkpoint").exists():
        report = check_log(folder / "log", str(LOG))
        assert report.whole, report.findings[:3]
    final = max(Chain(folder / "chain.json").blocks() or [0])
    log = open_log(folder)
    size = log.integrated().head.size
    with Recorder.open(folder / "run", origin=ORIGIN) as recorder:
        for item, state in recorder.outbox.items():
            assert state is State.PENDING or (item.place is not None and item.place < size)
            assert state is not State.ANCHORED or final > 0


def judged(folder: Path, total: int) -> dict[str, int]:
    """Lost, doubled and displaced commitments, and signatures that don't hold, from the public log alone."""
    entries: list[tuple[int, Envelope]] = []
    report = check_log(
        folder / "log", str(LOG), each=lambda place, entry: entries.append((place, Envelope.from_bytes(entry)))
    )
    history = KeyHistory.of(entries)
    steps, bad = [], 0
    for place, envelope in entries:
        try:
            said = Commitment.from_envelope(envelope)
        except TamperError:
            continue
        steps.append((said, envelope.payload_digest))
        bad += not history.standing(said, envelope, place).good
    counted = Counter(said.execution for said, _ in steps)
    return {
        "logged": len(steps),
        "lost": sum(f"e{n}" not in counted for n in range(total)),
        "doubled": sum(count - 1 for count in counted.values()),
        "out of order": sum(
            later.sequence != earlier.sequence + 1 or later.predecessor != name
            for (earlier, name), (later, _) in itertools.pairwise(steps)
        ),
        "bad signatures": bad,
        "findings": len(report.findings),
        "forks": len(Witness(folder / "witness", name=WITNESS.name, key=WITNESS_KEY, logs=[LOG]).forks()),
    }


def main() -> None:
    """Measures and writes; `--soak` runs 10,000 commitments, a number so many."""
    arguments = sys.argv[1:]
    total = 10_000 if "--soak" in arguments else int(arguments[0]) if arguments else 1_000
    started = time.time()
    with tempfile.TemporaryDirectory() as name:
        seen = endure(Path(name), total, seed=20)
        found = judged(Path(name), total)
    wrong = sum(found[key] for key in ("lost", "doubled", "out of order", "bad signatures", "findings", "forks"))
    faults = ", ".join(f"{count} {what}" for what, count in sorted(seen.items()) if what != "told")
    claim = Claim(
        claim=f"{total:,} commitments over random partitions, kills and reorganisations (network and chain simulated)",
        measured=f"{found['lost']} lost, {found['doubled']} doubled, {found['out of order']} out of order",
        unit="",
        bar="none lost, none doubled, order kept (the paper: 3 deferred commitments)",
        met=wrong == 0 and found["logged"] == total,
        detail=f"{faults}; judged from the public log by the independent reader",
    )
    write("partition_faults", [claim], {"seen": seen, "found": found}, started)


if __name__ == "__main__":
    main()
