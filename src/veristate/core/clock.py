"""Time as a value that is passed in, so that a run can be repeated and a test can fix it."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], str]


def utc_now() -> str:
    """The present time as RFC 3339 UTC text with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
