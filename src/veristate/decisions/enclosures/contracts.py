"""What each kind of contract takes as the true score, and whether bounds on a device's errors can meet it."""

from dataclasses import dataclass
from typing import Literal, get_args

from veristate.core import InputError
from veristate.core.records import ContractKind

Strategy = Literal["probes", "memo", "full"]
Certifies = Literal["values", "decisions"]

MEANING: dict[ContractKind, str] = {
    "C1": "exact arithmetic of the represented weights",
    "C2": "the bits of a healthy run on a named device, in a named geometry",
    "C3": "layers that are correctly rounded, on any device",
    "C4": "exact integers, with a stated requantisation",
}
# What a user may write for them.
NAMES: dict[str, ContractKind] = {"exact": "C1", "device": "C2", "rounded": "C3", "integer": "C4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """Why a strategy can't be used, and which one is next."""

    reason: str
    next_strategy: Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a certificate must say beside its decisions: the kind of contract, delta as a decimal ("0" where nothing is
    left to chance), and whether the values or the decisions alone are certified.
    """

    kind: ContractKind
    delta: str
    certifies: Certifies

    def in_words(self) -> str:
        """One sentence for people."""
        chance = "" if self.delta == "0" else f", except with probability at most {self.delta}"
        what = "every value and decision is" if self.certifies == "values" else "the decisions are, not the values,"
        return f"{what} certified under {self.kind} ({MEANING[self.kind]}){chance}"


def contract_kind(name: str) -> ContractKind:
    """The kind of that name or code. Raises: InputError when there is none."""
    kind = NAMES.get(name, name)
    for known in get_args(ContractKind):
        if kind == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"--contract {name}: choose one of {', '.join(NAMES)}")


def bounds_meet(kind: ContractKind, dtype: str) -> Declined | None:
    """None where checks of rows can certify a pass under that contract, else why they can't.

    Measured on the hERG ensemble: where this declines, 99 to 100 % of the units would be recomputed all the same.
    """
    if kind == "C2" and dtype != "fp64":
        return Declined(
            reason=f"C2 in {dtype}: any healthy run may differ from any other by its own rounding, whose proven bound "
            "grows about twentyfold at every message step and leaves nearly every score open",
            next_strategy="memo",
        )
    if kind == "C1" and dtype in ("bf16", "fp16"):
        return Declined(
            reason=f"C1 in {dtype}: the row errors of a healthy device are so large that their proven bound, carried "
            "to the score, leaves every score open",
            next_strategy="memo",
        )
    if kind == "C3" and dtype not in ("bf16", "fp16"):
        return Declined(
            reason=f"C3 in {dtype}: a device's own sums are as coarse as the format they are to be rounded to, so no "
            "bound tells which way one goes",
            next_strategy="memo",
        )
    return None
