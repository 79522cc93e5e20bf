"""A group of subcommands one of which is meant when none is named."""

from typing import Any

from typer.core import TyperGroup


class RunFirst(TyperGroup):
    """`veristate audit STUDY.toml` is `veristate audit run STUDY.toml`: what names no subcommand is for `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments with the subcommand in front."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)
