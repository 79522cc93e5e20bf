"""The settings of a process that decide which bits a forward pass gives: they belong to the contract."""

import os
import platform
from pathlib import Path

import numpy as np
import torch

from veristate.core import EnvironmentUnusableError, InputError
from veristate.devices.switches import CPU_VARIABLES, ProductSettings, float32_matmul_precision


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
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_accumulation = False


def read_settings(device: str) -> dict[str, str]:
    """What this process would compute with, as strings: what is known to decide which bits it gives."""
    settings = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "device": str(torch.device(device)),
        "device_name": _device_name(device),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "full_float32_products": str(full_float32_products()).lower(),
        "autocast_cache": str(torch.is_autocast_cache_enabled()).lower(),
    }
    if torch.device(device).type == "cuda":
        settings |= {
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        }
    return settings | ProductSettings.read(device).describe()


def full_float32_products() -> bool:
    """Whether this process is known to multiply float32 matrices in float32 and not in a narrower format."""
    full = all(os.environ.get(name, value).upper() == value for name, value in CPU_VARIABLES.items())
    return full and float32_matmul_precision() == "highest"


def _device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(torch.device(device))
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor()} {platform.machine()}"
