"""The command's entry: its subcommands, and how an error becomes a message and an exit code."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from veristate import __version__
from veristate.core import EnvironmentUnusableError, VeristateError
from veristate.interfaces.cli import (
    audit,
    calibrate,
    challenge,
    data,
    export,
    fsck,
    log,
    probe,
    research,
    screen,
    verify,
    witness,
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

app = typer.Typer(
    name="veristate",
    help="Let a research agent's work be acted on: checked, kept, certified, committed once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="screen")(screen.command)
app.command(name="calibrate")(calibrate.command)
app.command(name="fsck")(fsck.command)
app.command(name="probe")(probe.command)
app.command(name="data")(data.command)
app.add_typer(audit.app, name="audit")
app.add_typer(research.app, name="research")
app.command(name="export")(export.command)
app.command(name="verify")(verify.command)
app.command(name="challenge")(challenge.command)
app.add_typer(log.app, name="log")
app.add_typer(witness.app, name="witness")


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
