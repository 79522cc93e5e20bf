"""Nodes for the tests: py-evm behind JSON-RPC, anvil as a process, a chain whose every block the test decides; and an
RFC 6962 tree by its definition.
"""

import ast
import hashlib
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import eth_abi
import pytest
from eth_account import Account as Signer
from eth_account.typed_transactions import TypedTransaction
from eth_tester import EthereumTester, PyEVMBackend
from eth_tester.exceptions import BlockNotFound, TransactionFailed, TransactionNotFound
from eth_utils import keccak
from hexbytes import HexBytes

from veristate.attest.chain import HttpNode, NodeRefusedError, contract
from veristate.core import EnvironmentUnusableError

SAFE_DEPTH, FINAL_DEPTH = 2, 4
# py-evm raises the limit for the whole process, after which deep nesting anywhere ends the tests by a signal.
sys.setrecursionlimit(1000)
KEYS = (
    "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
)


def node_modules(package):
    """The folder of an npm package below VERISTATE_NODE_MODULES; skips the test when it is not there."""
    folder = os.environ.get("VERISTATE_NODE_MODULES")
    if not folder:
        pytest.skip("VERISTATE_NODE_MODULES names no folder with npm packages (docs/decisions, 27)")
    path = Path(folder) / package
    if not path.is_dir():
        pytest.skip(f"{path} is not there: npm install it (docs/decisions, 27)")
    return path


@contextmanager
def anvil(*options):
    """Anvil on a free port, with the hard fork it takes by default; safe and final follow by 2 and 4 blocks."""
    binary = node_modules("@foundry-rs/anvil-linux-amd64") / "bin" / "anvil"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(binary), "--silent", "--port", str(port), "--slots-in-an-epoch", "2", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    node = HttpNode(f"http://127.0.0.1:{port}")
    try:
        for _ in range(400):
            try:
                node("eth_chainId")
                break
            except EnvironmentUnusableError:
                time.sleep(0.025)
        yield AnvilNode(node)
    finally:
        process.kill()
        process.wait()


class AnvilNode:
    """Anvil with the same handle as the others."""

    def __init__(self, node):
        self._node = node

    def __call__(self, method, *parameters):
        """The node's answer."""
        return self._node(method, *parameters)

    def mine(self, count=1):
        """Adds blocks, the first with what waits."""
        self("anvil_mine", hex(count))

    def height(self):
        """The number of the newest block."""
        return int(self("eth_blockNumber"), 16)


class EvmNode:
    """py-evm, as eth-tester runs it, behind the JSON-RPC methods that our client uses. It mines at once."""

    def __init__(self):
        self.tester = EthereumTester(PyEVMBackend())
        rich = self.tester.get_accounts()[0]
        for key in KEYS:
            address = Signer.from_key(key).address
            self.tester.send_transaction({"from": rich, "to": address, "value": 10**21, "gas": 21000})

    def __call__(self, method, *parameters):
        """The answer that a node would give."""
        return getattr(self, method)(*parameters)

    def mine(self, count=1):
        """Adds blocks."""
        self.tester.mine_blocks(count)

    def height(self):
        """The number of the newest block."""
        return self.tester.get_block_by_number("latest")["number"]

    def eth_chainId(self):  # noqa: N802 - the methods have the names of JSON-RPC
        """The chain's number."""
        return hex(self.tester.backend.chain.chain_id)

    def eth_maxPriorityFeePerGas(self):  # noqa: N802
        """A tip."""
        return hex(10**9)

    def eth_getBlockByNumber(self, tag, _full):  # noqa: N802
        """A block, or None."""
        try:
            found = self.tester.get_block_by_number(self._number(tag))
        except BlockNotFound:
            return None
        return {
            "number": hex(found["number"]),
            "hash": found["hash"],
            "baseFeePerGas": hex(found["base_fee_per_gas"]),
        }

    def eth_getTransactionCount(self, address, tag):  # noqa: N802
        """The account's next nonce."""
        return hex(self.tester.get_nonce(address, self._number(tag)))

    def eth_getTransactionReceipt(self, name):  # noqa: N802
        """A receipt, or None."""
        try:
            found = self.tester.get_transaction_receipt(name)
        except TransactionNotFound:
            return None
        return {
            "blockHash": found["block_hash"],
            "blockNumber": hex(found["block_number"]),
            "status": hex(found["status"]),
            "gasUsed": hex(found["gas_used"]),
            "contractAddress": found["contract_address"],
            "logs": [{"topics": log["topics"], "data": log["data"]} for log in found["logs"]],
        }

    def eth_sendRawTransaction(self, raw):  # noqa: N802
        """The transaction's hash."""
        try:
            return self.tester.send_raw_transaction(raw)
        except Exception as error:
            if "nonce" in str(error).lower():
                raise NodeRefusedError("eth_sendRawTransaction", "nonce too low") from error
            raise

    def eth_call(self, question, tag):
        """What a call returns."""
        fields = {"from": Signer.from_key(KEYS[0]).address, "gas": 3_000_000} | question
        try:
            return self.tester.call(fields, self._number(tag))
        except TransactionFailed as error:
            # eth-tester hands the bytes of a custom error on as Python would print them.
            said = str(error.args[0])
            data = "0x" + ast.literal_eval(said).hex() if said.startswith(("b'", 'b"')) else None
            raise NodeRefusedError("eth_call", "execution reverted", data) from error

    def _number(self, tag):
        if tag.startswith("0x"):
            return int(tag, 16)
        back = {"latest": 0, "pending": 0, "safe": SAFE_DEPTH, "finalized": FINAL_DEPTH}[tag]
        return max(0, self.height() - back)


@dataclass
class FakeBlock:
    """A block: its number, its hash and the transactions in it."""

    number: int
    hash: str
    parts: list = field(default_factory=list)


class ScriptedChain:
    """A chain without an EVM. LogHeads is played by `Heads` below; any other call succeeds unless in `reverting`.

    `floor` is the least tip that is mined, `refusals` maps a method to what the node says instead of an answer,
    `pruned` holds transactions whose receipts it lost, `down` makes it unreachable.
    """

    def __init__(self):
        self.blocks = [FakeBlock(0, _name("genesis"))]
        self.pool = {}
        self.seen = {}
        self.floor = 0
        self.base_fee = 10**9
        self.refusals = {}
        self.pruned = set()
        self.reverting = set()
        self.down = False
        self.tags = True
        self.lag = 0
        self.asked = []
        self._made = 0

    def __call__(self, method, *parameters):
        """The node's answer."""
        self.asked.append(method)
        if self.down:
            raise EnvironmentUnusableError("the node is down")
        if method in self.refusals:
            raise NodeRefusedError(method, self.refusals[method])
        return getattr(self, method)(*parameters)

    def mine(self, count=1):
        """Adds blocks: each takes what is next of every sender and pays enough."""
        for _ in range(count):
            self._made += 1
            block = FakeBlock(len(self.blocks), _name(f"block {self._made}"))
            self.blocks.append(block)
            for (sender, nonce), tx in sorted(self.pool.items()):
                if nonce == self.used(sender) and tx["tip"] >= self.floor:
                    block.parts.append(tx)
                    del self.pool[sender, nonce]

    def reorganise(self, depth, *, keep=True, longer=0):
        """Takes `depth` blocks away and puts others there; their transactions wait again, or are forgotten."""
        gone = self.blocks[len(self.blocks) - depth :]
        del self.blocks[len(self.blocks) - depth :]
        waiting = self.pool
        self.pool = {}
        for _ in range(depth + longer):
            self.mine()
        self.pool = {key: tx for key, tx in waiting.items() if key[1] >= self.used(key[0])}
        if keep:
            for tx in (tx for block in gone for tx in block.parts):
                self.pool.setdefault((tx["sender"], tx["nonce"]), tx)

    def used(self, sender, number=None):
        """How many transactions of a sender are in blocks up to `number`."""
        blocks = self.blocks if number is None else self.blocks[: number + 1]
        return sum(tx["sender"] == sender for block in blocks for tx in block.parts)

    def mined(self):
        """All transactions of the present chain, in order."""
        return [tx for block in self.blocks for tx in block.parts]

    def height(self):
        """The number of the newest block that the node shows."""
        return len(self.blocks) - 1 - self.lag

    def eth_chainId(self):  # noqa: N802 - the methods have the names of JSON-RPC
        """A number."""
        return "0x539"

    def eth_maxPriorityFeePerGas(self):  # noqa: N802
        """A tip."""
        return hex(10**9)

    def eth_getBlockByNumber(self, tag, full):  # noqa: N802
        """A block, or None; with its transactions when they are asked for."""
        if tag in ("safe", "finalized") and not self.tags:
            raise NodeRefusedError("eth_getBlockByNumber", f"unknown tag {tag}")
        number = self._number(tag)
        if number > self.height():
            return None
        block = self.blocks[number]
        found = {"number": hex(number), "hash": block.hash, "baseFeePerGas": hex(self.base_fee)}
        parts = [{"from": tx["sender"], "nonce": hex(tx["nonce"]), "hash": tx["hash"]} for tx in block.parts]
        return found | ({"transactions": parts} if full else {})

    def eth_getTransactionCount(self, address, tag):  # noqa: N802
        """The account's next nonce; with "pending", after what waits without a gap."""
        count = self.used(address, None if tag == "pending" else self._number(tag))
        while tag == "pending" and (address, count) in self.pool:
            count += 1
        return hex(count)

    def eth_sendRawTransaction(self, raw):  # noqa: N802
        """The transaction's hash, or one of the words that nodes refuse with."""
        data = HexBytes(raw)
        content = TypedTransaction.from_bytes(data).as_dict()
        sender, name = _signer(bytes(data)), "0x" + keccak(data).hex()
        tx = {"hash": name, "sender": sender, "nonce": content["nonce"], "data": bytes(content["data"])}
        tx |= {"to": content.get("to"), "tip": content["maxPriorityFeePerGas"], "most": content["maxFeePerGas"]}
        self.seen[name] = tx
        place = (sender, tx["nonce"])
        before = self.pool.get(place)
        said = None
        if tx["nonce"] < self.used(sender):
            said = "nonce too low"
        elif before and before["hash"] == name:
            said = "already known"
        elif before and any(10 * tx[part] < 11 * before[part] for part in ("tip", "most")):
            said = "replacement transaction underpriced"
        if said:
            raise NodeRefusedError("eth_sendRawTransaction", said)
        self.pool[place] = tx
        return name

    def eth_getTransactionReceipt(self, name):  # noqa: N802
        """A receipt, or None."""
        if name in self.pruned:
            return None
        for block in self.blocks[: self.height() + 1]:
            for tx in block.parts:
                if tx["hash"] == name:
                    bad = name in self.reverting or name in Heads(self.blocks[: block.number + 1]).refused
                    status = "0x0" if bad else "0x1"
                    return {"blockHash": block.hash, "blockNumber": hex(block.number), "status": status}
        return None

    def eth_call(self, question, tag):
        """What LogHeads.heads returns for the account in the question."""
        account = HexBytes(question["data"])[16:36]
        size, root = Heads(self.blocks[: self._number(tag) + 1]).of("0x" + account.hex())
        return "0x" + eth_abi.encode(["bytes32", "uint64"], [root, size]).hex()

    def _number(self, tag):
        if tag.startswith("0x"):
            return int(tag, 16)
        back = {"latest": 0, "pending": 0, "safe": SAFE_DEPTH, "finalized": FINAL_DEPTH}[tag]
        return max(0, self.height() - back)


class Heads:
    """What LogHeads holds after some blocks: sizes only ever grow from the one named. Proofs are the EVM's matter."""

    def __init__(self, blocks):
        self._held = {}
        self.refused = set()
        compiled = contract("LogHeads")
        opening, extending = compiled.call("open", 1, bytes(32))[:4], compiled.call("extend", 1, 2, bytes(32), [])[:4]
        for tx in (tx for block in blocks for tx in block.parts):
            who, selector, rest = tx["sender"].lower(), tx["data"][:4], tx["data"][4:]
            held = self._held.get(who, (0, bytes(32)))
            if selector == opening:
                size, root = eth_abi.decode(["uint64", "bytes32"], rest)
                right = held[0] == 0
            elif selector == extending:
                old, size, root, _ = eth_abi.decode(["uint64", "uint64", "bytes32", "bytes32[]"], rest)
                right = 0 < held[0] == old < size
            else:
                continue
            if right:
                self._held[who] = (size, root)
            else:
                self.refused.add(tx["hash"])

    def of(self, account):
        """Size and root of an account's log."""
        return self._held.get(account.lower(), (0, bytes(32)))


@cache
def _signer(raw):
    return Signer.recover_transaction(raw)


def _name(text):
    return "0x" + hashlib.sha256(text.encode()).hexdigest()


class Tree:
    """RFC 6962, section 2.1, as it is written: roots and consistency proofs by recursion over the leaves."""

    def __init__(self, count):
        self.leaves = [hashlib.sha256(b"\0" + number.to_bytes(8, "big")).digest() for number in range(count)]
        self._known = {}

    def root(self, size):
        """The root over the first `size` leaves."""
        return self._root(0, size)

    def proof(self, old, size):
        """PROOF(old, D[size]): the consistency proof."""
        return self._subproof(old, 0, size, whole=True)

    def _root(self, start, end):
        if (start, end) not in self._known:
            if end - start == 1:
                found = self.leaves[start]
            else:
                middle = start + _split(end - start)
                found = hashlib.sha256(b"\1" + self._root(start, middle) + self._root(middle, end)).digest()
            self._known[start, end] = found
        return self._known[start, end]

    def _subproof(self, old, start, end, *, whole):
        if old == end - start:
            return [] if whole else [self._root(start, end)]
        split = _split(end - start)
        if old <= split:
            return [*self._subproof(old, start, start + split, whole=whole), self._root(start + split, end)]
        return [*self._subproof(old - split, start + split, end, whole=False), self._root(start, start + split)]


def _split(count):
    """The largest power of two below `count`."""
    return 1 << (count - 1).bit_length() - 1
