"""What a transaction offers, and what the next one must offer to take its place."""

from dataclasses import dataclass

from veristate.attest.chain.evm import Fees
from veristate.attest.chain.rpc import ChainView, NodeRefusedError, Rpc
from veristate.core import InputError

GWEI = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class FeePolicy:
    """How much may be offered, and when more is: wei per gas, and blocks.

    A transaction that is next in line and not mined within `patience_blocks` is replaced by one that offers an eighth
    more, which all common nodes take (they ask for a tenth), up to `most_upper`.
    """

    most_upper: int = 500 * GWEI
    tip_least: int = GWEI // 10
    patience_blocks: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.tip_least <= self.most_upper or self.patience_blocks < 1:
            raise InputError(f"{self} needs 0 < tip_least <= most_upper and patience of a block or more")

    def suggested(self, rpc: Rpc, view: ChainView) -> Fees:
        """Twice the present base fee and the node's tip, within the limit."""
        try:
            tip = int(rpc("eth_maxPriorityFeePerGas"), 16)
        except NodeRefusedError:
            tip = self.tip_least
        tip = min(max(tip, self.tip_least), self.most_upper)
        return Fees(most=min(2 * view.base_fee + tip, self.most_upper), tip=tip)

    def raised(self, fees: Fees, suggested: Fees) -> Fees | None:
        """More than `fees` and not below what is suggested now; None when the limit doesn't allow an eighth more."""
        most, tip = (amount + -(-amount // 8) for amount in (fees.most, fees.tip))
        if most > self.most_upper:
            return None
        most = max(most, suggested.most)
        return Fees(most=most, tip=min(max(tip, suggested.tip), most))
