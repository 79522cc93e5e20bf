"""The command `veristate`: parse, call, print."""

from veristate.interfaces.cli.app import main

__all__ = ["main"]
