"""Holding a process to what it needs, with bubblewrap where it works.

Inside: the system read-only, the interpreter and what was named as readable, the writable folders, a /tmp and a process
namespace of its own, no network unless asked for. Nothing else is there: not the user's home, not the campaign's
journal and store, no key that the environment was not given. When bubblewrap dies, everything in the namespace does.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import veristate
from veristate.core import EnvironmentUnusableError
from veristate.research.processes import Confine, Launch

NO_SANDBOX = "no sandbox (bubblewrap is missing or may not be used): workers see the user's files and the network"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
_SETTINGS = (
    "alternatives",
    "ca-certificates",
    "group",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "passwd",
    "pki",
    "resolv.conf",
    "ssl",
)
_UNSHARED = ("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What every process of a campaign may see beside what its launch names, and what of that none may.

    `devices` are passed through: a GPU's. The interpreter and this package are always readable.
    """

    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = field(default=())

    def confine(self, launch: Launch) -> Launch:
        """The launch, held to what it names.

        Raises: EnvironmentUnusableError when there is no such program.
        """
        program = _program(launch)
        seen = [*_interpreter(), *self.readable, *launch.readable, *_around(program)]
        argv = ["bwrap", "--die-with-parent", *_UNSHARED, *([] if launch.network else ["--unshare-net"])]
        sized = bool(launch.memory_bytes) and _takes_sizes()  # what lies there is memory too
        room = ["--size", str(launch.memory_bytes)] if sized else []
        argv += [*_system(), "--proc", "/proc", "--dev", "/dev", *room, "--tmpfs", "/dev/shm"]  # noqa: S108
        argv += [*room, "--tmpfs", "/tmp"]  # noqa: S108 - of its own
        for path in self.devices:
            argv += ["--dev-bind-try", str(path), str(path)]
        for path in _outermost(seen):
            argv += ["--ro-bind", str(path), str(path)]
        for path in (*self.hidden, *launch.hidden):
            argv += _hide(path)
        for path in launch.writable:
            argv += ["--bind", str(path), str(path)]
        return replace(launch, argv=(*argv, "--chdir", str(launch.cwd), "--", str(program), *launch.argv[1:]))


def find_sandbox(profile: Profile | None = None) -> Confine | None:
    """What confines a launch; None when this machine has no bubblewrap that works, which a record must say."""
    return (profile or Profile()).confine if _works() else None


@cache
def _works() -> bool:
    return shutil.which("bwrap") is not None and _tried()


@cache
def _takes_sizes() -> bool:
    """Whether a size may be given for files in memory: an older bubblewrap, or a setuid one, refuses to start then."""
    return _tried("--size", str(2**20), "--tmpfs", "/tmp")  # noqa: S108 - of its own


def _tried(*options: str) -> bool:
    argv = ["bwrap", "--die-with-parent", *_UNSHARED, "--unshare-net", *_system(), "--proc", "/proc", "--dev", "/dev"]
    try:
        done = subprocess.run([*argv, *options, "--", "true"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _system() -> list[str]:
    argv = []
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            argv += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            argv += ["--ro-bind", str(path), str(path)]
    for path in (Path("/etc", name) for name in _SETTINGS):
        argv += ["--ro-bind-try", str(path), str(path)]
    return argv


def _interpreter() -> Iterator[Path]:
    """What Python and this package are read from: prefixes, the package, and the folders it was told to import from."""
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(veristate.__file__).parent)


def _around(program: Path) -> Iterator[Path]:
    """The folders that a program needs beside itself, when it is none of the system's: its own, behind links too."""
    for path in (program, program.resolve()):
        yield path.parent.parent if path.parent.name == "bin" else path.parent


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that exist, without those that lie in another, or in the system."""
    found = sorted({path.absolute() for path in paths if path.exists()})
    kept: list[Path] = []
    for path in found:
        above = [*kept, *map(Path, _SYSTEM)]
        if path != Path("/") and not any(path == each or path.is_relative_to(each) for each in above):
            kept.append(path)
    return kept


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", "/dev/null", str(path)] if path.exists() else []


def _program(launch: Launch) -> Path:
    name = launch.argv[0]
    if "/" in name:
        found = str(launch.cwd / name) if (launch.cwd / name).exists() else None
    else:
        found = shutil.which(name, path=launch.environment.get("PATH", os.defpath))
    if found is None:
        raise EnvironmentUnusableError(f"{name} can't be started: there is none; is it installed and on PATH?")
    return Path(found)
