"""Leases: which living process holds which resources, in SQLite, so that a crash can't lose one or keep one.

A lease names its process by number and birth. One whose process is gone is dead, whoever wrote it, and `reap` takes it.
"""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = """
create table if not exists lease (
    job text primary key, worker text not null, pid integer not null, born integer not null,
    cores integer not null, memory_bytes integer not null, gpus text not null, since text not null
) strict
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One job's claim. `pid` and `born` are of its keeper; `gpus` are the devices' numbers."""

    job: str
    worker: str
    pid: int
    born: int
    cores: int
    memory_bytes: int
    gpus: tuple[int, ...] = ()
    since: str = ""


class Leases:
    """The leases of one campaign. One engine writes at a time; any thread of it may."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        self._lock = threading.Lock()
        with self._lock:
            self._connection.execute("pragma journal_mode=wal")
            self._connection.execute("pragma synchronous=full")
            self._connection.execute(_SCHEMA)

    def take(self, lease: Lease) -> None:
        """Returns when the lease is on the disk."""
        row = (lease.job, lease.worker, lease.pid, lease.born, lease.cores, lease.memory_bytes)
        with self._lock:
            values = (*row, ",".join(map(str, lease.gpus)), lease.since)
            self._connection.execute("insert into lease values (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def release(self, job: str) -> None:
        """Returns when the job holds nothing."""
        with self._lock:
            self._connection.execute("delete from lease where job = ?", (job,))

    def held(self) -> tuple[Lease, ...]:
        """The leases, oldest first."""
        with self._lock:
            rows = self._connection.execute("select * from lease order by since, job").fetchall()
        return tuple(
            Lease(
                job=job,
                worker=worker,
                pid=pid,
                born=born,
                cores=cores,
                memory_bytes=memory,
                gpus=tuple(int(number) for number in gpus.split(",") if number),
                since=since,
            )
            for job, worker, pid, born, cores, memory, gpus, since in rows
        )

    def reap(self, alive: Callable[[int], int]) -> tuple[Lease, ...]:
        """The leases whose process is gone, which are released. `alive` says when the process of a number was born."""
        dead = tuple(lease for lease in self.held() if alive(lease.pid) != lease.born)
        for lease in dead:
            self.release(lease.job)
        return dead

    def close(self) -> None:
        """Returns when the file is closed."""
        with self._lock:
            self._connection.close()
