"""Calls on their way to the chain: nonces handed out once, fees raised, and states that follow the chain both ways.

A receipt alone decides nothing. What counts is the block it names: whether the present chain has that block at that
height, and how the chain's own safe and finalized blocks stand to it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from sqlalchemy import Connection

from veristate.attest.chain.evm import Account, Fees
from veristate.attest.chain.fees import FeePolicy
from veristate.attest.chain.journal import ChainJournal
from veristate.attest.chain.rows import Attempt, Call, Kept, best
from veristate.attest.chain.rpc import ChainView, NodeRefusedError, Rpc
from veristate.attest.chain.sightings import observe
from veristate.attest.chain.states import Move, Standing, State
from veristate.core import Clock, InputError, TamperError, utc_now

# Nodes agree on no codes, but on these words.
_HAS_IT = ("already known", "already imported", "known transaction")
_RAISES_UPPER = 40
_TRANSFER_GAS = 21_000

# What should be done in place of a call that stalls; None: the same, for more.
Renew = Callable[[str], Call | None]


class Transactions:
    """The calls of one account on one chain. Made by `Transactions.open`; kept in a journal, so restarts lose none."""

    def __init__(self, journal: ChainJournal, rpc: Rpc, account: Account, chain_id: int, fees: FeePolicy) -> None:
        self.journal = journal
        self.rpc = rpc
        self.address = account.address
        self._account = account
        self._chain_id = chain_id
        self._fees = fees

    @classmethod
    def open(
        cls, path: Path, *, rpc: Rpc, account: Account, fees: FeePolicy | None = None, clock: Clock = utc_now
    ) -> Self:
        """The calls whose journal is the file `path`, made if there is none.

        Raises: InputError when the journal is another account's or another chain's; EnvironmentUnusableError when the
        node or the place can't be used.
        """
        chain_id = int(rpc("eth_chainId"), 16)
        genesis = rpc("eth_getBlockByNumber", "0x0", False)["hash"]
        journal = ChainJournal(path, chain_id=chain_id, genesis=genesis, address=account.address, clock=clock)
        return cls(journal, rpc, account, chain_id, fees or FeePolicy())

    def send(self, call: Call) -> Standing:
        """Where the call stands, after it was signed, kept and given to the node; a second time changes nothing.

        A call that reverted or lost its nonce is sent again, with what it is to do now.

        Raises: InputError when the key stands for something else that is under way.
        """
        view = ChainView(self.rpc)
        least = self._count("pending")
        suggested = self._fees.suggested(self.rpc, view)
        with self.journal.writing() as connection:
            for kept in self.journal.calls_of(connection, call.key):
                if kept.state is State.SUBMITTED or kept.state.on_chain:
                    if kept.call != call:
                        raise InputError(f"{call.key!r} is under way with other contents; choose another key")
                    return best([kept])
            nonce = self.journal.next_nonce(connection, least)
            self._sign(connection, call, nonce, suggested, view)
        self._push(view, nonce, suggested)
        return self.standing(call.key)

    def standing(self, key: str) -> Standing:
        """Where a call stands: the best of what was tried for it. Raises: InputError when there is no such call."""
        with self.journal.writing() as connection:
            tried = self.journal.calls_of(connection, key)
        if not tried:
            raise InputError(f"no call {key!r} in {self.journal.path}")
        return best(tried)

    def poll(self, renew: Renew = lambda key: None) -> tuple[Move, ...]:
        """What changed since the last call: states follow the chain, nonces without a transaction are filled, what a
        node lost is sent again, what stalls is replaced.

        A question that fails leaves everything as it was. Raises: EnvironmentUnusableError when the node doesn't
        answer; TamperError when it shows another block where a final one was.
        """
        view = ChainView(self.rpc)
        with self.journal.writing() as connection:
            since = self.journal.last_move(connection)
            final = self.journal.final(connection)
            under_way = self.journal.open_calls(connection)
        if final is not None and view.hash_at(final.number) not in (None, final.hash):
            raise TamperError(
                f"the node has {view.hash_at(final.number)} as block {final.number}, where {final.hash} was final; it "
                "follows another chain, or finality was broken. Nothing was changed"
            )
        waiting = [nonce for nonce, calls in under_way.items() if not self._follow(view, nonce, calls)]
        if waiting:
            self._press_on(view, waiting, renew)
        with self.journal.writing() as connection:
            if view.final is not None and (final is None or view.final.number > final.number):
                self.journal.set_final(connection, view.final)
            return tuple(self.journal.moves(connection, since=since))

    def moves(self, key: str) -> tuple[Move, ...]:
        """Every change of a call's state, oldest first."""
        with self.journal.writing() as connection:
            return tuple(self.journal.moves(connection, key=key))

    def close(self) -> None:
        """Returns when the journal is closed."""
        self.journal.close()

    def _follow(self, view: ChainView, nonce: int, calls: list[Kept]) -> bool:
        """Whether nothing is left to be sent for this nonce. Its calls' states are those the chain shows now."""
        with self.journal.writing() as connection:
            attempts = self.journal.attempts_at(connection, nonce)
        sighting = observe(self.rpc, view, self.address, nonce, calls, attempts)
        with self.journal.writing() as connection:
            for kept, state, reason in sighting.verdicts:
                on = sighting.call == kept.id
                self.journal.put(
                    connection,
                    kept,
                    state,
                    transaction=sighting.transaction if on else None,
                    block=sighting.block if on else None,
                    reason=reason,
                )
            if sighting.settled:
                self.journal.settle(connection, nonce)
            if sighting.lost:
                self.journal.resend(connection, nonce)
        return not sighting.waiting

    def _press_on(self, view: ChainView, waiting: list[int], renew: Renew) -> None:
        """Gives the node what it lacks: transactions it lost, fillers for nonces that stop those behind them, and, for
        the one that is next, a better offer when it stalls.
        """
        first = self._count("latest")
        suggested = self._fees.suggested(self.rpc, view)
        with self.journal.writing() as connection:
            gaps = set(range(first, max(waiting))) - self.journal.nonces(connection, first)
            for nonce in gaps:
                filler = Call(key=f"gap:{nonce}", target=self.address, data=b"", gas=_TRANSFER_GAS)
                self._sign(connection, filler, nonce, suggested, view)
        for nonce in sorted(gaps.union(waiting)):
            self._push(view, nonce, suggested)
        if first in waiting:
            self._hurry(view, first, suggested, renew)

    def _push(self, view: ChainView, nonce: int, suggested: Fees) -> None:
        """Sends the newest attempt of a nonce unless the node has it; offers more for as long as it says too little."""
        for _ in range(_RAISES_UPPER):
            with self.journal.writing() as connection:
                attempt = self.journal.attempts_at(connection, nonce)[-1]
            if attempt.accepted or not self._underpriced(attempt):
                return
            if not self._replace(attempt, view, suggested, None):
                return

    def _underpriced(self, attempt: Attempt) -> bool:
        """Whether the node wants a better offer than this attempt, which was sent now. Its words are kept."""
        accepted, said = True, ""
        try:
            self.rpc("eth_sendRawTransaction", "0x" + attempt.raw.hex())
        except NodeRefusedError as error:
            said = error.said
            accepted = any(words in said.lower() for words in _HAS_IT)
        with self.journal.writing() as connection:
            self.journal.answer(connection, attempt.id, accepted=accepted, said=said)
        return not accepted and "underpriced" in said.lower()

    def _hurry(self, view: ChainView, nonce: int, suggested: Fees, renew: Renew) -> None:
        """Replaces the transaction that is next in line when it has waited too long, with what `renew` says."""
        with self.journal.writing() as connection:
            attempt = self.journal.attempts_at(connection, nonce)[-1]
            kept = self.journal.call(connection, attempt.call)
            # It could not be mined before the one ahead of it was.
            since = max(attempt.sent_at, self.journal.block_of(connection, nonce - 1))
        if view.latest.number - since < self._fees.patience_blocks:
            return
        if self._replace(attempt, view, suggested, renew(kept.call.key)):
            self._push(view, nonce, suggested)

    def _replace(self, attempt: Attempt, view: ChainView, suggested: Fees, instead: Call | None) -> bool:
        """Whether another transaction with the attempt's nonce, for more, was signed and kept."""
        fees = self._fees.raised(attempt.fees, suggested)
        with self.journal.writing() as connection:
            kept = self.journal.call(connection, attempt.call)
            if fees is None:
                reason = f"{attempt.fees.most} wei per gas is too little, and {self._fees.most_upper} is the limit"
                self.journal.put(connection, kept, kept.state, block=kept.block, reason=reason)
                return False
            self._sign(connection, instead or kept.call, attempt.nonce, fees, view)
        return True

    def _sign(self, connection: Connection, call: Call, nonce: int, fees: Fees, view: ChainView) -> None:
        """Returns when the transaction is signed and kept. It is sent only after the journal's transaction ended."""
        signed = self._account.sign(
            chain_id=self._chain_id, nonce=nonce, to=call.target, data=call.data, gas=call.gas, fees=fees
        )
        self.journal.add_attempt(connection, call, nonce, signed, fees, view.latest.number)

    def _count(self, tag: str) -> int:
        return int(self.rpc("eth_getTransactionCount", self.address, tag), 16)
