"""A recorder: one identity, its keys, and the journal in which its commitments are made at each step's boundary."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from uuid import uuid4

from veristate.attest.commitments.key_events import KeyEvent, KeyHistory
from veristate.attest.commitments.records import EXACT, Commitment, Manifest, Policy
from veristate.attest.delivery.outbox import Item, Outbox
from veristate.attest.disk import locked
from veristate.attest.signing import Envelope, PublicKey, SigningKey
from veristate.core import Clock, EnvironmentUnusableError, InputError, RefusedError, TamperError, digest, utc_now
from veristate.ledger import Ledger
from veristate.store import Store, disk

Artifacts = Mapping[str, bytes]
_PUT_AT_ONCE = 8


def new_id() -> str:
    """A fresh execution id."""
    return uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commitment that is on the disk, and its envelope."""

    commitment: Commitment
    envelope: Envelope
    item: Item


class Recorder:
    """Commits to steps, in a folder: `ledger.sqlite`, `objects`, `keys`. Made by `Recorder.open`."""

    def __init__(
        self, folder: Path, *, origin: str, ledger: Ledger, store: Store, clock: Clock, ids: Callable[[], str]
    ) -> None:
        self.folder = folder
        self.origin = origin
        self.ledger = ledger
        self.store = store
        self.outbox = Outbox(ledger)
        self._clock = clock
        self._ids = ids
        self._id = ""
        self._history = KeyHistory()
        self._known = 0
        self._keys: dict[str, SigningKey] = {}
        self._executions: dict[str, str] = {}
        self._indexed = 0
        # Threads start when they are first needed; the pool goes with the recorder.
        self._pool = ThreadPoolExecutor(max_workers=_PUT_AT_ONCE)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        origin: str | None = None,
        clock: Clock = utc_now,
        ids: Callable[[], str] = new_id,
    ) -> "Recorder":
        """The recorder in `folder`; a new one gets a key, and its first entry says so.

        `origin` is the log that its commitments are meant for; a new recorder without one gets an origin of its own.

        Raises: EnvironmentUnusableError when its private key is not there; InputError when it is for another log.
        """
        folder = folder.absolute()
        store, ledger = Store.open(folder / "objects"), Ledger.open(folder / "ledger.sqlite", clock=clock)
        recorder = cls(folder, origin=origin or "", ledger=ledger, store=store, clock=clock, ids=ids)
        try:
            with recorder._turn():
                recorder._introduce()
                recorder._key()
        except BaseException:
            ledger.close()
            raise
        return recorder

    @property
    def id(self) -> str:
        """The id of the recorder's first key, which names it for ever."""
        return self._id

    def commit_to(
        self,
        stage: str,
        *,
        inputs: Artifacts,
        outputs: Artifacts,
        context: Artifacts,
        policy: Policy = EXACT,
        execution: str | None = None,
    ) -> Committed:
        """The commitment to a step that has just run; artifacts and commitment are on the disk when this returns.

        Nothing of the step may be deleted before.
        Raises: InputError without outputs; RefusedError for an execution that is committed to already.
        """
        if not outputs:
            raise InputError(f"stage {stage!r} gave no outputs; there is nothing to commit to")
        manifests = [_manifest(artifacts) for artifacts in (inputs, outputs, context)]
        blobs = self._keep([*inputs.values(), *outputs.values(), *context.values(), *manifests, policy.to_bytes()])
        with self._turn():
            if execution and self._committed(execution):
                raise RefusedError(f"execution {execution!r} is committed to already; each is, once")
            key = self._key()
            sequence, predecessor = self.outbox.next(self._id)
            commitment = Commitment(
                origin=self.origin,
                recorder=self._id,
                key=key.public.id,
                sequence=sequence,
                predecessor=predecessor,
                execution=execution or self._ids(),
                stage=stage,
                inputs=digest(manifests[0]),
                outputs=digest(manifests[1]),
                context=digest(manifests[2]),
                policy=policy.digest,
                time=self._clock(),
            )
            envelope = commitment.sealed(key)
            item = self.outbox.add(
                envelope, recorder=self._id, sequence=sequence, more={"artifacts": [{"blob": name} for name in blobs]}
            )
            if execution:  # what was before it is indexed
                self._executions[execution] = item.payload
                self._indexed += 1
        return Committed(commitment=commitment, envelope=envelope, item=item)

    def committed(self, execution: str) -> str:
        """The digest of the payload that commits to an execution; empty when there is none."""
        with self._turn():
            return self._committed(execution)

    def rotate(self, reason: str = "") -> PublicKey:
        """The new key, which signs from now on; both keys sign the entry that says so."""
        with self._turn():
            old, new = self._key(), SigningKey.new()
            path = self._key_path(new.public)
            new.save(path)
            self._add_event("rotated", new.public, old, new, reason=reason)
        return new.public

    def revoke(self, key: PublicKey, reason: str) -> None:
        """Returns when the entry is made that revokes one of this recorder's keys, signed by the current one."""
        with self._turn():
            self._add_event("revoked", key, self._key(), reason=reason)

    def history(self) -> KeyHistory:
        """The recorder's keys as its own journal tells them; a stranger reads them from the log."""
        self.outbox.refresh()
        return self._read_keys()

    def close(self) -> None:
        """Returns when the journal is closed."""
        self._pool.shutdown()
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _introduce(self) -> None:
        """Reads whose journal this is and for which log; a new one's first key is journaled."""
        for item in self.outbox.known():
            first = KeyEvent.from_envelope(Envelope.from_bytes(item.envelope))
            if self.origin not in ("", first.origin):
                raise InputError(f"{self.folder} commits for the log {first.origin!r}, not for {self.origin!r}")
            self._id, self.origin = first.recorder, first.origin
            return
        key = SigningKey.new()
        key.save(self._key_path(key.public))
        self._id = key.public.id
        self.origin = self.origin or f"veristate.local/{self._id[:16]}"
        self._add_event("introduced", key.public, key)

    def _add_event(
        self,
        action: Literal["introduced", "rotated", "revoked"],
        key: PublicKey,
        *signers: SigningKey,
        reason: str = "",
    ) -> None:
        sequence, predecessor = self.outbox.next(self._id)
        event = KeyEvent(
            origin=self.origin,
            recorder=self._id,
            sequence=sequence,
            predecessor=predecessor,
            action=action,
            key=key.raw.hex(),
            time=self._clock(),
            reason=reason,
        )
        self.outbox.add(event.sealed(*signers), recorder=self._id, sequence=sequence, more={})

    def _committed(self, execution: str) -> str:
        """The same as last refreshed."""
        for item in self.outbox.known(self._indexed):
            self._indexed += 1
            try:
                said = Commitment.from_envelope(Envelope.from_bytes(item.envelope))
            except TamperError:
                continue  # a key event
            self._executions[said.execution] = item.payload
        return self._executions.get(execution, "")

    def _read_keys(self) -> KeyHistory:
        """The keys as last refreshed."""
        for item in self.outbox.known(self._known):
            self._history.read(self._known, Envelope.from_bytes(item.envelope))
            self._known += 1
        return self._history

    def _key(self) -> SigningKey:
        """The private key that is current by the journal."""
        current = self._read_keys().current(self._id)
        if current is None:
            raise EnvironmentUnusableError(f"{self.folder}: the recorder's key is revoked; begin with a new recorder")
        if current.id not in self._keys:
            self._keys[current.id] = SigningKey.load(self._key_path(current))
        return self._keys[current.id]

    def _key_path(self, key: PublicKey) -> Path:
        return self.folder / "keys" / f"recorder-{key.id[:16]}.pem"

    def _keep(self, contents: Sequence[bytes]) -> list[str]:
        """The digests of the contents, all of them in the store. They are put at once: each waits for the disk."""
        return list(self._pool.map(self.store.put, dict.fromkeys(contents)))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """A block in which no other process or thread commits in this folder."""
        place = self.folder / "keys"
        with disk(place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(place):
            self.outbox.refresh()
            yield


def _manifest(artifacts: Artifacts) -> bytes:
    return Manifest(artifacts={name: digest(data) for name, data in artifacts.items()}).to_bytes()
