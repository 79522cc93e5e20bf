"""The contracts, on py-evm and on anvil: every binding refuses by itself, and proofs are judged as RFC 9162 says."""

import itertools
import json
import os
import random
import shutil
import subprocess
import time
from importlib import resources

import pytest
from chain_nodes import EvmNode, Tree, node_modules
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.attest.chain import Fees, NodeRefusedError, contract
from veristate.core import EnvironmentUnusableError, InputError, digest

ZERO = bytes(32)
DIGESTS = [digest(bytes([number])) for number in range(40)]
A, B, C, D = (bytes.fromhex(text) for text in DIGESTS[:4])


class Deployed:
    """One contract on one node: calls that are mined, and the error of one that would revert."""

    def __init__(self, node, name, account):
        self.node, self.account, self.contract = node, account, contract(name)
        self.address = self._mined(account, None, self.contract.bytecode)["contractAddress"]

    def __call__(self, function, *arguments, by=None):
        """The receipt of a call that was mined and succeeded."""
        receipt = self._mined(by or self.account, self.address, self.contract.call(function, *arguments))
        assert receipt["status"] == "0x1", (function, arguments)
        return receipt

    def error(self, function, *arguments, by=None):
        """The error, in words, that the call would revert with; nothing when it would not."""
        data = "0x" + self.contract.call(function, *arguments).hex()
        sender = (by or self.account).address
        try:
            self.node("eth_call", {"from": sender, "to": self.address, "data": data}, "latest")
        except NodeRefusedError as refused:
            return self.contract.error(refused.data)
        return None

    def read(self, function, *arguments):
        """What a view function returns."""
        data = "0x" + self.contract.call(function, *arguments).hex()
        answer = self.node("eth_call", {"to": self.address, "data": data}, "latest")
        return self.contract.decode(function, bytes.fromhex(answer[2:]))

    def _mined(self, by, to, data):
        nonce = int(self.node("eth_getTransactionCount", by.address, "latest"), 16)
        chain_id = int(self.node("eth_chainId"), 16)
        fees = Fees(most=10**11, tip=10**9)
        signed = by.sign(chain_id=chain_id, nonce=nonce, to=to, data=data, gas=2_000_000, fees=fees)
        self.node("eth_sendRawTransaction", "0x" + signed.raw.hex())
        return receipt_of(self.node, signed.hash)


def receipt_of(node, name):
    """The receipt of a transaction, as soon as there is one: anvil mines at once, but beside us."""
    for _ in range(500):
        if (found := node("eth_getTransactionReceipt", name)) is not None:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{name} was not mined")


# ThreeBindings


def test_each_of_the_three_bindings_refuses_by_itself(node, account):
    """A call that breaks one binding alone is refused with that binding's error, and the right call is taken."""
    chain = Deployed(node, "ThreeBindings", account)
    assert chain.error("anchor", 2, A, ZERO, B) == "WrongSequence(1)"
    assert chain.error("anchor", 1, A, B, B) == f"WrongPredecessor(0x{ZERO.hex()})"
    assert chain.error("anchor", 1, A, ZERO, ZERO) == "NoCommitment()"
    chain("anchor", 1, A, ZERO, B)
    for number in (0, 1, 3, 2**64 - 1):
        assert chain.error("anchor", number, C, B, D) == "WrongSequence(2)"
    assert chain.error("anchor", 2, A, B, D) == "ExecutionUsed(1)"
    for predecessor in (ZERO, A, D):
        assert chain.error("anchor", 2, C, predecessor, D) == f"WrongPredecessor(0x{B.hex()})"
    chain("anchor", 2, C, B, D)
    assert chain.read("sequence", account.address) == (2,)
    assert chain.read("head", account.address) == (D,)
    assert chain.read("sequenceOf", account.address, C) == (2,)


def test_an_id_stays_used_however_much_later(node, account):
    """An execution id that was used long ago is refused, with the number it was used under."""
    chain = Deployed(node, "ThreeBindings", account)
    last = ZERO
    for number in range(1, 8):
        chain("anchor", number, bytes.fromhex(DIGESTS[number]), last, bytes.fromhex(DIGESTS[number + 20]))
        last = bytes.fromhex(DIGESTS[number + 20])
    for number in range(1, 8):
        assert chain.error("anchor", 8, bytes.fromhex(DIGESTS[number]), last, A) == f"ExecutionUsed({number})"


def test_recorders_can_not_use_up_each_others_ids(node, account, other_account):
    """Each recorder has its own numbers, ids and head: a commitment replayed by another takes nothing away."""
    chain = Deployed(node, "ThreeBindings", account)
    chain("anchor", 1, A, ZERO, B, by=other_account)
    assert chain.error("anchor", 2, C, B, D) == "WrongSequence(1)"
    chain("anchor", 1, A, ZERO, B)
    assert chain.read("head", account.address) == chain.read("head", other_account.address) == (B,)


def test_the_event_holds_what_was_bound(node, account):
    """Recorder, number and id are topics of the event, predecessor and commitment its data."""
    chain = Deployed(node, "ThreeBindings", account)
    [log] = chain("anchor", 1, A, ZERO, B)["logs"]
    recorder, number, identifier = (_bytes(topic) for topic in log["topics"][1:])
    assert recorder[12:].hex() == account.address[2:].lower()
    assert (int.from_bytes(number), identifier) == (1, A)
    assert _bytes(log["data"]) == ZERO + B


# OneWord


def word(number, commitment):
    """The word that stands after a commitment."""
    return number << 208 | int.from_bytes(commitment[:26])


def test_one_word_is_changed_only_from_what_it_is(node, account):
    """Only the word that stands is taken: no other number, no other predecessor, no word from before."""
    chain = Deployed(node, "OneWord", account)
    assert chain.error("anchor", 0, ZERO) == "NoCommitment()"
    assert chain.error("anchor", 0, bytes(26) + b"\1" * 6) == "NoCommitment()"
    assert chain.error("anchor", 1, A) == "WrongWord(0)"
    chain("anchor", 0, A)
    stands = word(1, A)
    assert chain.read("word", account.address) == (stands,)
    for wrong in (0, word(0, A), word(2, A), word(1, B), stands ^ 1, stands ^ 1 << 255):
        assert chain.error("anchor", wrong, B) == f"WrongWord({stands})"
    chain("anchor", stands, B)
    assert chain.read("word", account.address) == (word(2, B),)


def test_replaying_an_old_id_fails_for_ever(node, account):
    """An id is a hash of recorder and number, so the call that used it names a word that never stands again.

    Every call made so far is sent again after each new one, commitments that recur among them.
    """
    chain = Deployed(node, "OneWord", account)
    identifiers, calls, stands = set(), [], 0
    for number, commitment in enumerate([A, B, A, A, C, B], start=1):
        chain("anchor", stands, commitment)
        calls.append((stands, commitment))
        stands = word(number, commitment)
        identifiers.add(chain.read("executionId", account.address, number))
        for call in calls:
            assert chain.error("anchor", *call) == f"WrongWord({stands})"
    assert len(identifiers) == 6


def test_ids_differ_between_recorders_and_contracts(node, account, other_account):
    """The same number is another id for another recorder, and in another deployment."""
    first, second = Deployed(node, "OneWord", account), Deployed(node, "OneWord", account)
    found = {c.read("executionId", a.address, 1) for c in (first, second) for a in (account, other_account)}
    assert len(found) == 4


def test_the_number_never_wraps(account):
    """After number 2^48 - 1 a call is an error: 0 would make every id available again. Anvil only: it sets storage."""
    from chain_nodes import anvil

    with anvil() as node:
        chain = Deployed(node, "OneWord", account)
        last = word(2**48 - 1, A)
        chain("anchor", 0, A)
        slot = contract_slot(account.address)
        node("anvil_setStorageAt", chain.address, slot, f"0x{last:064x}")
        assert chain.read("word", account.address) == (last,)
        assert "4e487b71" in chain.error("anchor", last, B)  # Panic(uint256)


def contract_slot(address):
    """Where Solidity keeps the first mapping's entry of an address."""
    from eth_utils import keccak

    return "0x" + keccak(bytes.fromhex(address[2:]).rjust(32, b"\0") + bytes(32)).hex()


# LogHeads


@pytest.fixture(scope="module")
def tree():
    """A tree of 200 leaves, by the definition."""
    return Tree(200)


@pytest.fixture(scope="module")
def evm():
    """py-evm for what asks thousands of questions."""
    return EvmNode()


def test_the_tree_of_these_tests_is_that_of_another_library():
    """Roots and consistency proofs are pymerkle's where that is installed, and a leaf's are the RFC's in any case."""
    pymerkle = pytest.importorskip("pymerkle", reason="pymerkle is not installed")
    ours, theirs = Tree(70), pymerkle.InmemoryTree(algorithm="sha256")
    for number in range(70):
        theirs.append_entry(number.to_bytes(8, "big"))
    for size in range(1, 71):
        assert theirs.get_root(size) == ours.root(size)
        for old in range(1, size):
            theirs_too = theirs.prove_consistency(old, size)
            pymerkle.verify_consistency(theirs.get_root(old), theirs.get_root(size), theirs_too)


def test_heads_grow_by_proof_on_a_real_chain(node, account, tree):
    """Odd sizes, powers of two and their neighbours follow each other by proof, and the last head stands."""
    chain = Deployed(node, "LogHeads", account)
    sizes = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200]
    chain("open", 1, tree.root(1))
    for old, size in itertools.pairwise(sizes):
        receipt = chain("extend", old, size, tree.root(size), tree.proof(old, size))
        assert _bytes(receipt["logs"][0]["data"]) == size.to_bytes(32) + tree.root(size)
        assert chain.read("heads", account.address) == (tree.root(size), size)


def test_each_refusal_of_a_head_is_its_own(node, account, tree):
    """Every wrong head is refused with the error that says why, and nothing changes."""
    chain = Deployed(node, "LogHeads", account)
    assert chain.error("open", 0, A) == "EmptyHead()"
    assert chain.error("extend", 0, 5, tree.root(5), []) == "NotOpened()"
    assert chain.error("extend", 3, 5, tree.root(5), tree.proof(3, 5)) == "NotOpened()"
    chain("open", 3, tree.root(3))
    assert chain.error("open", 5, tree.root(5)) == "AlreadyOpened(3)"
    assert chain.error("extend", 2, 5, tree.root(5), tree.proof(2, 5)) == "WrongSize(3)"
    assert chain.error("extend", 4, 5, tree.root(5), tree.proof(4, 5)) == "WrongSize(3)"
    assert chain.error("extend", 0, 5, tree.root(5), []) == "WrongSize(3)"
    assert chain.error("extend", 3, 3, tree.root(3), []) == "NotLonger()"
    assert chain.error("extend", 3, 2, tree.root(2), []) == "NotLonger()"
    assert chain.error("extend", 3, 5, A, tree.proof(3, 5)) == "NotConsistent()"
    assert chain.error("extend", 3, 9, tree.root(5), tree.proof(3, 5)) == "NotConsistent()"
    assert chain.error("extend", 3, 5, tree.root(5), tree.proof(3, 5)) is None
    assert chain.read("heads", account.address) == (tree.root(3), 3)


@pytest.mark.parametrize("old", [1, 2, 3, 4, 7, 8, 64, 100])
def test_an_empty_proof_proves_nothing(evm, account, tree, old):
    """An empty proof is refused from every size to every other, with the old root, the new, or none at all."""
    chain = Deployed(evm, "LogHeads", account)
    chain("open", old, tree.root(old))
    for size in (old + 1, 2 * old, 2 * old + 1, 128, 200, 2**63, 2**64 - 1):
        for root in (tree.root(old), tree.root(min(size, 200)), ZERO, A):
            if size > old:
                assert chain.error("extend", old, size, root, []) == "NotConsistent()"


def test_the_first_head_of_an_account_is_told_from_a_proven_one(node, account, other_account, tree):
    """A first head has an event of its own, for nothing was proven of it; accounts have logs of their own."""
    chain = Deployed(node, "LogHeads", account)
    opened = chain("open", 4, tree.root(4))["logs"][0]["topics"][0]
    extended = chain("extend", 4, 9, tree.root(9), tree.proof(4, 9))["logs"][0]["topics"][0]
    assert opened != extended
    assert chain.error("extend", 9, 17, tree.root(17), tree.proof(9, 17), by=other_account) == "NotOpened()"


def test_a_size_that_was_not_true_leads_nowhere(evm, account, tree):
    """A proof shows a tree's shape, not its size: who anchors 6 for a log of 5 can't anchor any later head.

    RFC 9162 has it so: the size is what the log signs. The root of 5 leaves read as one of 6 has a leaf where the
    proofs need a node, and no proof from the log leads there.
    """
    chain = Deployed(evm, "LogHeads", account)
    chain("open", 3, tree.root(3))
    chain("extend", 3, 6, tree.root(5), tree.proof(3, 5))
    for size in range(7, 40):
        for old in (5, 6):
            assert chain.error("extend", 6, size, tree.root(size), tree.proof(old, size)) == "NotConsistent()"


@pytest.mark.parametrize("most", [13, pytest.param(70, marks=pytest.mark.soak)])
def test_every_pair_of_sizes(evm, account, tree, most):
    """From each size to each larger one the proof is taken; with a hash changed, cut, doubled or moved it is not."""
    chain = Deployed(evm, "LogHeads", account)
    pick = random.Random(5)
    held = 0
    for old in range(1, most):
        if held == 0:
            chain("open", old, tree.root(old))
        else:
            chain("extend", held, old, tree.root(old), tree.proof(held, old))
        held = old
        for size in range(old + 1, most + 1):
            proof = tree.proof(old, size)
            assert chain.error("extend", old, size, tree.root(size), proof) is None, (old, size)
            for wrong in spoiled(proof, pick):
                assert chain.error("extend", old, size, tree.root(size), wrong) == "NotConsistent()", (old, size)


def spoiled(proof, pick):
    """Two wrong proofs made of a right one, of five kinds."""
    at = pick.randrange(len(proof))
    flipped = bytes([proof[at][0] ^ 1 << pick.randrange(8)]) + proof[at][1:]
    kinds = [
        [*proof[:at], flipped, *proof[at + 1 :]],
        [*proof[:at], *proof[at + 1 :]],
        [*proof[:at], proof[at], *proof[at:]],
        [*proof, A],
        [*proof[1:], proof[0]] if len(proof) > 1 else [A, *proof],
    ]
    return pick.sample(kinds, 2)


def test_a_tree_with_a_doubled_last_leaf_is_another_tree(evm, account):
    """Two lists of leaves that differ by a repeated last one have two roots, and neither proves the other."""
    chain = Deployed(evm, "LogHeads", account)
    odd = Tree(3)
    doubled = Tree(3)
    doubled.leaves.append(doubled.leaves[-1])
    chain("open", 3, odd.root(3))
    assert odd.root(3) != doubled.root(4)
    assert chain.error("extend", 3, 4, odd.root(3), odd.proof(1, 3)) == "NotConsistent()"
    assert chain.error("extend", 3, 4, doubled.root(4), doubled.proof(3, 4)) is None


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_a_rewritten_log_finds_no_proof(data):
    """Whatever hashes are given as the proof, a head of a log whose past was changed is never taken.

    The hashes are those of both trees, from which a forger would choose.
    """
    old = data.draw(st.integers(1, 20))
    size = data.draw(st.integers(old + 1, 40))
    true, forged = Tree(size), Tree(size)
    forged.leaves[data.draw(st.integers(0, old - 1))] = A
    choices = [*true.proof(old, size), *forged.proof(old, size), true.root(old), forged.root(old), forged.root(size)]
    proof = data.draw(st.lists(st.sampled_from(choices), max_size=8) | st.just(forged.proof(old, size)))
    assert judged(old, size, true.root(old), forged.root(size), proof) == "NotConsistent()"
    assert judged(old, size, true.root(old), true.root(size), true.proof(old, size)) is None


_PLACES = {}


def judged(old, size, old_root, root, proof):
    """The contract's error for a head after another one, each pair in an account of its own."""
    from veristate.attest.chain import Account

    if not _PLACES:
        _PLACES["evm"] = EvmNode()
        owner = Account(bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"))
        _PLACES["chain"] = Deployed(_PLACES["evm"], "LogHeads", owner)
    chain = _PLACES["chain"]
    before = _PLACES["evm"].tester.take_snapshot()
    try:
        chain("open", old, old_root)
        return chain.error("extend", old, size, root, proof)
    finally:
        _PLACES["evm"].tester.revert_to_snapshot(before)


# What ships


def test_what_ships_is_what_solc_makes_of_the_sources():
    """The compiler, run again from npm, gives the file that ships, byte for byte."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    modules = node_modules("solc").parent
    folder = resources.files("veristate.attest.chain") / "contracts"
    with resources.as_file(folder) as place:
        made = subprocess.run(
            ["node", str(place / "compile.cjs")],
            env=os.environ | {"NODE_PATH": str(modules)},
            capture_output=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr.decode()
        assert made.stdout == (place / "contracts.json").read_bytes()


def test_the_sources_are_those_that_were_compiled():
    """Each source's digest is the one beside its bytecode, and compiler and settings are named."""
    folder = resources.files("veristate.attest.chain") / "contracts"
    shipped = json.loads((folder / "contracts.json").read_bytes())
    assert shipped["compiler"].startswith("solc 0.8.35+")
    assert shipped["settings"]["evmVersion"] == "cancun"
    assert set(shipped["contracts"]) == {"LogHeads", "OneWord", "ThreeBindings"}
    for name, compiled in shipped["contracts"].items():
        assert digest((folder / f"{name}.sol").read_bytes()) == compiled["source_sha256"]
        assert contract(name).bytecode.hex() == compiled["bytecode"]


def test_the_deployed_code_is_the_one_that_ships(node, account):
    """What a node runs after deployment is the end of the bytecode that ships: nothing was linked or appended."""
    for name in ("LogHeads", "OneWord", "ThreeBindings"):
        chain = Deployed(node, name, account)
        if isinstance(node, EvmNode):
            code = _bytes(node.tester.get_code(chain.address))
        else:
            code = _bytes(node("eth_getCode", chain.address, "latest"))
        assert code
        assert contract(name).bytecode.endswith(code)


def test_calls_that_do_not_fit_are_refused():
    """A function that is not there, too few arguments, a negative size or a short root are the caller's error."""
    heads = contract("LogHeads")
    for call in (
        ("close", 1),
        ("open", 1),
        ("open", -1, A),
        ("open", 2**64, A),
        ("open", 1, "root"),
        ("open", 1, A + A),
    ):
        with pytest.raises(InputError):
            heads.call(*call)
    with pytest.raises(InputError, match="is its address right"):
        heads.decode("heads", b"")


def test_without_the_extra_the_message_says_what_to_install(monkeypatch):
    """Where the library is missing, the error names the extra."""
    import sys

    monkeypatch.setitem(sys.modules, "eth_account", None)
    with pytest.raises(EnvironmentUnusableError, match=r"pip install 'veristate\[chain\]'"):
        contract("LogHeads").call("open", 1, A)


def _bytes(value):
    return bytes.fromhex(value.removeprefix("0x")) if isinstance(value, str) else bytes(value)
