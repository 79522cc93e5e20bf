"""What `veristate log` and `veristate verify` share about timestamps: whom to believe, and what is said of them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import Head, Home
from veristate.attest.timestamps import Authority, judge_timestamp, stamp_head
from veristate.core import InputError

AuthorityFile = Annotated[
    Path | None,
    typer.Option("--authority", help="Root certificates (PEM) of the timestamp authority you believe (RFC 3161)."),
]


def read_authority(file: Path | None) -> Authority | None:
    """Whom to believe about the time. Raises: InputError when the file can't be read or holds no certificates."""
    if file is None:
        return None
    try:
        return Authority.from_pem(file.read_bytes())
    except OSError as error:
        raise InputError(f"--authority {file}: {error.strerror}") from error


def ask(home: Home, head: Head, url: str, file: Path | None) -> dict[str, object]:
    """What is to be said of the head's timestamp, which is kept when this returns."""
    authority = read_authority(file)
    if authority is None:
        raise InputError("--timestamp needs --authority FILE: the root certificates that the reply is judged by")
    stamp, time = stamp_head(home, head, url, authority, now=lambda: datetime.now(UTC))
    return {"size": stamp.size, "timestamp": time.isoformat(), "authority": url}


def said_of(stamped: Mapping[str, object]) -> str:
    """The same in words."""
    return "head of {size} entries: it existed at {timestamp}, signs {authority}. Exports carry that.".format(**stamped)


def judged(file: Path, head: Head, authority: Authority) -> datetime:
    """The time that a reply in a file says of a head. Raises: InputError, and TamperError when it is not valid."""
    try:
        reply = file.read_bytes()
    except OSError as error:
        raise InputError(f"--timestamp {file}: {error.strerror}; `veristate log prove --out` writes it") from error
    return judge_timestamp(reply, str(head).encode(), authority, now=datetime.now(UTC)).require()
