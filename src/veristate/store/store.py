"""The store as the other rooms see it: one folder, opened, holding blobs and snapshots."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from veristate.core import EnvironmentUnusableError, InputError, RefusedError, digest
from veristate.store.batch import batch
from veristate.store.blobs import Blobs
from veristate.store.building import build
from veristate.store.collecting import Collected, Roots, collect
from veristate.store.files import disk, locked_folder, remove_dead, sync_all, sync_folder, write_whole, writing
from veristate.store.fsck import StoreFinding, findings
from veristate.store.seen import Seen
from veristate.store.swap import put_back, swap_in
from veristate.store.trees import Tree
from veristate.store.workspace import capture, remove

FORMAT = "veristate-store/1"
SPARE_S = 3600.0
_OURS = {"blobs", "drafts", "format", "lock", "pins", "recent", "seen"}
_LINE = re.compile(rb"veristate-store/[0-9]+\n")


class Store:
    """Content-addressed blobs and workspace snapshots in one folder. Made by `Store.open`.

    Any number of processes may put and get at once; nothing is ever overwritten. `exclusive` is for a run that must be
    the only one. A copy made by `fork` shares the exclusive lock of its parent until it ends.
    """

    def __init__(self, root: Path, *, bytes_upper: int | None = None) -> None:
        self.root = root
        self._bytes_upper = bytes_upper
        self._roots = Roots(pins=root / "pins", recent=root / "recent")
        self._drafts = root / "drafts"
        self._blobs = Blobs(root / "blobs", temporary=self._drafts)

    @classmethod
    def open(cls, root: Path, *, bytes_upper: int | None = None) -> "Store":
        """The store in `root`, made if there is none. No snapshot makes it larger than `bytes_upper`.

        Raises: EnvironmentUnusableError for a version this code doesn't know, or a folder it may not use; InputError
        for a folder that holds something else.
        """
        store = cls(root.absolute(), bytes_upper=bytes_upper)
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
        self._blobs.packs.notice_removals()
        return self._blobs.has(name)

    def tree(self, name: str) -> Tree:
        """The folder that the manifest `name` describes. Raises: as `get`; TamperError when it is no manifest."""
        return Tree.from_bytes(self.get(name), name)

    def snapshot(self, folder: Path, *, quick: bool = False) -> str:
        """The digest of the tree manifest of `folder`, all of whose content is in the store when this returns.

        Nobody may write in the folder meanwhile: each file is read once, at some moment. `quick`: a file whose inode,
        size and times are those of the last quick snapshot is taken to hold what it held, and content that the store
        holds already is not compared with it. Not for what is certified.

        Raises: InputError naming sockets, FIFOs, devices and mounts, or when `folder` is no folder; RefusedError when
        it doesn't fit into what the store may hold. Nothing was added then.
        """
        folder = self._workspace(folder)
        with locked_folder(folder.parent):
            self._settle(folder)
            seen = self._seen(folder, quick)
            tree = self._capture(folder, seen)
            if seen is not None:
                seen.save()
            return tree

    def restore(self, tree: str, folder: Path, *, quick: bool = False) -> str:
        """The digest of what `folder` held before; it holds `tree` now, in bytes, modes, names and links.

        The folder is swapped whole: staged beside it, then exchanged. A process whose working directory is inside
        stays in the old folder, which is removed: it must chdir to the path again. A folder that doesn't exist is
        made, and counts as an empty one. Whatever is removed is in the snapshot whose digest is returned. `quick` is
        as in `snapshot`, and the new content is not forced to the disk: after a power cut, restore again.

        Raises: InputError when the store lacks the tree, or the present content can't be kept; TamperError when a
        part of the tree is damaged or leads outside; RefusedError when the present content doesn't fit into what the
        store may hold. The folder is unchanged then, if nobody wrote in it meanwhile.
        """
        folder = self._workspace(folder)
        staged, aside = _siblings(folder)
        with locked_folder(folder.parent):
            self._settle(folder)
            seen, new = self._seen(folder, quick), self._seen(folder, quick)
            if folder.exists():
                self._capture(folder, seen)
            try:
                build(self._blobs, tree, staged, new)
                with disk(folder):
                    if not quick:
                        sync_all(staged)
                    folder.mkdir(exist_ok=True)
                if new is not None:
                    new.settle()
            except BaseException:
                if staged.exists():
                    remove(staged)
                raise
            with disk(folder):
                old = swap_in(staged, folder, aside=aside)
                if not quick:
                    sync_folder(folder.parent)
            # Once more, now that no path leads there: a write between the first reading and the swap is kept too.
            replaced = self._capture(old, seen)
            remove(old)
            if new is not None:
                new.save()
            return replaced

    def pin(self, name: str, tree: str) -> None:
        """Returns when `tree`, and all it names, is kept by `collect` until `unpin`; an earlier pin of this name goes.

        Raises: InputError for a name that is no plain word, or a digest that is not in the store.
        """
        with writing(self._drafts):
            if not self.has(tree):
                raise InputError(f"no tree {tree} in {self.root}; only what is there can be pinned")
            self._roots.pin(name, tree, temporary=self._drafts)

    def unpin(self, name: str) -> None:
        """Returns when there is no pin of this name."""
        self._roots.unpin(name)

    def pins(self) -> dict[str, str]:
        """The pinned trees by the names of their pins."""
        return self._roots.pins()

    def size_bytes(self) -> int:
        """The size of everything that is stored."""
        with disk(self.root):
            return self._blobs.size_bytes()

    def collect(self, keep: Iterable[str], *, spare_s: float = SPARE_S) -> Collected:
        """What was removed: every blob that none of `keep` names, no pin, no snapshot of the last `spare_s` seconds.

        A digest in `keep` that is a tree keeps all below it. What was put in the last `spare_s` seconds is spared too:
        its digest may be on its way into a journal. Waits for writers; readers need not stop. Killed anywhere, it has
        removed a part of what it would have.

        Raises: InputError or TamperError when something that is to be kept is missing or damaged; nothing is removed.
        """
        with disk(self.root):
            shutil.rmtree(self.root / "seen", ignore_errors=True)  # memories of workspaces, of which many may be gone
            return collect(self._blobs, self._roots, keep, spare_s=spare_s)

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
                    self._capture(rest, None)
                    remove(rest)

    def _capture(self, folder: Path, seen: Seen | None) -> str:
        """The tree of `folder`, in the store, and kept from being collected while its digest is on its way."""
        with batch(self._blobs, compared=seen is None, bytes_upper=self._bytes_upper) as blobs:
            tree = capture(blobs, folder, seen)
            self._roots.mark_recent(tree)
        return tree

    def _seen(self, folder: Path, quick: bool) -> Seen | None:
        if not quick:
            return None
        mark = digest(os.fsencode(folder))[:16]
        with disk(folder.parent):
            return Seen(self.root / "seen" / mark, folder=folder.parent)


def _siblings(folder: Path) -> tuple[Path, Path]:
    """Where a restore stages the new content of `folder`, and where it may put the old one aside."""
    mark = digest(os.fsencode(folder.name))[:16]
    return folder.with_name(f".restoring-{mark}"), folder.with_name(f".replaced-{mark}")
