"""How finely the checks of a pass look: rows a block, sign draws a call."""

from dataclasses import dataclass

from veristate.core import InputError
from veristate.numerics import BLOCK, MOST_DRAWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Granularity:
    """`block` rows of a column are summed at once, None for all of them; `draws` random sign vectors are drawn a call.

    Maths: errors that cancel within a block's column escape one draw with probability at most 1/2, all of them with
    `2^-draws`.
    """

    block: int | None = BLOCK
    draws: int = 2

    def __post_init__(self) -> None:
        """Raises: InputError for a block without rows, or draws outside 1 to 16."""
        if self.block is not None and self.block < 1:
            raise InputError(f"a block of {self.block} rows adds nothing: at least 1, or none for whole columns")
        if not 1 <= self.draws <= MOST_DRAWS:
            raise InputError(f"{self.draws} sign draws: use 1 to {MOST_DRAWS}")
