"""`veristate export`: one file with which a stranger verifies a run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import Home, export_run
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.opening import open_recorder


def command(
    run: Annotated[Path, typer.Argument(help="The store in which the run was committed to.")] = Path(".veristate"),
    out: Annotated[Path, typer.Option(help="The file to write; an RO-Crate that any zip program opens.")] = Path(
        "run.zip"
    ),
    redact: Annotated[
        list[str] | None, typer.Option(help="Leave out artifacts of this name or digest. They stay committed to.")
    ] = None,
    json_output: given.Json = False,
) -> None:
    """Export what a run committed to, with proofs: `veristate verify` needs nothing else, but whom to believe."""
    with open_recorder(run) as recorder:
        contents = export_run(Home.open(recorder), out, redact=frozenset(redact or ()))
    if json_output:
        said = {"file": str(out), "redacted": list(contents.redacted), "pending": contents.pending}
        typer.echo(json.dumps(said))
        return
    left_out = f", {len(contents.redacted)} artifacts left out" if contents.redacted else ""
    pending = f", {contents.pending} commitments not published yet and so not in it" if contents.pending else ""
    typer.echo(f"{out}: {out.stat().st_size:,} bytes{left_out}{pending}.")
    typer.echo(f"Whoever verifies needs a policy that names log {contents.origin}, by another way than this file.")
