"""Rows of the chain journal as values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from veristate.attest.chain.evm import Fees
from veristate.attest.chain.states import Block, Standing, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a transaction is to do: call `target`, or deploy where it is None. At most `gas` is used; `key` names it."""

    key: str
    target: str | None
    data: bytes
    gas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A call as the journal has it, with its nonce."""

    id: int
    call: Call
    nonce: int
    state: State
    transaction: str | None
    block: Block | None
    reason: str


def best(tried: Sequence[Kept]) -> Standing:
    """Where a key stands whose calls these are: what is deepest in the chain, else under way, else tried last."""
    order = (State.FINAL, State.SAFE, State.MINED, State.SUBMITTED)
    kept = min(reversed(tried), key=lambda kept: order.index(kept.state) if kept.state in order else len(order))
    return Standing(
        key=kept.call.key, state=kept.state, transaction=kept.transaction, block=kept.block, reason=kept.reason
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One signed transaction of a call. `sent_at` is the newest block when it was signed."""

    id: int
    hash: str
    call: int
    nonce: int
    raw: bytes
    fees: Fees
    sent_at: int
    accepted: bool
    said: str


def read_call(row: Row[Any]) -> Kept:
    """A row of `calls`."""
    call = Call(key=row.key, target=row.target, data=row.data, gas=row.gas)
    return Kept(
        id=row.id,
        call=call,
        nonce=row.nonce,
        state=State(row.state),
        transaction=row.transaction_hash,
        block=read_block(row),
        reason=row.reason,
    )


def read_attempt(row: Row[Any]) -> Attempt:
    """A row of `attempts`."""
    return Attempt(
        id=row.id,
        hash=row.hash,
        call=row.call,
        nonce=row.nonce,
        raw=row.raw,
        fees=Fees(most=int(row.most), tip=int(row.tip)),
        sent_at=row.sent_at,
        accepted=bool(row.accepted),
        said=row.said,
    )


def read_block(row: Row[Any]) -> Block | None:
    """The block that a row names."""
    return None if row.block_number is None else Block(number=row.block_number, hash=row.block_hash)


def place(block: Block | None) -> dict[str, Any]:
    """The columns that name a block."""
    return {"block_number": block and block.number, "block_hash": block and block.hash}
