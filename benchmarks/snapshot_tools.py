"""Tools that keep snapshots of a workspace, behind the same three steps; each step is a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DVC = """
import sys
from dvc_objects.fs import LocalFileSystem
from dvc_data.hashfile.build import build
from dvc_data.hashfile.checkout import checkout
from dvc_data.hashfile.db import HashFileDB
from dvc_data.hashfile.state import State
from dvc_data.hashfile.transfer import transfer
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile import load
what, work, kept, *rest = sys.argv[1:]
fs = LocalFileSystem()
state = State(root_dir=work, tmp_dir=kept + "-state")
odb = HashFileDB(fs, kept, state=state, hash_name="md5")
if what == "take":
    staging, _, obj = build(odb, work, fs, "md5")
    transfer(staging, odb, {obj.hash_info}, shallow=False, hardlink=False)
    print(obj.hash_info.value)
else:
    obj = load(odb, HashInfo("md5", rest[0]))
    checkout(rest[1], fs, obj, odb, state=state)
state.close()
"""


PROMISES = (
    "veristate forces a snapshot to the disk, verifies each restored file by SHA-256 and swaps the folder in whole; "
    "restic forces, encrypts and verifies; git by default forces no object and verifies no digest when it restores, "
    "in place; dvc-data forces no object and names by MD5; all trust inode, size and times of what they saw"
)


class Tool:
    """What keeps snapshots of the folder `work` below `base`."""

    name = ""

    def __init__(self, base: Path, work: Path) -> None:
        self.kept, self.work = base / "kept", work
        self.environment = dict(os.environ)

    def begin(self) -> None:
        """Makes what must be there first."""

    def take(self) -> str:
        """The snapshot's name."""
        raise NotImplementedError

    def restore(self, name: str, folder: Path) -> None:
        """Returns when the empty `folder` holds the snapshot."""
        raise NotImplementedError


class Veristate(Tool):
    """Our store, compiled once as an installed package is, wherever this Python may write."""

    name = "veristate"
    quick = True

    def begin(self) -> None:
        """As above: the compiled files."""
        self.environment |= {"PYTHONPYCACHEPREFIX": str(self.kept.with_name("compiled")), "PYTHONDONTWRITEBYTECODE": ""}
        self._python("")

    def take(self) -> str:
        """As above."""
        return self._python(f"print(Store.open(Path({str(self.kept)!r})).snapshot(work, quick={self.quick}))")

    def restore(self, name: str, folder: Path) -> None:
        """As above."""
        code = f"Store.open(Path({str(self.kept)!r})).restore({name!r}, Path({str(folder)!r}), quick={self.quick})"
        self._python(code)

    def _python(self, code: str) -> str:
        start = f"from pathlib import Path\nfrom veristate.store import Store\nwork = Path({str(self.work)!r})\n"
        return run([sys.executable, "-c", start + code], env=self.environment)


class Certifying(Veristate):
    """The same, where something is certified: every byte is read, and everything is forced to the disk."""

    name = "veristate, every byte read"
    quick = False


class Git(Tool):
    """git, objects by SHA-256, in a repository outside the workspace."""

    name = "git"

    def begin(self) -> None:
        """As above."""
        run(["git", "init", "-q", "--bare", "--object-format=sha256", str(self.kept)])

    def take(self) -> str:
        """As above."""
        self._git(self.work, "add", "-A", ".")
        return self._git(self.work, "write-tree")

    def restore(self, name: str, folder: Path) -> None:
        """As above; an index of its own, so that nothing is taken for done."""
        self.environment |= {"GIT_INDEX_FILE": str(folder) + "-index"}
        self._git(folder, "read-tree", name)
        self._git(folder, "checkout-index", "-a", "-f")

    def _git(self, folder: Path, *step: str) -> str:
        fixed = ["git", f"--git-dir={self.kept}", f"--work-tree={folder}"]
        return run([*fixed, "-c", "core.compression=0", "-c", "gc.auto=0", *step], cwd=folder, env=self.environment)


class Restic(Tool):
    """restic, compressing as it sees fit, with the password it insists on."""

    name = "restic"

    def begin(self) -> None:
        """As above."""
        self.environment |= {"RESTIC_PASSWORD": "x"}
        self._restic("init", "--repository-version", "2")

    def take(self) -> str:
        """As above."""
        self._restic("backup", ".")
        listed = self._restic("snapshots", "--compact").splitlines()
        return next(line.split()[0] for line in reversed(listed) if len(line.split()[0]) == 8)

    def restore(self, name: str, folder: Path) -> None:
        """As above."""
        self._restic("restore", name, "--target", str(folder))

    def _restic(self, *step: str) -> str:
        fixed = ["restic", "-q", "--no-lock", "-r", str(self.kept), "--cache-dir", str(self.kept.with_name("cache"))]
        return run([*fixed, *step], cwd=self.work, env=self.environment)


class Dvc(Tool):
    """dvc-data, from the Python that has it."""

    name = "dvc-data"
    python = ""

    def take(self) -> str:
        """As above."""
        return run([self.python, "-c", DVC, "take", str(self.work), str(self.kept)])

    def restore(self, name: str, folder: Path) -> None:
        """As above."""
        folder.rmdir()
        run([self.python, "-c", DVC, "restore", str(self.work), str(self.kept), name, str(folder)])


def run(argv: list[str], **options: Any) -> str:
    """What the command printed; its end with an error is ours."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[:3]}: {done.stderr[-2000:]}")
    return done.stdout.strip()
