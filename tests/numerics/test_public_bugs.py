"""Bugs that were reported in public, rebuilt on small arrays, each with the verdict it must get.

The issue behind each test is named in its docstring (repository and number). docs/public-bugs.md lists all of them.
Ties in a ranking (pytorch#127196 and others) are shown in tests/decisions/test_scale.py; runs that checked nothing and
said "OK" (gpu-burn#12, #123, #124, DCGM#284, #2, autopilot#68) in tests/devices/test_probe.py.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from veristate.core import Verdict
from veristate.numerics import (
    BF16,
    FP16,
    FP32,
    TF32,
    Format,
    Guard,
    LinearArithmetic,
    Operands,
    bf16_arithmetic,
    check_elements,
    check_linear,
    fp16_arithmetic,
    fp32_arithmetic,
    narrowed_arithmetic,
    segmented_arithmetic,
)

from . import honest

BF16_LAYER = bf16_arithmetic(bias=False)
FP32_LAYER = fp32_arithmetic(bias=False, flush=False)
SPLIT_K = replace(BF16_LAYER, intermediate=BF16, nodes=7)
PASS, FLAG, INAPPLICABLE = Verdict.PASS, Verdict.FLAG, Verdict.INAPPLICABLE


def verdicts(X, W, b, Y, arithmetic):
    """The verdicts of elements, whole sums and signed blocks of 32."""
    call = Operands.of(X, W, b, Y)
    return {
        check_elements(call, arithmetic).verdict(),
        check_linear(call, arithmetic).verdict(),
        check_linear(call, arithmetic, block=32, seed=b"after Y").verdict(),
    }


def test_accumulation_in_bf16_stalls_at_256():
    """pytorch#83863, #95125: 1024 ones add up to 256 in bfloat16. FLAG, unless that was declared."""
    X, W = np.ones((2, 1024)), np.ones((3, 1024))
    Y = honest.OTHER_STYLES["bf16 accumulation"].compute(X, W, None, np.random.default_rng(0))
    assert (Y == 256).all()
    assert verdicts(X, W, None, Y, BF16_LAYER) == {FLAG}
    assert verdicts(X, W, None, np.full((2, 3), 1024.0), BF16_LAYER) == {PASS}
    assert verdicts(X, W, None, Y, replace(BF16_LAYER, accumulate=BF16)) == {PASS}


def cancelling_halves():
    """Operands whose two halves give large partial sums that nearly cancel."""
    rng = np.random.default_rng(1)
    half, weights = rng.uniform(1, 2, (6, 64)), rng.uniform(1, 2, (8, 64))
    X = np.concatenate([half, -half + rng.normal(size=half.shape) * 2.0**-5], axis=1)
    return honest.bf16(X), honest.bf16(np.concatenate([weights, weights], axis=1))


def test_partial_sums_rounded_to_bf16_are_a_fault_unless_declared():
    """modular#7165, TransformerEngine#3440, pytorch#111457: split-K in bf16, wrong where partial sums cancel.

    FLAG under the strict contract, PASS under one that names the roundings, and the strict result passes both.
    """
    X, W = cancelling_halves()
    style = replace(honest.OTHER_STYLES["split-K in bf16"], splits=4, bias="fused")
    Y = style.compute(X, W, None, np.random.default_rng(0))
    strict = replace(style, splits=1).compute(X, W, None, np.random.default_rng(0))
    assert np.abs(Y - strict).max() > 0.1 * np.abs(strict).mean()
    assert verdicts(X, W, None, Y, BF16_LAYER) == {FLAG}
    assert verdicts(X, W, None, Y, SPLIT_K) == {PASS}
    assert verdicts(X, W, None, strict, BF16_LAYER) == verdicts(X, W, None, strict, SPLIT_K) == {PASS}


def test_tf32_products_that_nobody_asked_for_are_a_fault():
    """pytorch#53635, jax#14022, mlx#3860: 1024.5 becomes 1024 or 1025. FLAG in fp32, PASS with TF32 operands."""
    one = np.ones((1, 1))
    for rounded in (1024.0, 1025.0):
        assert verdicts(one * 1024.5, one, None, one * rounded, FP32_LAYER) == {FLAG}
        assert verdicts(one * rounded, one, None, one * rounded, FP32_LAYER) == {PASS}
    X, W, _ = honest.operands("normal", (40, 64, 33), 1, narrowed=False)
    narrowed = [honest.narrow(a.astype(float), honest.T32) for a in (X, W)]
    Y = honest.FP32_STYLES["lanes"].compute(*narrowed, None, np.random.default_rng(0))
    call = Operands.of(X, W, None, Y)
    assert check_elements(call, FP32_LAYER).flag.mean() > 0.5
    assert check_linear(call, FP32_LAYER, block=32, seed=b"after Y").verdict() is FLAG
    assert verdicts(*narrowed, None, Y, FP32_LAYER) == {PASS}


def test_a_garbled_but_finite_tile_is_localised():
    """openvino#38256, tensorflow#61510: a tile of plausible wrong numbers, all finite. FLAG in that tile only."""
    X, W, _ = honest.operands("normal", (70, 48, 66), 2, narrowed=True)
    Y = honest.BF16_STYLES["lanes fma"].compute(X, W, None, np.random.default_rng(0))
    Y[16:32, 32:48] = honest.bf16(np.random.default_rng(1).normal(size=(16, 16)) * Y.std())
    check = Guard().check(Operands.of(X, W, None, Y), BF16_LAYER, block=32, seed=b"after Y")
    columns = np.argwhere(check.columns.flag[0])
    assert set(columns[:, 0].tolist()) == {0}
    assert set(columns[:, 1].tolist()) <= set(range(32, 48))
    assert len(columns) >= 14  # a random sum may fall below its bound
    rows, places = check.elements.rows[check.elements.proven], check.elements.columns[check.elements.proven]
    assert set(rows.tolist()) == set(range(16, 32))
    assert set(places.tolist()) <= set(range(32, 48))


def test_weights_copied_wrongly_are_a_fault_in_their_columns():
    """oneDNN#3589: a transposing copy that spoils some weights. FLAG in those columns, in every block of rows."""
    X, W, _ = honest.operands("normal", (64, 48, 40), 3, narrowed=True)
    used = W.copy()
    used[8:12, 16:32] = used[8:12, 16:32][:, ::-1]
    Y = honest.BF16_STYLES["sequential"].compute(X, used, None, np.random.default_rng(0))
    check = check_linear(Operands.of(X, W, None, Y), BF16_LAYER, block=32, seed=b"after Y")
    assert set(np.argwhere(check.columns.flag[0])[:, 1].tolist()) == {8, 9, 10, 11}


def test_bits_that_depend_on_the_batch_are_no_fault():
    """pytorch#136338, vllm#4606, xla#6796: another batch or run gives other bits. All PASS, in any order."""
    X, W, _ = honest.operands("normal", (9, 64, 33), 4, narrowed=False)
    results = [
        honest.FP32_STYLES[name].compute(X, W, None, np.random.default_rng(n))
        for n, name in enumerate(("sequential", "lanes", "pairwise", "random", "blocked fma"))
    ]
    assert len({r.tobytes() for r in results}) == len(results)
    for Y in results:
        assert verdicts(X, W, None, Y, FP32_LAYER) == {PASS}


def test_where_the_bias_is_added_must_be_declared():
    """pytorch#115144: a bias added after storing rounds twice. FLAG if declared fused, PASS if separate."""
    # 255.75 is stored as 256 before the bias takes 255 away.
    X, W = np.array([[1.0, 1.0]]), np.array([[255.0, 0.75]])
    b = np.array([-255.0])
    separate = honest.BF16_STYLES["sequential"].compute(X, W, b, np.random.default_rng(0))
    fused = honest.BF16_STYLES["fused bias"].compute(X, W, b, np.random.default_rng(0))
    assert (separate.item(), fused.item()) == (1.0, 0.75)
    declared = {bias: replace(BF16_LAYER, bias=bias) for bias in ("fused", "separate")}
    assert verdicts(X, W, b, separate, declared["fused"]) == {FLAG}
    assert verdicts(X, W, b, separate, declared["separate"]) == {PASS}
    assert verdicts(X, W, b, fused, declared["separate"]) == verdicts(X, W, b, fused, declared["fused"]) == {PASS}


def test_nan_in_padded_lanes_stays_with_the_padding():
    """torch-spyre#4342: NaN in padding rows. They are INAPPLICABLE, real rows PASS; leaked into one, it is a FLAG."""
    X, W, _ = honest.operands("normal", (64, 16, 40), 5, narrowed=True)
    Y = honest.BF16_STYLES["sequential"].compute(X, W, None, np.random.default_rng(0))
    X[50:], Y[50:] = np.nan, np.nan
    check = check_linear(Operands.of(X, W, None, Y), BF16_LAYER, block=32, seed=b"after Y")
    assert check.verdict() is INAPPLICABLE
    assert np.flatnonzero(check.rows.inapplicable).tolist() == list(range(50, 64))
    assert not check.columns.inapplicable[0, 0].any()
    Y[49, 39] = np.nan
    check = check_linear(Operands.of(X, W, None, Y), BF16_LAYER, block=32, seed=b"after Y")
    assert np.argwhere(check.rows.flag).tolist() == [[49]]
    assert np.argwhere(check.columns.flag[0]).tolist() == [[1, 39]]
    assert check.verdict() is FLAG


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_accumulation_in_fp16_may_overflow_where_fp32_may_not(value):
    """pytorch#2391, LiteRT#9249: fp16 sums pass 65504. INAPPLICABLE where fp16 accumulates, FLAG where float32 does."""
    X, W = np.full((2, 64), 64.0), np.full((3, 64), 64.0) * np.where(np.arange(64) % 2, 1, -1)
    narrow = LinearArithmetic(operands=FP16, accumulate=FP16, storage=FP16, bias="none", flush=False)
    Y = np.full((2, 3), value)
    assert verdicts(X, W, None, Y, narrow) == {INAPPLICABLE}
    assert verdicts(X, W, None, Y, FP32_LAYER) == {FLAG}


def test_bf16_near_its_end_is_never_silently_passed():
    """As measured in torch: 3e38 with alternating signs gives NaN in bf16, 0 in fp32. INAPPLICABLE; the zero PASSes."""
    X, W = honest.bf16(np.full((2, 4), 3e38)), np.tile([1.0, -1.0], 2)[None].repeat(3, axis=0)
    assert verdicts(X, W, None, np.full((2, 3), np.nan), BF16_LAYER) == {INAPPLICABLE}
    assert verdicts(X, W, None, np.zeros((2, 3)), BF16_LAYER) == {PASS}


def test_flushing_is_no_fault_where_declared_and_one_where_denied():
    """pytorch#19652, #150007, llvm#90425: subnormal operands or results read as zero. PASS if declared, else FLAG."""
    X, W, _ = honest.operands("flushed times large", (5, 8, 6), 6, narrowed=False)
    style = honest.FP32_STYLES["flushed"]
    Y = style.compute(X, W, None, np.random.default_rng(0))
    assert not Y.any()
    assert verdicts(X, W, None, Y, FP32_LAYER) == {FLAG}
    assert verdicts(X, W, None, Y, replace(FP32_LAYER, flush=True)) == {PASS}
    kept = replace(style, flush=False).compute(X, W, None, np.random.default_rng(0))
    assert kept.all()
    assert (
        verdicts(X, W, None, kept, FP32_LAYER) == verdicts(X, W, None, kept, replace(FP32_LAYER, flush=True)) == {PASS}
    )
    assert verdicts(X, W, None, Y, BF16_LAYER) == {PASS}, "matrix units flush whatever the switch says"


def element_verdict(X, W, b, Y, arithmetic):
    """The verdict of the elements."""
    return check_elements(Operands.of(X, W, b, Y), arithmetic).verdict()


def test_partial_sums_rounded_to_fp16_are_a_fault_unless_declared():
    """pytorch#67946: the same in fp16, where cancelling halves lose what the strict contract keeps."""
    X, W = cancelling_halves()
    style = honest.Style(storage=honest.F16, splits=4, intermediate=honest.F16)
    Y = style.compute(X, W, None, np.random.default_rng(0))
    strict = fp16_arithmetic(bias=False, flush=False)
    assert element_verdict(X, W, None, Y, strict) is FLAG
    assert element_verdict(X, W, None, Y, segmented_arithmetic(strict, 4)) is PASS


def test_tf32_is_declared_on_the_operands_as_they_were_captured():
    """pytorch#79270, #61890, m3gnet#54: predictions in a batch differ since TF32 was on. FLAG under the fp32 contract;
    PASS, on the float32 operands themselves, under one that lets units read them in TF32, rounded or cut.
    """
    X, W, _ = honest.operands("normal", (40, 64, 33), 8, narrowed=False)
    for truncate in (False, True):
        read = [honest.narrow(a.astype(float), honest.T32, truncate=truncate) for a in (X, W)]
        Y = honest.FP32_STYLES["lanes"].compute(*read, None, np.random.default_rng(0))
        assert element_verdict(X, W, None, Y, FP32_LAYER) is FLAG
        assert element_verdict(X, W, None, Y, narrowed_arithmetic(TF32, bias=False)) is PASS


def test_a_wrong_product_that_changes_from_run_to_run_is_a_fault_in_each():
    """tensorflow#61510: two runs, each wrong in its own rows. FLAG both, each in those rows alone."""
    X, W, _ = honest.operands("normal", (48, 40, 24), 9, narrowed=False)
    healthy = honest.FP32_STYLES["lanes"].compute(X, W, None, np.random.default_rng(0))
    for run, rows in enumerate(((3, 17), (17, 30, 41))):
        Y = healthy.copy()
        Y[list(rows)] = np.random.default_rng(run).normal(size=(len(rows), 24)) * healthy.std()
        cells = check_elements(Operands.of(X, W, None, Y), FP32_LAYER)
        assert np.unique(np.argwhere(cells.flag)[:, 0]).tolist() == list(rows)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_slice_of_a_batch_passes_whatever_its_bits(dtype):
    """pytorch#139964, #153033, vllm#5898, #7779, #9567, TransformerEngine#2986: rows alone and rows in a batch.

    Both PASS by their bound. Equality of bits is asked nowhere but of whole groups recomputed in the geometry of the
    contract (tests/devices/test_trusted.py): a slice has no bitwise reference.
    """
    narrowed = dtype == "bfloat16"
    X, W, _ = honest.operands("normal", (130, 96, 33), 10, narrowed=narrowed)
    x, w = (torch.from_numpy(a).to(getattr(torch, dtype)) for a in (X, W))
    arithmetic = BF16_LAYER if narrowed else FP32_LAYER
    whole = torch.nn.functional.linear(x, w).float().numpy()
    assert element_verdict(X, W, None, whole, arithmetic) is PASS
    for rows in (1, 2, 7, 64):
        part = torch.nn.functional.linear(x[:rows], w).float().numpy()
        assert element_verdict(X[:rows], W, None, part, arithmetic) is PASS


# As measured on Hopper by others: eight-bit products are aligned to the largest and cut below its 13 highest bits.
HOPPER_SUM = Format(name="hopper fp8 sum", precision=13, exponent_min=-126, largest=FP32.largest)
E4M3 = Format(name="e4m3", precision=4, exponent_min=-6, largest=448.0)
FP8_LAYER = LinearArithmetic(operands=E4M3, accumulate=HOPPER_SUM, storage=FP32, bias="none", flush=False)


def hopper_fp8(X, W, width=32):
    """Sums of fp8 products as such a unit takes them: the running sum is one of the addends."""
    total = np.zeros((len(X), len(W)))
    for start in range(0, X.shape[1], width):
        products = X[:, None, start : start + width] * W[None, :, start : start + width]
        addends = np.concatenate([total[:, :, None], products], axis=2)
        _, exponents = np.frexp(np.abs(addends).max(axis=2, keepdims=True))
        quantum = np.ldexp(1.0, exponents - 13)
        total = (np.trunc(addends / quantum) * quantum).sum(axis=2)
    return total.astype(np.float32)


def test_fp8_sums_of_thirteen_bits_are_a_fault_unless_declared():
    """DeepSeek-V3#197, DeepGEMM#37, #176, SageAttention#287: fp8 accumulates in 13 to 14 bits on one generation of GPUs
    and in 25 on the next. FLAG under the contract of 24, PASS under one that names the width; a width is a parameter.
    """
    rng = np.random.default_rng(12)
    X, W = (honest.narrow(rng.normal(size=shape), (4, -6)) for shape in ((8, 256), (6, 256)))
    Y = hopper_fp8(X, W)
    assert element_verdict(X, W, None, Y, replace(FP8_LAYER, accumulate=FP32)) is FLAG
    assert element_verdict(X, W, None, Y, FP8_LAYER) is PASS


def test_exact_probes_of_fp8_must_stay_below_the_width_of_the_sum():
    """DeepGEMM#37: 4096 ones add up exactly in 13 bits; one more on top of 16384 is lost. A probe with zero tolerance
    has to keep its sums below 2^13, else it accuses a healthy unit.
    """
    ones = np.ones((1, 4096))
    assert hopper_fp8(ones, ones).item() == 4096
    X, W = np.zeros((1, 65)), np.ones((1, 65))
    X[0, :64], X[0, 64] = 256.0, 1.0
    assert hopper_fp8(X, W).item() == 64 * 256
    assert element_verdict(X, W, None, hopper_fp8(X, W), FP8_LAYER) is PASS


def test_two_healthy_generations_of_gpus_both_pass():
    """chemprop#534, chebai#111: metrics differ between an A100 and an H100 at the same seed. Units of 8 and of 16
    products that cut give other bits; both PASS, and neither is the reference of the other's bits.
    """
    X, W, _ = honest.operands("normal", (20, 96, 30), 13, narrowed=True)
    results = [
        replace(honest.BF16_STYLES["matrix unit of 8"], order=f"matrix unit {width}", storage=honest.F32).compute(
            X, W, None, np.random.default_rng(0)
        )
        for width in (8, 16)
    ]
    assert (results[0] != results[1]).any()
    for Y in results:
        assert element_verdict(X, W, None, Y, replace(BF16_LAYER, storage=FP32)) is PASS


def test_a_nan_is_traced_to_the_device_that_gave_it():
    """torchtitan#951, dion#76: one bad GPU of eight, found after a long search. Eight devices hold eight rows each: the
    FLAG names the bad one's call and rows, the others PASS. Contracts name the device (tests/devices/test_contract.py).
    """
    X, W, _ = honest.operands("normal", (64, 32, 16), 14, narrowed=True)
    Y = honest.BF16_STYLES["lanes fma"].compute(X, W, None, np.random.default_rng(0))
    Y[29, 5] = np.nan
    found = [
        check_elements(Operands.of(X[rows], W, None, Y[rows]), BF16_LAYER)
        for rows in (slice(8 * device, 8 * device + 8) for device in range(8))
    ]
    assert [cells.verdict() for cells in found] == [FLAG if device == 3 else PASS for device in range(8)]
    assert np.argwhere(found[3].flag).tolist() == [[29 - 24, 5]]


def test_outputs_beyond_a_wrapped_index_are_a_fault():
    """pytorch#197636, #196431: outputs above 2^32 elements, or offsets above 2^31, wrap and land on others.

    So many can't be allocated here: the index wraps at 2^10 of 1,320 elements. FLAG where the late values landed and
    where nothing was written; the rest passes.
    """
    X, W, _ = honest.operands("normal", (40, 16, 33), 15, narrowed=False)
    healthy = honest.FP32_STYLES["lanes"].compute(X, W, None, np.random.default_rng(0))
    wrapped = np.zeros(healthy.size)
    for index, value in enumerate(healthy.ravel()):
        wrapped[index % 2**10] = value
    flag = check_elements(Operands.of(X, W, None, wrapped.reshape(healthy.shape)), FP32_LAYER).flag.ravel()
    late = healthy.size - 2**10
    assert flag[:late].mean() > 0.99
    assert flag[2**10 :].mean() > 0.99
    assert not flag[late : 2**10].any()


def test_an_input_read_without_its_strides_is_a_fault():
    """pytorch#197636: a non-contiguous input read as if it were contiguous. FLAG; the product that honours the strides
    PASSes, whatever the layout of what is checked.
    """
    rng = np.random.default_rng(16)
    base = rng.normal(size=(24, 40)).astype(np.float32)
    X, W = base.T, rng.normal(size=(12, 24)).astype(np.float32)
    assert not X.flags.c_contiguous
    right = honest.FP32_STYLES["lanes"].compute(X, W, None, np.random.default_rng(0))
    wrong = honest.FP32_STYLES["lanes"].compute(base.reshape(40, 24), W, None, np.random.default_rng(0))
    assert element_verdict(X, W, None, right, FP32_LAYER) is PASS
    assert element_verdict(X, W, None, np.asfortranarray(right), FP32_LAYER) is PASS
    assert element_verdict(X, W, None, wrong, FP32_LAYER) is FLAG
