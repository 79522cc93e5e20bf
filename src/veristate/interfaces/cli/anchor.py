"""`veristate log anchor`: write the published head to an EVM chain, and say how far it has come there; or have an
authority sign the time at which it existed.
"""

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import Head, Home, LogReader, fetch_from
from veristate.attest.chain import Account, Anchorer, HttpNode, Standing, State, Transactions, deploy, deployed_at
from veristate.core import InputError
from veristate.interfaces.cli import options as given
from veristate.interfaces.cli import timestamp as stamping
from veristate.interfaces.cli.opening import open_recorder

KEY_VARIABLE = "VERISTATE_CHAIN_KEY"
PAUSE_S = 2.0


def command(
    node: Annotated[str | None, typer.Option(help="The JSON-RPC address of a node.")] = None,
    store: given.StoreFolder = Path(".veristate"),
    contract: Annotated[str | None, typer.Option(help="Address of the LogHeads contract.")] = None,
    new_contract: Annotated[bool, typer.Option("--deploy", help="Deploy the contract first, once.")] = False,
    key_file: Annotated[
        Path | None, typer.Option(help=f"File with the account's key in hexadecimal; else {KEY_VARIABLE}.")
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the head to be final.")] = 0.0,
    timestamp: Annotated[
        str | None, typer.Option(help="Address of a timestamp authority (RFC 3161), with a node or without.")
    ] = None,
    authority: stamping.AuthorityFile = None,
    json_output: given.Json = False,
) -> None:
    """Anchor the published head: exit 0 when it is final, 5 while it is not; run it again, it goes on.

    Queued, submitted, mined and safe heads are not anchored: a reorganisation may take them back. A timestamp says when
    the head existed, and keeps nobody from showing another one elsewhere.
    """
    if node is None and timestamp is None:
        raise InputError("give --node ADDRESS of a chain's node, or --timestamp URL of a timestamp authority")
    with open_recorder(store) as recorder:
        home = Home.open(recorder)
        head = home.log.published().head
        if not head.size:
            raise InputError("nothing is under a published head; run `veristate log deliver` first")
        # With --json there is one object at the end; the timestamp of a head is in the journal by then.
        stamped = {} if timestamp is None else stamping.ask(home, head, timestamp, authority)
        if stamped and not json_output:
            typer.echo(stamping.said_of(stamped))
        if node is None:
            if json_output:
                typer.echo(json.dumps(stamped))
            return
        transactions = Transactions.open(
            recorder.folder / "chain.sqlite", rpc=HttpNode(node), account=Account(_key(key_file))
        )
        try:
            address = _address(transactions, contract, new_contract, wait)
            anchorer = Anchorer(
                transactions,
                address=address,
                prove=lambda old, new: LogReader(fetch_from(recorder.folder / "log"), new).consistency(old),
            )
            standing = _followed(anchorer, head, wait)
            done = anchorer.anchored(head)
        finally:
            transactions.close()
        if done and recorder.outbox.anchored_size() < head.size:
            recorder.outbox.anchored(head.size, {"contract": address, "transaction": standing.transaction or ""})
    if json_output:
        typer.echo(json.dumps(stamped | _content(head, standing, address, done=done)))
    else:
        typer.echo("\n".join(_said(head, standing, address, done=done)))
    raise typer.Exit(0 if done else 5)


def _key(path: Path | None) -> bytes:
    text = os.environ.get(KEY_VARIABLE, "")
    if path is not None:
        try:
            text = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--key-file {path} can't be read as hexadecimal") from error
    try:
        return bytes.fromhex(text.strip().removeprefix("0x"))
    except ValueError:
        # What was given is a secret, or nearly one: the message doesn't hold it.
        raise InputError("the account's key is not hexadecimal") from None


def _address(transactions: Transactions, given_address: str | None, new: bool, wait: float) -> str:
    """The contract's address: as given, or where ours was deployed."""
    if given_address is not None:
        return given_address
    if not new:
        raise InputError("--contract ADDRESS of a LogHeads contract is needed, or --deploy for one of your own")
    deploy(transactions, "LogHeads")
    deadline = time.monotonic() + max(wait, PAUSE_S)
    while True:
        transactions.poll()
        address = deployed_at(transactions, "LogHeads")
        if address is not None:
            return address
        if time.monotonic() > deadline:
            raise InputError("the contract is on its way to the chain; run this again with --deploy")
        time.sleep(PAUSE_S / 10)


def _followed(anchorer: Anchorer, head: Head, wait: float) -> Standing:
    """Where the head stands after `wait` seconds at most."""
    anchorer.submit(head)
    deadline = time.monotonic() + wait
    while True:
        anchorer.poll()
        standing = anchorer.standing(head)
        settled = standing.state in (State.FINAL, State.REFUSED, State.REVERTED)
        if settled or anchorer.anchored(head) or time.monotonic() >= deadline:
            return standing
        time.sleep(min(PAUSE_S, max(0.0, deadline - time.monotonic())))


def _content(head: Head, standing: Standing, address: str, *, done: bool) -> dict[str, object]:
    return {
        "size": head.size,
        "root": head.root.hex(),
        "contract": address,
        "state": str(standing.state),
        "transaction": standing.transaction,
        "block": standing.block.number if standing.block else None,
        "anchored": done,
        "reason": standing.reason,
    }


def _said(head: Head, standing: Standing, address: str, *, done: bool) -> list[str]:
    reason = f" ({standing.reason})" if standing.reason else ""
    return [
        f"head of {head.size} entries: {standing.state}{reason}; contract {address}.",
        "ANCHORED: final on the chain." if done else "NOT ANCHORED yet; run it again later.",
    ]
