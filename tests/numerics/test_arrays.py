"""Arrays as stored bytes: what is read back is what was kept, or a refusal."""

import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from veristate.core import InputError, TamperError
from veristate.numerics import array_bytes, array_from, array_ref, put_array

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


def test_changed_bytes_are_refused():
    """One flipped bit, a byte too many or too few: the bytes are not those of the record."""
    data, ref = array_bytes(VALUES), array_ref(VALUES)
    for wrong in (bytes([data[0] ^ 1]) + data[1:], data + b"\0", data[:-1], b""):
        with pytest.raises(TamperError, match="not those that were recorded"):
            array_from(wrong, ref)


@pytest.mark.parametrize(
    "change",
    [{"shape": s} for s in [(3, 5), (2, 4), (), (-1, 4), (-3, -4), (12, 0), (3, 4, 2)]]
    + [{"dtype": d} for d in ["float64", "bool", "object", "float16", "complex64", "nonsense"]],
)
def test_a_record_that_does_not_fit_the_bytes_is_refused(change):
    """A shape or dtype that the bytes don't have is tampering, whatever numpy would make of it."""
    with pytest.raises(TamperError):
        array_from(array_bytes(VALUES), replace(array_ref(VALUES), **change))


@pytest.mark.parametrize("dtype", ["float16", "complex64", "object", "datetime64[s]", "<U3", "int16"])
def test_an_array_that_could_not_be_read_back_is_not_kept(dtype):
    """A dtype that reading refuses is refused at writing, before anything is stored."""
    stored = []
    with pytest.raises(InputError, match="can't be kept"):
        put_array(lambda data: stored.append(data) or "", np.zeros(2).astype(dtype))
    assert not stored


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(["bool", "int8", "uint8", "int32", "int64", "uint16", "float32", "float64"]).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4))
    )
)
def test_an_array_comes_back_bit_for_bit(array):
    """Any kept dtype and shape, empty and scalar ones too, come back with the same bits, NaN payloads included."""
    back = array_from(array_bytes(array), array_ref(array))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()


def test_stored_bytes_are_little_endian_in_c_order():
    """The bytes are those that struct writes, and the digest is SHA-256 over them."""
    expected = struct.pack("<12f", *VALUES.ravel().tolist())
    assert array_bytes(VALUES) == expected
    ref = array_ref(VALUES)
    assert ref.blob == hashlib.sha256(expected).hexdigest()
    assert (ref.dtype, ref.shape) == ("float32", (3, 4))


@pytest.mark.parametrize(
    "same", [VALUES.astype(">f4"), np.asfortranarray(VALUES), np.repeat(VALUES, 2, axis=1)[:, ::2]]
)
def test_layout_and_byte_order_do_not_show(same):
    """Big-endian, Fortran-ordered and strided arrays have the record of the plain one."""
    assert array_ref(same) == array_ref(VALUES)
    assert array_bytes(same) == array_bytes(VALUES)


def test_putting_stores_the_bytes_under_the_recorded_digest():
    """What goes to the store is what the record names."""
    stored = {}

    def put(data):
        stored[hashlib.sha256(data).hexdigest()] = data
        return hashlib.sha256(data).hexdigest()

    ref = put_array(put, VALUES)
    assert np.array_equal(array_from(stored[ref.blob], ref), VALUES)
