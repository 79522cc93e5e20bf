"""Columns whose values are what they were declared to be, also in a file that somebody changed.

SQLite keeps each value's type beside the value. One changed bit there makes a text NULL or a number, which our code
would stumble over; SQLAlchemy would even make so many zero bytes of a number in a binary column.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Dialect, LargeBinary, Text

from veristate.core import TamperError


class Words(Text):
    """A text that is never NULL. Reading anything else raises TamperError."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """What is done with each value that is read."""
        return _exactly(str)


class Octets(LargeBinary):
    """Bytes that are never NULL. Reading anything else raises TamperError."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """What is done with each value that is read."""
        return _exactly(bytes)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def taken(value: Any) -> Any:
        if type(value) is not kind:
            raise TamperError(
                f"a column of {kind.__name__} holds {type(value).__name__}; bring the file back from a copy"
            )
        return value

    return taken
