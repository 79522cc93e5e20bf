"""The process between the engine and what it runs: it adopts every descendant, and ends them all before itself.

`python -I -S keeper.py CONTROL LIMITS ARGV...`, standard library alone. CONTROL is a socket whose other end the engine
alone holds: the keeper says `pid N` or `error E` on it, `exit STATUS` when the command has ended, and kills the whole
tree as soon as the engine closes its end, however that comes about. As the subreaper of the tree it inherits whatever
left its session, its group or its parents, so that nothing can leave it but by the keeper's own death. The engine may
die at any moment, also before it was told anything: what can't be said is not said, and ends nothing but the tree.
LIMITS are resource limits of each process by their names, and `tree_bytes` for all of them: a tree that holds more is
ended whole, after `memory BYTES` was said.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

KEEPER = "VERISTATE_KEEPER"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PATIENCE_S = 10.0
LOOK_S = 0.5
PAGE = os.sysconf("SC_PAGE_SIZE")


def main(control: int, limits: str, argv: list[str]) -> None:
    """Returns when nothing of the tree is alive."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ.pop(KEEPER, None)
    for which in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(which, signal.SIG_IGN)
    heard, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if over(control, heard, 0.0):
        return
    each = json.loads(limits)
    upper = each.pop("tree_bytes", None)
    try:
        leader = launch(control, each, argv)
        while leader and not over(control, heard, LOOK_S if upper else None):
            reap(leader, control)
            if upper and (held := weight(below(os.getpid()), upper)) > upper:
                tell(control, b"memory %d\n" % held)
                break
    finally:
        end_all()


def over(control: int, heard: int, wait_s: float | None = None) -> bool:
    """Whether the engine's end is closed; returns when that is so, or a child has ended, or the time is over."""
    ready, _, _ = select.select([control, heard], [], [], wait_s)
    if heard in ready:
        with suppress(BlockingIOError):
            os.read(heard, 4096)
    if control not in ready:
        return False
    try:
        return not os.read(control, 1)
    except ConnectionError:
        return True  # it died with words of ours unread


def launch(control: int, limits: dict[str, int], argv: list[str]) -> int:
    """The command's process, 0 when there is none. The engine has been told which, or why none."""
    failed, told = os.pipe2(os.O_CLOEXEC)
    libc, own = ctypes.CDLL(None), os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a killed keeper takes at least the command along
            if os.getppid() != own:
                os._exit(127)
            os.setsid()
            os.close(control)
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
                signal.signal(each, signal.SIG_DFL)
            for name, value in limits.items():
                which = getattr(resource, name)
                hard = resource.getrlimit(which)[1]
                value = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(which, (value, value))
            os.execvp(argv[0], argv)  # noqa: S606 - what the engine was told to run
        except OSError as error:
            os.write(told, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(told)
    trouble = os.read(failed, 16)
    os.close(failed)
    tell(control, b"error %s\n" % trouble if trouble else b"pid %d\n" % pid)
    return 0 if trouble else pid


def tell(control: int, line: bytes) -> None:
    """Returns when the engine was told, or is gone."""
    with suppress(OSError):
        os.write(control, line)


def reap(leader: int, control: int) -> bool:
    """Whether there is a child left, after those that have ended are gone."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == leader:
            tell(control, b"exit %d\n" % os.waitstatus_to_exitcode(status))


def weight(pids: list[int], upper: int) -> int:
    """The bytes of memory that these processes hold together. Each page is counted once for each of them at first,
    which is quick; where that passes `upper`, what they share is divided among them.
    """
    total = sum(resident(pid) for pid in pids)
    return total if total <= upper else sum(proportional(pid) for pid in pids)


def resident(pid: int) -> int:
    """The resident set size; 0 when the process is gone."""
    with suppress(OSError, IndexError), open(f"/proc/{pid}/statm", "rb", buffering=0) as source:  # noqa: PTH123
        return int(source.readall().split()[1]) * PAGE
    return 0


def proportional(pid: int) -> int:
    """The proportional set size; the resident one where that is not told."""
    with suppress(OSError, StopIteration), open(f"/proc/{pid}/smaps_rollup", "rb") as source:  # noqa: PTH123
        return int(next(line for line in source if line.startswith(b"Pss:")).split()[1]) * 1024
    return resident(pid)


def end_all() -> None:
    """Returns when no descendant is left; who can't be killed for ten seconds is left to the kernel."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for pid in below(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
            continue
        return


def below(root: int) -> list[int]:
    """The living descendants of a process, found by their parents."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are enough, and there are many
        if name.isdigit():
            with suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb", buffering=0) as source:  # noqa: PTH123
                rest = source.readall().rpartition(b")")[2].split()
                if rest[0] not in (b"Z", b"X"):
                    parents.setdefault(int(rest[1]), []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
