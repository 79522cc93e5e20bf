"""Questions to an Ethereum node: JSON-RPC over HTTP, and what a node shows of its chain."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from veristate.attest.chain.states import Block
from veristate.core import EnvironmentUnusableError, InputError, RefusedError

# A method and its parameters; the result as JSON has it.
Rpc = Callable[..., Any]


class NodeRefusedError(RefusedError):
    """The node answered with an error; `said` is its message, `data` what a contract reverted with."""

    def __init__(self, method: str, said: str, data: str | None = None) -> None:
        super().__init__(f"the node refused {method}: {said}")
        self.said = said
        self.data = data


class HttpNode:
    """A node behind a URL. Calling it asks one question: `node("eth_chainId")`."""

    def __init__(self, url: str, *, timeout_s: float = 20.0) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InputError(f"{url!r} is no http or https address of a node")
        self._url = url
        self._timeout_s = timeout_s

    def __call__(self, method: str, *parameters: Any) -> Any:
        """The result.

        Raises: NodeRefusedError for an error of the node; EnvironmentUnusableError when it can't be reached or does
        not speak JSON-RPC.
        """
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
            self._url, json.dumps(question).encode(), {"Content-Type": "application/json"}
        )
        # The address may hold an access key, so no message repeats it whole.
        name = urllib.parse.urlsplit(self._url).hostname
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as reply:  # noqa: S310
                answer = json.loads(reply.read())
        except (OSError, ValueError) as error:
            raise EnvironmentUnusableError(
                f"the node at {name} gave no answer to {method}: {error}; try later"
            ) from None
        if not isinstance(answer, dict) or not ("result" in answer or isinstance(answer.get("error"), dict)):
            raise EnvironmentUnusableError(
                f"the node at {name} does not speak JSON-RPC; give the address of one that does"
            )
        if refusal := answer.get("error"):
            data = refusal.get("data")
            raise NodeRefusedError(method, str(refusal.get("message")), data if isinstance(data, str) else None)
        return answer["result"]


class ChainView:
    """The chain as the node shows it during one round: its newest, safe and finalized blocks, and hashes by number.

    `safe` and `final` are None where the node has no such block, and nothing is then ever called safe or final.
    """

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._hashes: dict[int, str | None] = {}
        # Finality first: what is read later can only be newer, so nothing is called final too early.
        self.final = self._tagged("finalized")
        self.safe = self._tagged("safe")
        latest = rpc("eth_getBlockByNumber", "latest", False)
        self.latest = _block(latest)
        self.base_fee = int(latest.get("baseFeePerGas") or "0x0", 16)

    def hash_at(self, number: int) -> str | None:
        """The hash of the present chain's block with this number; None when the node has none."""
        if number not in self._hashes:
            found = self._rpc("eth_getBlockByNumber", hex(number), False)
            self._hashes[number] = None if found is None else found["hash"]
        return self._hashes[number]

    def _tagged(self, tag: str) -> Block | None:
        try:
            found = self._rpc("eth_getBlockByNumber", tag, False)
        except NodeRefusedError:
            return None
        return None if found is None else _block(found)


def _block(found: dict[str, Any]) -> Block:
    return Block(number=int(found["number"], 16), hash=found["hash"])
