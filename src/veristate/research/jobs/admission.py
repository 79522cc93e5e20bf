"""What a job asks for, what is free, and whether the one fits the other."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veristate.core import InputError
from veristate.research.jobs.leases import Lease

SECONDS_UPPER = 7 * 86_400.0
ARGV_UPPER = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A job as a worker proposes it: a command in its workspace, what it needs, how long it thinks it takes.

    Units: seconds, bytes.
    """

    argv: tuple[str, ...]
    seconds: float = 60.0
    cores: int = 1
    memory_bytes: int = 0
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """What the campaign may still hand out: cores, bytes of memory, the numbers of whole GPUs."""

    cores: int
    memory_bytes: int
    gpus: tuple[int, ...] = ()

    def without(self, leases: Iterable[Lease]) -> "Free":
        """The same when these leases are held."""
        held = list(leases)
        taken = {number for lease in held for number in lease.gpus}
        return Free(
            cores=self.cores - sum(lease.cores for lease in held),
            memory_bytes=self.memory_bytes - sum(lease.memory_bytes for lease in held),
            gpus=tuple(number for number in self.gpus if number not in taken),
        )

    def fits(self, offer: Offer) -> bool:
        """Whether the offer fits."""
        enough = offer.cores <= self.cores and offer.memory_bytes <= self.memory_bytes
        return enough and offer.gpus <= len(self.gpus)


def read_offer(content: Mapping[str, Any]) -> Offer:
    """The offer in a worker's request. Raises: InputError for what is no offer, saying what is wrong."""
    argv = content.get("argv")
    if not isinstance(argv, Sequence) or isinstance(argv, str) or not argv or not all(isinstance(x, str) for x in argv):
        raise InputError("a job needs argv, a list of texts")
    if sum(map(len, argv)) > ARGV_UPPER or any("\0" in part or not _is_text(part) for part in argv):
        raise InputError("this job's argv is too long, or holds a NUL or half a character")
    seconds = content.get("seconds", 60.0)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= SECONDS_UPPER:
        raise InputError(f"a job's seconds are a number above 0 and at most {SECONDS_UPPER:g}, not {seconds!r}")
    return Offer(
        argv=tuple(argv),
        seconds=float(seconds),
        cores=_count(content, "cores", 1, least=1),
        memory_bytes=_count(content, "memory_bytes", 0),
        gpus=_count(content, "gpus", 0),
    )


def _is_text(part: str) -> bool:
    try:
        part.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _count(content: Mapping[str, Any], name: str, default: int, *, least: int = 0) -> int:
    value = content.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**53:
        raise InputError(f"a job's {name} are a whole number from {least}, not {value!r}")
    return value


def free_now(workers: int, cores_each: int, gpus: Sequence[int] = ()) -> Free:
    """What this machine has beside its workers: at least one core, else no job would ever run; memory that is available
    now, a tenth of it left alone.
    """
    cores = max(1, len(os.sched_getaffinity(0)) - workers * cores_each)
    available = 0
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        available = int(line.split()[1]) * 1024
    return Free(cores=cores, memory_bytes=available * 9 // 10, gpus=tuple(gpus))
