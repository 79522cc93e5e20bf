"""Claim: of a large workspace of which one percent changed, a snapshot is taken no slower than by git, restic or
dvc-data, restored within 1.2 times the fastest and stored within 1.2 times the smallest; every restore is identical.

One tree for all: small text files in folders and large files of random bytes; 1 % of the small files are rewritten and
1 % of the bytes in place in one large file. Each tool takes both states, the second on what it kept of the first, and
restores the first into an empty folder. git runs without compression, its quickest setting. Only veristate and restic
wait for the disk before they return; between the steps of all tools the disk is left to settle.
"""

import argparse
import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.record import Claim, note, write

FOLDER = 100
LARGE = 16
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


class Veristate:
    """Our store, through its command-line-sized script, as the others: a process for each step."""

    name = "veristate"
    quick = True

    def __init__(self, base: Path, work: Path) -> None:
        self.kept, self.work = base / "kept", work

    def begin(self) -> None:
        """Nothing is needed."""

    def take(self) -> str:
        """The snapshot's name."""
        return self._python(f"print(Store.open(Path({str(self.kept)!r})).snapshot(work, quick={self.quick}))")

    def restore(self, name: str, folder: Path) -> None:
        """Returns when the empty `folder` holds the snapshot."""
        code = f"Store.open(Path({str(self.kept)!r})).restore({name!r}, Path({str(folder)!r}), quick={self.quick})"
        self._python(code)

    def _python(self, code: str) -> str:
        start = f"from pathlib import Path\nfrom veristate.store import Store\nwork = Path({str(self.work)!r})\n"
        return run([sys.executable, "-c", start + code])


class Certifying(Veristate):
    """The same, where something is certified: every byte is read, and everything is forced to the disk."""

    name = "veristate, every byte read"
    quick = False


class Git:
    """git, objects by SHA-256, in a repository outside the workspace."""

    name = "git"

    def __init__(self, base: Path, work: Path) -> None:
        self.kept, self.work = base / "kept", work
        self._git = ["git", f"--git-dir={self.kept}", "-c", "core.compression=0", "-c", "gc.auto=0"]

    def begin(self) -> None:
        """Makes the repository."""
        run(["git", "init", "-q", "--bare", "--object-format=sha256", str(self.kept)])

    def take(self) -> str:
        """As above."""
        git = [*self._git, f"--work-tree={self.work}"]
        run([*git, "add", "-A", "."], cwd=self.work)
        return run([*git, "write-tree"], cwd=self.work)

    def restore(self, name: str, folder: Path) -> None:
        """As above; an index of its own, so that nothing is taken for done."""
        environment = os.environ | {"GIT_INDEX_FILE": str(folder) + "-index"}
        git = [*self._git, f"--work-tree={folder}"]
        run([*git, "read-tree", name], env=environment)
        run([*git, "checkout-index", "-a", "-f"], cwd=folder, env=environment)


class Restic:
    """restic, compressing as it sees fit, with the password it insists on."""

    name = "restic"

    def __init__(self, base: Path, work: Path) -> None:
        self.kept, self.work = base / "kept", work
        cache = str(base / "cache")
        self._restic = ["restic", "-q", "--no-lock", "-r", str(self.kept), "--cache-dir", cache]
        self._environment = os.environ | {"RESTIC_PASSWORD": "x"}

    def begin(self) -> None:
        """Makes the repository."""
        run([*self._restic, "init", "--repository-version", "2"], env=self._environment)

    def take(self) -> str:
        """As above."""
        run([*self._restic, "backup", "."], cwd=self.work, env=self._environment)
        listed = run([*self._restic, "snapshots", "--compact"], env=self._environment).splitlines()
        return next(line.split()[0] for line in reversed(listed) if len(line.split()[0]) == 8)

    def restore(self, name: str, folder: Path) -> None:
        """As above."""
        run([*self._restic, "restore", name, "--target", str(folder)], env=self._environment)


class Dvc:
    """dvc-data, from a Python that has it."""

    name = "dvc-data"

    def __init__(self, base: Path, work: Path, python: str) -> None:
        self.kept, self.work, self._python = base / "kept", work, python

    def begin(self) -> None:
        """Nothing is needed."""

    def take(self) -> str:
        """As above."""
        return run([self._python, "-c", DVC, "take", str(self.work), str(self.kept)])

    def restore(self, name: str, folder: Path) -> None:
        """As above."""
        folder.rmdir()
        run([self._python, "-c", DVC, "restore", str(self.work), str(self.kept), name, str(folder)])


def run(argv: list[str], **options: Any) -> str:
    """What the command printed; its end with an error is ours."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[:3]}: {done.stderr[-2000:]}")
    return done.stdout.strip()


def fill(work: Path, *, small: int, total: int, seed: int = 1) -> None:
    """The tree: `small` files of about 2 kB of text in folders of a hundred, and 16 of random bytes, `total` in all."""
    draw = random.Random(seed)
    for number in range(small):
        path = work / f"folder-{number // FOLDER:03d}" / f"table-{number:05d}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{number},{row},{draw.random():.9f}\n" for row in range(100)))
    for number in range(LARGE):
        (work / f"weights-{number:02d}.bin").write_bytes(draw.randbytes(total // LARGE))


def change(work: Path, *, small: int, total: int) -> None:
    """One percent: of the small files, and of the bytes, in one place of one large file."""
    draw = random.Random(2)
    for number in range(0, small, 100):
        path = work / f"folder-{number // FOLDER:03d}" / f"table-{number:05d}.csv"
        path.write_text("".join(f"{number},{row},{draw.random():.9f}\n" for row in range(100)))
    with (work / "weights-03.bin").open("r+b") as file:
        file.seek(total // LARGE // 3)
        file.write(draw.randbytes(total // 100))


def tree_digest(folder: Path) -> str:
    """SHA-256 over every path and content, by plain calls. Permissions are left out: git and dvc keep few of them."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        whole.update(f"{path.relative_to(folder)}\0{content}\n".encode())
    return whole.hexdigest()


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, processor seconds of the processes that were run, and the result; begun when the disk is quiet."""
    os.sync()
    begun, used = time.perf_counter(), os.times()
    result = call()
    seconds, now = time.perf_counter() - begun, os.times()
    cpu_s = now.children_user + now.children_system - used.children_user - used.children_system
    return seconds, cpu_s, result


def measured(tool: Any, work: Path, base: Path, sizes: dict[str, int]) -> dict[str, Any]:
    """One tool on a fresh tree: seconds of each step, bytes on the disk, whether what came back is the same."""
    if work.exists():
        shutil.rmtree(work)
    fill(work, **sizes)
    before = tree_digest(work)
    tool.begin()
    time.sleep(0.2)
    first_s, first_cpu_s, name = timed(tool.take)
    first_bytes = disk_bytes(tool.kept)
    change(work, **sizes)
    after = tree_digest(work)
    time.sleep(0.2)
    next_s, next_cpu_s, later = timed(tool.take)
    extra = disk_bytes(tool.kept) - first_bytes
    same = True
    seconds: list[tuple[float, float]] = []
    for snapshot, wanted in ((name, before), (later, after)):
        folder = base / f"restored-{len(seconds)}"
        folder.mkdir()
        seconds.append(timed(lambda f=folder, s=snapshot: tool.restore(s, f))[:2])
        same = same and tree_digest(folder) == wanted
        shutil.rmtree(folder)
    return {
        "first_s": first_s,
        "first_cpu_s": first_cpu_s,
        "incremental_s": next_s,
        "incremental_cpu_s": next_cpu_s,
        "restore_s": seconds[0][0],
        "restore_cpu_s": seconds[0][1],
        "restore_later_s": seconds[1][0],
        "disk_bytes": first_bytes,
        "extra_bytes": extra,
        "identical": same,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Measures and writes. A round is one pass over all tools; medians are compared."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", type=int, default=10_000)
    options.add_argument("--total", type=int, default=2**30)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dvc-python", default="", help="a Python with dvc-data; without it that tool is left out")
    options.add_argument("--folder", default=None, help="where the trees are made")
    given = options.parse_args()
    started = time.time()
    sizes = {"small": given.small, "total": given.total}
    rounds: dict[str, list[dict[str, Any]]] = {}
    for number in range(given.rounds):
        makers: list[Callable[[Path, Path], Any]] = [Veristate, Git, Restic, Certifying]
        if given.dvc_python:
            makers.insert(3, lambda base, work: Dvc(base, work, given.dvc_python))
        for make in makers[number % len(makers) :] + makers[: number % len(makers)]:
            with tempfile.TemporaryDirectory(dir=given.folder) as name:
                base = Path(name)
                tool = make(base, base / "work")
                rounds.setdefault(tool.name, []).append(measured(tool, base / "work", base, sizes))
            note(f"{tool.name}: {rounds[tool.name][-1]}")
    write("snapshots", claims(rounds, sizes), {"sizes": sizes, "rounds": rounds}, started)


def claims(rounds: dict[str, list[dict[str, Any]]], sizes: dict[str, int]) -> list[Claim]:
    """The rows."""
    medians = {
        tool: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for tool, runs in rounds.items()
    }
    ours = medians.pop(Veristate.name)
    slow = medians.pop(Certifying.name)
    detail = f"{sizes['small']:,} small files and {sizes['total'] / 2**20:,.0f} MiB, 1 % changed; medians of "
    detail += f"{len(rounds[Veristate.name])} rounds on a shared machine; peers: "

    def row(claim: str, key: str, factor: float, unit: str, scale: float = 1.0) -> Claim:
        best = min(medians, key=lambda tool: float(medians[tool][key]))
        upper = factor * medians[best][key]
        said = ", ".join(f"{tool} {each[key] / scale:.3g}" for tool, each in medians.items())
        return Claim(
            claim=claim,
            measured=f"{ours[key] / scale:.3g}",
            unit=unit,
            bar=f"<= {upper / scale:.3g} ({factor:g} x {best})",
            met=bool(ours[key] <= upper),
            detail=detail + said + f"; every byte read: {slow[key] / scale:.3g}",
        )

    identical = all(run["identical"] for tool in (Veristate.name, Certifying.name) for run in rounds[tool])
    peers = {tool: all(run["identical"] for run in runs) for tool, runs in rounds.items()}
    return [
        row("incremental snapshot no slower than the fastest peer", "incremental_s", 1.0, "s"),
        row("restore into an empty folder within 1.2 x of the fastest peer", "restore_s", 1.2, "s"),
        row("extra disk of the change within 1.2 x of the smallest peer", "extra_bytes", 1.2, "MB", 1e6),
        Claim(
            claim="every restore is byte-identical",
            measured="yes" if identical else "no",
            unit="",
            bar="yes",
            met=identical,
            detail=", ".join(f"{tool} {'yes' if same else 'no'}" for tool, same in peers.items()),
        ),
        row("incremental snapshot, processor time", "incremental_cpu_s", 1.0, "s"),
        row("restore into an empty folder, processor time", "restore_cpu_s", 1.2, "s"),
        row("first snapshot beside the peers", "first_s", 1.0, "s"),
    ]


if __name__ == "__main__":
    main()
