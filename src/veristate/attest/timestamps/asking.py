"""Asking an authority for a timestamp, over HTTP."""

import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from veristate.attest.timestamps.judging import Authority, TimestampVerdict, judge_timestamp
from veristate.attest.timestamps.rfc3161 import build_request
from veristate.core import EnvironmentUnusableError, InputError

REPLY_BYTES_UPPER = 1 << 20
# The present moment, with its time zone.
Now = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampRequest:
    """The bytes to send, and the nonce that the reply must repeat."""

    data: bytes
    nonce: int


def request_for(message: bytes) -> TimestampRequest:
    """A request for a timestamp of the message, which stays here: only its SHA-256 is sent."""
    if not message:
        raise InputError("an empty message can't be given a timestamp")
    data, nonce = build_request(message)
    return TimestampRequest(data=data, nonce=nonce)


def fetch_timestamp(
    url: str, message: bytes, authority: Authority, *, now: Now = lambda: datetime.now(UTC), timeout_s: float = 20.0
) -> tuple[bytes, TimestampVerdict]:
    """The reply of the authority at `url`, worth keeping when the verdict on it is valid.

    Raises: EnvironmentUnusableError when there is no answer; InputError for what is no http or https address.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{url!r} is no http or https address of a timestamp authority")
    asked = request_for(message)
    headers = {"Content-Type": "application/timestamp-query"}
    request = urllib.request.Request(url, asked.data, headers)  # noqa: S310 - the scheme was looked at
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
            reply = answer.read(REPLY_BYTES_UPPER + 1)
    except OSError as error:
        name = urllib.parse.urlsplit(url).hostname
        raise EnvironmentUnusableError(
            f"the timestamp authority at {name} gave no answer: {error}; try later"
        ) from error
    if len(reply) > REPLY_BYTES_UPPER:
        reply = b""
    return reply, judge_timestamp(reply, message, authority, nonce=asked.nonce, now=now())
