"""Writing files of which a stranger reads only whole ones: drafted beside them, forced to the disk, then renamed."""

import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from veristate.store import disk, locked_folder, sync_folder, write_all

_AT_ONCE = 8


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A block in which nobody else is in such a block of this folder, which is made if there is none; it waits."""
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked_folder(folder):
        yield


def write_whole(target: Path, data: bytes, *, mode: int = 0o644, drafts: Path | None = None) -> None:
    """Returns when `target` holds `data` and would after a power cut; before that it is as it was.

    A killed writer leaves its draft in `drafts`, a folder of the same file system; beside the target when None.
    """
    with disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _draft(data, mode, drafts or target.parent).rename(target)
        sync_folder(target.parent)


def write_all_whole(files: Sequence[tuple[Path, bytes]], *, drafts: Path) -> None:
    """Returns when every file holds its bytes and would after a power cut; each is there whole or as it was.

    The disk is asked for all of them at once: it answers many requests in about the time of one.
    """
    folders: dict[Path, None] = {}
    for target, _ in files:
        with disk(target):
            for folder in _missing_above(target):
                folders[folder.parent] = None
            target.parent.mkdir(parents=True, exist_ok=True)
            folders[target.parent] = None
    with disk(files[0][0]), ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        written = list(pool.map(lambda file: _draft(file[1], 0o644, drafts), files))
        for draft, (target, _) in zip(written, files, strict=True):
            draft.rename(target)
        list(pool.map(sync_folder, folders))


def _missing_above(target: Path) -> list[Path]:
    """The folders that `target` needs and that are not there yet."""
    missing, folder = [], target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def _draft(data: bytes, mode: int, drafts: Path) -> Path:
    """A file in `drafts` that holds `data`, forced to the disk."""
    draft = drafts / f".draft-{os.getpid()}-{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    return draft
