"""`veristate log fsck`: read a log by its public format alone."""

import json
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import AuditFinding, Home, LogAudit, LogReport, NoteKey, check_log
from veristate.core import InputError
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli.opening import open_recorder, read_policy


def command(
    folder: Annotated[
        Path | None, typer.Argument(help="A log in the public layout. Default: the one in --store.")
    ] = None,
    key: Annotated[
        str, typer.Option(help="The log's verifier key. Needed with a folder, unless --policy names it.")
    ] = "",
    policy: Annotated[
        Path | None, typer.Option(help="A C2SP tlog-policy, whose witnesses' lines under the head are judged too.")
    ] = None,
    store: given.StoreFolder = Path(".veristate"),
    entries: Annotated[
        bool, typer.Option("--entries", help="Judge what entries say: numbers, executions, predecessors, signatures.")
    ] = False,
    json_output: given.Json = False,
) -> None:
    """Read every byte of a log by its public format alone; exit 3 when something is not what its head says."""
    trust = read_policy(policy) if policy else None
    if folder is None:
        with open_recorder(store) as recorder:
            home = Home.open(recorder)
            folder, key, trust = home.log.folder, key or str(home.log.key), trust or home.trust
    elif not key and trust and len(trust.logs) == 1:
        key = str(trust.logs[0])
    if not key:
        raise InputError("a log is read with its verifier key: --key name+hash+base64, or --policy that names one log")
    believed = NoteKey.parse(key)
    audit, said = LogAudit(believed.name), list[AuditFinding]()
    report = check_log(
        folder,
        str(believed),
        witnesses=[str(witness) for witness in (trust.quorum.witnesses if trust else ())],
        each=lambda place, entry: said.extend(audit.read(place, entry) if entries else ()),
    )
    _say(report, said, json_output)
    raise typer.Exit(0 if report.whole and not said else 3)


def _say(report: LogReport, said: list[AuditFinding], json_output: bool) -> None:
    """Prints what `fsck` read."""
    found = [f"{f.path}: {f.kind}: {f.detail}" for f in report.findings]
    found += [f"entry {f.place}: {f.kind}: {f.detail}" for f in said]
    if json_output:
        whole = report.whole and not said
        told = {"origin": report.origin, "size": report.size, "findings": found, "whole": whole}
        typer.echo(json.dumps(told | {"cosigned": report.cosigned, "unjudged": report.unjudged}))
        return
    typer.echo("\n".join(found) or f"all {report.size} entries of {report.origin} are what its head says.")
    if report.cosigned:
        typer.echo(f"cosigned by {', '.join(report.cosigned)}.")
    if report.unjudged:
        typer.echo(f"not judged, for want of their keys (see --policy): the lines of {', '.join(report.unjudged)}.")
