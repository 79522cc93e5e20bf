"""Values, their storage and their bits."""

import numpy as np
import pytest
import torch

from veristate.core import InputError
from veristate.numerics import REPRESENTATIONS, Representation, from_storage_bits, is_stored, storage_bits, stored

EVERY = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("wrong", ["bfloat16", "float32", "int8", ""])
def test_an_unknown_representation_is_refused(wrong: str) -> None:
    """A name that is no representation raises and lists those there are."""
    with pytest.raises(InputError, match="fp64, fp32, bf16, fp16"):
        stored(np.zeros(2, dtype=np.float32), wrong)


def test_values_that_are_not_stored_have_no_bits() -> None:
    """A float32 value between two bfloat16 ones is not given bits by cutting it."""
    with pytest.raises(InputError, match="bf16"):
        storage_bits(np.array([1.0, 1.001], dtype=np.float32), "bf16")
    with pytest.raises(InputError, match="uint16"):
        from_storage_bits(np.zeros(1, dtype=np.uint32), "bf16")


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_every_pattern_of_sixteen_bits_comes_back(kind: Representation) -> None:
    """All 65,536 patterns, NaNs with their payloads included, go through values and back, and Q leaves them alone."""
    values = from_storage_bits(EVERY, kind)
    assert is_stored(values, kind)
    assert np.array_equal(storage_bits(values, kind), EVERY)
    assert np.array_equal(storage_bits(stored(values, kind), kind), EVERY)
    if kind == "bf16":
        beside = np.append(values, np.float32(1.001))
        assert np.array_equal(storage_bits(stored(beside, kind), kind)[:-1], EVERY)


@pytest.mark.parametrize(("kind", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_conversion_is_that_of_torch(kind: Representation, dtype: torch.dtype) -> None:
    """Q rounds to nearest, ties to even, as torch's conversion does, with ties, subnormals and overflow among them."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 20_000, dtype=np.uint32)
    ties = (rng.integers(0, 1 << 16, 5_000, dtype=np.uint32) << 16) | np.uint32(0x8000)
    values = np.concatenate([bits, ties]).view(np.float32)
    values = values[~np.isnan(values)]
    expected = torch.from_numpy(values).to(dtype).view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(storage_bits(stored(values, kind), kind), expected)


@pytest.mark.parametrize("kind", REPRESENTATIONS)
def test_shape_and_signed_zero_are_kept(kind: Representation) -> None:
    """A single number, an empty array and a transposed one keep their shape, and -0.0 its sign."""
    for array in (np.float32(-0.0), np.zeros((0, 3), dtype=np.float32), np.arange(6, dtype=np.float32).reshape(2, 3).T):
        values = stored(np.asarray(array), kind)
        assert values.shape == np.shape(array)
        assert storage_bits(values, kind).shape == np.shape(array)
        assert np.array_equal(np.signbit(values), np.signbit(array))
