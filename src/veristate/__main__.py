"""`python -m veristate` is the command."""

from veristate.interfaces.cli import main

main()
