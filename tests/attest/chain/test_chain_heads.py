"""A log's heads on their way to the contract: the newest carries the others, and none is lost or anchored by guess."""

import itertools
import os
import signal
import traceback

import pytest
from chain_nodes import FINAL_DEPTH, SAFE_DEPTH, EvmNode, ScriptedChain, Tree
from sqlalchemy import Engine, event

from veristate.attest.chain import (
    Account,
    Anchorer,
    Call,
    FeePolicy,
    State,
    Transactions,
    contract,
    deploy,
    deployed_at,
)
from veristate.attest.log import LogReader, TileLog, fetch_from
from veristate.attest.signing import UNWITNESSED, Head, SigningKey
from veristate.core import EnvironmentUnusableError, InputError, TamperError

TREE = Tree(300)
ADDRESS = "0x" + "22" * 20
KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")


def head(size, root=None, origin="log.example/runs"):
    """The head of the tests' log with so many entries."""
    return Head(origin=origin, size=size, root=root or TREE.root(size))


def prove(old, newest):
    """The consistency proof that the log would give."""
    return TREE.proof(old, newest.size)


def opened(node, path, *, fees=None, address=ADDRESS, proving=prove):
    """The anchorer whose journal is there: made, or found after a restart."""
    transactions = Transactions.open(
        path, rpc=node, account=Account(KEY), fees=fees or FeePolicy(patience_blocks=10**6)
    )
    return Anchorer(transactions, address=address, prove=proving)


@pytest.fixture
def path(tmp_path):
    """Where the journal is."""
    return tmp_path / "chain.sqlite"


@pytest.fixture
def anchorer(scripted, path):
    """An anchorer on the scripted chain."""
    return opened(scripted, path)


def states(anchorer, *sizes):
    """The heads' states."""
    return [anchorer.standing(head(size)).state for size in sizes]


def test_a_head_is_anchored_only_when_it_is_final(scripted, anchorer):
    """A head is queued, submitted, mined, safe and final, in that order, and `poll` tells of each change."""
    assert anchorer.submit(head(5)).state is State.QUEUED
    told = []
    for _ in range(FINAL_DEPTH + 4):
        told += anchorer.poll()
        scripted.mine()
    assert [standing.state for standing in told] == [State.SUBMITTED, State.MINED, State.SAFE, State.FINAL]
    assert [standing.state.anchored for standing in told] == [False, False, False, True]
    assert {standing.key for standing in told} == {anchorer.standing(head(5)).key}
    assert anchorer.on_chain() == (5, TREE.root(5))


def test_submitting_asks_no_node(scripted, anchorer):
    """Heads are kept while the node is down, and are anchored when it is back."""
    scripted.down = True
    for size in (3, 4, 9):
        assert anchorer.submit(head(size)).state is State.QUEUED
    with pytest.raises(EnvironmentUnusableError):
        anchorer.poll()
    assert states(anchorer, 3, 4, 9) == [State.QUEUED] * 3
    scripted.down = False
    anchorer.poll()
    scripted.mine()
    anchorer.poll()
    assert states(anchorer, 3, 4, 9) == [State.SUPERSEDED, State.SUPERSEDED, State.MINED]


def test_a_superseded_head_names_the_one_that_carries_it(scripted, anchorer):
    """Heads between two that are on the chain are carried by the next larger, whose state is theirs."""
    sizes = [2, 3, 10, 11, 40]
    for size in sizes:
        anchorer.submit(head(size))
        if size in (3, 40):
            anchorer.poll()
            scripted.mine()
    anchorer.poll()
    assert not any(anchorer.anchored(head(size)) for size in sizes)
    carriers = [anchorer.standing(head(size)).by for size in sizes]
    first, last = anchorer.standing(head(3)).key, anchorer.standing(head(40)).key
    assert carriers == [first, None, last, last, None]
    assert [tx["nonce"] for tx in scripted.mined()] == [0, 1]
    scripted.mine(FINAL_DEPTH)
    anchorer.poll()
    assert all(anchorer.anchored(head(size)) for size in sizes)


def test_what_was_never_submitted_has_no_standing(anchorer):
    """Asking for a head that is not known is an error, and none of a neighbour's state is given for it."""
    anchorer.submit(head(5))
    for other in (head(4), head(6), head(5, root=b"x" * 32)):
        with pytest.raises(InputError, match="was not submitted"):
            anchorer.standing(other)


@pytest.mark.parametrize("wrong", [head(5, root=b"short"), Head(origin="log.example/runs", size=0, root=bytes(32))])
def test_heads_that_can_not_be_are_refused(anchorer, wrong):
    """An empty log and a root of the wrong length are errors of the caller's."""
    with pytest.raises(InputError, match="can't be anchored"):
        anchorer.submit(wrong)


def test_another_logs_head_is_refused(anchorer):
    """One account anchors one log: another origin's head is refused."""
    anchorer.submit(head(5))
    with pytest.raises(InputError, match=r"log\.example/runs"):
        anchorer.submit(head(6, origin="log.example/other"))


# Forks


def test_two_roots_of_one_size_are_a_fork_and_nothing_is_queued(anchorer):
    """A second root for a size that is known raises with both roots, and the first stays."""
    anchorer.submit(head(5))
    with pytest.raises(TamperError, match=f"{TREE.root(5).hex()}.*{'78' * 32}"):
        anchorer.submit(head(5, root=b"x" * 32))
    assert states(anchorer, 5) == [State.QUEUED]


def test_a_head_that_forks_from_its_neighbours_is_refused(anchorer):
    """A head that does not hold what a shorter one held, or that a longer one does not hold, is not queued.

    Otherwise it would be said to be carried by a head that knows nothing of it.
    """
    forked = Tree(300)
    forked.leaves[1] = b"y" * 32
    for size in (5, 20):
        anchorer.submit(head(size))
    for size in (4, 9, 30):
        with pytest.raises(TamperError, match="the log forked"):
            anchorer.submit(head(size, root=forked.root(size)))
        with pytest.raises(InputError, match="was not submitted"):
            anchorer.standing(head(size, root=forked.root(size)))
        anchorer.submit(head(size))


@pytest.mark.parametrize("empty", [True, False])
def test_a_head_that_does_not_extend_the_chain_is_refused_and_no_gas_is_spent(scripted, path, tmp_path, empty):
    """A forked log, or one that gives empty proofs, gets its heads refused with the reason, before any transaction."""
    first = opened(scripted, tmp_path / "first.sqlite")
    first.submit(head(5))
    first.poll()
    scripted.mine()
    forked = Tree(300)
    forked.leaves[1] = b"y" * 32
    anchorer = opened(scripted, path, proving=lambda old, new: [] if empty else forked.proof(old, new.size))
    bad = head(9, root=forked.root(9))
    anchorer.submit(bad)
    anchorer.poll()
    standing = anchorer.standing(bad)
    assert (standing.state, "does not extend" in standing.reason) == (State.REFUSED, True)
    assert not anchorer.anchored(bad)
    scripted.mine(FINAL_DEPTH + 1)
    anchorer.poll()
    assert anchorer.standing(bad).state is State.REFUSED
    assert len(scripted.mined()) == 1


def test_a_chain_that_is_ahead_is_told(scripted, path, tmp_path):
    """When the chain holds a longer head than the log, or another root, the log's head is refused and told why."""
    ahead = opened(scripted, tmp_path / "other.sqlite")
    ahead.submit(head(50))
    ahead.poll()
    scripted.mine()
    anchorer = opened(scripted, path)
    anchorer.submit(head(20))
    anchorer.poll()
    standing = anchorer.standing(head(20))
    assert standing.state is State.REFUSED
    assert "with 50 entries" in standing.reason
    other = opened(scripted, tmp_path / "third.sqlite")
    bad = head(50, root=b"z" * 32)
    other.submit(bad)
    other.poll()
    assert other.standing(bad).state is State.REFUSED
    anchorer.submit(head(60))
    anchorer.poll()
    scripted.mine()
    anchorer.poll()
    assert states(anchorer, 60) == [State.MINED]


# Stalls, reorganisations, restarts


def test_a_head_that_stalls_hands_its_nonce_to_the_newest(scripted, path):
    """A head whose transaction nobody mines blocks no later one: that takes over the nonce, and carries it."""
    scripted.floor = 2 * 10**9
    anchorer = opened(scripted, path, fees=FeePolicy(patience_blocks=2))
    anchorer.submit(head(5))
    anchorer.poll()
    for size in (6, 7):
        anchorer.submit(head(size))
    for _ in range(40):
        scripted.mine()
        anchorer.poll()
    assert states(anchorer, 5, 6, 7) == [State.SUPERSEDED, State.SUPERSEDED, State.FINAL]
    assert {tx["nonce"] for tx in scripted.seen.values()} == {0}
    assert len(scripted.mined()) == 1


def test_a_head_that_was_replaced_may_be_mined_after_all(scripted, path):
    """When the older head's transaction wins the nonce, it is mined and the newer head is sent after it."""
    scripted.floor = 10**12
    anchorer = opened(scripted, path, fees=FeePolicy(patience_blocks=1))
    anchorer.submit(head(5))
    anchorer.poll()
    [early] = scripted.seen.values()
    anchorer.submit(head(8))
    scripted.mine(2)
    anchorer.poll()
    assert len(scripted.seen) == 2
    scripted.pool = {(early["sender"], 0): early}
    scripted.floor = 0
    scripted.mine()
    anchorer.poll()
    assert states(anchorer, 5, 8) == [State.MINED, State.SUBMITTED]
    scripted.mine(FINAL_DEPTH + 1)
    anchorer.poll()
    assert states(anchorer, 5, 8) == [State.FINAL, State.FINAL]
    assert anchorer.on_chain() == (8, TREE.root(8))


@pytest.mark.parametrize("kept", [True, False])
def test_reorganisations_lose_no_head(scripted, anchorer, kept):
    """Heads that a reorganisation took out are anchored again, in order, and the contract ends with the newest."""
    for size in (4, 9, 30):
        anchorer.submit(head(size))
        anchorer.poll()
        scripted.mine()
        anchorer.poll()
    scripted.reorganise(3, keep=kept)
    anchorer.poll()
    assert State.MINED not in states(anchorer, 4, 9, 30)
    for _ in range(FINAL_DEPTH + 4):
        scripted.mine()
        anchorer.poll()
    assert states(anchorer, 4, 9, 30) == [State.FINAL] * 3
    assert anchorer.on_chain() == (30, TREE.root(30))


def test_a_lost_journal_finds_its_head_on_the_chain(scripted, path, tmp_path):
    """A head that the chain holds already is not sent again: its state is read off the contract, at each depth."""
    first = opened(scripted, path)
    first.submit(head(12))
    first.poll()
    scripted.mine()
    anchorer = opened(scripted, tmp_path / "new.sqlite")
    anchorer.submit(head(12))
    found = []
    for _ in range(FINAL_DEPTH + 2):
        anchorer.poll()
        found.append(states(anchorer, 12)[0])
        scripted.mine()
    assert found == [State.MINED] * SAFE_DEPTH + [State.SAFE] * (FINAL_DEPTH - SAFE_DEPTH) + [State.FINAL] * 2
    assert len(scripted.mined()) == 1
    anchorer.submit(head(13))
    anchorer.poll()
    scripted.mine()
    anchorer.poll()
    assert states(anchorer, 13) == [State.MINED]


def test_a_found_head_that_a_reorganisation_takes_out_is_sent(scripted, path, tmp_path):
    """A head found on the chain that is no longer there is anchored by a transaction of its own."""
    first = opened(scripted, path)
    first.submit(head(12))
    first.poll()
    scripted.mine()
    anchorer = opened(scripted, tmp_path / "new.sqlite")
    anchorer.submit(head(12))
    anchorer.poll()
    scripted.reorganise(1, keep=False)
    scripted.pool.clear()
    anchorer.poll()
    assert states(anchorer, 12) == [State.SUBMITTED]
    scripted.mine()
    anchorer.poll()
    assert states(anchorer, 12) == [State.MINED]


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.soak)])
def test_a_kill_before_any_statement(tmp_path, stride):
    """A process killed before any statement of its journal leaves heads that a restart anchors, each once."""
    seen = set()
    for step in itertools.count(1, stride):
        scripted = ScriptedChain()
        path = tmp_path / f"{step}.sqlite"

        def run(path=path, scripted=scripted):
            anchorer = opened(scripted, path)
            anchorer.submit(head(4))
            anchorer.poll()
            scripted.mine()
            anchorer.submit(head(9))
            anchorer.poll()
            scripted.mine(FINAL_DEPTH + 1)
            anchorer.poll()

        killed, chain = killed_at(step, run, scripted)
        anchorer = opened(chain, path)
        for size in (4, 9):
            anchorer.submit(head(size))
        for _ in range(FINAL_DEPTH + 5):
            anchorer.poll()
            chain.mine()
        assert states(anchorer, 9) == [State.FINAL]
        assert states(anchorer, 4)[0] in (State.FINAL, State.SUPERSEDED)
        assert anchorer.on_chain() == (9, TREE.root(9))
        assert len(chain.mined()) == 1 + (states(anchorer, 4) == [State.FINAL])
        seen.add(killed)
        if not killed:
            break
    assert seen == {True, False}
    assert step > 60


def killed_at(step, work, chain):
    """Whether `work` was killed just before the n-th statement of SQLite, and the chain as it left it.

    The work runs in a forked process; what it did to the chain comes back as the transactions the node was given.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            left = step
            tell(chain, writing)

            def count(_statement):
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            event.listen(Engine, "connect", lambda connection, record: connection.set_trace_callback(count))
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode().split()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the child failed at step {step}"
    again = ScriptedChain()
    for word in told:
        again.mine() if word == "mine" else again.eth_sendRawTransaction(word)
    return code != 0, again


def tell(chain, pipe):
    """Writes down every transaction that the node takes and every block it makes, as they happen."""
    send, mine = chain.eth_sendRawTransaction, chain.mine

    def sending(raw):
        name = send(raw)
        os.write(pipe, f"{raw} ".encode())
        return name

    def mining(count=1):
        for _ in range(count):
            mine()
            os.write(pipe, b"mine ")

    chain.eth_sendRawTransaction, chain.mine = sending, mining


# Real chains


def test_deployed_and_anchored_on_a_real_evm(node, path):
    """The contract is deployed once by its key, takes a log's heads by proof, and the last one becomes final."""
    transactions = Transactions.open(path, rpc=node, account=Account(KEY))
    address = deployment(transactions, node)
    assert deployment(transactions, node) == address
    anchorer = Anchorer(transactions, address=address, prove=prove)
    for size in (1, 3, 64, 65, 255, 300):
        anchorer.submit(head(size))
        settle(anchorer, node, size, {State.MINED, State.SAFE, State.FINAL})
    node.mine(FINAL_DEPTH + 1)
    anchorer.poll()
    assert states(anchorer, 1, 3, 64, 65, 255, 300) == [State.FINAL] * 6
    assert anchorer.on_chain() == (300, TREE.root(300))


def test_single_commitments_go_through_both_other_contracts(node, path):
    """Commitments sent one behind the other, before any is mined, are taken in order by each form."""
    transactions = Transactions.open(path, rpc=node, account=Account(KEY))
    digests = [bytes([number]) * 32 for number in range(1, 5)]
    for name in ("OneWord", "ThreeBindings"):
        deploy(transactions, name)
        wait(transactions, node, [f"deploy:{name}"])
        form, address = contract(name), deployed_at(transactions, name)
        last, word = bytes(32), 0
        for number, commitment in enumerate(digests, start=1):
            arguments = (word, commitment) if name == "OneWord" else (number, commitment[::-1], last, commitment)
            data = form.call("anchor", *arguments)
            transactions.send(Call(key=f"{name}:{number}", target=address, data=data, gas=120_000))
            last, word = commitment, number << 208 | int.from_bytes(commitment[:26])
        wait(transactions, node, [f"{name}:{number}" for number in range(1, 5)])


def wait(transactions, node, keys):
    """Returns when the chain holds these calls and no contract refused one."""
    for _ in range(200):
        transactions.poll()
        if all(transactions.standing(key).state.on_chain for key in keys):
            return
        if not isinstance(node, EvmNode):
            node.mine()
    raise AssertionError([transactions.standing(key) for key in keys])


def test_the_heads_of_a_log_on_the_disk_are_proven_to_the_contract(path, tmp_path):
    """A tile log's own proofs are what the contract takes, also after many appends between two heads."""
    node = EvmNode()
    key = SigningKey.open(tmp_path / "log.pem")
    log = TileLog.open(tmp_path / "log", origin="log.example/tiles", key=key, quorum=UNWITNESSED)
    transactions = Transactions.open(path, rpc=node, account=Account(KEY))
    address = deployment(transactions, node)

    def from_tiles(old, newest):
        return LogReader(fetch_from(log.folder), newest).consistency(old)

    anchorer = Anchorer(transactions, address=address, prove=from_tiles)
    for start, end in itertools.pairwise([0, 1, 6, 256, 300, 770]):
        log.append([b"entry %d" % number for number in range(start, end)])
        anchorer.submit(log.integrated().head)
        anchorer.poll()
        anchorer.poll()
        assert anchorer.on_chain() == (end, log.integrated().head.root)
    assert anchorer.standing(log.integrated().head).state is State.MINED


def test_a_real_reorganisation_moves_heads_back(anvil_node, path):
    """Anvil takes blocks back: heads in them are submitted again, sent again, mined anew, and final in the end."""
    transactions = Transactions.open(path, rpc=anvil_node, account=Account(KEY))
    address = deployment(transactions, anvil_node)
    anchorer = Anchorer(transactions, address=address, prove=prove)
    anvil_node.mine(FINAL_DEPTH + 2)
    for size in (5, 6):
        anchorer.submit(head(size))
        anchorer.poll()
        anvil_node.mine()
        anchorer.poll()
    assert states(anchorer, 5, 6) == [State.MINED] * 2
    hashes = {anchorer.standing(head(size)).block.hash for size in (5, 6)}
    anvil_node("anvil_reorg", 2, [])
    anchorer.poll()
    assert anchorer.on_chain() == (0, bytes(32))
    assert states(anchorer, 5, 6) == [State.SUBMITTED] * 2
    for _ in range(FINAL_DEPTH + 3):
        anvil_node.mine()
        anchorer.poll()
    assert states(anchorer, 5, 6) == [State.FINAL] * 2
    assert hashes.isdisjoint({anchorer.standing(head(size)).block.hash for size in (5, 6)})
    assert anchorer.on_chain() == (6, TREE.root(6))


def test_a_real_node_s_words_are_understood(anvil_node, path):
    """What anvil says to a known, an underpriced and a used transaction leads to the same end as elsewhere."""
    fees = FeePolicy(patience_blocks=2)
    transactions = Transactions.open(path, rpc=anvil_node, account=Account(KEY), fees=fees)
    address = deployment(transactions, anvil_node)
    anchorer = Anchorer(transactions, address=address, prove=prove)
    anchorer.submit(head(5))
    anchorer.poll()
    with transactions.journal.writing() as connection:
        transactions.journal.resend(connection, 1)
    anchorer.poll()  # already imported
    anvil_node("anvil_dropAllTransactions")
    with transactions.journal.writing() as connection:
        transactions.journal.resend(connection, 1)
    anchorer.poll()  # taken again
    for _ in range(FINAL_DEPTH + 3):
        anvil_node.mine()
        anchorer.poll()
    assert states(anchorer, 5) == [State.FINAL]


def deployment(transactions, node):
    """The address of LogHeads, deployed when it was not."""
    deploy(transactions, "LogHeads")
    for _ in range(200):
        transactions.poll()
        if (address := deployed_at(transactions, "LogHeads")) is not None:
            return address
        if not isinstance(node, EvmNode):
            node.mine()
    raise AssertionError("LogHeads was not deployed")


def settle(anchorer, node, size, wanted):
    """Returns when the head has one of these states."""
    for _ in range(200):
        anchorer.poll()
        if anchorer.standing(head(size)).state in wanted:
            return
        if not isinstance(node, EvmNode):
            node.mine()
    raise AssertionError(f"the head with {size} entries is {anchorer.standing(head(size)).state}")
