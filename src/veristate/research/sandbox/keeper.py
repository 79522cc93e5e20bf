"""The process between the engine and what it runs: it adopts every descendant, and ends them all before itself.

`python -I -S keeper.py CONTROL LIMITS ARGV...`, standard library alone. CONTROL is a socket whose other end the engine
alone holds: the keeper says `pid N` or `error E` on it, `exit STATUS` when the command has ended, and kills the whole
tree as soon as the engine closes its end, however that comes about. As the subreaper of the tree it inherits whatever
left its session, its group or its parents, so that nothing can leave it but by the keeper's own death.
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
PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 10.0


def main(control: int, limits: str, argv: list[str]) -> None:
    """Returns when nothing of the tree is alive."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ.pop(KEEPER, None)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(each, signal.SIG_IGN)
    heard, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    leader = launch(control, json.loads(limits), argv)
    try:
        while not over(control, heard):
            reap(leader, control)
    finally:
        end_all()


def over(control: int, heard: int) -> bool:
    """Whether the engine's end is closed; returns when that is so, or a child has ended."""
    ready, _, _ = select.select([control, heard], [], [])
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
    """The command's process. The engine has been told of it, or why there is none; then this process ends."""
    failed, told = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
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
    if trouble:
        os.write(control, b"error %s\n" % trouble)
        os.waitpid(pid, 0)
        sys.exit(0)
    os.write(control, b"pid %d\n" % pid)
    return pid


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
            with suppress(OSError):
                os.write(control, b"exit %d\n" % os.waitstatus_to_exitcode(status))


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
