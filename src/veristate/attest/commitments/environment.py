"""What of this machine an output may depend on, by names that policies use."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


def environment_of(*libraries: str) -> dict[str, str]:
    """Python, system and machine, and the versions of those libraries that are installed."""
    found = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    return found | {name: held for name in libraries if (held := _version(name))}


@cache
def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
