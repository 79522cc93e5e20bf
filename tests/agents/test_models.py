"""A model behind an endpoint answers, fails or hangs; the caller always gets a reply or a reason, in time."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from veristate.agents.claims import ChatDecider, Claim, Document, Ending, Hit, Library, attempt_claim
from veristate.agents.models import ChatRequest, Endpoint
from veristate.agents.state import Message
from veristate.core import EnvironmentUnusableError, InputError

MESSAGES = (
    Message(role="system", content="Rules."),
    Message(role="user", content="Claim."),
    Message(role="assistant", content="{}"),
    Message(role="tool", content="Delivered."),
)
REQUEST = ChatRequest(messages=MESSAGES, schema={"type": "object"}, temperature=0.8, seed=3, max_tokens=12)
Handle = Callable[[BaseHTTPRequestHandler], None]


def completion(text: Any, stopped: str = "stop", tokens: int = 5, **usage: Any) -> bytes:
    """A chat completion."""
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, **usage}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": stopped}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


def answering(body: bytes, status: int = 200, **headers: str) -> Handle:
    """Answers with this."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return handle


class Server:
    """A real server that goes through a list of answers, the last one again and again, and keeps what it was asked."""

    def __init__(self) -> None:
        self.script: list[Handle] = []
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((self.path, dict(self.headers), json.loads(body)))
                handle = outer.script.pop(0) if len(outer.script) > 1 else outer.script[0]
                try:
                    handle(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Returns when it answers nobody any more."""
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server without a script yet."""
    made = Server()
    yield made
    made.close()


def endpoint(server: Server, **settings: Any) -> Endpoint:
    """An endpoint that doesn't really wait between attempts."""
    return Endpoint(**{"base_url": server.url, "model": "m", "deadline_s": 5.0, "pause": lambda _: None, **settings})


def test_a_request_as_it_goes_over_the_wire(server: Server, monkeypatch) -> None:
    """Model, history, schema and sampling as the interface spells them; the key in its header and in no record."""
    monkeypatch.setenv("A_KEY", "secret-1")
    server.script = [answering(completion("{}"))]
    model = endpoint(server, key_variable="A_KEY", extra={"top_k": 1})
    reply = model.reply(REQUEST)
    assert (reply.text, reply.stopped, reply.prompt_tokens, reply.reply_tokens, reply.attempts) == (
        "{}",
        "stop",
        9,
        5,
        1,
    )
    path, headers, body = server.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret-1"
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Rules."},
            {"role": "user", "content": "Claim."},
            {"role": "assistant", "content": "{}"},
            {"role": "user", "content": "Delivered."},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": {"type": "object"}},
        },
        "temperature": 0.8,
        "seed": 3,
        "max_tokens": 12,
        "top_k": 1,
    }
    assert "secret" not in str(dict(model.name)) + repr(model)


def test_a_missing_key_is_said_before_anything_is_sent(server: Server, monkeypatch) -> None:
    """The message names the variable."""
    monkeypatch.delenv("A_KEY", raising=False)
    with pytest.raises(InputError, match="A_KEY"):
        endpoint(server, key_variable="A_KEY").reply(REQUEST)
    assert not server.asked


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_asked_again(server: Server, status: int) -> None:
    """The reply says at which attempt it came."""
    server.script = [answering(b"busy", status), answering(completion("ok"))]
    assert endpoint(server).reply(REQUEST).attempts == 2
    assert server.asked[0][2] == server.asked[1][2]


def test_attempts_have_a_cap(server: Server) -> None:
    """Three, and the last failure is told; the pauses between them double."""
    pauses: list[float] = []
    server.script = [answering(b"down for the day", 500)]
    with pytest.raises(EnvironmentUnusableError, match=r"3 attempts.*status 500: down for the day"):
        endpoint(server, pause=pauses.append).reply(REQUEST)
    assert len(server.asked) == 3
    assert pauses == [0.5, 1.0]


def test_the_server_s_own_pause_is_kept(server: Server) -> None:
    """Retry-After in seconds; one that reaches beyond the deadline ends the attempts."""
    pauses: list[float] = []
    server.script = [answering(b"", 429, Retry_After="2"), answering(completion("ok"))]
    endpoint(server, pause=pauses.append).reply(REQUEST)
    assert pauses == [2.0]
    server.script = [answering(b"", 429, Retry_After="60")]
    with pytest.raises(EnvironmentUnusableError, match="1 attempts"):
        endpoint(server, pause=pauses.append).reply(REQUEST)


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_wrong_set_up_is_an_input_error_at_once(server: Server, status: int) -> None:
    """No attempt could do better, so none is made."""
    server.script = [answering(b"no such model", status)]
    with pytest.raises(InputError, match=f"status {status}.*no such model"):
        endpoint(server).reply(REQUEST)
    assert len(server.asked) == 1


def test_a_refused_request_fails_alone(server: Server) -> None:
    """A history too long for the model is the failure of this request, not of the set-up."""
    server.script = [answering(b"context exceeded", 400)]
    with pytest.raises(EnvironmentUnusableError, match="context exceeded"):
        endpoint(server).reply(REQUEST)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"<html>proxy</html>",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": "hello"}]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        completion("x", prompt_tokens="9"),
        b"[" * 200_000,
        b"\xff",
    ],
)
def test_what_is_no_completion_is_asked_again(server: Server, body: bytes) -> None:
    """Wrong JSON from the server, or none, is never a reply."""
    server.script = [answering(body)]
    with pytest.raises(EnvironmentUnusableError, match="2 attempts"):
        endpoint(server, attempts=2).reply(REQUEST)
    assert len(server.asked) == 2


def test_an_answer_that_is_cut_off_is_asked_again(server: Server) -> None:
    """Fewer bytes than announced are no answer."""
    whole = completion("ok")
    server.script = [answering(whole[:40], Content_Length=str(len(whole))), answering(whole)]

    def cut(request: BaseHTTPRequestHandler) -> None:
        answering(whole[:40], Content_Length=str(len(whole)))(request)
        request.close_connection = True
        request.connection.close()

    server.script[0] = cut
    assert endpoint(server).reply(REQUEST).attempts == 2


def test_an_endless_answer_is_cut(server: Server) -> None:
    """Four megabytes are the most that is read."""

    def flood(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not server.over.is_set():
            request.wfile.write(b" " * 65536)

    server.script = [flood]
    with pytest.raises(EnvironmentUnusableError, match="longer than 4194304 bytes"):
        endpoint(server, attempts=1).reply(REQUEST)


def hang(server: Server) -> Handle:
    """Says nothing."""
    return lambda request: server.over.wait(30) and None


def drip_headers(server: Server) -> Handle:
    """Sends a byte of a header every 50 ms."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not server.over.wait(0.05):
            request.wfile.write(b"x")

    return handle


def drip_body(server: Server) -> Handle:
    """Sends a byte of the body every 50 ms."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "100000")
        request.end_headers()
        while not server.over.wait(0.05):
            request.wfile.write(b" ")

    return handle


@pytest.mark.parametrize("how", [hang, drip_headers, drip_body])
def test_the_deadline_holds_whatever_the_server_does(server: Server, how: Callable[[Server], Handle]) -> None:
    """Silence and single bytes alike: the caller is free at the deadline, and no thread stays behind."""
    server.script = [how(server)]
    before = set(threading.enumerate())
    started = time.monotonic()
    with pytest.raises(EnvironmentUnusableError, match=r"no complete answer within 0\.[0-9] s"):
        endpoint(server, deadline_s=0.4).reply(REQUEST)
    assert time.monotonic() - started < 3
    mine = [t for t in set(threading.enumerate()) - before if t.name.endswith("(exchange)")]
    assert not mine


def test_nobody_there() -> None:
    """A refused connection is a failure with its reason."""
    with pytest.raises(EnvironmentUnusableError, match="refused"):
        Endpoint(base_url="http://127.0.0.1:9/v1", model="m", pause=lambda _: None).reply(REQUEST)


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InputError, match="no address"):
        Endpoint(base_url=address, model="m").reply(REQUEST)


@pytest.mark.parametrize("settings", [{"deadline_s": 0.0}, {"deadline_s": float("nan")}, {"attempts": 0}])
def test_settings_that_allow_no_request_are_refused(settings: dict[str, Any]) -> None:
    """When the endpoint is made."""
    with pytest.raises(InputError, match="allow no request"):
        Endpoint(base_url="http://host/v1", model="m", **settings)


def test_a_password_in_the_address_is_refused() -> None:
    """It would stand in every record, and in this message."""
    with pytest.raises(InputError) as refused:
        Endpoint(base_url="http://me:secret@host/v1", model="m")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("text", [None, ""])
def test_no_text_is_an_empty_reply(server: Server, text: str | None) -> None:
    """A refusal or a function call instead of text."""
    server.script = [answering(completion(text, "tool_calls"))]
    reply = endpoint(server).reply(REQUEST)
    assert (reply.text, reply.stopped) == ("", "tool_calls")


def test_text_that_is_no_unicode_can_be_recorded(server: Server) -> None:
    """A lone surrogate stays as the escape that it came as."""
    server.script = [answering(completion("\ud800"))]
    assert endpoint(server).reply(REQUEST).text == "\\ud800"


CALLS = {
    "search": '{"call":{"action":"search"}}',
    "read": '{"call":{"action":"read","document":"a"}}',
    "finish": '{"call":{"action":"finish","verdict":"SUPPORT","citations":[{"document":"a","sentences":[0]}]}}',
}


def attempt(server: Server, **settings: Any):
    """An attempt at a claim by the model behind the server."""
    held = {"a": Document(id="a", title="T", sentences=("Cats purr.",))}
    shown = Library(results=(Hit(document="a", score="0.5"),), documents=held)
    decider = ChatDecider(model=endpoint(server, **settings), temperature=0.8, seed=4)
    return attempt_claim(Claim(id="1", text="Cats purr."), shown, decider)


def test_an_attempt_over_the_wire(server: Server) -> None:
    """Each request holds the whole history so far; the tokens add up; a 500 in between is one more attempt."""
    server.script = [
        answering(completion(CALLS["search"])),
        answering(b"", 500),
        answering(completion(CALLS["read"])),
        answering(completion(CALLS["finish"], tokens=7)),
    ]
    made = attempt(server)
    assert (made.verdict, made.read, made.reply_tokens, made.prompt_tokens) == ("SUPPORT", ("a",), 17, 27)
    assert [turn.reply.attempts for turn in made.turns] == [1, 2, 1]
    sent = [body["messages"] for _, _, body in server.asked]
    assert [len(messages) for messages in sent] == [2, 4, 4, 6]
    assert [(m["role"], m["content"]) for m in sent[3]] == [
        ("user" if message.role == "tool" else message.role, message.content) for message in made.history(2)
    ]
    assert all((body["seed"], body["temperature"], body["max_tokens"]) == (4, 0.8, 384) for _, _, body in server.asked)
    assert json.loads(made.decider)["seed"] == "4"


def test_a_reply_that_the_server_cut_ends_the_attempt(server: Server) -> None:
    """The limit of tokens leaves half a call: invalid, as the protocol has it, and not asked again."""
    server.script = [answering(completion(CALLS["finish"][:30], "length", tokens=384))]
    made = attempt(server)
    assert (made.ending, len(server.asked)) == (Ending.INVALID, 1)
    assert "limit of 384" in made.reason


def test_a_reply_longer_than_asked_for_ends_the_attempt(server: Server) -> None:
    """Although it would have been a call."""
    server.script = [answering(completion(CALLS["search"], tokens=900))]
    assert attempt(server).ending is Ending.INVALID


def test_a_hanging_model_fails_the_attempt_and_keeps_what_was_done(server: Server) -> None:
    """The transcript holds the search and the reason."""
    server.script = [answering(completion(CALLS["search"])), hang(server)]
    made = attempt(server, deadline_s=0.3)
    assert (made.ending, made.retrieved) == (Ending.FAILED, ("a",))
    assert "no complete answer" in made.reason
