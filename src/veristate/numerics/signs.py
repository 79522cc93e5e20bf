"""Random signs for checksums: two errors that cancel in a plain sum add up under signs drawn after they were made."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from veristate.numerics.kernels import expanded_signs


def draw_signs(length: int, seed: bytes, draws: int = 1) -> NDArray[np.float32]:
    """[draws, length] signs of +1 and -1, a function of `seed` alone, so that a record of the seed repeats the check.
    Errors that cancel in a plain sum survive one draw with probability 1/2 and `draws` with 2^-draws. Dtypes: float32.
    """
    stream = hashlib.shake_256(b"signs\0" + seed).digest((draws * length + 7) // 8)
    return expanded_signs(stream, draws * length).reshape(draws, length)
