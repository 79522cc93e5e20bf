"""The campaign's snapshots within its disk budget: what can be gone back to stays, the rest makes room.

Without a budget this is the store alone. With one, a snapshot that doesn't fit has everything collected that neither a
state, nor a live workspace, nor a pin needs; what is let go is journaled first. When it doesn't fit even then it is
refused with the reason.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from veristate.core import RefusedError
from veristate.research.running.record import CampaignRecord
from veristate.research.states import Standing
from veristate.store import Store


class Archive:
    """One campaign's snapshots. Workers' threads use it at once; under a budget one at a time, so that nothing is
    collected between a snapshot and the entry that names it: each worker's latest one is kept in any case.
    """

    def __init__(self, store: Store, record: CampaignRecord, bytes_upper: int | None) -> None:
        self.store = Store.open(store.root, bytes_upper=bytes_upper)
        self._record = record
        self._bytes_upper = bytes_upper
        self._latest: dict[str, str] = {}
        self._lock = threading.Lock()
        self._size = 0

    def snapshot(self, worker: str, workspace: Path) -> str:
        """The digest of the worker's workspace, kept. Raises: RefusedError when it does not fit; else as the store."""
        return self._fitted(worker, lambda: self.store.snapshot(workspace, quick=True))

    def restore(self, worker: str, tree: str, workspace: Path) -> None:
        """Returns when the workspace holds the tree; what it held is a snapshot. Raises: as `snapshot`."""

        def restored() -> str:
            self.store.restore(tree, workspace, quick=True)
            return tree

        self._fitted(worker, restored)

    def size_bytes(self) -> int:
        """The size of all that is stored, or what it was last: nobody waits here, for who asks may hold the record."""
        if self._lock.acquire(blocking=False):
            try:
                self._size = self.store.size_bytes()
            finally:
                self._lock.release()
        return self._size

    def _fitted(self, worker: str, kept: Callable[[], str]) -> str:
        if self._bytes_upper is None:
            return kept()
        with self._lock:
            try:
                tree = kept()
            except RefusedError:
                self._collect()
                try:
                    tree = kept()
                except RefusedError as error:
                    filled = self.store.size_bytes()
                    raise RefusedError(
                        f"budget: the states that can be gone back to fill {filled:,} of {self._bytes_upper:,} bytes "
                        "of disk, and this one does not fit; make the workspace smaller, or allow more disk_bytes"
                    ) from error
            self._latest[worker] = tree
            return tree

    def _collect(self) -> None:
        """Returns when nothing is stored but what is needed. What the journal names and is let go, it says."""
        keep, let_go = self._record.read(lambda standing: (set(needed(standing)), set(named(standing))))
        keep |= set(self._latest.values())
        if released := sorted(let_go - keep):
            self._record.append("snapshots.released", {"trees": released})
        self.store.collect(keep, spare_s=0.0)


def needed(standing: Standing) -> Iterator[str]:
    """The trees that a campaign can still go back to, or goes on from: where all began, every state but the rejected,
    what is being evaluated, each worker's last segment.
    """
    yield standing.opened["template"]
    for worker in standing.workers.values():
        yield from (card.tree for card in worker.cards if card.status != "rejected")
        yield from (content["tree"] for content, _ in worker.claimed.values())
        for segment in worker.segments[-1:]:
            yield from (tree for tree in (segment.tree, segment.end_tree) if tree)


def named(standing: Standing) -> Iterator[str]:
    """The trees that the journal names and that were not released: what must be in the store."""
    for worker in standing.workers.values():
        trees = [card.tree for card in worker.cards] + [s.end_tree for s in worker.segments if s.end_tree]
        yield from (tree for tree in trees if tree not in standing.released)
    yield standing.opened["template"]
