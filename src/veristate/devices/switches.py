"""What this process would multiply matrices with: torch's switches, the processor's, and the variables that count."""

import os
import platform
from dataclasses import dataclass

import torch

# Beside the value each of them has where float32 products on that device are full ones.
CPU_VARIABLES = {
    "ONEDNN_DEFAULT_FPMATH_MODE": "STRICT",
    "DNNL_DEFAULT_FPMATH_MODE": "STRICT",
    "MKL_BLAS_COMPUTE_MODE": "STANDARD",
}
CUDA_VARIABLES = {
    "NVIDIA_TF32_OVERRIDE": "0",
    "CUBLAS_EMULATE_SINGLE_PRECISION": "0",
    "CUBLAS_EMULATE_DOUBLE_PRECISION": "0",
}
# oneDNN and MKL choose kernels by these; a run under another value is another computation.
KERNEL_VARIABLES = ("MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OPENBLAS_NUM_THREADS", *CPU_VARIABLES)
UNSET, MIXED = "unset", "mixed"

# torch's own pairs of backend and operation. What one says falls back to its backend's "all", then to generic.
_CPU_PRECISIONS = (("generic", "all"), ("mkldnn", "all"), ("mkldnn", "matmul"), ("mkldnn", "conv"), ("mkldnn", "rnn"))
_CUDA_PRECISIONS = (("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn"))
_INSTRUCTIONS = ("amx", "avx", "bf16", "fma", "fp16", "i8mm", "neon", "sme", "sve")
# torch gives an elementwise operation to a further thread for every so many elements.
_GRAIN = 32768


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSettings:
    """The switches that decide the arithmetic of a product on `device`, as they stand when read.

    `precisions` says for each of torch's backends and operations which format its float32 products may use ("none" and
    "ieee": float32). `float32_matmul_precision` is the older switch, `tf32` the oldest; "mixed" where torch refuses to
    say since newer and older switches contradict each other. `instructions` are the processor's, or the compute
    capability of the CUDA device. `variables` are those of the environment; "unset" where there is none.
    """

    device: str
    rocm: bool
    architecture: str
    instructions: str
    threads: int
    flush: bool
    mkldnn: bool
    float32_matmul_precision: str
    precisions: dict[str, str]
    tf32: str
    bf16_reduction: bool
    bf16_split_k: bool
    fp16_reduction: bool
    fp16_split_k: bool
    fp16_accumulation: bool
    cpu_fp16_reduction: bool
    variables: dict[str, str]

    @classmethod
    def read(cls, device: str) -> "ProductSettings":
        """This process's settings for that device. Reads switches alone: the device need not be there."""
        on_cuda = torch.device(device).type == "cuda"
        matmul = torch.backends.cuda.matmul
        names = (*KERNEL_VARIABLES, *(CUDA_VARIABLES if on_cuda else ()))
        return cls(
            device=str(torch.device(device)),
            rocm=torch.version.hip is not None,
            architecture=platform.machine().lower(),
            instructions=_capability(device) if on_cuda else _instructions(),
            threads=torch.get_num_threads(),
            flush=flushes_subnormals(),
            mkldnn=bool(torch.backends.mkldnn.enabled) and torch._C._has_mkldnn,
            float32_matmul_precision=float32_matmul_precision(),
            precisions=_precisions(on_cuda),
            tf32=_tf32(),
            bf16_reduction=bool(matmul.allow_bf16_reduced_precision_reduction),
            bf16_split_k=bool(matmul.allow_bf16_reduced_precision_reduction_split_k),
            fp16_reduction=bool(matmul.allow_fp16_reduced_precision_reduction),
            fp16_split_k=bool(matmul.allow_fp16_reduced_precision_reduction_split_k),
            fp16_accumulation=bool(matmul.allow_fp16_accumulation),
            cpu_fp16_reduction=bool(torch._C._get_cpu_allow_fp16_reduced_precision_reduction()),  # type: ignore[attr-defined]
            variables={name: os.environ.get(name, UNSET) for name in names},
        )

    def describe(self) -> dict[str, str]:
        """The switches that count on this device, as strings for a contract."""
        found = {
            "architecture": self.architecture,
            "instructions": self.instructions,
            "threads": str(self.threads),
            "flush_denormal": _word(self.flush),
            "mkldnn": _word(self.mkldnn),
            "float32_matmul_precision": self.float32_matmul_precision,
            "cpu_fp16_reduced_precision_reduction": _word(self.cpu_fp16_reduction),
        }
        found |= {f"fp32_precision_{name}": value for name, value in self.precisions.items()}
        if torch.device(self.device).type == "cuda":
            found |= {
                "rocm": _word(self.rocm),
                "tf32": self.tf32,
                "bf16_reduced_precision_reduction": _word(self.bf16_reduction),
                "bf16_split_k": _word(self.bf16_split_k),
                "fp16_reduced_precision_reduction": _word(self.fp16_reduction),
                "fp16_split_k": _word(self.fp16_split_k),
                "fp16_accumulation": _word(self.fp16_accumulation),
            }
        return found | {name.lower(): value for name, value in self.variables.items()}


def flushes_subnormals() -> bool:
    """Whether any thread of this process's pool reads or writes float32 subnormals as zero, by trying it.

    A thread keeps the switch it was born with: torch's own changes the calling thread alone.
    """
    threads = torch.get_num_threads()
    tiny = torch.full((2 * _GRAIN * threads if threads > 1 else 1,), 2.0**-140)
    return bool((tiny * 0.5 == 0).any().item())


def float32_matmul_precision() -> str:
    """What the older switch says: "highest", "high" or "medium"; "mixed" where the newer ones contradict it."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return MIXED


def _tf32() -> str:
    try:
        return _word(bool(torch.backends.cuda.matmul.allow_tf32))
    except RuntimeError:
        return MIXED


def _precisions(on_cuda: bool) -> dict[str, str]:
    pairs = (*_CPU_PRECISIONS, *(_CUDA_PRECISIONS if on_cuda else ()))
    return {f"{b}_{op}": str(torch._C._get_fp32_precision_getter(b, op)) for b, op in pairs}


def _instructions() -> str:
    found = torch.cpu.get_capabilities()
    return " ".join(sorted(name for name, has in found.items() if has is True and name.startswith(_INSTRUCTIONS)))


def _capability(device: str) -> str:
    if not torch.cuda.is_available():
        return UNSET
    major, minor = torch.cuda.get_device_capability(torch.device(device))
    return f"sm_{major}{minor}"


def _word(value: bool) -> str:
    return str(value).lower()
