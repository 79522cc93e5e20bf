"""A log's heads on their way to the LogHeads contract: the newest is what is sent, and it carries those before it."""

from collections.abc import Callable, Sequence

from veristate.attest.chain import heads
from veristate.attest.chain.contracts import ContractName, contract
from veristate.attest.chain.evm import checksummed
from veristate.attest.chain.rows import Call
from veristate.attest.chain.rpc import ChainView
from veristate.attest.chain.states import Block, Standing, State
from veristate.attest.chain.transactions import Transactions
from veristate.attest.log import extends
from veristate.attest.signing import Head
from veristate.core import InputError, TamperError

# The consistency proof from the log's first `old` entries to a head.
Prove = Callable[[int, Head], Sequence[bytes]]

# What `extend` and `open` use at most, beside the hashes of a proof.
_GAS = 90_000
_GAS_PER_HASH = 2_500


class Anchorer:
    """The heads of one log, anchored by one account at the contract with this address.

    One transaction is under way at a time: a head is proven from the one that the chain holds. A head that waits
    blocks nothing. When its transaction stalls, the newest head takes over its nonce.
    """

    def __init__(self, transactions: Transactions, *, address: str, prove: Prove) -> None:
        self._transactions = transactions
        self._journal = transactions.journal
        self._contract = contract("LogHeads")
        self._address = checksummed(address)
        self._prove = prove

    def submit(self, head: Head) -> Standing:
        """Where the head stands, now that it is kept: QUEUED at first. A second time changes nothing; no node is asked.

        It is proven to agree with the heads before and after it, so that a later one can stand for it.

        Raises: TamperError when it does not: the log forked; InputError for what no log can have.
        """
        with self._journal.writing() as connection:
            heads.keep(connection, head)
            below, above = heads.around(connection, head)
            for old, new in ((below, head), (head, above)):
                if old is not None and new is not None and not self._extends(old.size, old.root, new):
                    raise TamperError(
                        f"{head.origin} with {new.size} entries and root {new.root.hex()} does not hold what it held "
                        f"with {old.size} and root {old.root.hex()}: the log forked. Nothing was queued; keep both"
                    )
        return self.standing(head)

    def anchored(self, head: Head) -> bool:
        """Whether the chain holds the head for good, itself or in a later one. Raises: InputError if not submitted."""
        standing = self.standing(head)
        carrier = self._standings()[standing.by] if standing.by else standing
        return carrier.state.anchored

    def standing(self, head: Head) -> Standing:
        """Where a head stands. Only `state.anchored`, of itself or of the head that supersedes it, is for good.

        Raises: InputError when it was not submitted.
        """
        found = self._standings()
        if (key := heads.key_of(head)) not in found:
            raise InputError(f"the head with {head.size} entries was not submitted for anchoring")
        return found[key]

    def poll(self) -> tuple[Standing, ...]:
        """The heads whose standing changed, shortest first. Call it again from time to time, and after a restart.

        Raises: as `Transactions.poll` does; what was known before then stays as it was.
        """
        before = self._standings()
        self._transactions.poll(self._newer)
        self._send_next()
        return tuple(now for key, now in self._standings().items() if before.get(key) != now)

    def on_chain(self, at: int | None = None) -> tuple[int, bytes]:
        """Size and root of the head that the contract holds, after block `at` or the newest; 0 when there is none."""
        data = self._contract.call("heads", self._transactions.address)
        question = {"to": self._address, "data": "0x" + data.hex()}
        answer = self._transactions.rpc("eth_call", question, "latest" if at is None else hex(at))
        root, size = self._contract.decode("heads", bytes.fromhex(answer.removeprefix("0x")))
        return int(size), bytes(root)

    def _standings(self) -> dict[str, Standing]:
        """Every head's standing by its key, shortest first."""
        with self._journal.writing() as connection:
            kept = heads.all_of(connection)
            tried = self._journal.best_calls(connection, "head:")
        found: dict[str, Standing] = {}
        carrier: Standing | None = None
        for _, beside in reversed(kept):
            own = tried.get(beside.key)
            if own is not None and own.state.on_chain:
                carrier = found[beside.key] = own
            elif beside.state.on_chain:
                carrier = found[beside.key] = beside
            elif carrier is not None:
                found[beside.key] = Standing(key=beside.key, state=State.SUPERSEDED, by=carrier.key)
            elif own is not None and own.state is State.SUBMITTED:
                found[beside.key] = own
            else:
                reason = beside.reason or (own.reason if own else "")
                found[beside.key] = Standing(key=beside.key, state=beside.state, reason=reason)
        return dict(reversed(found.items()))

    def _send_next(self) -> None:
        """Sends the newest head when the chain lacks it and nothing is under way; notes it when the chain has it."""
        newest, standing = self._newest()
        if newest is None or standing.state.anchored:
            return
        size, root = self.on_chain()
        if newest.size > size:
            self._note(newest, None)
            if not any(s.state is State.SUBMITTED for s in self._standings().values()):
                self._send_longest(size, root)
        elif (newest.size, newest.root) != (size, root):
            reason = f"the chain holds a head of this account with {size} entries and root {root.hex()}"
            self._note(newest, State.REFUSED, reason=reason)
        elif standing.transaction is None:
            self._note(newest, *self._depth(newest))

    def _send_longest(self, size: int, root: bytes) -> None:
        """Sends the longest head that extends the one on the chain."""
        with self._journal.writing() as connection:
            longer = [head for head, _ in heads.all_of(connection) if head.size > size]
        for head in reversed(longer):
            if (call := self._call(head, size, root)) is not None:
                self._transactions.send(call)
                return

    def _newer(self, key: str) -> Call | None:
        """The call that anchors the newest head, in place of that of an older one that stalls."""
        newest, standing = self._newest()
        if newest is None or not key.startswith("head:") or standing.key == key or standing.state is not State.QUEUED:
            return None
        size, root = self.on_chain()
        return self._call(newest, size, root) if newest.size > size else None

    def _newest(self) -> tuple[Head | None, Standing]:
        with self._journal.writing() as connection:
            kept = heads.all_of(connection)
        if not kept:
            return None, Standing(key="", state=State.QUEUED)
        head, beside = kept[-1]
        return head, self._standings()[beside.key]

    def _call(self, head: Head, size: int, root: bytes) -> Call | None:
        """The call that takes the contract from its head to this one; None, and the head is refused, if it forked."""
        if size == 0:
            data, hashes = self._contract.call("open", head.size, head.root), 0
        else:
            proof = [bytes(sibling) for sibling in self._prove(size, head)]
            if not extends(size, root, head.size, head.root, proof):
                reason = f"the log does not extend the head on the chain, {size} entries with root {root.hex()}"
                self._note(head, State.REFUSED, reason=reason)
                return None
            data, hashes = self._contract.call("extend", size, head.size, head.root, proof), len(proof)
        gas = _GAS + _GAS_PER_HASH * hashes
        return Call(key=heads.key_of(head), target=self._address, data=data, gas=gas)

    def _extends(self, size: int, root: bytes, head: Head) -> bool:
        return extends(size, root, head.size, head.root, self._prove(size, head))

    def _depth(self, head: Head) -> tuple[State, Block]:
        """How deep the chain holds the head, asked of the contract itself, and the block it was seen in."""
        view = ChainView(self._transactions.rpc)
        for state, block in ((State.FINAL, view.final), (State.SAFE, view.safe)):
            if block is not None and self.on_chain(block.number) == (head.size, head.root):
                return state, block
        return State.MINED, view.latest

    def _note(self, head: Head, state: State | None, block: Block | None = None, reason: str = "") -> None:
        with self._journal.writing() as connection:
            heads.put(connection, head, state, block=block, reason=reason)


def deploy(transactions: Transactions, name: ContractName, *, gas: int = 1_000_000) -> Standing:
    """Where the deployment of a contract by this account stands; asking again deploys nothing more."""
    return transactions.send(Call(key=f"deploy:{name}", target=None, data=contract(name).bytecode, gas=gas))


def deployed_at(transactions: Transactions, name: ContractName) -> str | None:
    """The address of the contract that `deploy` put on the chain; None while no block holds it."""
    standing = transactions.standing(f"deploy:{name}")
    if not standing.state.on_chain:
        return None
    receipt = transactions.rpc("eth_getTransactionReceipt", standing.transaction)
    return None if receipt is None else checksummed(receipt["contractAddress"])
