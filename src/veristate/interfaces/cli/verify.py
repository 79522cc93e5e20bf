"""`veristate verify`: judge an exported run offline, with the base install."""

import json
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import Export, read_export, unix_seconds
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli import timestamp as stamping
from veristate.interfaces.cli.opening import read_policy


def command(
    file: Annotated[Path, typer.Argument(help="The export.")],
    policy: Annotated[
        Path | None, typer.Option(help="Whom to believe: logs, witnesses, quorum (C2SP tlog-policy).")
    ] = None,
    authority: stamping.AuthorityFile = None,
    json_output: given.Json = False,
) -> None:
    """Verify an export: exit 0 when everything holds, 3 when something differs, 4 without the quorum, 5 when it holds
    only by the keys that the file itself suggests, since no --policy was given.
    """
    found = read_export(
        file,
        read_policy(policy) if policy else None,
        now=unix_seconds(),
        authority=stamping.read_authority(authority),
    )
    code = _code(found, believed=policy is not None)
    if json_output:
        typer.echo(json.dumps(_content(found, code)))
    else:
        typer.echo("\n".join(_said(found, code)))
    raise typer.Exit(code)


def _code(found: Export, *, believed: bool) -> int:
    kinds = {finding.kind for finding in found.findings}
    if kinds - {"quorum"}:
        return 3
    if kinds:
        return 4
    return 0 if believed else 5


def _content(found: Export, code: int) -> dict[str, object]:
    steps = [
        {
            "place": step.place,
            "stage": step.commitment.stage,
            "execution": step.commitment.execution,
            "signature": str(step.standing),
        }
        for step in found.steps
    ]
    return {
        "verdict": {0: "verified", 3: "tampered", 4: "no quorum", 5: "by its own keys only"}[code],
        "origin": found.contents.origin if found.contents else None,
        "recorder": found.contents.recorder if found.contents else None,
        "steps": steps,
        "redacted": list(found.contents.redacted) if found.contents else [],
        "cosigned": dict(found.cosigned),
        "timestamps": {size: time.isoformat() if time else None for size, time in found.stamps.items()},
        "findings": [{"kind": str(f.kind), "path": f.path, "detail": f.detail} for f in found.findings],
    }


def _said(found: Export, code: int) -> list[str]:
    lines = [f"{f.path}: {f.kind}: {f.detail}" for f in found.findings]
    if code in (3, 4):
        return [*lines, "TAMPERED, or not what it says it is." if code == 3 else "NO QUORUM of witnesses."]
    origin = found.contents.origin if found.contents else ""
    lines += [
        f"place {s.place:>6}  {s.commitment.stage}, execution {s.commitment.execution}: {s.standing}"
        for s in found.steps
    ]
    redacted = len(found.contents.redacted) if found.contents else 0
    by = ", ".join(found.cosigned) or "no witness"
    lines.append(
        f"{len(found.steps)} steps are in the log {origin}, whose head {by} cosigned; {redacted} artifacts redacted."
    )
    lines += [
        f"The head of {size} entries existed at {time.isoformat()}, signs the authority."
        if time
        else f"The head of {size} entries has a timestamp, which is judged with --authority."
        for size, time in found.stamps.items()
    ]
    if code == 5:
        lines.append(
            "UNDECIDED: that holds by keys which only the file itself names. Give --policy with keys you trust:"
        )
        lines += ["  " + line for line in found.suggested.splitlines()]
    return lines
