"""Compiles the optional C kernel while the package is built; where that can't be done, numba's does its work."""

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path("src/veristate/numerics/kernels")


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """`cc -O3` on passes.c, which includes its parts, into a library beside it that `kernels/native.py` loads."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the library and puts it into the wheel. VERISTATE_NATIVE=0 leaves it out."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        wanted = os.environ.get("VERISTATE_NATIVE", "1") != "0"
        if not wanted or not compiler or platform.machine() not in ("x86_64", "AMD64") or os.name != "posix":
            self.app.display_info("without the C kernel: numba computes the checks")
            return
        folder = Path(self.root) / KERNELS
        # Built beside its place and moved there whole: a process that has the old one open keeps it.
        fresh = folder / "_passes.so.new"
        command = [*compiler.split(), "-O3", "-shared", "-fPIC", "-o", str(fresh), str(folder / "passes.c")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            self.app.display_warning(f"without the C kernel: {' '.join(command)} failed\n{done.stderr}")
            return
        fresh.replace(folder / "_passes.so")
        build_data["artifacts"].append(str(KERNELS / "_passes.so"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
