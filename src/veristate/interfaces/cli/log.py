"""`veristate log`: what was committed to, how far each commitment has come, and proofs that it is in the log."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from veristate.attest import (
    Commitment,
    Envelope,
    Home,
    Item,
    LogProof,
    Recorder,
    State,
    unix_seconds,
)
from veristate.core import InputError, TamperError
from veristate.interfaces.cli import anchor, log_fsck
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli import timestamp as stamping
from veristate.interfaces.cli.opening import open_recorder, read_policy

# A shorter text is a place; a log of 10^8 entries can still be asked about each.
_PREFIX = 9

app = typer.Typer(help="Commitments, their transparency log, and proofs.", no_args_is_help=True, add_completion=False)
app.command(name="anchor")(anchor.command)
app.command(name="fsck")(log_fsck.command)

Policy = Annotated[Path, typer.Option(help="Whom to believe: logs, witnesses, quorum (C2SP tlog-policy).")]


@app.command()
def show(
    store: given.StoreFolder = Path(".veristate"),
    every: Annotated[bool, typer.Option("--all", help="List every commitment, not the last twenty.")] = False,
    json_output: given.Json = False,
) -> None:
    """Show the commitments of a store and how far each has come: pending, logged, witnessed, anchored."""
    with open_recorder(store) as recorder:
        items = [_line(item, state) for item, state in recorder.outbox.items()]
        counts = Counter(line["state"] for line in items)
        stamps = [asdict(stamp) for stamp in recorder.outbox.stamps().values()]
        if json_output:
            said = {"recorder": recorder.id, "origin": recorder.origin, "commitments": items, "timestamps": stamps}
            typer.echo(json.dumps(said))
            return
        typer.echo(f"recorder {recorder.id[:16]}, log {recorder.origin}")
        typer.echo(", ".join(f"{counts[state]} {state}" for state in State if counts[state]) + ".")
        for stamp in stamps[-1:]:
            typer.echo(f"timestamp: the head of {stamp['size']} entries existed at {stamp['time']}.")
        for line in items if every else items[-20:]:
            place = "-" if line["place"] is None else line["place"]
            typer.echo(
                f"{line['sequence']:>6} {line['state']:<9} place {place:<6} {line['what']}  {line['payload'][:16]}"
            )


@app.command()
def deliver(store: given.StoreFolder = Path(".veristate"), json_output: given.Json = False) -> None:
    """Bring pending commitments into the log, and its head to the witnesses of STORE/log.policy.

    Exit 4 when something stays pending or the quorum is missing; run it again later.
    """
    with open_recorder(store) as recorder:
        done = Home.open(recorder).deliver()
    held = {**done.delivery.unreachable, **done.delivery.refused}
    shown = done.witnessing.checkpoint
    if json_output:
        said = {
            "logged": done.delivery.logged,
            "held_back": held,
            "published_size": shown.head.size if shown else None,
            "cosigned": dict(done.witnessing.times),
            "refused": dict(done.witnessing.refused),
        }
        typer.echo(json.dumps(said))
    else:
        typer.echo(f"{done.delivery.logged} commitments logged.")
        for what, why in held.items():
            typer.echo(f"held back: {what[:16]}: {why}")
        for name, why in done.witnessing.refused.items():
            typer.echo(f"witness {name}: {why}")
        cosigned = ", ".join(done.witnessing.times) or "no witness"
        typer.echo(
            f"head of {shown.head.size} entries published, cosigned by {cosigned}."
            if shown
            else "NOT PUBLISHED: no quorum; the head before stays."
        )
    raise typer.Exit(0 if shown and not held else 4)


@app.command()
def prove(
    what: Annotated[str, typer.Argument(help="A place in the log, or nine digits or more of a payload's digest.")],
    store: given.StoreFolder = Path(".veristate"),
    out: Annotated[
        Path | None,
        typer.Option(help="Write FILE.tlog-proof, the entry, FILE.dsse.json, and the head's timestamp, FILE.tsr."),
    ] = None,
) -> None:
    """Prove that a commitment is in the log, at the head that is published; without --out on stdout."""
    with open_recorder(store) as recorder:
        home = Home.open(recorder)
        item = _chosen(recorder, what)
        if item.place is None:
            raise InputError(f"commitment {item.payload[:16]} is pending: not in the log; run `veristate log deliver`")
        proof = home.log.prove(item.place)
        files = {".tlog-proof": str(proof).encode(), ".dsse.json": item.envelope}
        if stamp := recorder.outbox.stamps().get(str(proof.checkpoint.head)):
            files[".tsr"] = recorder.store.get(stamp.reply)
    if out is None:
        typer.echo(str(proof), nl=False)
        return
    base = out.with_name(out.name.removesuffix(".tlog-proof"))
    # What an earlier call left there is another head's: `log verify` would take it for this one's.
    base.with_name(base.name + ".tsr").unlink(missing_ok=True)
    for suffix, data in files.items():
        path = base.with_name(base.name + suffix)
        path.write_bytes(data)
        typer.echo(str(path))


@app.command()
def verify(
    proof: Annotated[Path, typer.Argument(help="The .tlog-proof file.")],
    entry: Annotated[
        Path, typer.Option(help="The entry it is about, byte for byte. Default: beside it, .dsse.json.")
    ] = Path(),
    policy: Policy = Path("log.policy"),
    authority: stamping.AuthorityFile = None,
    timestamp: Annotated[
        Path, typer.Option(help="The head's timestamp, judged with --authority. Default: beside it, .tsr.")
    ] = Path(),
    json_output: given.Json = False,
) -> None:
    """Verify a proof offline: exit 0 when it holds, 3 when something differs, 4 without the quorum.

    With --authority the head's timestamp must hold too.
    """
    if authority is None and timestamp != Path():
        raise InputError("--timestamp needs --authority FILE: the root certificates that it is judged by")
    trust = read_policy(policy)
    base = proof.name.removesuffix(".tlog-proof")
    if entry == Path():
        entry = proof.with_name(base + ".dsse.json")
    found = LogProof.parse(_read(proof))
    data = _read(entry)
    origin = found.checkpoint.head.origin
    keys = [key for key in trust.logs if key.name == origin]
    if not keys:
        raise TamperError(f"{proof}: {policy} believes no log {origin!r}; add its key, or don't trust the proof")
    head = found.trusted(data, origin=origin, keys=keys)
    times = trust.quorum.require(found.checkpoint.note, unix_seconds())
    believed = stamping.read_authority(authority)
    stamp = proof.with_name(base + ".tsr") if timestamp == Path() else timestamp
    existed = stamping.judged(stamp, head, believed).isoformat() if believed else None
    said = {"origin": origin, "place": found.index, "size": head.size, "cosigned": times, "what": _what(data)}
    said["timestamp"] = existed
    if json_output:
        typer.echo(json.dumps(said))
        return
    by = ", ".join(times) or "no witness (the policy asks for none)"
    typer.echo(
        f"{said['what']} is entry {found.index} of {origin}, under a head of {head.size} entries cosigned by {by}."
        + (f" It existed at {existed}, signs the authority." if existed else "")
    )


@app.command()
def key(store: given.StoreFolder = Path(".veristate")) -> None:
    """Print the log's verifier key as a policy line, for those who are to believe it."""
    with open_recorder(store) as recorder:
        typer.echo(f"log {Home.open(recorder).log.key}")


def _line(item: Item, state: State) -> dict[str, Any]:
    return {
        "sequence": item.sequence,
        "state": str(state),
        "place": item.place,
        "payload": item.payload,
        "what": _what(item.envelope),
    }


def _what(entry: bytes) -> str:
    """What an entry says, in a few words; it may be anything."""
    try:
        envelope = Envelope.from_bytes(entry)
        said = Commitment.from_envelope(envelope)
    except TamperError:
        return "a key event" if b"key+json" in entry else "an entry"
    return f"step {said.stage!r}, execution {said.execution}"


def _chosen(recorder: Recorder, what: str) -> Item:
    """The one item that is meant. Raises: InputError when none is, or several are."""
    items = [item for item, _ in recorder.outbox.items()]
    if len(what) >= _PREFIX:
        found = [item for item in items if item.payload.startswith(what)]
    else:
        found = [item for item in items if what.isdecimal() and item.place == int(what)]
    if len(found) != 1:
        raise InputError(f"{what!r} names {len(found)} of {len(items)} commitments; see `veristate log show`")
    return found[0]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
