"""The paper's two classes of faulty GPUs, as simulations.

Case 1 (size-dependent) fires on calls of 512 rows and more, Case 2 (expanded-trigger) on short ones too. When and where
follow a four-state counter driven by the sequence of call shapes. Source: BioAgent-DF A.1, E.3.

Differs: E.3's tables name the shapes of one application; here the state's step, the rows and the columns follow from
any call's shape, state and seed. Magnitudes are log-uniform around the mean |Y| of the call, so that they straddle the
rounding bound; the paper's were measured.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.devices.faults.model import Patch, Site, in_float32

LARGE = 512
ROW_STRIDE = 16


@dataclass(slots=True)
class SequenceFault:
    """A four-state fault. `short_calls` tells Case 2 from Case 1.

    The state starts at 0. Each call, fired or not, then adds 2 to it when it is large and its number of rows has an odd
    number of binary digits, and 1 otherwise, modulo 4.

    A short call fires in state 3. A large call fires in states 2 and 3 with probability `large_share`; the parity of
    the state shifts its rows. States 1 and 2 take the second 32 columns, the others the first; short calls 16 columns
    from 128. `magnitude` is the range of one event's size in mean |Y|, `rows` the range of its number of rows.
    """

    short_calls: bool
    magnitude: tuple[float, float]
    rows: tuple[int, int]
    large_share: float
    state: int = 0

    def patch(self, site: Site, Y: NDArray[np.float32], rng: np.random.Generator) -> Patch | None:
        """The patch of this call; steps the state."""
        state, (M, N) = self.state, site.shape
        chance, columns = self.event_probability(M), self.event_columns(M, N)
        self.step(M)
        # A short call draws nothing: whether it fires is certain.
        if not chance or (M >= LARGE and rng.random() >= chance):
            return None
        rows = _spread_rows(M, int(rng.integers(self.rows[0], self.rows[1] + 1)), int(rng.integers(M)), state)
        return Patch(rows=rows, columns=columns, values=_displaced(Y, rows, columns, self.magnitude, rng))

    def event_probability(self, M: int) -> float:
        """The chance that a call of M rows fires in the present state."""
        if M < LARGE:
            return float(M > 0 and self.short_calls and self.state == 3)
        return self.large_share if self.state >= 2 else 0.0

    def event_columns(self, M: int, N: int) -> NDArray[np.intp]:
        """The columns that an event changes in a call of M rows and N columns in the present state."""
        return _columns(N, self.state, short=M < LARGE)

    def step(self, M: int) -> None:
        """Passes a call of M rows."""
        self.state = (self.state + _weight(M)) % 4


def case1() -> SequenceFault:
    """Large calls only."""
    return SequenceFault(short_calls=False, magnitude=(1e-5, 8.0), rows=(1, 8), large_share=0.5)


def case2() -> SequenceFault:
    """Large and short calls."""
    return SequenceFault(short_calls=True, magnitude=(1e-3, 8.0), rows=(1, 12), large_share=0.6)


def _weight(M: int) -> int:
    """The counter's step for a call of M rows: 1 or 2, as in E.3. Always 1 for short calls, so that a model that has no
    others visits every state.
    """
    return 2 if M >= LARGE and M.bit_length() % 2 else 1


def _spread_rows(M: int, count: int, start: int, state: int) -> NDArray[np.intp]:
    """Up to `count` rows, a stride apart from `start`; odd states start two strides lower. Rows outside the call are
    left out, the first one is not.
    """
    first = max(start - 2 * ROW_STRIDE * (state % 2), start % ROW_STRIDE)
    rows = first + ROW_STRIDE * np.arange(count)
    return rows[rows < M].astype(np.intp)


def _columns(N: int, state: int, *, short: bool) -> NDArray[np.intp]:
    """The interval of E.3, moved inside a narrower layer."""
    width = min(16 if short else 32, N)
    wanted = 128 if short else 32 * (state in (1, 2))
    first = min(wanted, N - width)
    return np.arange(first, first + width, dtype=np.intp)


def _displaced(
    Y: NDArray[np.float32],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    magnitude: tuple[float, float],
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """The rectangle's values moved by one size for the event, with a random sign and 0.5 to 1 of it per element."""
    size = np.exp(rng.uniform(*np.log(magnitude))) * float(np.abs(Y).mean(dtype=np.float64))
    shape = (len(rows), len(columns))
    moves = size * rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.0, shape)
    return in_float32(Y[np.ix_(rows, columns)] + moves)
