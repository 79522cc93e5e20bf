"""A run's folder as a whole: its recorder, its log beside it, and bringing the one into the other.

STORE/log            the log, in the public layout
STORE/log.policy     who must cosign its heads (C2SP tlog-policy); without the file nobody
STORE/keys/log.pem   the log's key
"""

from dataclasses import dataclass
from pathlib import Path

from veristate.attest.commitments import Recorder
from veristate.attest.delivery import Delivery
from veristate.attest.log import TileLog
from veristate.attest.signing import Seconds, SigningKey, Trust, unix_seconds
from veristate.attest.witness import Witnessing, http_ask, witness_head
from veristate.store import disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What was logged, and what the witnesses said of the new head."""

    delivery: Delivery
    witnessing: Witnessing


class Home:
    """The log of a recorder that has its own. Made by `Home.open`."""

    def __init__(self, recorder: Recorder, log: TileLog, trust: Trust) -> None:
        self.recorder = recorder
        self.log = log
        self.trust = trust

    @classmethod
    def open(cls, recorder: Recorder, *, clock: Seconds = unix_seconds) -> "Home":
        """The log beside the recorder, made if there is none. Raises: InputError for a policy that can't be read."""
        trust = read_trust(recorder.folder / "log.policy")
        key = SigningKey.open(recorder.folder / "keys" / "log.pem")
        log = TileLog.open(recorder.folder / "log", origin=recorder.origin, key=key, quorum=trust.quorum, clock=clock)
        return cls(recorder, log, trust)

    def deliver(self) -> Delivered:
        """What was delivered: pending commitments into the log, its head to the witnesses, both journaled.

        A quorum that is missing leaves the commitments logged, and the head before published; deliver again later.
        """
        delivery = self.recorder.outbox.flush(self.log.append)
        asked = [
            (key, http_ask(self.trust.addresses[key]))
            for key in self.trust.quorum.witnesses
            if key in self.trust.addresses
        ]
        witnessing = witness_head(self.log, asked)
        if witnessing.checkpoint is not None and self.trust.quorum.threshold:
            self.recorder.outbox.witnessed(
                witnessing.checkpoint.head.size, str(witnessing.checkpoint), witnessing.times
            )
        return Delivered(delivery=delivery, witnessing=witnessing)


def read_trust(path: Path) -> Trust:
    """What the policy file says; nobody need cosign where there is none. Raises: InputError when it can't be read."""
    if not path.exists():
        return Trust.parse("quorum none")
    with disk(path):
        return Trust.parse(path.read_bytes().decode("utf-8", "surrogateescape"))
