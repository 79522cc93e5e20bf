"""Which device it was: name, index, driver, serial identity and host, so that a fault is laid at one device's door."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from veristate.core import EnvironmentUnusableError
from veristate.devices.settings import prepare_process, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """A device as torch and the system name it. `driver` is a GPU's kernel driver or a processor's microcode; `uuid` is
    empty where there is none; `cores` are the processor cores this process may use.
    """

    device: str
    name: str
    index: int
    driver: str
    uuid: str
    host: str
    cores: str

    @property
    def key(self) -> str:
        """A file name that stays the device's own when indices are dealt anew: its uuid, or its name and host."""
        kind = self.device.partition(":")[0]
        own = self.uuid or f"{self.name} {self.host}" + (f" {self.index}" if self.index else "")
        return re.sub(r"[^A-Za-z0-9]+", "-", f"{kind} {own}").strip("-").lower()


def prepare_device(device: str) -> DeviceIdentity:
    """The device, ready for probes: full products, no reduced-precision reductions, one host thread.

    Raises: InputError when torch knows no such device, EnvironmentUnusableError when it is not there.
    """
    prepare_process(device, 1)
    kind = torch.device(device)
    try:
        torch.zeros(1, device=kind)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise EnvironmentUnusableError(f"--device {device}: torch can't use it here ({reason}); use cpu") from error
    if kind.type == "cuda":
        kind = torch.device("cuda", torch.cuda.current_device() if kind.index is None else kind.index)
    return _identity(kind)


def _identity(device: torch.device) -> DeviceIdentity:
    cuda = device.type == "cuda"
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", "")) if cuda else ""
    return DeviceIdentity(
        device=str(device),
        name=read_settings(str(device))["device_name"].strip(),
        index=device.index or 0,
        driver=_cuda_driver() if cuda else _microcode(),
        uuid=uuid,
        host=platform.node(),
        cores=",".join(map(str, sorted(os.sched_getaffinity(0)))),
    )


def _cuda_driver() -> str:
    found = re.search(r"\b(\d+\.[\d.]*\d)\b", _text(Path("/proc/driver/nvidia/version")))
    return found.group(1) if found else "unknown"


def _microcode() -> str:
    found = re.search(r"^microcode\s*:\s*(\S+)", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    return f"microcode {found.group(1)}" if found else "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
