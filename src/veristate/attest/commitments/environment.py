"""What of this machine an output may depend on, by names that policies use."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# Instruction sets that a library takes another path for: sums in another order, products that are rounded once.
_NUMERIC = ("sse4_2", "avx", "f16c", "fma", "amx", "asimd", "sve", "sme", "bf16")


def environment_of(*libraries: str) -> dict[str, str]:
    """Python, system, machine and processor, and the versions of those libraries that are installed."""
    found = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    return found | processor_of(_CPUINFO) | {name: held for name in libraries if (held := _version(name))}


@cache
def processor_of(cpuinfo: Path) -> dict[str, str]:
    """The first processor's model, and those of its instruction sets that floats depend on, as Linux tells them; else
    what Python calls the processor. What is not known is not named. Floats are the same bit for bit on one kind alone.
    """
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        first = ""
    pairs = (line.partition(":") for line in first.splitlines())
    said = {name.strip().lower(): value.strip() for name, _, value in pairs}
    flags = (said.get("flags") or said.get("features") or "").split()
    found = {
        "processor": said.get("model name") or platform.processor(),
        "instructions": " ".join(sorted(flag for flag in flags if flag.startswith(_NUMERIC))),
    }
    return {name: value for name, value in found.items() if value}


@cache
def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
