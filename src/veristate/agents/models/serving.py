"""The process in which the local model runs: `python -m veristate.agents.models.serving IN OUT WEIGHTS CONTEXT`.

It answers one frame with one frame until the other side closes, and then ends at once, also in the middle of a reply.
The one place where xllamacpp is imported.
"""

import os
import select
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import xllamacpp

from veristate.agents.namespace.wire import receive, send


def main(requests: int, replies: int, weights: str, context: int) -> None:
    """Returns when the other side has closed."""
    threading.Thread(target=_end_with, args=(requests,), daemon=True).start()
    server = _server(weights, context)
    send(replies, {"ready": True})
    while True:
        try:
            body, _ = receive(requests)
        except EOFError:
            return
        send(replies, _answer(server, body))


def _answer(server: Any, body: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"completion": server.handle_chat_completions(body)}
    except Exception as error:  # told to the other side
        return {"failed": str(error)}


def _server(weights: str, context: int) -> Any:
    """The server of one slot and one thread. Its socket is in a folder of our own that is gone before the first
    request: nobody else can talk to it.
    """
    settings = xllamacpp.CommonParams()
    settings.model.path = weights
    settings.n_ctx = context
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.n_threads_http = 1
    settings.n_gpu_layers = 0
    # A reply is a function of its request alone: nothing of an earlier prompt is kept.
    settings.cache_prompt = False
    settings.cache_ram_mib = 0
    settings.n_ctx_checkpoints = 0
    settings.ctx_shift = False
    settings.warmup = settings.fit_params = settings.ui = settings.endpoint_slots = False
    with tempfile.TemporaryDirectory() as folder:
        settings.hostnames = [str(Path(folder) / "model.sock")]
        return xllamacpp.Server(settings)


def _end_with(requests: int) -> None:
    """Ends the process when the other side of the pipe is closed."""
    poll = select.poll()
    poll.register(requests, 0)  # a closed pipe is reported without being asked for
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
