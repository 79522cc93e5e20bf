"""One POST over HTTP that ends at its deadline whatever the server does.

A client's own timeout starts anew with every byte: a server that drips would hold the caller for hours. Here the
exchange runs in a thread, and at the deadline its socket is shut down under it.
"""

import http.client
import queue
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from veristate.core import InputError

ANSWER_UPPER = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer; `wait` is its Retry-After header, empty when there is none."""

    status: int
    wait: str
    body: bytes


def post(url: str, body: bytes, headers: Mapping[str, str], *, seconds: float) -> Answer:
    """The server's answer; redirections are not followed.

    Raises: TimeoutError when it is not complete after `seconds`; OSError when the exchange failed or the answer is
    longer than 4 MiB; InputError for an address that is no HTTP one.
    """
    connection, path = _connection(url, seconds)
    outcomes: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()
    opened: list[socket.socket] = []  # the connection gives its socket away with the answer's first line

    def exchange() -> None:
        try:
            connection.connect()
            opened.append(connection.sock)
            connection.request("POST", path, body=body, headers={**headers, "Connection": "close"})
            response = connection.getresponse()
            data = response.read(ANSWER_UPPER + 1)
            outcomes.put(Answer(status=response.status, wait=response.headers.get("Retry-After", ""), body=data))
        except Exception as error:  # handed over to the caller
            outcomes.put(error)
        finally:
            connection.close()

    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    try:
        outcome = outcomes.get(timeout=max(seconds, 0.0))
    except queue.Empty:
        raise TimeoutError(f"no complete answer within {seconds:.1f} s") from None
    finally:
        for sock in opened:
            with suppress(OSError, ValueError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread if it still reads
        thread.join(1.0)
    if isinstance(outcome, http.client.HTTPException):
        raise OSError(f"the server's answer is no HTTP: {outcome!r}") from outcome
    if isinstance(outcome, Exception):
        raise outcome
    if len(outcome.body) > ANSWER_UPPER:
        raise OSError(f"the server's answer is longer than {ANSWER_UPPER} bytes")
    return outcome


def _connection(url: str, seconds: float) -> tuple[http.client.HTTPConnection, str]:
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"{url!r} is no address of an endpoint: {error}") from error
    if parts.scheme not in kinds or not parts.hostname:
        raise InputError(f"{url!r} is no address of an endpoint; give one that begins with http:// or https://")
    # The socket's own timeout comes second: it only ends a thread that was left while it connected.
    return kinds[parts.scheme](parts.hostname, port, timeout=max(seconds, 0.0) + 1), parts.path or "/"
