"""What the guard left undecided in one forward pass: counts and bits stay on the device until they are read at once."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

# Cells in one word of a bitmap.
WORD = 32
# The count of a call that no kernel has judged: it is not a pass.
NOT_JUDGED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CellBits:
    """A call's undecided cells as bits, on the device, the first cell in the lowest bit of a word.

    Shapes: rows [words of M], columns [draws, blocks, words of N]. Dtypes: int32.
    """

    rows: torch.Tensor
    columns: torch.Tensor
    M: int
    N: int

    @classmethod
    def empty(cls, M: int, N: int, *, draws: int, blocks: int, device: torch.device) -> "CellBits":
        """Room for a call's bits; what is in it is not said."""
        return cls(
            rows=torch.empty(-(-M // WORD), dtype=torch.int32, device=device),
            columns=torch.empty(draws, blocks, -(-N // WORD), dtype=torch.int32, device=device),
            M=M,
            N=N,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A call that the definition must judge, by the number `check` gave it.

    `count` cells are undecided; None when the call was not judged at all: it had no cells, and nothing checked is not
    a pass, or its kernels did not run.
    """

    call: int
    count: int | None
    bits: CellBits

    def cells(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The undecided rows [M], and the undecided cells of the columns [draws, blocks, N]; all of them where the
        call was not judged. Reads from the device: the bits are not part of the forward's one read.
        """
        rows, columns = (_to_host(words) for words in (self.bits.rows, self.bits.columns))
        M, N = self.bits.M, self.bits.N
        if self.count is None:
            return np.ones(M, dtype=bool), np.ones((*columns.shape[:2], N), dtype=bool)
        return _unpacked(rows, M), _unpacked(columns, N)


class Counts:
    """The number of undecided cells of every call since the last read, each in a slot of its own on the device."""

    def __init__(self, device: torch.device, slots: int) -> None:
        self._device = device
        self._slots = slots
        self._pages: list[torch.Tensor] = []
        self._used = 0

    def slot(self) -> torch.Tensor:
        """The next call's slot, a scalar that says the call was not judged until a count is written to it."""
        page, at = divmod(self._used, self._slots)
        if page == len(self._pages):
            self._pages.append(torch.full((self._slots,), NOT_JUDGED, dtype=torch.int64, device=self._device))
        self._used += 1
        return self._pages[page][at]

    def read(self) -> list[int]:
        """The counts in the order of the calls, in one read; the slots are free again."""
        if not self._used:
            return []
        # The pages were made where inference mode made them its own.
        with torch.inference_mode():
            counts = _to_host(torch.cat(self._pages))[: self._used]
            for page in self._pages:
                page.fill_(NOT_JUDGED)
        self._used = 0
        return [int(count) for count in counts]


def _to_host(values: torch.Tensor) -> NDArray[np.int64]:
    """The values, read from the device: the only place where the guard waits for it."""
    return np.asarray(values.cpu().numpy())


def _unpacked(words: NDArray[np.int64], cells: int) -> NDArray[np.bool_]:
    """The bits of the last axis as booleans."""
    octets = np.ascontiguousarray(words.astype("<u4")).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=cells, bitorder="little").astype(bool)
