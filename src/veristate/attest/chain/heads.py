"""Heads of one log in the chain journal: what was handed in for anchoring, and what the chain held of it already."""

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from veristate.attest.chain.rows import place, read_block
from veristate.attest.chain.states import Block, Standing, State
from veristate.attest.chain.tables import heads
from veristate.attest.signing import Head
from veristate.core import InputError, TamperError


def key_of(head: Head) -> str:
    """The name of a head in the journal."""
    return f"head:{head.size}:{head.root.hex()}"


def keep(connection: Connection, head: Head) -> None:
    """Returns when the head is kept; keeping it again changes nothing.

    Raises: InputError for a head of no entries or of another log; TamperError for another root at a known size.
    """
    if head.size < 1 or len(head.root) != 32:
        raise InputError(f"a head with {head.size} entries and a root of {len(head.root)} bytes can't be anchored")
    for row in connection.execute(select(heads).where(heads.c.origin != head.origin).limit(1)):
        raise InputError(f"this account anchors the log {row.origin!r}; use another one for {head.origin!r}")
    known = connection.execute(select(heads.c.root).where(heads.c.size == head.size)).scalar()
    if known is None:
        connection.execute(insert(heads).values(size=head.size, origin=head.origin, root=head.root, reason=""))
    elif known != head.root:
        raise TamperError(
            f"{head.origin} had the root {known.hex()} with {head.size} entries, and now has {head.root.hex()}: "
            "the log forked. Nothing was queued; keep both heads"
        )


def around(connection: Connection, head: Head) -> tuple[Head | None, Head | None]:
    """The heads next below and next above this one in size."""
    below = select(heads).where(heads.c.size < head.size).order_by(heads.c.size.desc()).limit(1)
    above = select(heads).where(heads.c.size > head.size).order_by(heads.c.size).limit(1)
    found = [connection.execute(query).first() for query in (below, above)]
    before, after = (None if row is None else _read(row)[0] for row in found)
    return before, after


def all_of(connection: Connection) -> list[tuple[Head, Standing]]:
    """Every head, shortest first, with what is known of it beside its transactions."""
    return [_read(row) for row in connection.execute(select(heads).order_by(heads.c.size))]


def put(
    connection: Connection, head: Head, state: State | None, *, block: Block | None = None, reason: str = ""
) -> None:
    """Keeps what was found out about a head: that the chain has it, or why it can't be anchored."""
    values = {"found": state and state.value, "reason": reason}
    values |= place(block)
    connection.execute(update(heads).where(heads.c.size == head.size).values(values))


def _read(row: Row[Any]) -> tuple[Head, Standing]:
    head = Head(origin=row.origin, size=row.size, root=row.root)
    state = State(row.found) if row.found else State.QUEUED
    return head, Standing(key=key_of(head), state=state, block=read_block(row), reason=row.reason)
