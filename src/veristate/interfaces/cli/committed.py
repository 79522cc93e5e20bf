"""Where a command's steps are committed to, and what its user hears of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from veristate.attest import Boundary


@contextmanager
def committed_in(store: Path) -> Iterator[Boundary]:
    """A block whose steps are committed to in `store`. A commitment that can't be made is told and stops nothing."""
    boundary = Boundary(store, tell=lambda why: typer.echo(f"veristate: {why}", err=True))
    try:
        yield boundary
    finally:
        boundary.close()
        if boundary.missing:
            typer.echo(f"veristate: {boundary.missing} steps are not committed to; nobody can challenge them", err=True)
        if boundary.made:
            typer.echo(
                f"veristate: {boundary.made} steps are committed to in {store}, pending; "
                f"`veristate log deliver --store {store}` brings them into the log",
                err=True,
            )
