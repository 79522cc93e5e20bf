"""Appending to a tiled log, so that whenever the process dies every head names only what is on the disk.

Order: tiles and entries are forced to the disk, then `.state/integrated` (the log's signed head) is renamed into place.
`checkpoint` is what the world is shown: the same where no witness is asked for, else what a quorum has cosigned.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from veristate.attest.disk import locked, write_all_whole, write_whole
from veristate.attest.log.edge import Edge, replaced_by
from veristate.attest.log.index import LeafIndex
from veristate.attest.log.layout import CHECKPOINT, check_entry
from veristate.attest.log.proofs import LogProof
from veristate.attest.log.reader import LogReader, fetch_from
from veristate.attest.log.tree import leaf_hash
from veristate.attest.signing import (
    Checkpoint,
    Head,
    Note,
    NoteKey,
    NoteKind,
    Quorum,
    Seconds,
    SigningKey,
    sign_note,
    unix_seconds,
)
from veristate.core import InputError, TamperError
from veristate.store import disk


class TileLog:
    """A log in a folder that we may write. Made by `TileLog.open`; any number of processes may append."""

    def __init__(self, folder: Path, *, origin: str, key: SigningKey, quorum: Quorum, clock: Seconds) -> None:
        self.folder = folder
        self.origin = origin
        self.key = NoteKey(name=origin, kind=NoteKind.LOG, public=key.public)
        self.quorum = quorum
        self._clock = clock
        self._signing = key
        self._integrated = folder / ".state" / "integrated"
        self._drafts = folder / ".state" / "drafts"
        self._index = LeafIndex(folder / ".state" / "index.sqlite")
        self._seen = b""
        self._edge = Edge()
        self._shown: tuple[bytes, LogReader] | None = None

    @classmethod
    def open(
        cls, folder: Path, *, origin: str, key: SigningKey, quorum: Quorum, clock: Seconds = unix_seconds
    ) -> "TileLog":
        """The log in `folder`, made if there is none. `quorum` is who must cosign before a head is published.

        Raises: TamperError when its head is not signed by `key` for `origin`, or names what is not on the disk.
        """
        log = cls(folder.absolute(), origin=origin, key=key, quorum=quorum, clock=clock)
        with locked(log.folder):
            log._remove_drafts()
            log._settle_heads()
            log._catch_up(settle=True)
        return log

    def append(self, entries: Sequence[bytes]) -> list[int]:
        """The place of each entry, on the disk under a head the log signed. One that was there keeps its place.

        Raises: InputError when one is too large, none is appended then; EnvironmentUnusableError when the disk refuses.
        """
        for entry in entries:
            check_entry(entry)
        with locked(self.folder):
            self._catch_up()
            hashes = [leaf_hash(entry) for entry in entries]
            places = dict(zip(hashes, self._index.find(hashes), strict=True))
            new = {name: entry for name, entry in zip(hashes, entries, strict=True) if places[name] is None}
            if new:
                self._integrate(new)
            places |= {name: self._edge.size - len(new) + i for i, name in enumerate(new)}
        return [place for name in hashes if (place := places[name]) is not None]

    def integrated(self) -> Checkpoint:
        """The log's own last head, which witnesses may not have seen."""
        with disk(self._integrated):
            return self._own(self._integrated.read_bytes())

    def published(self) -> Checkpoint:
        """The head the world is shown. Raises: InputError when none is published yet."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            raise InputError(f"{path}: no head of this log is published yet; its witnesses have not cosigned one")
        with disk(path):
            checkpoint = self._own(path.read_bytes())
        self.quorum.require(checkpoint.note, self._clock())
        return checkpoint

    def publish(self, note: Note) -> Checkpoint:
        """The checkpoint that is shown from now on: a head of this log that the quorum cosigned.

        Raises: RefusedError without the quorum, which leaves the one before; TamperError when it is no head of ours.
        """
        checkpoint = Checkpoint(head=Head.parse(note.text), note=note)
        with locked(self.folder):
            self._catch_up()
            head = checkpoint.trusted(self.origin, [self.key])
            self.quorum.require(note, self._clock())
            if head.root != self.reader(self.integrated()).root(head.size):
                raise TamperError(f"{self.origin} at {head.size} has another root than this head; don't publish it")
            path = self.folder / CHECKPOINT
            if not path.exists() or self._own(path.read_bytes()).head.size <= head.size:
                write_whole(path, str(checkpoint).encode(), drafts=self._drafts)
        return checkpoint

    def find(self, entry: bytes) -> int | None:
        """The place of the entry in the log; None when it was not appended."""
        return self._index.find([leaf_hash(entry)])[0]

    def reader(self, checkpoint: Checkpoint) -> LogReader:
        """The log as that head says it is."""
        return LogReader(fetch_from(self.folder), checkpoint.head)

    def prove(self, index: int) -> LogProof:
        """The proof of the entry at `index` under the published head. Raises: InputError when it is beyond it."""
        path = self.folder / CHECKPOINT
        if self._shown is None or not path.exists() or path.read_bytes() != self._shown[0]:
            checkpoint = self.published()
            self._shown = str(checkpoint).encode(), self.reader(checkpoint)
        data, reader = self._shown
        return LogProof(index=index, hashes=reader.inclusion(index), checkpoint=Checkpoint.parse(data))

    def _integrate(self, leaves: Mapping[bytes, bytes]) -> None:
        # A failure below leaves the memory ahead of the disk: forgetting `_seen` makes the next call read the disk.
        self._seen = b""
        first = self._edge.size
        files = self._edge.extend(leaves)
        write_all_whole([(self.folder / path, data) for path, data in files.items()], drafts=self._drafts)
        self._index.add(list(leaves), first)
        self._set_head(Head(origin=self.origin, size=self._edge.size, root=self._edge.root()))
        for path in replaced_by(list(files)):
            shutil.rmtree(self.folder / path, ignore_errors=True)

    def _remove_drafts(self) -> None:
        """Removes what killed writers left: under the log's lock there is no living one."""
        with disk(self._drafts):
            self._drafts.mkdir(parents=True, exist_ok=True)
            for draft in self._drafts.iterdir():
                draft.unlink()

    def _set_head(self, head: Head) -> None:
        """Returns when the head is the log's, and the world's too where no witness is asked for."""
        text = str(head)
        note = Note(text=text, signatures=(sign_note(text, self.key, self._signing),))
        data = str(note).encode()
        places = [self._integrated] if self.quorum.threshold else [self._integrated, self.folder / CHECKPOINT]
        write_all_whole([(place, data) for place in places], drafts=self._drafts)
        self._seen = data

    def _settle_heads(self) -> None:
        """Makes a new log's first head; after a kill between two renames makes the two heads one again.

        Raises: TamperError when the log's own head is gone.
        """
        shown = self.folder / CHECKPOINT
        if not self._integrated.exists():
            if shown.exists():
                raise TamperError(f"{self._integrated} is missing beside a checkpoint; bring the log back from a copy")
            self._set_head(Head(origin=self.origin, size=0, root=Edge().root()))
        elif not self.quorum.threshold:
            heads = [self._own(path.read_bytes()) for path in (self._integrated, shown) if path.exists()]
            last = max(heads, key=lambda checkpoint: checkpoint.head.size)
            if any(checkpoint.head != last.head for checkpoint in heads) or len(heads) < 2:
                self._set_head(last.head)

    def _catch_up(self, *, settle: bool = False) -> None:
        """Reads the edge again when another process has appended. Raises: TamperError when the disk lacks the head."""
        with disk(self._integrated):
            data = self._integrated.read_bytes()
        if data == self._seen and not settle:
            return
        reader = self.reader(self._own(data))
        edge = Edge.read(reader)
        if edge.root() != reader.head.root:
            raise TamperError(f"{self.folder}: what is on the disk is not what its head names; run log fsck")
        self._index.settle(edge.size, lambda place: reader.node(0, place))
        self._edge, self._seen = edge, data

    def _own(self, data: bytes) -> Checkpoint:
        checkpoint = Checkpoint.parse(data)
        checkpoint.trusted(self.origin, [self.key])
        return checkpoint
