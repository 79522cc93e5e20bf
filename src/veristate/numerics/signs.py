"""Random signs for checksums: two errors that cancel in a plain sum add up under signs drawn after they were made."""

import hashlib

import numpy as np
from numpy.typing import NDArray


def draw_signs(length: int, seed: bytes, side: str) -> NDArray[np.float64]:
    """`length` signs of +1 and -1, a function of `seed` and `side` ("row" or "column") alone, so that a record of the
    seed repeats the check. Two errors that cancel survive with probability 1/2. Dtypes: float64.
    """
    stream = hashlib.shake_256(side.encode() + b"\0" + seed).digest((length + 7) // 8)
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=length)
    return np.where(bits, 1.0, -1.0)
