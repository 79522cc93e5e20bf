"""`veristate witness`: cosign the heads of other people's logs, and show when one of them forks."""

import json
from pathlib import Path
from typing import Annotated

import typer

from veristate.attest import Fork, NoteKey, NoteKind, SigningKey, Witness
from veristate.attest import serve as serve_http
from veristate.core import InputError, TamperError
from veristate.interfaces.cli import options as given

app = typer.Typer(
    help="Witness logs: never cosign two heads that don't continue each other.",
    no_args_is_help=True,
    add_completion=False,
)

Folder = Annotated[Path, typer.Option(help="The witness's key and what it cosigned.")]
Name = Annotated[str, typer.Option(help="The witness's name, like example.org/w1.")]
Logs = Annotated[list[str], typer.Option("--log", help="A log's verifier key; as often as there are logs.")]


@app.command()
def serve(
    name: Name,
    log: Logs,
    folder: Folder = Path("witness"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8099,
) -> None:
    """Answer POST /add-checkpoint (C2SP tlog-witness) until interrupted. Prints its line for policy files."""
    keys = [_log_key(text) for text in log]
    witness = Witness(folder, name=name, key=_key(folder), logs=keys)
    try:
        server = serve_http(witness, host=host, port=port)
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: {error.strerror}; choose another") from error
    typer.echo(f"witness {name} {witness.key} http://{host}:{server.server_port}")
    with server:
        server.serve_forever()


@app.command()
def key(name: Name, folder: Folder = Path("witness")) -> None:
    """Print the witness's line for policy files, its key made if there is none."""
    typer.echo(f"witness {name} {NoteKey(name=name, kind=NoteKind.WITNESS, public=_key(folder).public)}")


@app.command()
def forks(name: Name, log: Logs, folder: Folder = Path("witness"), json_output: given.Json = False) -> None:
    """Show the forks that were seen, each verified again from what the log signed; exit 3 when there are any."""
    keys = [_log_key(text) for text in log]
    found = Witness(folder, name=name, key=_key(folder), logs=keys).forks()
    said = [_proven(fork, keys) for fork in found]
    typer.echo(json.dumps({"forks": said}) if json_output else "\n".join(said) or "no fork was seen.")
    raise typer.Exit(3 if said else 0)


@app.command()
def check(
    evidence: Annotated[Path, typer.Argument(help="A fork's evidence, as a witness keeps it.")], log: Logs
) -> None:
    """Verify the evidence of a fork offline: exit 0 when the log's own key proves it, 3 when it doesn't."""
    try:
        data = evidence.read_bytes()
    except OSError as error:
        raise InputError(f"{evidence}: {error.strerror}") from error
    typer.echo(_proven(Fork.from_bytes(data), [_log_key(text) for text in log]))


def _proven(fork: Fork, keys: list[NoteKey]) -> str:
    origin = fork.one.head.origin
    mine = [key for key in keys if key.name == origin]
    if not mine:
        raise TamperError(f"the evidence is about {origin!r}, whose key is not given; add it with --log")
    return fork.prove(origin, mine)


def _log_key(text: str) -> NoteKey:
    key = NoteKey.parse(text)
    if key.kind is not NoteKind.LOG:
        raise InputError(f"{text}: not a log's key; ask with `veristate log key`")
    return key


def _key(folder: Path) -> SigningKey:
    return SigningKey.open(folder / "witness.pem")
