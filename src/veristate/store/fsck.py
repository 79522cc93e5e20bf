"""Reading every byte of a store and saying what is wrong. A finding is data; nothing is repaired here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from veristate.core import InputError, TamperError
from veristate.store.blobs import Blobs
from veristate.store.building import check
from veristate.store.content import is_digest
from veristate.store.packs import read_index


class FindingKind(StrEnum):
    """What can be wrong with a file of the store. Only `DRAFT` is harmless: a writer was killed."""

    DAMAGED = "damaged"
    CHUNK_MISSING = "chunk missing"
    TREE_BROKEN = "tree broken"
    STRAY = "stray"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFinding:
    """One thing that is wrong: where, and in words what. `subject` is a digest or the name of a stray file."""

    kind: FindingKind
    subject: str
    path: Path
    detail: str

    @property
    def harmless(self) -> bool:
        """Whether nothing that was stored is lost: a draft that the next exclusive run removes."""
        return self.kind is FindingKind.DRAFT


def findings(blobs: Blobs, temporary: Path, trees: Iterable[str]) -> Iterator[StoreFinding]:
    """What is wrong with the blobs, with the drafts, and with the given trees and all below them."""
    blobs.packs.forget()
    for path in blobs.files():
        yield from _blob(blobs, path)
    for path in sorted(blobs.packs.folder.iterdir()) if blobs.packs.folder.is_dir() else ():
        yield from _pack(blobs, path)
    for path in sorted(temporary.iterdir()):
        detail = "left by a killed writer, or being written now"
        yield StoreFinding(kind=FindingKind.DRAFT, subject=path.name, path=path, detail=detail)
    for tree in trees:
        try:
            check(blobs, tree)
        except (TamperError, InputError) as error:
            path = blobs.path(tree) if is_digest(tree) else blobs.folder
            yield StoreFinding(kind=FindingKind.TREE_BROKEN, subject=tree, path=path, detail=str(error))


def _blob(blobs: Blobs, path: Path) -> Iterator[StoreFinding]:
    name = path.name
    if not is_digest(name) or blobs.path(name) != path or path.is_symlink() or not path.is_file():
        yield StoreFinding(kind=FindingKind.STRAY, subject=name, path=path, detail="not a blob of this store")
        return
    yield from _content(blobs, name, path)


def _pack(blobs: Blobs, path: Path) -> Iterator[StoreFinding]:
    if path.suffix != ".pack" or not is_digest(path.stem) or path.is_symlink() or not path.is_file():
        yield StoreFinding(kind=FindingKind.STRAY, subject=path.name, path=path, detail="not a pack of this store")
        return
    try:
        index = read_index(path)
    except TamperError as error:
        yield StoreFinding(kind=FindingKind.DAMAGED, subject=path.stem, path=path, detail=str(error))
        return
    for key in index:
        yield from _content(blobs, key.hex(), path)


def _content(blobs: Blobs, name: str, path: Path) -> Iterator[StoreFinding]:
    try:
        missing = [chunk for chunk in blobs.chunks(name) or () if not blobs.has(chunk)]
        for chunk in missing:
            detail = f"blob {name} needs chunk {chunk}"
            yield StoreFinding(kind=FindingKind.CHUNK_MISSING, subject=chunk, path=blobs.path(chunk), detail=detail)
        if not missing:
            for _ in blobs.pieces(name):
                pass
    except TamperError as error:
        yield StoreFinding(kind=FindingKind.DAMAGED, subject=name, path=path, detail=str(error))
