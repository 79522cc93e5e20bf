"""Checking whatever torch computes, in two lines: `with checked(model) as checks: y = model(x)`."""

from veristate.devices.checked.outcome import Checks, Finding
from veristate.devices.checked.watching import checked

__all__ = ["Checks", "Finding", "checked"]
