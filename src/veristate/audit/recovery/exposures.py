"""How much of what an agent can encounter a restoration replaced: a small part of an array may be all of a region."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from veristate.audit.recovery.blocks import Blocks
from veristate.audit.selections import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What a set S replaced of what an agent can encounter. Units: `chosen`, `eligible` count blocks, the others
    coordinates; `exposed` = |Omega and Delta|.

    Source: BioAgent-DF 2.4.
    """

    chosen: int
    eligible: int
    exposed: int
    replaced: int

    @property
    def b_global(self) -> Fraction | None:
        """C_frac(S), the selected fraction of the eligible blocks; None when no block is eligible."""
        return Fraction(self.chosen, self.eligible) if self.eligible else None

    @property
    def f_exposed(self) -> Fraction | None:
        """|S and Omega and Delta| / |Omega and Delta|; None when the region has no changed score."""
        return Fraction(self.replaced, self.exposed) if self.exposed else None

    @property
    def n_remain(self) -> int:
        """|Omega and Delta minus S|."""
        return self.exposed - self.replaced

    @property
    def partial(self) -> bool:
        """Whether a recovery here is one of a part of the region: 0 < f_exposed < 1, and differences remain."""
        return 0 < self.replaced < self.exposed


def exposure(blocks: Blocks, chosen: ArrayLike, differing: Selection, region: Selection) -> Exposure:
    """The exposure of a set of blocks. `differing` is Delta; the region Omega is fixed before confirmation.

    Raises: InputError for blocks that aren't there, and selections of another shape.
    """
    visited = differing & region
    mask = blocks.mask(chosen)
    return Exposure(
        chosen=int(np.count_nonzero(mask)),
        eligible=blocks.count,
        exposed=len(visited),
        replaced=len(visited & blocks.selection(chosen)),
    )
