"""The witness over HTTP: POST <prefix>/add-checkpoint. Standard library; TLS is for what stands before it."""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from veristate.attest.signing import NOTE_BYTES_UPPER
from veristate.attest.witness.state import Answer, Witness
from veristate.core import VeristateError

_PATH = "/add-checkpoint"
_TIMEOUT_S = 30.0


def serve(witness: Witness, *, host: str, port: int) -> ThreadingHTTPServer:
    """A server that answers once its `serve_forever` runs; port 0 takes a free one."""

    class Handler(_Handler):
        asked = witness

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server


class _Handler(BaseHTTPRequestHandler):
    asked: Witness
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S
    server_version = "veristate-witness"
    sys_version = ""

    def do_POST(self) -> None:
        """Answers one request."""
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or int(length) > NOTE_BYTES_UPPER:
            # The body is not read, so the connection can't be used again.
            self.close_connection = True
            self._answer(Answer(status=HTTPStatus.BAD_REQUEST, body=f"a body of at most {NOTE_BYTES_UPPER} bytes\n"))
            return
        body = self.rfile.read(int(length))
        if self.path != _PATH:
            self._answer(Answer(status=HTTPStatus.NOT_FOUND, body=f"only {_PATH} is here\n"))
            return
        try:
            answer = self.asked.add_checkpoint(body)
        except VeristateError as error:
            answer = Answer(status=HTTPStatus.INTERNAL_SERVER_ERROR, body=f"{error}\n")
        self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        data = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Says nothing: what matters is on the disk."""
