"""The statistical screen: below the bound that proves a fault, above what healthy rounding usually does.

Roundings that are independent add up like a random walk, so n of them reach about sqrt(n) and not n. A cell above the
screen is suspect: its elements are looked at one by one, each against its own proven bound. What exceeds that is a
fault; what stays above the screen alone is unresolved, a reason to compute it again and never an accusation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.arithmetic import LinearArithmetic
from veristate.numerics.checksums import CELL_FIELDS, Cells, Elements, check_elements, element_cells
from veristate.numerics.operands import Operands

Indices = NDArray[np.intp]

# More elements than one in this many of a call are looked at by a whole product.
MANY = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """How far healthy rounding is expected to go, in unit roundoffs.

    `stored` multiplies u of the storage format times the root of the summed squares of Y, as estimated from sum |Y|;
    `accumulated` multiplies u of the accumulation format times |X|_F |w|_2 of a cell. The defaults stand above every
    healthy call of `benchmarks/false_alarms.py`; `calibrated` fits them to a model's own.
    """

    stored: float = 2.0
    accumulated: float = 32.0

    def factors(self, arithmetic: LinearArithmetic) -> NDArray[np.float64]:
        """[2]: the factors of sum |Y| / sqrt(n) and of |X|_F |w|_2."""
        stored = self.stored * arithmetic.storage.u * (2.0 if arithmetic.bias == "separate" else 1.0)
        return np.array([stored, self.accumulated * arithmetic.accumulate.u])

    def elements(
        self, call: Operands, arithmetic: LinearArithmetic, rows: Indices, columns: Indices
    ) -> NDArray[np.float64]:
        """[n]: what one element's healthy residual stays below: storage and underflow by their bounds, accumulation by
        the screen.
        """
        Y, b = (np.abs(a.astype(np.float64)) for a in (call.Y[rows, columns], call.weights.b[columns]))
        largest = call.largest_operand if arithmetic.flush else 0.0
        stored = arithmetic.bound_upper(0.0, Y, b, terms=call.X.shape[1], elements=1.0, largest_operand=largest)
        own, place = np.unique(rows, return_inverse=True)
        X = call.X[own].astype(np.float64)
        norms = np.sqrt(np.einsum("ik,ik->i", X, X))[place] * call.weights.norms[columns]
        level: NDArray[np.float64] = np.maximum(stored, arithmetic.storage.u * Y) + self.factors(arithmetic)[1] * norms
        return level

    def calibrated(self, loudest: Sequence[float], *, margin: float = 1.25) -> "Screen":
        """The screen that lies `margin` times above healthy calls whose largest shares of this screen are given.

        Raises: InputError when no healthy call was given.
        """
        shares = [share for share in loudest if np.isfinite(share)]
        if not shares:
            raise InputError("a screen is calibrated on healthy calls, and none was given")
        factor = margin * max(shares)
        return Screen(stored=self.stored * factor, accumulated=self.accumulated * factor)


def escalated(
    call: Operands, arithmetic: LinearArithmetic, screen: Screen, cells: Indices, step: int, loudest: float
) -> Elements:
    """The elements of the given cells [n, 2] (block, column), one by one, each against its own bound."""
    cells = np.unique(cells, axis=0)
    if not len(cells):
        return Elements.none(loudest)
    within = np.arange(min(step, len(call.X)))
    rows = (cells[:, :1] * step + within).ravel()
    columns = np.repeat(cells[:, 1], len(within))
    rows, columns = rows[rows < len(call.X)], columns[rows < len(call.X)]
    if len(rows) * MANY > call.Y.size:  # a whole product is the faster way to so many
        whole = check_elements(call, arithmetic)
        found = Cells(**{name: getattr(whole, name)[rows, columns] for name in CELL_FIELDS})
    else:
        found = element_cells(call, arithmetic, rows, columns)
    kept = found.flag | ~(found.residual <= screen.elements(call, arithmetic, rows, columns)) & ~found.inapplicable
    return Elements(
        rows=rows[kept],
        columns=columns[kept],
        residual=found.residual[kept],
        bound=found.bound[kept],
        proven=found.flag[kept],
        examined=len(rows),
        loudest=loudest,
    )
