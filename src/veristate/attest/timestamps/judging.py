"""Judging a timestamp: the time that counts is the one in the token, and everything was valid at that time or not."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from cryptography.x509 import Certificate, load_pem_x509_certificates

from veristate.attest.timestamps.rfc3161 import check_reply, read_reply
from veristate.core import InputError, TamperError


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The roots that are trusted to say what time it is, and certificates between them and the signers."""

    roots: tuple[Certificate, ...]
    others: tuple[Certificate, ...] = ()

    def __post_init__(self) -> None:
        if not self.roots:
            raise InputError("a timestamp needs a root certificate to be trusted under; give one")

    @classmethod
    def from_pem(cls, roots: bytes, others: bytes = b"") -> Self:
        """The certificates in PEM files. Raises: InputError when there is none, or one can't be read."""
        try:
            between = tuple(load_pem_x509_certificates(others)) if others.strip() else ()
            return cls(roots=tuple(load_pem_x509_certificates(roots)), others=between)
        except ValueError as error:
            raise InputError(f"not certificates in PEM: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampVerdict:
    """Whether the message surely existed at `time`, in UTC; if not, `reason` says what is wrong and `time` is None."""

    time: datetime | None
    reason: str = ""

    @property
    def valid(self) -> bool:
        """Whether everything was right."""
        return self.time is not None

    def require(self) -> datetime:
        """The time. Raises: TamperError with the reason when the timestamp is not valid."""
        if self.time is None:
            raise TamperError(f"not a valid timestamp: {self.reason}")
        return self.time


def judge_timestamp(
    reply: bytes, message: bytes, authority: Authority, *, now: datetime, nonce: int | None = None
) -> TimestampVerdict:
    """The verdict on an authority's reply about the message.

    Signature and certificates are judged at the token's own time: a certificate that has expired since is right, one
    that was not valid then is wrong. `nonce` is that of the request, where the reply is fresh; a reply from the archive
    has none to compare. `now` is only there to refuse times that have not come yet, without any grace.
    """
    if now.tzinfo is None:
        raise InputError("a time without a time zone means another moment elsewhere; give `now` in UTC")
    try:
        decoded = read_reply(reply)
        token = decoded.tst_info
        time, echoed = token.gen_time, token.nonce
        check_reply(decoded, message, authority.roots, authority.others)
    except (ValueError, TypeError, AssertionError, KeyError) as error:
        return TimestampVerdict(time=None, reason=str(error) or "the reply can't be read")
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    if nonce is not None and echoed != nonce:
        return TimestampVerdict(
            time=None, reason=f"the reply has the nonce {echoed}, the request {nonce}: another reply"
        )
    if time > now:
        return TimestampVerdict(
            time=None, reason=f"its time {time.isoformat()} has not come yet; see to the clocks, or judge it then"
        )
    return TimestampVerdict(time=time.astimezone(UTC))
