"""What is asked of a certified pass."""

from dataclasses import dataclass

from veristate.core.records import ContractKind
from veristate.decisions.enclosures.contracts import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of a certified pass. `values` asks for every value, not the decisions alone; bond depths below
    `trusted` are evaluated on the trusted side.
    """

    kind: ContractKind = "C1"
    delta: str = "1e-9"
    strategy: Strategy | None = None
    values: bool = False
    budget: int | None = None
    draws: int = 16
    trusted: int = 2
