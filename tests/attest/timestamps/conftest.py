"""The timestamp authority of the tests, and the same behind an address."""

import http.server
import shutil
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from timestamp_authority import TestAuthority


@pytest.fixture(scope="module")
def tsa(tmp_path_factory):
    """The tests' authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no token can be signed")
    return TestAuthority(tmp_path_factory.mktemp("tsa"))


@pytest.fixture
def served(tsa):
    """The authority behind an address; what it answers is `served.answer(query)`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            query = self.rfile.read(int(self.headers["Content-Length"]))
            server.queries.append((self.headers["Content-Type"], query))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(server.answer(query))

        def log_message(self, *_arguments):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.queries = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
