"""What the present chain says of one nonce: which of our transactions used it, in which block, and how deep."""

from collections.abc import Sequence
from dataclasses import dataclass

from veristate.attest.chain.rows import Attempt, Kept
from veristate.attest.chain.rpc import ChainView, NodeRefusedError, Rpc
from veristate.attest.chain.states import Block, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Each call of the nonce with its state now and why, and what is to be done.

    `call` is the id of the one whose `transaction` is in `block`. `settled`: this can't change any more. `waiting`: no
    transaction has the nonce yet. `lost`: the chain had one and has it no longer, so the node may need it again.
    """

    verdicts: tuple[tuple[Kept, State, str], ...]
    call: int | None = None
    transaction: str | None = None
    block: Block | None = None
    settled: bool = False
    waiting: bool = False
    lost: bool = False


def observe(
    rpc: Rpc, view: ChainView, address: str, nonce: int, calls: Sequence[Kept], attempts: Sequence[Attempt]
) -> Sighting:
    """What the chain shows. States move back only when it has another block, or none, where ours was."""
    for attempt in attempts:
        receipt = rpc("eth_getTransactionReceipt", attempt.hash)
        if receipt is None or not receipt.get("blockHash"):
            continue
        block = Block(number=int(receipt["blockNumber"], 16), hash=receipt["blockHash"])
        if view.hash_at(block.number) == block.hash:
            return _mined(view, calls, attempt, block, succeeded=int(receipt["status"], 16) == 1)
    before = next((kept for kept in calls if kept.block is not None), None)
    if before is not None and before.block is not None and view.hash_at(before.block.number) == before.block.hash:
        return _unread(before, before.block, calls)
    for until, decided in ((view.final, True), (view.safe, False)):
        if until is not None and (user := _user(rpc, address, nonce, attempts, until)) is not None:
            return _taken(user, nonce, calls, attempts, decided=decided)
    reason = "" if before is None else f"block {before.block and before.block.hash} is no longer in the chain"
    verdicts = tuple((kept, State.SUBMITTED, reason or kept.reason) for kept in calls)
    return Sighting(verdicts=verdicts, waiting=True, lost=before is not None)


def _mined(view: ChainView, calls: Sequence[Kept], attempt: Attempt, block: Block, *, succeeded: bool) -> Sighting:
    final = view.final is not None and block.number <= view.final.number
    state, reason = State.REVERTED, "the contract refused the call"
    if succeeded:
        safe = view.safe is not None and block.number <= view.safe.number
        state, reason = State.FINAL if final else State.SAFE if safe else State.MINED, ""
    other = f"nonce {attempt.nonce} was used by {attempt.hash}"
    return Sighting(
        verdicts=tuple((k, state, reason) if k.id == attempt.call else (k, State.DISPLACED, other) for k in calls),
        call=attempt.call,
        transaction=attempt.hash,
        block=block,
        settled=final,
    )


def _unread(before: Kept, block: Block, calls: Sequence[Kept]) -> Sighting:
    """Everything stays: the block still stands, so the node has only lost, or not yet found, its receipts."""
    reason = f"the node has block {block.number} but not the transaction's receipt; ask another node"
    return Sighting(
        verdicts=tuple((k, k.state, reason if k.id == before.id else k.reason) for k in calls),
        call=before.id,
        transaction=before.transaction,
        block=block,
    )


def _taken(user: str, nonce: int, calls: Sequence[Kept], attempts: Sequence[Attempt], *, decided: bool) -> Sighting:
    """The nonce is used up: by somebody else's transaction, by ours without a receipt, or by one that is not shown."""
    if not user or user in {attempt.hash for attempt in attempts}:
        reason = f"the node says that nonce {nonce} was used, but has no receipt of it; ask another node"
        return Sighting(verdicts=tuple((kept, kept.state, reason) for kept in calls))
    reason = f"nonce {nonce} was used by {user}, which was not signed here"
    return Sighting(verdicts=tuple((kept, State.DISPLACED, reason) for kept in calls), settled=decided)


def _user(rpc: Rpc, address: str, nonce: int, attempts: Sequence[Attempt], until: Block) -> str | None:
    """The hash of the transaction that used the account's nonce up to a block; None if it is free, "" if not shown.

    A missing receipt proves nothing, so the block is looked for in which the account's count went past the nonce. Only
    asked of blocks that stay: what is newer may be another transaction tomorrow.
    """
    try:
        if _count(rpc, address, until.number) <= nonce:
            return None
        low, high = attempts[0].sent_at, until.number
        if low >= high or _count(rpc, address, low) > nonce:
            low = -1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _count(rpc, address, middle) > nonce else (middle, high)
        block = rpc("eth_getBlockByNumber", hex(high), True)
    except NodeRefusedError:
        return ""
    for transaction in block["transactions"] if block else ():
        if transaction["from"].lower() == address.lower() and int(transaction["nonce"], 16) == nonce:
            return str(transaction["hash"])
    return ""


def _count(rpc: Rpc, address: str, number: int) -> int:
    return int(rpc("eth_getTransactionCount", address, hex(number)), 16)
