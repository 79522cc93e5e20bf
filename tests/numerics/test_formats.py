"""Number formats against IEEE 754 as numpy and torch have it."""

import numpy as np
import pytest
import torch

from veristate.core import InputError
from veristate.numerics import BF16, FP16, FP32, FP64, TF32, format_named, round_to_bf16

from . import honest


def test_an_unknown_format_is_refused_by_name():
    """A name that is no format raises, and the message lists those that are."""
    with pytest.raises(InputError, match=r"fp8.*known: fp64, fp32, tf32, bf16, fp16"):
        format_named("fp8")


@pytest.mark.parametrize("form", [FP64, FP32, TF32, BF16, FP16])
def test_a_format_is_found_under_its_own_name(form):
    """Every format's name leads back to it."""
    assert format_named(form.name) is form


@pytest.mark.parametrize(("form", "dtype"), [(FP64, np.float64), (FP32, np.float32), (FP16, np.float16)])
def test_ieee_formats_agree_with_numpy(form, dtype):
    """Unit roundoff, largest and smallest numbers are those of numpy's finfo."""
    info = np.finfo(dtype)
    assert form.u == float(info.eps) / 2
    assert form.largest == float(info.max)
    assert form.smallest_normal == float(info.smallest_normal)
    assert form.smallest_subnormal == float(info.smallest_subnormal)


def test_bf16_has_eight_significant_bits():
    """Half the gap above 1 is 2^-8 in bfloat16, and its other limits are those of torch."""
    info = torch.finfo(torch.bfloat16)
    assert BF16.u == 2.0**-8 == info.eps / 2
    assert BF16.largest == info.max
    assert BF16.smallest_normal == info.smallest_normal
    assert torch.tensor(BF16.smallest_subnormal).bfloat16().float().item() == 2.0**-133
    assert torch.tensor(BF16.smallest_subnormal / 2).bfloat16().item() == 0


def test_tf32_is_float32_with_thirteen_bits_less():
    """TF32 keeps the exponents of float32 and 11 significant bits."""
    top = np.uint32(np.float32(np.finfo(np.float32).max).view(np.uint32) & np.uint32(0xFFFFE000))
    assert TF32.largest == float(top.view(np.float32))
    assert TF32.u == 2.0**-11
    assert (TF32.smallest_normal, TF32.smallest_subnormal) == (2.0**-126, 2.0**-136)


@pytest.mark.parametrize("form", [FP32, TF32, BF16, FP16])
def test_underflow_adds_half_a_subnormal_or_a_normal_where_flushed(form):
    """The absolute error of one rounding is exactly what the worst values below the normal range show."""
    shape = (form.precision, form.exponent_min)
    values = np.linspace(0, 8 * form.smallest_subnormal, 161)
    errors = np.abs(honest.narrow(values, shape) - values)
    assert errors.max() == form.eta(flush=False) == form.smallest_subnormal / 2
    below = np.nextafter(form.smallest_normal, 0) - form.smallest_subnormal
    assert abs(honest.narrow(below, shape, flush=True) - below) <= form.eta(flush=True) == form.smallest_normal
    assert below / form.eta(flush=True) > 0.8


def test_float64_underflow_is_a_whole_subnormal_because_half_is_no_float64():
    """Half the smallest float64 can't be held, so the allowance is the next larger number, not zero."""
    assert FP64.eta(flush=False) == 2.0**-1074


def bits(*patterns):
    """Float32 values from their bit patterns."""
    return np.array(patterns, dtype=np.uint32).view(np.float32)


SPECIAL = bits(
    *(0x00000000, 0x80000000, 0x7F800000, 0xFF800000),  # zeros, infinities
    *(0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FFF8000, 0xFF807FFF),  # NaN, payloads that would carry
    *(0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF),  # ties to even, down and up, and their neighbours
    *(0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0xFF7F8000),  # what becomes infinite, and the last that doesn't
    *(0x00000001, 0x00008000, 0x00008001, 0x00018000, 0x007FFFFF, 0x80007FFF),  # subnormals
)


def assert_as_torch(values):
    """The rounding has the bits that torch gives, and NaN where torch has NaN."""
    ours = round_to_bf16(values)
    theirs = torch.from_numpy(values.copy()).bfloat16().float().numpy()
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    held = ~np.isnan(theirs)
    assert np.array_equal(ours[held].view(np.uint32), theirs[held].view(np.uint32))


def test_rounding_special_values_to_bf16_has_the_bits_of_torch():
    """Ties, subnormals, infinities, overflow and every kind of NaN round as torch rounds them."""
    assert_as_torch(SPECIAL)
    assert np.isinf(round_to_bf16(bits(0x7F7F8000))[0])


def test_rounding_any_bit_pattern_to_bf16_has_the_bits_of_torch():
    """Two million random patterns, ties made frequent, round bit for bit as torch rounds them."""
    patterns = np.random.default_rng(0).integers(0, 2**32, 1 << 20, dtype=np.uint32)
    assert_as_torch(patterns.view(np.float32))
    assert_as_torch((patterns & np.uint32(0xFFFF8000)).view(np.float32))


def test_rounding_to_bf16_keeps_shape_and_layout_apart():
    """Scalars, empty, strided and big-endian arrays keep their shapes, and their values are those of a plain copy."""
    values = np.random.default_rng(1).normal(size=(6, 10)).astype(np.float32)
    plain = round_to_bf16(values)
    assert round_to_bf16(np.array(1.1, dtype=np.float32)).shape == ()
    assert round_to_bf16(np.array(np.nan, dtype=np.float32)).shape == ()
    assert round_to_bf16(values[:0]).shape == (0, 10)
    assert np.array_equal(round_to_bf16(values[::2, ::-3]), plain[::2, ::-3])
    assert np.array_equal(round_to_bf16(values.T), plain.T)
    assert np.array_equal(round_to_bf16(values.astype(">f4")), plain)
    assert plain.dtype == np.float32
