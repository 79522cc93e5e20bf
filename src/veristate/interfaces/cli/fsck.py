"""`veristate fsck`: is everything in a store what was written?"""

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    store: Annotated[Path, typer.Option(help="Folder of blobs, journal and commitments.")] = Path(".veristate"),
    json_output: Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of text.")] = False,
) -> None:
    """Read every byte of a store and every journal entry again; exit 3 when something is not what was written."""
    from veristate.core import InputError
    from veristate.ledger import Ledger
    from veristate.store import Store

    if not (store / "ledger.sqlite").is_file():
        raise InputError(f"--store {store}: no store of veristate is there")
    with Ledger.open(store / "ledger.sqlite") as ledger:
        wrong = [f"journal entry {found.seq}: {found.kind}: {found.detail}" for found in ledger.verify()]
        entries, head = sum(1 for _ in ledger.entries()) if not wrong else 0, ledger.head() if not wrong else ""
    blobs = Store.open(store / "objects").fsck()
    wrong += [f"{found.path}: {found.kind}: {found.detail}" for found in blobs if not found.harmless]
    if json_output:
        typer.echo(json.dumps({"findings": wrong, "entries": entries, "journal_head": head}))
    elif wrong:
        typer.echo("\n".join(wrong))
    else:
        typer.echo(f"{entries} journal entries and every blob are what was written; head {head}")
    raise typer.Exit(3 if wrong else 0)
