"""The chain journal: one SQLite file that knows every call, every signed transaction and every change of state.

What a block of `writing` did is on the disk when it returns, all of it or nothing. Nothing is sent to a node before the
transaction stands here, so that a restart finds what may be on its way.
"""

from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import Connection, func, insert, select, update

from veristate.attest.chain.evm import Fees, Signed
from veristate.attest.chain.rows import Attempt, Call, Kept, best, place, read_attempt, read_block, read_call
from veristate.attest.chain.states import Block, Move, Standing, State
from veristate.attest.chain.tables import SCHEMA_VERSION, attempts, calls, chain, metadata, moves
from veristate.core import Clock, EnvironmentUnusableError, InputError
from veristate.ledger import Database

_PATIENCE_S = 30.0


class ChainJournal:
    """The journal in the file `path`, made if there is none. Any number of processes may use the file."""

    def __init__(self, path: Path, *, chain_id: int, genesis: str, address: str, clock: Clock) -> None:
        """Raises: InputError for a journal of another chain or account, or a database of something else;
        EnvironmentUnusableError for a place that can't be used or another version; TamperError for what is no database.
        """
        self.path = path
        self._clock = clock
        self._database = Database(path, metadata, chain, patience_s=_PATIENCE_S)
        mine = {"chain_id": chain_id, "genesis": genesis, "address": address}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            found = self._database.prepare(mine | {"id": 1, "version": SCHEMA_VERSION})._mapping
            for name, value in mine.items():
                if found[name] != value:
                    raise InputError(
                        f"{path} has {name} {found[name]}, not {value}; use the journal of that chain and account"
                    )
        except OSError as error:
            raise EnvironmentUnusableError(f"{path}: {error.strerror}; choose another place") from error
        except BaseException:
            self.close()
            raise

    def writing(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction of its own, that nobody writes beside. Its database errors become ours."""
        return self._database.writing()

    def final(self, connection: Connection) -> Block | None:
        """The newest block that was ever seen as final."""
        row = connection.execute(select(chain.c.final_number, chain.c.final_hash)).one()
        return None if row.final_number is None else Block(number=row.final_number, hash=row.final_hash)

    def set_final(self, connection: Connection, block: Block) -> None:
        """Keeps the newest final block."""
        connection.execute(update(chain).values(final_number=block.number, final_hash=block.hash))

    def next_nonce(self, connection: Connection, least: int) -> int:
        """The first nonce that no signed transaction has, and not below `least`."""
        last = connection.execute(select(func.max(attempts.c.nonce))).scalar()
        return least if last is None else max(least, last + 1)

    def nonces(self, connection: Connection, least: int) -> set[int]:
        """The nonces from `least` on that a transaction was signed with."""
        return set(connection.execute(select(attempts.c.nonce).where(attempts.c.nonce >= least)).scalars())

    def add_attempt(
        self, connection: Connection, call: Call, nonce: int, signed: Signed, fees: Fees, sent_at: int
    ) -> None:
        """Keeps a transaction that was signed and not sent yet, and its call when the nonce is new to it."""
        same = (calls.c.key == call.key) & (calls.c.nonce == nonce)
        known = connection.execute(select(calls.c.id).where(same)).scalar()
        values = {"hash": signed.hash, "call": known or self._add_call(connection, call, nonce), "nonce": nonce}
        values |= {"raw": signed.raw, "most": str(fees.most), "tip": str(fees.tip), "sent_at": sent_at}
        connection.execute(insert(attempts).values(values | {"accepted": 0, "said": ""}))

    def answer(self, connection: Connection, attempt: int, *, accepted: bool, said: str) -> None:
        """Keeps what the node said to an attempt."""
        connection.execute(update(attempts).where(attempts.c.id == attempt).values(accepted=int(accepted), said=said))

    def resend(self, connection: Connection, nonce: int) -> None:
        """Marks the attempts of a nonce as no longer held by the node."""
        connection.execute(update(attempts).where(attempts.c.nonce == nonce).values(accepted=0))

    def put(
        self,
        connection: Connection,
        kept: Kept,
        state: State,
        *,
        transaction: str | None = None,
        block: Block | None = None,
        reason: str = "",
    ) -> None:
        """Keeps where a call stands now, and the move when state or block changed."""
        if (kept.state, kept.block) != (state, block):
            self._move(connection, kept.call.key, kept.state, state, block or kept.block, reason)
        elif (kept.transaction, kept.reason) == (transaction, reason):
            return
        values = place(block) | {"state": state.value, "transaction_hash": transaction, "reason": reason}
        connection.execute(update(calls).where(calls.c.id == kept.id).values(values))

    def settle(self, connection: Connection, nonce: int) -> None:
        """Marks what a nonce was used for as decided: its block is final."""
        connection.execute(update(calls).where(calls.c.nonce == nonce).values(settled=1))

    def open_calls(self, connection: Connection) -> dict[int, list[Kept]]:
        """The calls by nonce, in order, whose nonces are not decided."""
        found: dict[int, list[Kept]] = {}
        for row in connection.execute(select(calls).where(calls.c.settled == 0).order_by(calls.c.nonce, calls.c.id)):
            found.setdefault(row.nonce, []).append(read_call(row))
        return found

    def call(self, connection: Connection, number: int) -> Kept:
        """The call with this id."""
        return read_call(connection.execute(select(calls).where(calls.c.id == number)).one())

    def block_of(self, connection: Connection, nonce: int) -> int:
        """The number of the block that used a nonce; 0 when none is known."""
        return connection.execute(select(func.max(calls.c.block_number)).where(calls.c.nonce == nonce)).scalar() or 0

    def calls_of(self, connection: Connection, key: str) -> list[Kept]:
        """Every call that was made for a key, oldest first."""
        rows = connection.execute(select(calls).where(calls.c.key == key).order_by(calls.c.id))
        return [read_call(row) for row in rows]

    def best_calls(self, connection: Connection, prefix: str) -> dict[str, Standing]:
        """Of every key that begins so, where the best of its calls stands."""
        tried: dict[str, list[Kept]] = {}
        for row in connection.execute(select(calls).where(calls.c.key.startswith(prefix, autoescape=True))):
            tried.setdefault(row.key, []).append(read_call(row))
        return {key: best(found) for key, found in tried.items()}

    def attempts_at(self, connection: Connection, nonce: int) -> list[Attempt]:
        """Every transaction that was signed with a nonce, oldest first."""
        rows = connection.execute(select(attempts).where(attempts.c.nonce == nonce).order_by(attempts.c.id))
        return [read_attempt(row) for row in rows]

    def moves(self, connection: Connection, *, key: str | None = None, since: int = 0) -> list[Move]:
        """The changes after number `since`, of one key or of all, oldest first."""
        query = select(moves).where(moves.c.id > since).order_by(moves.c.id)
        rows = connection.execute(query if key is None else query.where(moves.c.key == key))
        return [
            Move(
                key=r.key,
                before=State(r.before),
                after=State(r.after),
                block=read_block(r),
                time=r.time,
                reason=r.reason,
            )
            for r in rows
        ]

    def last_move(self, connection: Connection) -> int:
        """The number of the newest change."""
        return connection.execute(select(func.max(moves.c.id))).scalar() or 0

    def close(self) -> None:
        """Returns when the file is closed."""
        self._database.close()

    def _add_call(self, connection: Connection, call: Call, nonce: int) -> int:
        values = {"key": call.key, "target": call.target, "data": call.data, "gas": call.gas, "nonce": nonce}
        values |= {"state": State.SUBMITTED.value, "reason": "", "settled": 0}
        connection.execute(insert(calls).values(values))
        self._move(connection, call.key, State.QUEUED, State.SUBMITTED, None, "")
        return int(connection.execute(select(func.max(calls.c.id))).scalar_one())

    def _move(
        self, connection: Connection, key: str, before: State, after: State, block: Block | None, reason: str
    ) -> None:
        values = {"key": key, "before": before.value, "after": after.value, "time": self._clock(), "reason": reason}
        values |= place(block)
        connection.execute(insert(moves).values(values))
