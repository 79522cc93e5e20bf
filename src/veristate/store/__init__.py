"""Content-addressed blobs and workspace snapshots: what can be gone back to.

Write order: chunks, then the blob that lists them; blobs, then the tree that names them; everything, then the digest
that is handed out. Read in reverse. A crash leaves orphans, never a dangling reference.
"""

from veristate.store.collecting import Collected
from veristate.store.files import disk, locked_folder, sync_folder, write_all
from veristate.store.fsck import FindingKind, StoreFinding
from veristate.store.store import FORMAT, Store
from veristate.store.trees import FileEntry, FolderEntry, LinkEntry, Tree
from veristate.store.workspace import remove as remove_folder

__all__ = [
    "FORMAT",
    "Collected",
    "FileEntry",
    "FindingKind",
    "FolderEntry",
    "LinkEntry",
    "Store",
    "StoreFinding",
    "Tree",
    "disk",
    "locked_folder",
    "remove_folder",
    "sync_folder",
    "write_all",
]
