"""Timestamps of a log's published heads: whatever stands in the log under such a head existed at that time."""

from datetime import datetime

from veristate.attest.delivery import Stamp
from veristate.attest.home import Home
from veristate.attest.signing import Head
from veristate.attest.timestamps.asking import Now, fetch_timestamp
from veristate.attest.timestamps.judging import Authority
from veristate.core import InputError


def stamp_head(home: Home, head: Head, url: str, authority: Authority, *, now: Now) -> tuple[Stamp, datetime]:
    """The timestamp of a head of the home's log, asked of the authority at `url`, and its time. It is kept before this
    returns, and goes along with exports.

    Raises: InputError when nothing is under the head; EnvironmentUnusableError when the authority can't be reached or
    the `timestamps` extra is missing; TamperError for a reply that is not valid, which is not kept.
    """
    if not head.size:
        raise InputError("nothing is under a published head; run `veristate log deliver` first")
    reply, verdict = fetch_timestamp(url, str(head).encode(), authority, now=now)
    time = verdict.require()
    kept = home.recorder.store.put(reply)
    stamp = Stamp(size=head.size, time=time.isoformat(), authority=url, reply=kept)
    home.recorder.outbox.timestamped(str(head), stamp)
    return stamp, time
