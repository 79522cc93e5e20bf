"""What the store's tests share: a store, a walk that is not the store's own, and a way to die at every step."""

import os
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import veristate.store.swap as swap
from veristate.store import Store

STEPS = ("open", "write", "pwrite", "fsync", "rename", "unlink", "mkdir", "rmdir", "symlink", "fchmod", "ftruncate")


@pytest.fixture
def store(tmp_path):
    """A new store."""
    return Store.open(tmp_path / "store")


@pytest.fixture(scope="session")
def walk() -> Callable[[Path], dict[bytes, tuple]]:
    """Every name below a folder with its kind, mode and content, read by plain calls on paths."""

    def below(path: Path, root: Path) -> dict[bytes, tuple]:
        key = os.fsencode(path.relative_to(root))
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink():
            return {key: ("link", os.readlink(os.fsencode(path)))}  # noqa: PTH115 - Path tidies the target
        if path.is_file():
            return {key: ("file", mode, path.read_bytes())}
        found = {key: ("folder", mode)}
        for inner in path.iterdir():
            found |= below(inner, root)
        return found

    return lambda folder: below(folder, folder)


@pytest.fixture
def child() -> Callable[[Callable[[], object]], int]:
    """Runs a callable in a forked process: 0 when it returned, 1 when it raised, -9 when it was killed."""

    def run(work: Callable[[], object]) -> int:
        process = os.fork()
        if process == 0:
            try:
                work()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    return run


@pytest.fixture
def killed_at(child) -> Callable[[int, Callable[[], object]], bool]:
    """Whether `work` was killed by SIGKILL just before its n-th step; a write gets half of its bytes out first."""

    def run(step: int, work: Callable[[], object]) -> bool:
        left = step

        def deadly(name, call):
            def stepped(*arguments, **options):
                nonlocal left
                left -= 1
                if left == 0:
                    if name == "write":
                        call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return stepped

        def armed():
            for name in STEPS:
                setattr(os, name, deadly(name, getattr(os, name)))
            swap.exchange = deadly("exchange", swap.exchange)
            work()

        code = child(armed)
        assert code in (0, -signal.SIGKILL), f"the child failed at step {step}"
        return code != 0

    return run


@dataclass
class PlainUser:
    """Somebody who is not root, with a folder of their own."""

    folder: Path
    number: int

    def become(self):
        """Only in a child: there is no way back."""
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(self.number)
            os.setuid(self.number)


@pytest.fixture
def plain_user():
    """Nobody in particular; the very user when the tests are not run by root."""
    number = 65534 if os.geteuid() == 0 else os.getuid()
    with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as name:
        os.chown(name, number, -1)
        yield PlainUser(Path(name), number)


@pytest.fixture(scope="module")
def unsynced():
    """No waiting for the disk: what a kill loses is the process, not the page cache."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield
