"""Outside time by RFC 3161: an authority signs that a digest existed, and the token can be judged offline for ever.

Needs the `timestamps` extra.
"""

from veristate.attest.timestamps.asking import TimestampRequest, fetch_timestamp, request_for
from veristate.attest.timestamps.heads import stamp_head
from veristate.attest.timestamps.judging import Authority, TimestampVerdict, judge_timestamp

__all__ = [
    "Authority",
    "TimestampRequest",
    "TimestampVerdict",
    "fetch_timestamp",
    "judge_timestamp",
    "request_for",
    "stamp_head",
]
