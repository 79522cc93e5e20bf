"""Claims: gas of anchoring one commitment with three bindings, one by compare-and-swap, and a log's head by proof.

Every figure is the gas that a receipt names: on py-evm in this process, and on anvil where VERISTATE_NODE_MODULES names
a folder with @foundry-rs/anvil. The client's own calldata is used, with random digests. Proofs come from a tree of this
script; the contracts check every one.
"""

import hashlib
import json
import os
import random
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eth_tester import EthereumTester, PyEVMBackend

from benchmarks.record import Claim, note, write
from veristate.attest.chain import contract

PAPER = 216_998
STEADY = 20
BATCH = 1_000
LOG = 1_000_000
ALIGNED = 1_024
ANVIL = Path("@foundry-rs/anvil-linux-amd64/bin/anvil")
# Sends from the chain's first account: an address or None to deploy, calldata; the receipt's gas and contract address.
Send = Callable[[str | None, bytes], tuple[int, str | None]]


def main() -> None:
    """Measures every form on every chain there is and writes."""
    started = time.time()
    note(f"a tree of {LOG} leaves")
    tree = Tree(LOG)
    data: dict[str, Any] = {"versions": {name: version(name) for name in ("py-evm", "eth-tester", "eth-account")}}
    data["compiler"] = {"compiler": contract("LogHeads").compiler, "settings": contract("LogHeads").settings}
    data["py-evm"] = measure(py_evm(), tree)
    with anvil() as send:
        data["anvil"] = None if send is None else measure(send, tree)
    write("anchor_gas", claims(data), data, started)


def measure(send: Send, tree: "Tree") -> dict[str, Any]:
    """Gas of deployments, first and later calls of each form, and of a log's heads."""
    pick = random.Random(7)
    return {
        "ThreeBindings": three_bindings(send, pick),
        "OneWord": one_word(send, pick),
        "batches": heads(send, tree, range(BATCH, LOG + 1, BATCH)),
        "aligned": heads(send, tree, range(ALIGNED, LOG + 1, ALIGNED)),
    }


def three_bindings(send: Send, pick: random.Random) -> dict[str, Any]:
    """One recorder's commitments, one after the other."""
    form = contract("ThreeBindings")
    deploy, address = send(None, form.bytecode)
    gas, last = [], bytes(32)
    for number in range(1, STEADY + 2):
        commitment = pick.randbytes(32)
        gas.append(send(address, form.call("anchor", number, pick.randbytes(32), last, commitment))[0])
        last = commitment
    return {"deploy": deploy, "first": gas[0], "steady": gas[1:]}


def one_word(send: Send, pick: random.Random) -> dict[str, Any]:
    """One recorder's commitments, one after the other."""
    form = contract("OneWord")
    deploy, address = send(None, form.bytecode)
    gas, word = [], 0
    for number in range(1, STEADY + 2):
        commitment = pick.randbytes(32)
        gas.append(send(address, form.call("anchor", word, commitment))[0])
        word = number << 208 | int.from_bytes(commitment[:26])
    return {"deploy": deploy, "first": gas[0], "steady": gas[1:]}


def heads(send: Send, tree: "Tree", sizes: range) -> dict[str, Any]:
    """One log's heads at these sizes, each proven from the one before: gas and hashes in the proof."""
    form = contract("LogHeads")
    deploy, address = send(None, form.bytecode)
    first = send(address, form.call("open", sizes[0], tree.root(sizes[0])))[0]
    gas, hashes = [], []
    for size in sizes[1:]:
        proof = tree.proof(size - sizes.step, size)
        gas.append(send(address, form.call("extend", size - sizes.step, size, tree.root(size), proof))[0])
        hashes.append(len(proof))
    note(f"heads every {sizes.step}: most {max(gas)}, mean {sum(gas) / len(gas):.0f}")
    return {"deploy": deploy, "first": first, "every": sizes.step, "gas": gas, "hashes": hashes}


def claims(data: dict[str, Any]) -> list[Claim]:
    """The rows: the most that any chain asked for."""
    chains = [chain for chain in (data["py-evm"], data["anvil"]) if chain is not None]
    where = "py-evm and anvil" if len(chains) == 2 else "py-evm; anvil was not there"
    rows = []
    for form, bar, what in (
        ("ThreeBindings", 60_000, "a commitment, sequence, execution id and predecessor stored and refused on chain"),
        ("OneWord", 30_000, "a commitment by compare-and-swap: sequence and predecessor stored, execution id derived"),
    ):
        most = max(gas for chain in chains for gas in chain[form]["steady"])
        first, deploy = (max(chain[form][part] for chain in chains) for part in ("first", "deploy"))
        detail = f"{form}; the most of {STEADY} later calls; first {first:,}, deployment {deploy:,}; "
        detail += f"{PAPER / most:.1f} times below the {PAPER:,} of the paper; {where}"
        rows.append(row(what, most, "gas", bar, detail))
    for upper in (100_000, LOG):
        count = upper // BATCH - 1
        gas = [value for chain in chains for value in chain["batches"]["gas"][:count]]
        over = sum(value > 55_000 for value in gas) / len(gas)
        most, mean = max(gas), sum(gas) / len(gas)
        detail = f"LogHeads; every one of {count} heads; mean {mean:,.0f}; {over:.1%} of them above 55,000; "
        detail += f"at most {max(chains[0]['batches']['hashes'][:count])} hashes in a proof; {where}"
        what = f"a head by consistency proof, a batch of {BATCH:,}, the log growing to {upper:,}"
        rows.append(row(what, most, "gas, the most of all heads", 55_000, detail))
        rows.append(
            row(
                f"the same per commitment, to {upper:,}",
                most / BATCH,
                "gas, the most of all heads",
                60,
                f"mean {mean / BATCH:.1f}",
            )
        )
    aligned = [value for chain in chains for value in chain["aligned"]["gas"]]
    detail = (
        f"proofs of {max(chains[0]['aligned']['hashes'])} hashes or fewer; mean {sum(aligned) / len(aligned):,.0f}; "
    )
    detail += f"{max(aligned) / ALIGNED:.1f} per commitment at most; {where}"
    what = f"a head by consistency proof at multiples of {ALIGNED:,}, the log growing to {LOG:,}"
    rows.append(row(what, max(aligned), "gas, the most of all heads", 55_000, detail))
    first, deploy = (max(chain["batches"][part] for chain in chains) for part in ("first", "deploy"))
    rows.append(
        Claim(
            claim="LogHeads: first head, deployment",
            measured=f"{first:,} / {deploy:,}",
            unit="gas",
            bar="reported",
            met=None,
        )
    )
    return rows


def row(what: str, most: float, unit: str, bar: int, detail: str) -> Claim:
    """A claim whose bar is an upper limit."""
    measured = f"{most:,.0f}" if most > 1000 else f"{most:.1f}"
    return Claim(claim=what, measured=measured, unit=unit, bar=f"<= {bar:,}", met=most <= bar, detail=detail)


def py_evm() -> Send:
    """py-evm in this process, a block for each transaction."""
    tester = EthereumTester(PyEVMBackend())
    sender = tester.get_accounts()[0]

    def send(to: str | None, data: bytes) -> tuple[int, str | None]:
        fields = {"from": sender, "data": "0x" + data.hex(), "gas": 3_000_000, "value": 0}
        fees = {"max_fee_per_gas": 10**11, "max_priority_fee_per_gas": 1}
        receipt = tester.get_transaction_receipt(tester.send_transaction(fields | fees | ({"to": to} if to else {})))
        assert receipt["status"] == 1
        return receipt["gas_used"], receipt["contract_address"]

    return send


@contextmanager
def anvil() -> Iterator[Send | None]:
    """Anvil on a free port, a block for each transaction; None when it is not there."""
    binary = Path(os.environ.get("VERISTATE_NODE_MODULES", "")) / ANVIL
    if not binary.is_file():
        note("no anvil: VERISTATE_NODE_MODULES names no folder that has it")
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([binary, "--silent", "--port", str(port)], stdout=subprocess.DEVNULL)

    def ask(method: str, *parameters: object) -> Any:
        question = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}", question, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.load(reply)["result"]

    def send(to: str | None, data: bytes) -> tuple[int, str | None]:
        fields = {"from": sender, "data": "0x" + data.hex(), "gas": hex(3_000_000)} | ({"to": to} if to else {})
        name = ask("eth_sendTransaction", fields)
        while (receipt := ask("eth_getTransactionReceipt", name)) is None:
            time.sleep(0.001)
        assert receipt["status"] == "0x1"
        return int(receipt["gasUsed"], 16), receipt["contractAddress"]

    try:
        for _ in range(400):
            try:
                sender = ask("eth_accounts")[0]
                break
            except OSError:
                time.sleep(0.025)
        yield send
    finally:
        process.kill()
        process.wait()


class Tree:
    """An RFC 6962 tree over numbered leaves: whole subtrees are kept by level, the rest is joined when asked for."""

    def __init__(self, count: int) -> None:
        level = [hashlib.sha256(b"\0" + number.to_bytes(8)).digest() for number in range(count)]
        self._levels = [level]
        while len(level) > 1:
            level = [_join(left, right) for left, right in zip(level[::2], level[1::2], strict=False)]
            self._levels.append(level)

    def root(self, size: int) -> bytes:
        """The root over the first `size` leaves."""
        return self._root(0, size)

    def proof(self, old: int, size: int) -> list[bytes]:
        """The consistency proof: PROOF(old, D[size]) of RFC 6962, section 2.1.2."""
        return self._subproof(old, 0, size, True)

    def _root(self, start: int, end: int) -> bytes:
        count = end - start
        level = count.bit_length() - 1
        if count == 1 << level:
            return self._levels[level][start >> level]
        middle = start + (1 << level)
        return _join(self._root(start, middle), self._root(middle, end))

    def _subproof(self, old: int, start: int, end: int, whole: bool) -> list[bytes]:
        if old == end - start:
            return [] if whole else [self._root(start, end)]
        split = 1 << (end - start - 1).bit_length() - 1
        middle = start + split
        if old <= split:
            return [*self._subproof(old, start, middle, whole), self._root(middle, end)]
        return [*self._subproof(old - split, middle, end, False), self._root(start, middle)]


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


if __name__ == "__main__":
    main()
