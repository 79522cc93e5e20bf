"""`veristate fsck`: is everything in a store what was written?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from veristate.core import InputError, TamperError
from veristate.interfaces.cli import options as given
from veristate.ledger import Ledger
from veristate.store import Store

# The fields of journal entries and of findings that name blobs.
_BLOBS = {"blob", "table", "findings"}


def command(store: given.StoreFolder = Path(".veristate"), json_output: given.Json = False) -> None:
    """Read every byte of a store and every journal entry again; exit 3 when something is not what was written."""
    if not (store / "ledger.sqlite").is_file():
        raise InputError(f"--store {store}: no store of veristate is there")
    entries, head = 0, ""
    with Ledger.open(store / "ledger.sqlite") as ledger:
        wrong = [f"journal entry {found.seq}: {found.kind}: {found.detail}" for found in ledger.verify()]
        if not wrong:
            contents = [entry.content for entry in ledger.entries()]
            entries, head = len(contents), ledger.head()
            wrong += _objects(store / "objects", contents)
    if json_output:
        typer.echo(json.dumps({"findings": wrong, "entries": entries, "journal_head": head}))
    elif wrong:
        typer.echo("\n".join(wrong))
    else:
        typer.echo(f"{entries} journal entries and every blob they name are what was written; head {head}")
    raise typer.Exit(3 if wrong else 0)


def _objects(folder: Path, contents: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the blobs, those that are missing included."""
    if not (folder / "format").is_file():
        return [f"{folder}: the store is missing"]
    store = Store.open(folder)
    if not contents and any(path.is_file() for path in (folder / "blobs").rglob("*")):
        return ["the journal is empty, but the store holds blobs: entries were lost"]
    named = {name for content in contents for name in _named(content, _BLOBS | {"checkpoint"})}
    trees: set[str] = set()
    try:
        for name in sorted(named):
            named |= _inside(store, name, trees)
    except TamperError as error:
        return [str(error)]
    missing = [f"blob {name}: missing" for name in sorted(named) if not store.has(name)]
    return missing + [f"{f.path}: {f.kind}: {f.detail}" for f in store.fsck(trees) if not f.harmless]


def _inside(store: Store, name: str, trees: set[str]) -> set[str]:
    """The blobs that a findings or a checkpoint blob names in turn; file trees are added to `trees`."""
    try:
        content = json.loads(store.get(name)) if store.has(name) else None
    except ValueError:  # an array, a table
        content = None
    if not isinstance(content, dict):
        return set()
    found = set(_named(content, _BLOBS))
    if "namespace" in content:
        trees.add(content["files"])
        found.add(content["namespace"])
        if store.has(content["namespace"]):
            manifest = json.loads(store.get(content["namespace"]))
            found |= {manifest["pickle"], *manifest["buffers"]}
    return found


def _named(content: Any, fields: set[str]) -> Iterator[str]:
    """The digests that stand in such fields, at any depth."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name in fields and isinstance(value, str):
                yield value
            else:
                yield from _named(value, fields)
    elif isinstance(content, list):
        for value in content:
            yield from _named(value, fields)
