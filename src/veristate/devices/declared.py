"""The arithmetic that a healthy product has under given switches, or why none is known.

Sources: torch's notes on numerical accuracy, on CUDA semantics and on its MKLDNN backend; cuBLAS's cublasMath_t;
Intel's description of AMX and of the conversions to and from float16.
"""

from dataclasses import replace

import torch

from veristate.devices.switches import CPU_VARIABLES, CUDA_VARIABLES, MIXED, UNSET, ProductSettings
from veristate.numerics import (
    BF16,
    FP16,
    TF32,
    Bias,
    LinearArithmetic,
    bf16_arithmetic,
    fp16_arithmetic,
    fp32_arithmetic,
    fp64_arithmetic,
    narrowed_arithmetic,
    segmented_arithmetic,
)

_NARROWER = {"tf32": TF32, "bf16": BF16}
_X86 = ("x86_64", "amd64")


def declared_arithmetic(
    settings: ProductSettings, dtype: str, *, bias: Bias, terms: int, segments: int | None = None
) -> LinearArithmetic | str:
    """The arithmetic of a healthy product of `terms` terms with outputs in `dtype`, or why none is known: a call
    without one is INAPPLICABLE, never a silent pass.

    X, W and b are those of the capture, in `dtype`; a check must also ask `operands_fit`. `segments` is the number of
    parts a reduced-precision reduction may split the sum in. A process can't see it, so it has to be declared. A bound
    as large as the sum of products itself could flag nothing: there is none then.
    """
    kind = torch.device(settings.device).type
    if kind not in ("cpu", "cuda"):
        return f"no arithmetic is known for products on {kind} devices"
    if settings.rocm and kind == "cuda":
        return "no arithmetic is known for products under ROCm: what it flushes and narrows depends on the device"
    declare = {"float64": _float64, "float32": _float32, "bfloat16": _bfloat16, "float16": _float16}.get(dtype)
    if declare is None:
        return f"no arithmetic is declared for outputs in {dtype}"
    found = declare(settings, kind == "cuda", segments if segments is None else min(segments, max(terms, 1)))
    if isinstance(found, str):
        return found
    if found.growth_minus_one_upper(terms) >= 1:
        return f"a sum of {terms} terms accumulated in {found.accumulate.name} may be off by as much as it adds up"
    return replace(found, bias=bias)


def _float64(settings: ProductSettings, cuda: bool, _segments: int | None) -> LinearArithmetic | str:
    if cuda and _set(settings, "CUBLAS_EMULATE_DOUBLE_PRECISION", "0"):
        return "CUBLAS_EMULATE_DOUBLE_PRECISION is set: float64 products may be emulated in integers"
    return fp64_arithmetic(bias=True, flush=cuda or settings.flush)


def _float32(settings: ProductSettings, cuda: bool, _segments: int | None) -> LinearArithmetic | str:
    variables = CUDA_VARIABLES if cuda else CPU_VARIABLES
    for name, full in variables.items():
        if name != "CUBLAS_EMULATE_DOUBLE_PRECISION" and _set(settings, name, full):
            return f"{name}={settings.variables[name]}: float32 products may be computed in another format"
    if cuda and settings.tf32 == MIXED:
        return "torch's older and newer switches for TF32 contradict each other: set one of them"
    precision = settings.precisions["cuda_matmul" if cuda else "mkldnn_matmul"]
    if precision in _NARROWER:
        return narrowed_arithmetic(_NARROWER[precision], bias=True)
    if precision not in ("none", "ieee"):
        return f"no arithmetic is known for float32 products in {precision}"
    # What CUDA's libraries do with subnormals is not documented for every kernel.
    return fp32_arithmetic(bias=True, flush=cuda or settings.flush)


def _bfloat16(settings: ProductSettings, cuda: bool, segments: int | None) -> LinearArithmetic | str:
    if not cuda or not settings.bf16_reduction:
        return bf16_arithmetic(bias=True)
    return _split(bf16_arithmetic(bias=True), "bf16", segments)


def _float16(settings: ProductSettings, cuda: bool, segments: int | None) -> LinearArithmetic | str:
    if not cuda:
        if settings.architecture not in _X86 or settings.cpu_fp16_reduction:
            return f"float16 products on a {settings.architecture} CPU may accumulate in float16: not known"
        # The conversions between float16 and float32 keep float16's subnormals whatever the switch says.
        return fp16_arithmetic(bias=True, flush=False)
    if settings.fp16_accumulation:
        # Parts, if any, are float16 sums too: the count of one sum covers them.
        return replace(fp16_arithmetic(bias=True, flush=True), accumulate=FP16)
    if not settings.fp16_reduction:
        return fp16_arithmetic(bias=True, flush=True)
    return _split(fp16_arithmetic(bias=True, flush=True), "fp16", segments)


def _split(arithmetic: LinearArithmetic, name: str, segments: int | None) -> LinearArithmetic | str:
    if segments is None:
        return (
            f"partial sums may be rounded to {name} and how many is not known: declare the number of segments, or set "
            f"torch.backends.cuda.matmul.allow_{name}_reduced_precision_reduction = False"
        )
    return segmented_arithmetic(arithmetic, segments)


def _set(settings: ProductSettings, name: str, harmless: str) -> bool:
    return settings.variables.get(name, UNSET).upper() not in (UNSET.upper(), "", harmless)
