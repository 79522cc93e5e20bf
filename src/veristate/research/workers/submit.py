#!/usr/bin/env python3
"""Asking the engine from a worker's side: a request is a file that appears whole, so is its reply.

Standard library alone and no import of veristate: the engine puts a copy of this file beside a worker's requests, where
any agent can run it: `submit NOTE`, `submit --unfold ID [STAGE ...]`, `submit --job COMMAND ...`.
"""

import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any


def ask(mailbox: Path, request: dict[str, Any], *, patience_s: float = 86_400.0) -> dict[str, Any]:
    """The engine's reply to the request.

    Raises: TimeoutError when there is none after `patience_s`: the engine has ended, or never was.
    """
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex}.json"
    draft = mailbox / "drafts" / name
    draft.write_text(json.dumps(request), encoding="utf-8")
    draft.rename(mailbox / "requests" / name)
    reply = mailbox / "replies" / name
    deadline, pause = time.monotonic() + patience_s, 0.002
    while not reply.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no reply to {name} after {patience_s} s")
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)
    content: dict[str, Any] = json.loads(reply.read_text(encoding="utf-8"))
    reply.unlink()
    return content


def main(arguments: list[str]) -> int:
    """The exit code: 0 when the candidate is valid or the request was served, 1 when not."""
    mailbox = Path(os.environ.get("VERISTATE_MAILBOX", Path(__file__).resolve().parent))
    if arguments[:1] == ["--unfold"]:
        request = {"kind": "unfold", "id": arguments[1] if arguments[1:] else "", "stages": arguments[2:]}
    elif arguments[:1] == ["--job"]:
        request = {"kind": "job", "argv": arguments[1:]}
    else:
        request = {"kind": "submit", "note": " ".join(arguments)}
    reply = ask(mailbox, request)
    sys.stdout.write(str(reply.get("text", reply)) + "\n")
    return 0 if reply.get("ok") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
