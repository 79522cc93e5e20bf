"""The settings of a process that decide which bits a forward pass gives: they belong to the contract."""

import os
import platform
from pathlib import Path

import numpy as np
import torch

from veristate.core import EnvironmentUnusableError, InputError

# oneDNN may multiply float32 matrices in a narrower format when one of these says so.
_FPMATH_VARIABLES = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")
# oneDNN and MKL choose kernels by these; a run under another value is another computation.
_KERNEL_VARIABLES = ("MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OPENBLAS_NUM_THREADS", *_FPMATH_VARIABLES)


def prepare_process(device: str, threads: int) -> None:
    """Makes this process compute with `threads` threads and full float32 products on `device`.

    Raises: InputError when torch knows no such device, EnvironmentUnusableError when it is not there.
    """
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"--device {device}: torch knows no such device; use cpu or cuda") from error
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    # The fused transformer layer would compute its linear layers where no watch sees them and no counter counts them.
    torch.backends.mha.set_fastpath_enabled(False)
    if wanted.type == "cuda":
        if not torch.cuda.is_available():
            raise EnvironmentUnusableError(f"--device {device}: torch sees no CUDA device here; use cpu")
        if (wanted.index or 0) >= torch.cuda.device_count():
            raise EnvironmentUnusableError(f"--device {device}: torch sees {torch.cuda.device_count()} CUDA devices")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def read_settings(device: str) -> dict[str, str]:
    """What this process would compute with, as strings: what is known to decide which bits it gives."""
    settings = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "device": str(torch.device(device)),
        "device_name": _device_name(device),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": str(bool(torch.backends.mkldnn.enabled) and torch._C._has_mkldnn).lower(),
        "threads": str(torch.get_num_threads()),
        "full_float32_products": str(full_float32_products()).lower(),
        "autocast_cache": str(torch.is_autocast_cache_enabled()).lower(),
        "flush_denormal": str(flushes_subnormals()).lower(),
    }
    if torch.device(device).type == "cuda":
        matmul = torch.backends.cuda.matmul
        settings |= {
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "tf32": str(bool(matmul.allow_tf32)).lower(),
            "bf16_reduced_precision_reduction": str(bool(matmul.allow_bf16_reduced_precision_reduction)).lower(),
        }
    return settings | {name.lower(): os.environ.get(name, "unset") for name in _KERNEL_VARIABLES}


def full_float32_products() -> bool:
    """Whether this process is known to multiply float32 matrices in float32 and not in a narrower format."""
    modes = {os.environ.get(name, "STRICT").upper() for name in _FPMATH_VARIABLES}
    try:
        return modes == {"STRICT"} and torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:
        # torch refuses to say when its older and its newer switches were mixed.
        return False


def flushes_subnormals() -> bool:
    """Whether this thread reads or writes float32 subnormals as zero, by trying it."""
    tiny = torch.full((1,), 2.0**-140)
    return bool((tiny * 0.5 == 0).item())


def _device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(torch.device(device))
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor()} {platform.machine()}"
