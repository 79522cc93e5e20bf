"""A few pieces of memory that two processes share: captures travel through them without being sent.

Each slot is an anonymous memory file that grows to the largest capture it has carried, so the buffer is bounded by the
number of slots and nothing is left behind when a process is killed.
"""

import mmap
import os


class Slot:
    """One piece, seen from one side. `fd` is inherited by the other process."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls) -> "Slot":
        """A new, empty slot."""
        return cls(os.memfd_create("veristate-slot"))

    def view(self, size: int) -> memoryview:
        """The first `size` bytes, grown to at least that."""
        have = 0 if self._map is None else len(self._map)
        if self._map is None or have < size:
            have = max(size, os.fstat(self.fd).st_size, 1 << 20)
            if os.fstat(self.fd).st_size < have:
                os.ftruncate(self.fd, have)
            self._map = mmap.mmap(self.fd, have)
        return memoryview(self._map)[:size]

    def close(self) -> None:
        """Gives the memory back."""
        self._map = None
        os.close(self.fd)
