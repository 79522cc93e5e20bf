"""The store as the other rooms see it: one folder, opened, holding blobs and snapshots."""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from veristate.core import EnvironmentUnusableError, InputError, RefusedError, digest
from veristate.store.blobs import Blobs
from veristate.store.files import disk, locked_folder, remove_dead, sync_folder, write_whole
from veristate.store.fsck import StoreFinding, findings
from veristate.store.swap import put_back, swap_in
from veristate.store.trees import Tree
from veristate.store.workspace import build, capture, remove

FORMAT = "veristate-store/1"
_OURS = {"blobs", "drafts", "format", "lock"}
_LINE = re.compile(rb"veristate-store/[0-9]+\n")


class Store:
    """Content-addressed blobs and workspace snapshots in one folder. Made by `Store.open`.

    Any number of processes may put and get at once; nothing is ever overwritten. `exclusive` is for a run that must be
    the only one. A copy made by `fork` shares the exclusive lock of its parent until it ends.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._drafts = root / "drafts"
        self._blobs = Blobs(root / "blobs", temporary=self._drafts)

    @classmethod
    def open(cls, root: Path) -> "Store":
        """The store in `root`, made if there is none.

        Raises: EnvironmentUnusableError for a version this code doesn't know, or a folder it may not use; InputError
        for a folder that holds something else.
        """
        store = cls(root.absolute())
        line = store.root / "format"
        with disk(store.root):
            found = line.read_bytes() if line.exists() else store._create(line)
        if found == f"{FORMAT}\n".encode():
            return store
        if _LINE.fullmatch(found):
            version = found.decode().strip()
            raise EnvironmentUnusableError(f"{line}: {version}, but this veristate reads {FORMAT}; use the other one")
        raise EnvironmentUnusableError(f"{line}: unknown version {found[:40]!r}, this veristate reads {FORMAT}")

    @contextmanager
    def exclusive(self) -> Iterator["Store"]:
        """A block in which no other process is in such a block; drafts of killed writers are removed first.

        Raises: RefusedError naming the process that is in it. The lock ends with its process, however that ends.
        """
        lock = self.root / "lock"
        with disk(lock):
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._take(lock, descriptor)
            yield self
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def put(self, data: bytes) -> str:
        """The SHA-256 of `data`, which is on the disk when this returns. Putting it again changes nothing.

        Raises: EnvironmentUnusableError when it can't be written; TamperError when this digest holds other bytes.
        """
        return self._blobs.put(data)

    def get(self, name: str) -> bytes:
        """The content whose digest is `name`, re-hashed as it is read.

        Raises: InputError when it is not in the store; TamperError naming digest and file when it differs.
        """
        return self._blobs.get(name)

    def has(self, name: str) -> bool:
        """Whether a blob of this digest is in the store. Its bytes are not read: `get` and `fsck` do that."""
        return self._blobs.has(name)

    def tree(self, name: str) -> Tree:
        """The folder that the manifest `name` describes. Raises: as `get`; TamperError when it is no manifest."""
        return Tree.from_bytes(self.get(name), name)

    def snapshot(self, folder: Path) -> str:
        """The digest of the tree manifest of `folder`, all of whose content is in the store when this returns.

        Nobody may write in the folder meanwhile: each file is read once, at some moment.

        Raises: InputError naming sockets, FIFOs, devices and mounts, or when `folder` is no folder.
        """
        folder = self._workspace(folder)
        with locked_folder(folder.parent):
            self._settle(folder)
            return capture(self._blobs, folder)

    def restore(self, tree: str, folder: Path) -> str:
        """The digest of what `folder` held before; it holds `tree` now, in bytes, modes, names and links.

        The folder is swapped whole: staged beside it, then exchanged. A process whose working directory is inside
        stays in the old folder, which is removed: it must chdir to the path again. A folder that doesn't exist is
        made, and counts as an empty one. Whatever is removed is in the snapshot whose digest is returned.

        Raises: InputError when the store lacks the tree, or the present content can't be kept; TamperError when a
        part of the tree is damaged or leads outside. The folder is unchanged then, if nobody wrote in it meanwhile.
        """
        folder = self._workspace(folder)
        staged, aside = _siblings(folder)
        with locked_folder(folder.parent):
            self._settle(folder)
            try:
                build(self._blobs, tree, staged)
                with disk(folder):
                    folder.mkdir(exist_ok=True)
                capture(self._blobs, folder)
            except BaseException:
                if staged.exists():
                    remove(staged)
                raise
            with disk(folder):
                old = swap_in(staged, folder, aside=aside)
                sync_folder(folder.parent)
            # Once more, now that no path leads there: a write between the first reading and the swap is kept too.
            replaced = capture(self._blobs, old)
            remove(old)
            return replaced

    def fsck(self, trees: Iterable[str] = ()) -> tuple[StoreFinding, ...]:
        """What is wrong in the store, after reading every byte of it: empty, or only `harmless`, when all is well.

        A blob that nothing names can't be missed, so whoever names trees (the journal) gives their digests here.
        """
        with disk(self.root):
            return tuple(findings(self._blobs, self._drafts, trees))

    def _create(self, line: Path) -> bytes:
        """The version line, after making the folders it stands beside. A killed creation is completed."""
        self.root.mkdir(parents=True, exist_ok=True)
        if foreign := sorted({path.name for path in self.root.iterdir()} - _OURS):
            raise InputError(f"{self.root} is no store and holds {foreign[0]!r}; give an empty or a new folder")
        for folder in (self._blobs.folder, self._drafts):
            folder.mkdir(exist_ok=True)
        sync_folder(self.root)
        sync_folder(self.root.parent)
        write_whole(line, f"{FORMAT}\n".encode(), temporary=self._drafts)
        return line.read_bytes()

    def _take(self, lock: Path, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise RefusedError(f"{self.root} is in use by process {holder}; wait for it or stop it") from None
        with disk(lock):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        remove_dead(self._drafts)

    def _workspace(self, folder: Path) -> Path:
        """`folder` with the links above it resolved; itself it must be no link."""
        path = folder.absolute()
        if path.name in ("", ".."):
            raise InputError(f"not a folder that can be swapped: {folder}")
        with disk(path):
            path = path.parent.resolve(strict=True) / path.name
            root = self.root.resolve()
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise InputError(f"not a folder, or a link to one: {folder}")
        if path.is_relative_to(root) or root.is_relative_to(path):
            raise InputError(f"workspace {path} and store {root} lie in one another; keep them apart")
        return path

    def _settle(self, folder: Path) -> None:
        """Returns when nothing of a killed restore is left beside `folder`; what is removed is in a snapshot."""
        staged, aside = _siblings(folder)
        with disk(folder):
            put_back(folder, aside=aside)
            for rest in (staged, aside):
                if rest.exists() or rest.is_symlink():
                    capture(self._blobs, rest)
                    remove(rest)


def _siblings(folder: Path) -> tuple[Path, Path]:
    """Where a restore stages the new content of `folder`, and where it may put the old one aside."""
    mark = digest(os.fsencode(folder.name))[:16]
    return folder.with_name(f".restoring-{mark}"), folder.with_name(f".replaced-{mark}")
