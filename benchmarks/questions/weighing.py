"""How surprised the small model is at an output of a sampled stage: the likelihood metric's part of the challenger."""

import http.client
import json
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path

from benchmarks.questions.bank import Place
from benchmarks.questions.fabrications import Tokenizer
from benchmarks.questions.pipeline import TEMPERATURE, Question, answer_request, read_request, retrieve
from veristate.agents.models import ChatRequest, LocalModel, Sampled, TokenChoice, small_model_weights
from veristate.attest.challenge import Metric, Weigh, metric_named
from veristate.core import InputError, UndecidedError

RULE = {"temperature": str(TEMPERATURE)}  # and llama.cpp's own limits


def text_metric(metric: Metric) -> Metric:
    """A metric of texts, on such artifacts."""
    return lambda a, b: metric(json.loads(a)["text"].encode(), json.loads(b)["text"].encode())


def likelihood(model: LocalModel, bank: Mapping[Place, Sampled], question: Question, stage: str) -> Metric:
    """The metric of the outputs of one question and stage."""
    if stage == "read":
        request = read_request(question, retrieve(question))
    else:
        request = answer_request(question, bank[question.id, "read", 0].text)
    weigh: Weigh = partial(weighed, model, request)
    return metric_named("likelihood", RULE, weigh=weigh)


def weighed(model: LocalModel, request: ChatRequest, output: bytes) -> Sequence[TokenChoice] | None:
    """The output token by token; None when it is no reply to the request.

    One that would be undecided accuses nobody: it is as unsurprising as no output.
    """
    try:
        return model.weigh(request, Sampled.from_bytes(output))
    except UndecidedError:
        return ()
    except InputError:
        return None


@contextmanager
def small_tokenizer() -> Iterator[Tokenizer]:
    """The small model's tokenizer, as its runtime splits a text: asked over a socket that only this user can reach."""
    import xllamacpp

    with tempfile.TemporaryDirectory() as folder:
        settings = xllamacpp.CommonParams()
        settings.model.path = str(small_model_weights())
        settings.n_ctx, settings.n_parallel, settings.n_threads_http = 256, 1, 1
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
        settings.warmup = settings.fit_params = settings.ui = settings.endpoint_slots = False
        address = str(Path(folder) / "model.sock")
        settings.hostnames = [address]
        server = xllamacpp.Server(settings)

        @cache
        def tokens(text: str) -> tuple[tuple[int, bytes], ...]:
            asked = _Local(address)
            asked.request("POST", "/tokenize", json.dumps({"content": text, "with_pieces": True}))
            rows = json.loads(asked.getresponse().read())["tokens"]
            asked.close()
            return tuple(_whole((row["id"], _piece(row["piece"])) for row in rows))

        yield tokens
        del server


def _piece(said: str | list[int]) -> bytes:
    """A token's bytes: told as numbers where they are no text by themselves."""
    return said.encode() if isinstance(said, str) else bytes(said)


def _whole(tokens: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The tokens as the runtime tells of them: the one that completes a character stands for its parts."""
    left = b""
    for number, piece in tokens:
        left += piece
        with suppress(UnicodeDecodeError):
            left.decode()
            yield number, left
            left = b""


class _Local(http.client.HTTPConnection):
    """HTTP to a socket in the file system."""

    def connect(self) -> None:
        """Connects to the path that stands for the host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)
