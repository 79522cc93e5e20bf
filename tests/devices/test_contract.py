"""The switches that decide a product's arithmetic are read, then declared or refused; real products keep to it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from veristate.core import Verdict
from veristate.devices import ProductSettings, declared_arithmetic, prepare_process, read_settings
from veristate.devices import settings as settings_module
from veristate.devices.switches import MIXED
from veristate.numerics import BF16, FP16, FP32, TF32, LinearArithmetic, Operands, check_elements, fp32_arithmetic

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
PRECISIONS = [(b, op) for b in ("generic", "mkldnn", "cuda") for op in ("all", "matmul", "conv", "rnn")][:1] + [
    (b, op) for b in ("mkldnn", "cuda") for op in ("all", "matmul", "conv", "rnn")
]
PLAIN = ProductSettings(
    device="cuda:0",
    rocm=False,
    architecture="x86_64",
    instructions="sm_90",
    threads=1,
    flush=False,
    mkldnn=True,
    float32_matmul_precision="highest",
    precisions={f"{b}_{op}": "none" for b, op in PRECISIONS},
    tf32="false",
    bf16_reduction=False,
    bf16_split_k=True,
    fp16_reduction=False,
    fp16_split_k=True,
    fp16_accumulation=False,
    cpu_fp16_reduction=False,
    variables={},
)
ON_CPU = replace(PLAIN, device="cpu")


@pytest.fixture(autouse=True)
def _switches_restored() -> Iterator[None]:
    """All of torch's switches are left as they were found."""
    matmul, mkldnn, threads = torch.backends.cuda.matmul, torch.backends.mkldnn, torch.get_num_threads()
    names = (
        "allow_fp16_accumulation",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_reduced_precision_reduction",
    )
    before = {name: getattr(matmul, name) for name in names}
    found = {pair: torch._C._get_fp32_precision_getter(*pair) for pair in PRECISIONS}
    enabled, older = mkldnn.enabled, torch.get_float32_matmul_precision()
    yield
    mkldnn.enabled = enabled
    for name, value in before.items():
        setattr(matmul, name, value)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)
    torch.set_float32_matmul_precision(older)
    for pair, value in found.items():
        torch._C._set_fp32_precision_setter(*pair, value)
    assert torch.get_float32_matmul_precision() == older


def _set_matmul(name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(torch.backends.cuda.matmul, name, value)


def _set_precision(backend: str, op: str, value: str) -> Callable[[], None]:
    return lambda: torch._C._set_fp32_precision_setter(backend, op, value)


def _set(target: object, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(target, name, value)


BACKENDS = torch.backends
OLDER = {
    "float32_matmul_precision": "medium",
    "fp32_precision_mkldnn_matmul": "bf16",
    "fp32_precision_cuda_matmul": "tf32",
}
SWITCHES: dict[str, tuple[Callable[[], object], dict[str, str]]] = {
    "medium": (lambda: torch.set_float32_matmul_precision("medium"), OLDER | {"tf32": "true"}),
    "high": (
        lambda: torch.set_float32_matmul_precision("high"),
        {"float32_matmul_precision": "high", "fp32_precision_mkldnn_matmul": "tf32", "tf32": "true"},
    ),
    "allow_tf32": (
        _set_matmul("allow_tf32", True),
        {"tf32": "true", "fp32_precision_cuda_matmul": "tf32", "float32_matmul_precision": "high"},
    ),
    "all backends": (
        _set(BACKENDS, "fp32_precision", "bf16"),
        {"fp32_precision_generic_all": "bf16", "fp32_precision_mkldnn_conv": "bf16"},
    ),
    "mkldnn matmul": (
        _set(BACKENDS.mkldnn.matmul, "fp32_precision", "bf16"),
        {"fp32_precision_mkldnn_matmul": "bf16", "float32_matmul_precision": MIXED},
    ),
    "mkldnn all": (_set_precision("mkldnn", "all", "bf16"), {"fp32_precision_mkldnn_all": "bf16"}),
    "mkldnn conv": (_set(BACKENDS.mkldnn.conv, "fp32_precision", "bf16"), {"fp32_precision_mkldnn_conv": "bf16"}),
    "mkldnn rnn": (_set(BACKENDS.mkldnn.rnn, "fp32_precision", "bf16"), {"fp32_precision_mkldnn_rnn": "bf16"}),
    "cuda matmul": (
        _set_matmul("fp32_precision", "tf32"),
        {"fp32_precision_cuda_matmul": "tf32", "tf32": MIXED, "float32_matmul_precision": MIXED},
    ),
    "cudnn all": (_set(BACKENDS.cudnn, "fp32_precision", "tf32"), {"fp32_precision_cuda_all": "tf32"}),
    "cudnn conv": (_set(BACKENDS.cudnn.conv, "fp32_precision", "ieee"), {"fp32_precision_cuda_conv": "ieee"}),
    "cudnn rnn": (_set(BACKENDS.cudnn.rnn, "fp32_precision", "ieee"), {"fp32_precision_cuda_rnn": "ieee"}),
    "bf16 reduction": (
        _set_matmul("allow_bf16_reduced_precision_reduction", False),
        {"bf16_reduced_precision_reduction": "false"},
    ),
    "bf16 split": (
        _set_matmul("allow_bf16_reduced_precision_reduction", (False, False)),
        {"bf16_reduced_precision_reduction": "false", "bf16_split_k": "false"},
    ),
    "fp16 reduction": (
        _set_matmul("allow_fp16_reduced_precision_reduction", False),
        {"fp16_reduced_precision_reduction": "false"},
    ),
    "fp16 split": (
        _set_matmul("allow_fp16_reduced_precision_reduction", (False, False)),
        {"fp16_reduced_precision_reduction": "false", "fp16_split_k": "false"},
    ),
    "fp16 accumulation": (_set_matmul("allow_fp16_accumulation", True), {"fp16_accumulation": "true"}),
    "mkldnn": (_set(BACKENDS.mkldnn, "enabled", False), {"mkldnn": "false"}),
    "threads": (lambda: torch.set_num_threads(2), {"threads": "2"}),
    "flush": (lambda: torch.set_flush_denormal(True), {"flush_denormal": "true"}),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_is_read(name: str) -> None:
    """Turning a switch changes what is read of it, for the device it counts on, and makes another contract."""
    turn, expected = SWITCHES[name]
    before = {device: ProductSettings.read(device).describe() for device in ("cuda", "cpu")}
    turn()
    after = {device: ProductSettings.read(device).describe() for device in ("cuda", "cpu")}
    for key, value in expected.items():
        assert after["cuda"][key] == value != before["cuda"][key]
    on_cpu = {key: value for key, value in expected.items() if key in before["cpu"]}
    assert {key: after["cpu"][key] for key in on_cpu} == on_cpu
    assert (after["cpu"] == before["cpu"]) == (not on_cpu)


VARIABLES = ("MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "MKL_BLAS_COMPUTE_MODE")
CUDA_ONLY = ("NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION")


@pytest.mark.parametrize("name", [*VARIABLES, *CUDA_ONLY])
def test_every_variable_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that chooses kernels or formats stands in the contract of the device it counts on."""
    monkeypatch.setenv(name, "7")
    assert ProductSettings.read("cuda").describe()[name.lower()] == "7"
    assert (ProductSettings.read("cpu").describe().get(name.lower()) == "7") == (name in VARIABLES)


def test_settings_keep_their_keys_and_gain_the_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What contracts named before is named still, and every switch beside it, on either kind of device."""
    old = {"python", "torch", "numpy", "device", "device_name", "cpu_capability", "mkldnn", "threads"}
    old |= {"full_float32_products", "autocast_cache", "flush_denormal", "mkl_cbwr", "onednn_max_cpu_isa"}
    old |= {"dnnl_max_cpu_isa", "openblas_num_threads", "onednn_default_fpmath_mode", "dnnl_default_fpmath_mode"}
    on_cpu = read_settings("cpu")
    assert old | set(ProductSettings.read("cpu").describe()) == set(on_cpu)
    assert {"architecture", "instructions", "fp32_precision_mkldnn_matmul"} <= set(on_cpu)
    monkeypatch.setattr(settings_module, "_device_name", lambda _device: "a GPU")
    on_cuda = read_settings("cuda")
    assert set(on_cpu) | {"cuda", "cudnn", "tf32", "bf16_reduced_precision_reduction"} <= set(on_cuda)
    assert all(isinstance(value, str) for value in on_cuda.values())


def test_the_instruction_set_is_the_processors() -> None:
    """The instructions named are those the kernel's own list of the processor's flags has."""
    found = ProductSettings.read("cpu").instructions.split()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    if not flags:
        pytest.skip("no list of flags to compare with")
    for ours, theirs in (("avx2", "avx2"), ("avx512_bf16", "avx512_bf16"), ("amx_bf16", "amx_bf16")):
        assert (ours in found) == (theirs in flags)


def test_settings_travel_as_json() -> None:
    """What one process read another can take from JSON, and it declares the same."""
    read = ProductSettings.read("cpu")
    assert ProductSettings(**json.loads(json.dumps(asdict(read)))) == read


POOL = """
import torch
from veristate.devices.switches import flushes_subnormals
torch.set_num_threads(2)
assert not flushes_subnormals()
torch.set_flush_denormal(True)
torch.ones(1 << 20).mul(2)
torch.set_flush_denormal(False)
tiny = torch.full((1 << 20,), 2.0**-140) * 0.5
print(int((tiny == 0).sum()), flushes_subnormals())
torch.set_num_threads(1)
print(flushes_subnormals())
"""


def test_a_thread_that_kept_the_switch_is_noticed() -> None:
    """Turning flushing off leaves a pool's older threads flushing. It is read wherever such a thread works along."""
    done = subprocess.run(
        [sys.executable, "-c", POOL.replace("assert not flushes_subnormals()\n", "")],
        env=os.environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    (flushed, noticed), (alone,) = (line.split() for line in done.stdout.splitlines())
    assert (int(flushed) > 0) == (noticed == "True")
    assert alone == "False"


REASONS: dict[str, tuple[ProductSettings, str, str]] = {
    "other device": (replace(PLAIN, device="mps"), "float32", "mps devices"),
    "meta": (replace(PLAIN, device="meta"), "float64", "meta devices"),
    "rocm": (replace(PLAIN, rocm=True), "float32", "ROCm"),
    "int8": (ON_CPU, "int8", "outputs in int8"),
    "float8": (PLAIN, "float8_e4m3fn", "outputs in float8_e4m3fn"),
    "onednn": (replace(ON_CPU, variables={"ONEDNN_DEFAULT_FPMATH_MODE": "ANY"}), "float32", "MODE=ANY"),
    "dnnl": (replace(ON_CPU, variables={"DNNL_DEFAULT_FPMATH_MODE": "bf16"}), "float32", "MODE=bf16"),
    "mkl": (replace(ON_CPU, variables={"MKL_BLAS_COMPUTE_MODE": "FLOAT_TO_BF16X2"}), "float32", "BF16X2"),
    "tf32 override": (replace(PLAIN, variables={"NVIDIA_TF32_OVERRIDE": "1"}), "float32", "OVERRIDE=1"),
    "emulated": (replace(PLAIN, variables={"CUBLAS_EMULATE_SINGLE_PRECISION": "1"}), "float32", "SINGLE_PRECISION=1"),
    "emulated 64": (replace(PLAIN, variables={"CUBLAS_EMULATE_DOUBLE_PRECISION": "1"}), "float64", "integers"),
    "mixed": (replace(PLAIN, tf32=MIXED), "float32", "contradict"),
    "unknown format": (replace(ON_CPU, precisions={"mkldnn_matmul": "bf16x3"}), "float32", "in bf16x3"),
    "unknown on cuda": (replace(PLAIN, precisions={"cuda_matmul": "bf16x9"}), "float32", "in bf16x9"),
    "bf16 reduction": (replace(PLAIN, bf16_reduction=True), "bfloat16", "allow_bf16_reduced_precision_reduction"),
    "fp16 reduction": (replace(PLAIN, fp16_reduction=True), "float16", "allow_fp16_reduced_precision_reduction"),
    "fp16 on arm": (replace(ON_CPU, architecture="aarch64"), "float16", "aarch64"),
    "fp16 reduction on the cpu": (replace(ON_CPU, cpu_fp16_reduction=True), "float16", "accumulate in float16"),
}


@pytest.mark.parametrize("name", REASONS)
def test_every_unknown_is_told(name: str) -> None:
    """Where nothing tells what a healthy product does, the answer is a reason and no arithmetic."""
    settings, dtype, reason = REASONS[name]
    found = declared_arithmetic(settings, dtype, bias="none", terms=300)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    ("changes", "dtype", "terms"),
    [
        ({"fp16_accumulation": True}, "float16", 1000),
        ({}, "float32", 10**7),
        ({"bf16_reduction": True}, "bfloat16", 400),
    ],
)
def test_a_bound_as_large_as_the_sum_is_no_arithmetic(changes: dict, dtype: str, terms: int) -> None:
    """A sum so long, or split so often, that anything would pass is refused; a shorter one is not."""
    settings = replace(PLAIN, **changes)
    found = declared_arithmetic(settings, dtype, bias="none", terms=terms, segments=10**6)
    assert isinstance(found, str)
    assert "as much as it adds up" in found
    assert isinstance(declared_arithmetic(settings, dtype, bias="none", terms=50, segments=10**6), LinearArithmetic)


def declared(settings: ProductSettings, dtype: str, **options: object) -> LinearArithmetic:
    """The arithmetic, where there is one."""
    found = declared_arithmetic(settings, dtype, **({"bias": "none", "terms": 300} | options))
    assert isinstance(found, LinearArithmetic), found
    return found


def _on_cpu_in(precision: str) -> ProductSettings:
    return replace(ON_CPU, precisions={"mkldnn_matmul": precision})


def test_what_torch_documents_is_declared() -> None:
    """Operands, accumulation, storage and roundings by the documentation; what flushes or narrows is allowed to."""
    table = [
        (ON_CPU, "float64", ("fp64", "fp64", "fp64", "false", "none", "0")),
        (ON_CPU, "float32", ("fp32", "fp32", "fp32", "false", "none", "0")),
        (replace(ON_CPU, flush=True), "float32", ("fp32", "fp32", "fp32", "true", "none", "0")),
        (ON_CPU, "bfloat16", ("bf16", "fp32", "bf16", "true", "none", "0")),
        (ON_CPU, "float16", ("fp16", "fp32", "fp16", "false", "none", "0")),
        (replace(ON_CPU, flush=True), "float16", ("fp16", "fp32", "fp16", "false", "none", "0")),
        (
            replace(ON_CPU, precisions={"mkldnn_matmul": "bf16"}),
            "float32",
            ("bf16", "fp32", "fp32", "true", "bf16", "4"),
        ),
        (
            replace(ON_CPU, precisions={"mkldnn_matmul": "tf32"}),
            "float32",
            ("tf32", "fp32", "fp32", "true", "tf32", "4"),
        ),
        (PLAIN, "float32", ("fp32", "fp32", "fp32", "true", "none", "0")),
        (replace(PLAIN, precisions={"cuda_matmul": "tf32"}), "float32", ("tf32", "fp32", "fp32", "true", "tf32", "4")),
        (PLAIN, "bfloat16", ("bf16", "fp32", "bf16", "true", "none", "0")),
        (PLAIN, "float16", ("fp16", "fp32", "fp16", "true", "none", "0")),
        (replace(PLAIN, fp16_accumulation=True), "float16", ("fp16", "fp16", "fp16", "true", "none", "0")),
    ]
    for settings, dtype, expected in table:
        found = declared(settings, dtype).describe()
        names = ("operands", "accumulate", "storage", "flush", "intermediate", "nodes")
        assert tuple(found[name] for name in names) == expected
        assert found["bias"] == "none"


@pytest.mark.parametrize("bias", ["none", "fused", "separate"])
def test_the_bias_is_where_it_was_said_to_be(bias: str) -> None:
    """The declaration keeps where the bias is added, in every format."""
    for dtype in DTYPES:
        assert declared(ON_CPU, dtype, bias=bias).bias == bias


@pytest.mark.parametrize(("dtype", "form"), [("bfloat16", BF16), ("float16", FP16)])
def test_split_sums_are_declared_with_their_parts(dtype: str, form: object) -> None:
    """J parts and J - 1 sums of them round to the output's format; one is no split; a part has a term."""
    settings = replace(PLAIN, bf16_reduction=True, fp16_reduction=True)
    eight = declared(settings, dtype, segments=8)
    assert (eight.intermediate, eight.nodes, eight.accumulate, eight.storage) == (form, 15, FP32, form)
    assert declared(settings, dtype, segments=1) == declared(PLAIN, dtype)
    assert declared(settings, dtype, segments=99, terms=3).nodes == 5


def _switch_mode(mode: str) -> None:
    if mode == "mkldnn off":
        torch.backends.mkldnn.enabled = False
    elif mode == "flush":
        torch.set_flush_denormal(True)
    elif mode in ("medium", "high"):
        torch.set_float32_matmul_precision(mode)
    elif mode != "plain":
        torch.backends.mkldnn.matmul.fp32_precision = mode


MODES = ["plain", "mkldnn off", "flush", "medium", "high", "bf16", "tf32"]
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x.contiguous(),
    "transposed": lambda x: x.T.contiguous().T,
    "strided": lambda x: torch.stack([x, torch.zeros_like(x)], dim=-1).flatten(1)[:, ::2],
    "reversed rows": lambda x: x.flip(0)[torch.arange(len(x) - 1, -1, -1)],
    "rows apart": lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]],
}
SIZES = [(1, 300, 5), (1, 64, 64), (40, 300, 300), (130, 147, 33), (7, 1, 1), (64, 1024, 48)]


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]


def product(
    X: np.ndarray,
    W: np.ndarray,
    b: np.ndarray | None,
    dtype: torch.dtype,
    layout: str = "contiguous",
    three: bool = False,
) -> Arrays:
    """A real product of torch on this CPU: its operands as represented, and its output."""
    x, w = (LAYOUTS[layout](torch.from_numpy(a).to(dtype)) for a in (X, W))
    c = None if b is None else torch.from_numpy(b).to(dtype)
    y = torch.nn.functional.linear(x[None] if three else x, w, c).reshape(len(x), len(w))
    return x.double().numpy(), w.double().numpy(), None if c is None else c.double().numpy(), y.double().numpy()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_real_products_keep_what_is_declared(dtype: str, mode: str) -> None:
    """Every element of torch's products on this CPU is inside the bound declared for the switches as they were read,
    for any layout of the operands, with and without a bias, for vectors, batches and long sums.
    """
    _switch_mode(mode)
    read = ProductSettings.read("cpu")
    for number, (M, K, N) in enumerate(SIZES):
        rng = np.random.default_rng(number)
        for scale, layout in zip((1.0, 1e-2, 3.0, 1.0, 1.0), LAYOUTS, strict=True):
            X, W, b = (rng.normal(size=shape) * scale for shape in ((M, K), (N, K), N))
            if layout == "reversed rows":
                X[:, 1::2], W[:, 1::2] = -X[:, : K - K % 2 : 2], W[:, : K - K % 2 : 2]  # sums that nearly cancel
            for bias in (None, b):
                call = Operands.of(*product(X, W, bias, DTYPES[dtype], layout, bool(number % 2)))
                kind = "none" if bias is None else "separate"
                cells = check_elements(call, declared(read, dtype, bias=kind, terms=K))
                assert cells.verdict() is Verdict.PASS, (M, K, N, layout)


def test_narrowed_products_are_flagged_only_where_they_were_not_declared() -> None:
    """Where this CPU multiplies float32 in bfloat16, the strict contract flags it and the declared one passes; older
    and newer switch declare the same.
    """
    rng = np.random.default_rng(5)
    X, W = rng.normal(size=(40, 300)), rng.normal(size=(300, 300))
    strict = fp32_arithmetic(bias=False, flush=True)
    assert check_elements(Operands.of(*product(X, W, None, torch.float32)), strict).verdict() is Verdict.PASS
    found = {}
    for mode in ("medium", "bf16"):
        _switch_mode(mode)
        found[mode] = declared(ProductSettings.read("cpu"), "float32")
        x, w, _, y = product(X, W, None, torch.float32)
        assert check_elements(Operands.of(x, w, None, y), found[mode]).verdict() is Verdict.PASS
    assert found["medium"] == found["bf16"]
    share = check_elements(Operands.of(x, w, None, y), strict).flag.mean()
    if not share:
        pytest.skip("this processor multiplies float32 in float32 whatever the switch says")
    assert share > 0.5
    # The declared bound is about 4 * 2^-8 of the sum of products: a fault of a tenth of that sum is beyond it.
    y[3, 4] += 0.1 * float(np.abs(x[3]) @ np.abs(w[4]))
    flagged = check_elements(Operands.of(x, w, None, y), found["bf16"]).flag
    assert np.argwhere(flagged).tolist() == [[3, 4]]


def test_an_operand_beyond_the_narrower_format_does_not_fit() -> None:
    """3.4e38 is finite in float32 and infinite in bfloat16: NaN may be healthy though the sum is small, and what is
    declared says that this operand does not fit.
    """
    _switch_mode("bf16")
    arithmetic = declared(ProductSettings.read("cpu"), "float32")
    X, W = np.full((64, 300), 3.4e38), np.zeros((300, 300))
    W[:, 0] = 1e-3
    _, _, _, y = product(X, W, None, torch.float32)
    assert not arithmetic.operands_fit(3.4e38)
    assert arithmetic.operands_fit(3.3e38)
    assert declared(ON_CPU, "float32").operands_fit(3.4e38)
    if np.isnan(y).any():
        assert not arithmetic.overflow_possible(float(np.abs(X[0]) @ np.abs(W[0])), 300)


def test_preparing_a_process_leaves_nothing_unknown() -> None:
    """After `prepare_process` every format has an arithmetic on the CPU, whatever was switched before."""
    for turn in (lambda: _switch_mode("medium"), lambda: _switch_mode("bf16"), SWITCHES["all backends"][0]):
        turn()
        prepare_process("cpu", 1)
        read = ProductSettings.read("cpu")
        assert read.float32_matmul_precision == "highest"
        assert declared(read, "float32") == declared(ON_CPU, "float32")
    assert declared(replace(PLAIN, precisions={"cuda_matmul": "tf32"}), "float32").operands is TF32
