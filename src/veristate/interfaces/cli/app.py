"""The command's entry: its subcommands, and how an error becomes a message and an exit code."""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from veristate import __version__
from veristate.core import EnvironmentUnusableError, VeristateError

# Each is the module of this package with that name: its `app` where it has parts, else its `command`.
_SUBCOMMANDS = (
    "screen",
    "calibrate",
    "fsck",
    "probe",
    "data",
    "audit",
    "research",
    "export",
    "verify",
    "challenge",
    "log",
    "witness",
)

# What the base install lacks, and which extra brings it.
_EXTRAS = {
    "numpy": "compute",
    "numba": "compute",
    "torch": "compute",
    "cloudpickle": "compute",
    "chemprop": "chem",
    "rdkit": "chem",
    "sklearn": "audit",
}


class _Subcommands(TyperGroup):
    """Imports a subcommand when it is asked for: none waits for what another needs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_SUBCOMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _SUBCOMMANDS:
            return None
        module = import_module(f"{__package__}.{cmd_name}")
        parts = getattr(module, "app", None)
        if parts is None:
            parts = typer.Typer(add_completion=False)
            parts.command(name=cmd_name)(module.command)
        found = typer.main.get_command(parts)
        found.name = cmd_name
        return found


app = typer.Typer(
    name="veristate",
    cls=_Subcommands,
    help="Let a research agent's work be acted on: checked, kept, certified, committed once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"veristate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What holds for every subcommand."""


def main() -> None:
    """Runs the command. An error of ours is one line on stderr and its exit code; anything else is a bug and shows."""
    # Before a command imports numpy or torch: the two processes of a run share the cores, one thread each.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # A user's module:factory is looked for where the user stands, as `python -m` does.
    sys.path.insert(0, str(Path.cwd()))
    try:
        app()
    except VeristateError as error:
        sys.stderr.write(f"veristate: {error}\n")
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        if extra is None:
            raise
        sys.stderr.write(f"veristate: this needs {error.name}: pip install 'veristate[{extra}]'\n")
        sys.exit(EnvironmentUnusableError.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("veristate: interrupted; nothing was committed after the last journal entry\n")
        sys.exit(130)
