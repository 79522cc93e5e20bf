"""The artifact's files of a snapshot: named by one digest, and written out for an evaluator."""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from veristate.core import canonical_bytes, digest
from veristate.research.tasks import Artifact
from veristate.store import FileEntry, FolderEntry, LinkEntry, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The files of an artifact in one tree, sorted by path. `digest` is equal exactly for equal paths and bytes.

    `against` says why it is no candidate at all: a file is missing, is a link, or all is too large.
    """

    tree: str
    files: tuple[tuple[str, FileEntry], ...]
    against: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical list of paths and blobs."""
        return digest(canonical_bytes([[path.encode().hex(), entry.blob] for path, entry in self.files]))


def read_candidate(store: Store, tree: str, artifact: Artifact) -> Candidate:
    """The candidate in the snapshot `tree`. Links are refused: they could name what the worker may not see."""
    found: list[tuple[str, FileEntry]] = []
    against: list[str] = []
    for name in artifact.files:
        entry = _entry(store, tree, PurePosixPath(name))
        if entry is None:
            against.append(f"{name} is missing")
        else:
            _collect(store, name, entry, found, against)
    size = sum(entry.size for _, entry in found)
    if size > artifact.bytes_upper:
        against.append(f"the artifact has {size:,} bytes, {artifact.bytes_upper:,} are allowed")
    ordered = sorted(found, key=lambda item: os.fsencode(item[0]))
    return Candidate(tree=tree, files=tuple(ordered), against="; ".join(against[:5]))


def materialise(store: Store, candidate: Candidate, folder: Path) -> None:
    """Returns when `folder`, which must not exist, holds fresh copies of the candidate's files."""
    folder.mkdir(parents=True)
    for path, entry in candidate.files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.get(entry.blob))


def _entry(store: Store, tree: str, path: PurePosixPath) -> FileEntry | FolderEntry | LinkEntry | None:
    head, *rest = path.parts
    for entry in store.tree(tree).entries:
        if entry.name == os.fsencode(head):
            if not rest:
                return entry
            return _entry(store, entry.tree, PurePosixPath(*rest)) if isinstance(entry, FolderEntry) else None
    return None


def _collect(
    store: Store,
    path: str,
    entry: FileEntry | FolderEntry | LinkEntry,
    found: list[tuple[str, FileEntry]],
    against: list[str],
) -> None:
    match entry:
        case FileEntry():
            found.append((path, entry))
        case LinkEntry():
            against.append(f"{path} is a link; hand in the file itself")
        case FolderEntry():
            for inner in store.tree(entry.tree).entries:
                _collect(store, f"{path}/{os.fsdecode(inner.name)}", inner, found, against)
