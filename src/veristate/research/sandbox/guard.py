"""A command under a keeper of its own, for where the keeper above may be killed and nobody is left to look.

`python -I -S guard.py ARGV...`, standard library alone. As the command of a keeper this process dies with it, and then
the keeper below, whose control it holds, ends the whole tree. It ends as the command did.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """The command's exit status. Nothing of its tree is alive then."""
    ours, theirs = socket.socketpair()
    keeper = str(Path(__file__).with_name("keeper.py"))
    with theirs:
        command = [sys.executable, "-I", "-S", keeper, str(theirs.fileno()), "{}", *argv]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), start_new_session=True)
    said = b""
    while b"exit" not in said and (more := ours.recv(4096)):
        said += more
    ours.close()
    process.wait()
    for line in said.splitlines():
        word, _, number = line.partition(b" ")
        if word == b"exit":
            return int(number)
        if word == b"error":
            sys.stderr.write(f"{argv[0]} can't be started: {os.strerror(int(number))}\n")
    return 127


if __name__ == "__main__":
    status = main(sys.argv[1:])
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -status)
    sys.exit(status)
