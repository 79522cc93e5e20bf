"""The statistical screen: below the bound that proves a fault, above what healthy rounding usually does.

Roundings that are independent add up like a random walk, so n of them reach about sqrt(n) and not n. A cell above the
screen is suspect: its elements are looked at one by one, each against its own proven bound. What exceeds that is a
fault; what stays above the screen alone is unresolved, a reason to compute it again and never an accusation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.numerics.arithmetic import LinearArithmetic
from veristate.numerics.checksums import CELL_FIELDS, Cells, Elements, check_elements, element_cells
from veristate.numerics.kernels import loud_elements
from veristate.numerics.operands import Operands

Indices = NDArray[np.intp]

# More elements than one in this many of a call are looked at by a whole product.
MANY = 16
# A bias that is added separately is a second rounding, root 2 in all; mostly it is fused, and which can't be seen.
SEPARATE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """How far healthy rounding is expected to go, in unit roundoffs.

    `stored` multiplies u of the storage format times the root of the summed squares of Y, as estimated from sum |Y|.
    `accumulated` multiplies root K times u of the accumulation format, and the like for intermediate roundings, times
    |X|_F |w|_2 of a cell: no partial sum of an element is larger than its |x| |w|. The defaults leave nearly all
    healthy cells of `benchmarks/false_alarms.py` unexamined; `calibrated` fits them to a model's own.
    """

    stored: float = 1.8
    accumulated: float = 3.0

    def factors(self, arithmetic: LinearArithmetic, terms: int) -> tuple[float, float]:
        """The factors of the estimated |Y|_F and of |X|_F |w|_2."""
        stored = self.stored * arithmetic.storage.u * (SEPARATE if arithmetic.bias == "separate" else 1.0)
        roundings = math.sqrt(terms) * arithmetic.accumulate.u
        if arithmetic.intermediate is not None:
            roundings += math.sqrt(arithmetic.nodes) * arithmetic.intermediate.u
        return stored, self.accumulated * roundings

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
        accumulated = self.factors(arithmetic, call.X.shape[1])[1]
        level: NDArray[np.float64] = np.maximum(stored, arithmetic.storage.u * Y) + accumulated * norms
        return level

    def calibrated(self, loudest: Sequence[float], *, margin: float = 1.25) -> "Screen":
        """The screen that lies `margin` times above healthy calls whose largest shares of this screen are given.

        Give several passes: each draws other signs, and small ones differ by a factor of two among themselves.
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
    """The elements of the given cells [n, 2] (block, column), one by one, each against its own bound.

    Where one of them is proven wrong, all of its row are looked at: a fault rarely comes alone, and its neighbours may
    be too small for the sums.
    """
    cells = np.unique(cells, axis=0)
    if not len(cells):
        return Elements.none(loudest)
    weights, places = call.weights, np.empty((len(cells) * min(step, len(call.X)), 2), dtype=np.intp)
    # No bound is below the storage's share of |Y|: an element that stays below it, with room for the order of the sum,
    # needs no second look.
    sure = 0.99 * arithmetic.bound_upper(0.0, 1.0, 0.0, terms=1, elements=0.0, largest_operand=0.0)
    examined, count = loud_elements(call.X, weights.W, weights.b, call.Y, cells, step, sure, places)
    none, (rows, columns) = Elements.none(loudest, examined), places[:count].T
    return _judged_elements(call, arithmetic, screen, rows, columns, none) if count else none


def _judged_elements(
    call: Operands, arithmetic: LinearArithmetic, screen: Screen, rows: Indices, columns: Indices, before: Elements
) -> Elements:
    """What the definition and the screen find among the given elements, and in the rows of those proven wrong."""
    examined, N = before.examined, call.Y.shape[1]
    if len(rows) * MANY > call.Y.size:  # a whole product is the faster way to so many
        found = _chosen(check_elements(call, arithmetic), rows, columns)
    else:
        found = element_cells(call, arithmetic, rows, columns)
    if found.flag.any():
        near = np.unique(rows[found.flag])
        whole = check_elements(call, arithmetic, near)
        more_rows, more_columns = np.nonzero(whole.flag)
        new = ~np.isin(near[more_rows] * N + more_columns, rows * N + columns)
        found = _joined(found, _chosen(whole, more_rows[new], more_columns[new]))
        rows, columns = np.append(rows, near[more_rows[new]]), np.append(columns, more_columns[new])
        examined += whole.flag.size
    kept = found.flag | ~(found.residual <= screen.elements(call, arithmetic, rows, columns)) & ~found.inapplicable
    return Elements(
        rows=rows[kept],
        columns=columns[kept],
        residual=found.residual[kept],
        bound=found.bound[kept],
        proven=found.flag[kept],
        examined=examined,
        loudest=before.loudest,
    )


def _chosen(cells: Cells, rows: Indices, columns: Indices) -> Cells:
    """The cells at the given places of [M, N] cells."""
    return Cells(**{name: getattr(cells, name)[rows, columns] for name in CELL_FIELDS})


def _joined(first: Cells, second: Cells) -> Cells:
    """The cells of both, one after the other."""
    return Cells(**{name: np.append(getattr(first, name), getattr(second, name)) for name in CELL_FIELDS})
