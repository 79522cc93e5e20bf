"""The blobs of one snapshot: drafted together, in the store all at once."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from veristate.core import RefusedError
from veristate.store.blobs import Blobs
from veristate.store.content import SPLIT_ABOVE, packed, split
from veristate.store.files import writing
from veristate.store.packs import PackDraft


class Batch:
    """A snapshot's blobs. Made by `batch`; what is put can be read from the store when its block has ended.

    `compared`: content that the store holds already is compared with what it holds; else its name is enough.
    """

    def __init__(self, blobs: Blobs, draft: PackDraft, *, compared: bool, bytes_left: int | None) -> None:
        self._blobs = blobs
        self._draft = draft
        self._compared = compared
        self._bytes_left = bytes_left
        self._verified: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the blob is in the store or will be."""
        return self._blobs.has(name) or bytes.fromhex(name) in self._draft.index

    def has_content(self, name: str, size: int) -> bool:
        """Whether content of this digest and size is in the store or will be, with its chunks where it has any: a list
        that nothing names can stay in its pack when a collection takes its chunks out of another.
        """
        if not self.has(name):
            return False
        if size <= SPLIT_ABOVE or bytes.fromhex(name) in self._draft.index:
            return True
        return all(self.has(chunk) for chunk in self._blobs.chunks(name) or ())

    def put(self, data: bytes) -> str:
        """The SHA-256 of `data`."""
        return self.put_stream(io.BytesIO(data))[0]

    def put_stream(self, source: BinaryIO) -> tuple[str, int]:
        """The SHA-256 and the size of what `source` gives until its end."""
        return split(source, self._keep, self._keep_list)

    def _keep(self, name: str, data: bytes) -> None:
        if bytes.fromhex(name) in self._draft.index or name in self._verified:
            return
        if self._blobs.has(name):
            if self._compared:
                self._blobs.verify(name)
                self._verified.add(name)
            return
        self._add(name, packed(data))

    def _keep_list(self, name: str, stored: bytes) -> None:
        if not self.has(name):
            self._add(name, stored)
        elif self._compared and bytes.fromhex(name) not in self._draft.index and self._blobs.stored(name) != stored:
            raise self._blobs.tampered(name, "it lists other chunks")

    def _add(self, name: str, stored: bytes) -> None:
        self._draft.add(name, stored)
        if self._bytes_left is not None and self._draft.size() > self._bytes_left:
            raise RefusedError(
                f"{self._blobs.folder}: this snapshot would not fit into what the store may hold; "
                "collect what nothing names, or allow more"
            )


@contextmanager
def batch(blobs: Blobs, *, compared: bool = True, bytes_upper: int | None = None) -> Iterator[Batch]:
    """A block whose blobs are all on the disk when it ends, and not in the store when it fails.

    Raises: RefusedError in the block as soon as the store would grow beyond `bytes_upper`.
    """
    with writing(blobs.temporary):
        blobs.packs.notice_removals()  # none follow in this block: a collection waits for its end
        left = None if bytes_upper is None else bytes_upper - blobs.size_bytes()
        draft = PackDraft(blobs.packs.folder, temporary=blobs.temporary)
        try:
            yield Batch(blobs, draft, compared=compared, bytes_left=left)
            draft.seal()
        finally:
            draft.discard()
