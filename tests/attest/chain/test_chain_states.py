"""Transactions on a chain whose every block is decided here: states follow it both ways, and no nonce is lost."""

import contextlib
import itertools
import random

import pytest
from chain_nodes import FINAL_DEPTH, SAFE_DEPTH, ScriptedChain
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.attest.chain import Account, Call, FeePolicy, Fees, HttpNode, State, Transactions
from veristate.core import EnvironmentUnusableError, InputError, TamperError

TARGET = "0x" + "11" * 20
KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
FEES = Fees(most=5 * 10**9, tip=2 * 10**9)
DEAR = Fees(most=50 * 10**9, tip=20 * 10**9)
PATIENT = FeePolicy(patience_blocks=10**6)


def call(name, data=None):
    """Something to be done, named so."""
    return Call(key=name, target=TARGET, data=data or name.encode(), gas=50_000)


@pytest.fixture
def path(tmp_path):
    """Where the journal is."""
    return tmp_path / "chain.sqlite"


@pytest.fixture
def reopen(scripted, account, path):
    """Opens the journal, as often as you like: a restart."""
    opened = []

    def start(fees=PATIENT):
        opened.append(Transactions.open(path, rpc=scripted, account=account, fees=fees))
        return opened[-1]

    yield start
    for transactions in opened:
        transactions.close()


def state(transactions, name):
    """The state of a call."""
    return transactions.standing(name).state


def states_of(transactions, name):
    """All states a call was in, in order."""
    return [move.after for move in transactions.moves(name)]


# Depth


def test_submitted_mined_safe_and_final_are_four_states(scripted, reopen):
    """A call is each of the four in turn, at the depth where the chain says so, and only the last is anchored."""
    transactions = reopen()
    assert transactions.send(call("a")).state is State.SUBMITTED
    transactions.poll()
    assert state(transactions, "a") is State.SUBMITTED
    scripted.mine()
    for depth in range(FINAL_DEPTH + 3):
        transactions.poll()
        standing = transactions.standing("a")
        expected = State.FINAL if depth >= FINAL_DEPTH else State.SAFE if depth >= SAFE_DEPTH else State.MINED
        assert standing.state is expected, depth
        assert standing.state.anchored == (depth >= FINAL_DEPTH)
        assert (standing.block.number, standing.block.hash) == (1, scripted.blocks[1].hash)
        scripted.mine()
    assert states_of(transactions, "a") == [State.SUBMITTED, State.MINED, State.SAFE, State.FINAL]


def test_a_receipt_alone_is_never_final(scripted, reopen):
    """A node without safe and finalized blocks never makes a call final, however deep it lies (ethrex#4563)."""
    scripted.tags = False
    transactions = reopen()
    transactions.send(call("a"))
    scripted.mine(100)
    transactions.poll()
    assert state(transactions, "a") is State.MINED


def test_a_receipt_of_a_block_that_is_not_in_the_chain_counts_for_nothing(scripted, reopen, monkeypatch):
    """A receipt that names a block which the chain doesn't have at that height is none (taiko-mono#13841)."""
    transactions = reopen()
    transactions.send(call("a"))
    told = {"blockHash": "0x" + "ee" * 32, "blockNumber": "0x1", "status": "0x1"}
    scripted.mine()
    scripted.blocks[1].parts.clear()
    monkeypatch.setattr(scripted, "eth_getTransactionReceipt", lambda name: told)
    transactions.poll()
    assert state(transactions, "a") is State.SUBMITTED


def test_a_refused_call_is_not_anchored(scripted, reopen):
    """A call that the contract refused is REVERTED at every depth; sent again it has a new nonce."""
    transactions = reopen()
    transactions.send(call("a"))
    scripted.reverting = set(scripted.seen)
    scripted.mine()
    for _ in range(FINAL_DEPTH + 2):
        transactions.poll()
        standing = transactions.standing("a")
        assert (standing.state, standing.reason) == (State.REVERTED, "the contract refused the call")
        scripted.mine()
    assert transactions.send(call("a", b"better")).state is State.SUBMITTED
    scripted.mine(FINAL_DEPTH + 1)
    transactions.poll()
    assert state(transactions, "a") is State.FINAL
    assert [tx["nonce"] for tx in scripted.mined()] == [0, 1]


# Reorganisations


@pytest.mark.parametrize("kept", [True, False])
def test_a_reorganisation_moves_a_state_back_and_forth(scripted, reopen, kept):
    """What a reorganisation took out is SUBMITTED again and sent again if the node forgot it; then it is mined anew."""
    transactions = reopen()
    transactions.send(call("a"))
    scripted.mine(3)
    transactions.poll()
    assert state(transactions, "a") is State.SAFE
    scripted.reorganise(3, keep=kept)
    transactions.poll()
    standing = transactions.standing("a")
    assert (standing.state, standing.block, standing.transaction) == (State.SUBMITTED, None, None)
    scripted.mine()
    transactions.poll()
    assert (state(transactions, "a"), transactions.standing("a").block.number) == (State.MINED, 4)
    moves = transactions.moves("a")
    assert [m.after for m in moves] == [State.SUBMITTED, State.SAFE, State.SUBMITTED, State.MINED]
    assert "no longer in the chain" in moves[2].reason


def test_one_transaction_in_two_blocks_is_one_call(scripted, reopen):
    """After a reorganisation puts a transaction in another block, it has that block, and there is still one call
    (services#2069).
    """
    transactions = reopen()
    transactions.send(call("a"))
    scripted.mine()
    transactions.poll()
    first = transactions.standing("a")
    scripted.reorganise(1, longer=1)
    scripted.mine()
    transactions.poll()
    second = transactions.standing("a")
    assert first.transaction == second.transaction
    assert (first.block.number, second.block.number) == (1, 3)
    assert first.block.hash != second.block.hash
    with transactions.journal.writing() as connection:
        assert len(transactions.journal.calls_of(connection, "a")) == 1


def test_the_same_height_in_another_block_is_noticed(scripted, reopen):
    """A transaction whose block was exchanged for another at the same height names the new one."""
    transactions = reopen()
    transactions.send(call("a"))
    scripted.mine()
    transactions.poll()
    tx = scripted.blocks[1].parts[0]
    scripted.reorganise(1, keep=False)
    scripted.blocks[1].parts.append(tx)
    transactions.poll()
    standing = transactions.standing("a")
    assert (standing.state, standing.block.hash) == (State.MINED, scripted.blocks[1].hash)


def test_a_node_that_lost_its_receipts_changes_nothing(scripted, reopen):
    """While the block still stands, a receipt that can't be read moves no state, and nothing is sent twice
    (Ghoststake#58).
    """
    transactions = reopen()
    transactions.send(call("a"))
    scripted.mine(3)
    transactions.poll()
    before = transactions.standing("a")
    scripted.pruned = set(scripted.seen)
    scripted.mine(FINAL_DEPTH)
    scripted.asked.clear()
    assert transactions.poll() == ()
    after = transactions.standing("a")
    assert (after.state, after.block, after.transaction) == (before.state, before.block, before.transaction)
    assert "not the transaction's receipt" in after.reason
    assert "eth_sendRawTransaction" not in scripted.asked
    scripted.pruned.clear()
    transactions.poll()
    assert state(transactions, "a") is State.FINAL


def test_a_node_that_does_not_answer_changes_nothing(scripted, reopen):
    """When any question fails, the call raises, and every state and move is what it was."""
    transactions = reopen()
    for name in "abc":
        transactions.send(call(name))
    scripted.mine(2)
    transactions.poll()
    before = [transactions.standing(name) for name in "abc"]
    scripted.reorganise(2, longer=1)
    scripted.down = True
    with pytest.raises(EnvironmentUnusableError, match="down"):
        transactions.poll()
    assert [transactions.standing(name) for name in "abc"] == before
    scripted.down = False
    transactions.poll()
    assert [state(transactions, name) for name in "abc"] == [State.SUBMITTED] * 3


def test_another_final_block_than_before_is_told_and_nothing_moves(scripted, reopen):
    """A node that shows another block where one was final is on another chain; what was known stays."""
    transactions = reopen()
    transactions.send(call("a"))
    scripted.mine(FINAL_DEPTH + 2)
    transactions.poll()
    assert state(transactions, "a") is State.FINAL
    scripted.reorganise(FINAL_DEPTH + 2)
    with pytest.raises(TamperError, match="Nothing was changed"):
        transactions.poll()
    assert state(transactions, "a") is State.FINAL


def test_a_node_that_lags_takes_back_no_finality(scripted, reopen):
    """A node some blocks behind, or without the newest ones, leaves final calls final."""
    transactions = reopen()
    transactions.send(call("a"))
    scripted.mine(FINAL_DEPTH + 1)
    transactions.poll()
    scripted.lag = FINAL_DEPTH + 1
    transactions.poll()
    assert state(transactions, "a") is State.FINAL


# Nonces


def test_nonces_are_handed_out_once_and_in_order(scripted, reopen):
    """Calls that are sent before anything is mined have nonces one after the other, over restarts too."""
    for number in range(6):
        reopen().send(call(f"c{number}"))
    scripted.mine()
    assert [tx["data"] for tx in scripted.mined()] == [f"c{number}".encode() for number in range(6)]


def test_sending_again_sends_nothing(scripted, reopen):
    """The same call is sent once, whatever its state; another call under its name is refused."""
    for _ in range(2):
        transactions = reopen()
        first = transactions.send(call("a"))
        assert transactions.send(call("a")) == first
        with pytest.raises(InputError, match="other contents"):
            transactions.send(call("a", b"else"))
        scripted.mine(FINAL_DEPTH + 1)
        transactions.poll()
    assert len(scripted.mined()) == 1


def test_a_gap_is_filled(scripted, reopen, account):
    """A transaction behind a nonce that nobody uses any more gets a filler before it (plunger#1).

    Somebody else's transaction waited when ours was given the next nonce; the node then dropped it.
    """
    foreign = account.sign(chain_id=1337, nonce=0, to=TARGET, data=b"", gas=21_000, fees=FEES)
    scripted.eth_sendRawTransaction("0x" + foreign.raw.hex())
    transactions = reopen()
    transactions.send(call("a"))
    del scripted.pool[account.address, 0]
    scripted.mine(5)
    assert scripted.mined() == []
    transactions.poll()
    scripted.mine()
    transactions.poll()
    assert [tx["nonce"] for tx in scripted.mined()] == [0, 1]
    assert scripted.mined()[0]["to"] == bytes.fromhex(account.address[2:])
    assert state(transactions, "a") is State.MINED
    assert state(transactions, "gap:0") is State.MINED


def test_a_nonce_that_somebody_else_used_is_given_up_only_when_it_is_safe(scripted, reopen, account):
    """A call whose nonce another program used is DISPLACED once that is safe, and can be sent again
    (polyswarm-client#379).
    """
    transactions = reopen()
    transactions.send(call("a"))
    scripted.pool.clear()
    foreign = account.sign(chain_id=1337, nonce=0, to=TARGET, data=b"", gas=21_000, fees=FEES)
    scripted.eth_sendRawTransaction("0x" + foreign.raw.hex())
    scripted.mine(SAFE_DEPTH)
    transactions.poll()
    assert state(transactions, "a") is State.SUBMITTED
    scripted.mine()
    transactions.poll()
    assert state(transactions, "a") is State.DISPLACED
    assert "not signed here" in transactions.standing("a").reason
    transactions.send(call("a"))
    scripted.mine(FINAL_DEPTH + 1)
    transactions.poll()
    assert state(transactions, "a") is State.FINAL


def test_a_used_nonce_without_a_receipt_is_nobody_elses(scripted, reopen):
    """A call that was mined at once and whose receipt the node lost is not sent a second time under another nonce."""
    transactions = reopen()
    transactions.send(call("a"))
    scripted.pruned = set(scripted.seen)
    for _ in range(FINAL_DEPTH + 2):
        scripted.mine()
        transactions.poll()
        standing = transactions.standing("a")
        assert standing.state is State.SUBMITTED
    assert "has no receipt" in standing.reason
    transactions.send(call("a"))
    scripted.pruned.clear()
    transactions.poll()
    assert state(transactions, "a") is State.FINAL
    assert len(scripted.seen) == 1


def test_a_journal_of_another_account_or_chain_is_refused(scripted, reopen, other_account, account, path):
    """Nonces of one account are not used by another, nor on another chain that has the same number."""
    reopen().send(call("a"))
    with pytest.raises(InputError, match="address"):
        Transactions.open(path, rpc=scripted, account=other_account)
    scripted.blocks[0].hash = "0x" + "77" * 32
    with pytest.raises(InputError, match="genesis"):
        Transactions.open(path, rpc=scripted, account=account)


# Fees


def test_what_stalls_offers_more_until_it_is_mined(scripted, reopen):
    """A transaction that pays too little is replaced by ones of the same nonce that pay an eighth more each."""
    scripted.floor = 2 * 10**9
    transactions = reopen(FeePolicy(patience_blocks=3))
    transactions.send(call("a"))
    for _ in range(40):
        scripted.mine()
        transactions.poll()
    tips = [tx["tip"] for tx in scripted.seen.values()]
    assert all(8 * more >= 9 * less for less, more in itertools.pairwise(tips))
    assert tips[-2] < scripted.floor <= tips[-1]
    assert [tx["nonce"] for tx in scripted.mined()] == [0]
    assert state(transactions, "a") is State.FINAL


def test_a_replaced_transaction_that_is_mined_after_all_is_recognised(scripted, reopen):
    """Any of a nonce's transactions may be the one that is mined: the first is found as well as the last."""
    transactions = reopen(FeePolicy(patience_blocks=1))
    first = transactions.send(call("a"))
    scripted.floor = 10**12
    [early] = scripted.seen.values()
    scripted.mine(2)
    transactions.poll()
    assert len(scripted.seen) == 2
    scripted.pool = {(early["sender"], 0): early}
    scripted.floor = 0
    scripted.mine()
    transactions.poll()
    assert transactions.standing("a").transaction == early["hash"]
    assert first.key == "a"


def test_only_what_is_next_is_hurried(scripted, reopen):
    """Transactions behind one that stalls are not replaced: they wait for it, not for more."""
    scripted.floor = 10**12
    transactions = reopen(FeePolicy(patience_blocks=2))
    for name in "abc":
        transactions.send(call(name))
    scripted.mine(6)
    transactions.poll()
    assert sorted(tx["nonce"] for tx in scripted.seen.values()) == [0, 0, 1, 2]


def test_a_limit_stops_offers_and_says_so(scripted, reopen):
    """No more than the limit is ever offered; the standing says what is missing, and a higher limit goes on."""
    scripted.floor = 10**12
    transactions = reopen(FeePolicy(patience_blocks=1, most_upper=5 * 10**9))
    transactions.send(call("a"))
    for _ in range(30):
        scripted.mine()
        transactions.poll()
    assert max(tx["most"] for tx in scripted.seen.values()) <= 5 * 10**9
    assert "5000000000 is the limit" in transactions.standing("a").reason
    scripted.floor = 4 * 10**9
    transactions = reopen(FeePolicy(patience_blocks=1))
    for _ in range(20):
        scripted.mine()
        transactions.poll()
    assert state(transactions, "a") is State.FINAL


def test_an_underpriced_replacement_is_raised_until_the_node_takes_it(scripted, reopen, account):
    """Against an unknown transaction of the same nonce the offer grows until it is taken (web3-ethereum-defi#153)."""
    transactions = reopen()
    dear = account.sign(chain_id=1337, nonce=0, to=TARGET, data=b"", gas=21_000, fees=DEAR)
    count = scripted.eth_getTransactionCount
    scripted.eth_getTransactionCount = lambda address, tag: "0x0"  # the node answers before it saw the other one
    scripted.eth_sendRawTransaction("0x" + dear.raw.hex())
    transactions.send(call("a"))
    scripted.eth_getTransactionCount = count
    assert scripted.pool[account.address, 0]["data"] == b"a"
    scripted.mine()
    transactions.poll()
    assert state(transactions, "a") is State.MINED


def test_a_stalled_account_does_not_hold_up_another(scripted, reopen, other_account, tmp_path):
    """What one account can't get mined does not touch what another one sends."""
    scripted.floor = 2 * 10**9
    slow = reopen(FeePolicy(most_upper=10**9, tip_least=1))
    slow.send(call("a"))
    fast = Transactions.open(
        tmp_path / "other.sqlite", rpc=scripted, account=other_account, fees=FeePolicy(tip_least=3 * 10**9)
    )
    fast.send(call("b"))
    scripted.mine(FINAL_DEPTH + 1)
    slow.poll()
    fast.poll()
    assert (state(slow, "a"), state(fast, "b")) == (State.SUBMITTED, State.FINAL)
    fast.close()


def test_what_a_node_refuses_waits_and_the_others_go_on(scripted, reopen):
    """A refusal, no money for instance, is kept and tried again; it raises nothing and loses nothing."""
    transactions = reopen()
    scripted.refusals["eth_sendRawTransaction"] = "insufficient funds for gas * price + value"
    for name in "ab":
        assert transactions.send(call(name)).state is State.SUBMITTED
    scripted.mine(2)
    transactions.poll()
    assert scripted.mined() == []
    del scripted.refusals["eth_sendRawTransaction"]
    transactions.poll()
    scripted.mine()
    transactions.poll()
    assert [state(transactions, name) for name in "ab"] == [State.MINED] * 2


def test_policies_that_can_not_be_are_refused():
    """A limit below the least tip, or no patience at all, is an error of the caller's."""
    for wrong in ({"most_upper": 1}, {"tip_least": 0}, {"patience_blocks": 0}):
        with pytest.raises(InputError, match="needs"):
            FeePolicy(**wrong)


# Restarts


@pytest.mark.parametrize("moment", ["before the node has it", "after the node has it"])
def test_a_restart_sends_what_was_signed(scripted, reopen, monkeypatch, moment):
    """A process that dies between keeping a transaction and hearing of it sends the same one after its restart."""
    before = moment.startswith("before")
    send = scripted.eth_sendRawTransaction

    def die(raw):
        if not before:
            send(raw)
        raise EnvironmentUnusableError("killed")

    monkeypatch.setattr(scripted, "eth_sendRawTransaction", die)
    with pytest.raises(EnvironmentUnusableError):
        reopen().send(call("a"))
    monkeypatch.undo()
    transactions = reopen()
    assert transactions.send(call("a")).state is State.SUBMITTED
    transactions.poll()
    scripted.mine(FINAL_DEPTH + 1)
    transactions.poll()
    assert state(transactions, "a") is State.FINAL
    assert len(scripted.seen) == len(scripted.mined()) == 1


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.soak)])
def test_whatever_happens_each_call_is_anchored_once_and_in_order(tmp_path_factory, count):
    """Over random blocks, reorganisations, forgetful and silent nodes and restarts, every call is final once, in order.

    On the way no call is final that the chain does not hold at that depth.
    """
    tried = given(st.integers(0, 2**32))(lambda seed: misfortunes(seed, tmp_path_factory.mktemp("chain")))
    settings(max_examples=count, deadline=None)(tried)()


def misfortunes(seed, folder):
    """One story of a chain and its node, to its good end."""
    pick = random.Random(seed)
    chain = ScriptedChain()
    path = folder / "journal.sqlite"
    fees = FeePolicy(patience_blocks=2)
    transactions = Transactions.open(path, rpc=chain, account=Account(KEY), fees=fees)
    sent = []
    for _ in range(pick.randrange(10, 40)):
        misfortune(pick, chain)
        match pick.randrange(4):
            case 0:
                name = f"c{len(sent)}"
                with contextlib.suppress(EnvironmentUnusableError):
                    transactions.send(call(name))
                # A node that is down is told at once, and the call is then not kept.
                sent += [name] if known(transactions, name) else []
            case 1:
                chain.mine(pick.randrange(1, 4))
            case 2:
                with contextlib.suppress(EnvironmentUnusableError):
                    transactions.poll()
            case 3:
                transactions.close()
                chain.down = False
                transactions = Transactions.open(path, rpc=chain, account=Account(KEY), fees=fees)
        settled = chain.blocks[: max(0, len(chain.blocks) - FINAL_DEPTH)]
        final = {tx["data"] for block in settled for tx in block.parts}
        for name in sent:
            if known(transactions, name) is State.FINAL:
                assert name.encode() in final
    chain.down, chain.floor, chain.lag = False, 0, 0
    chain.refusals.clear()
    chain.pruned.clear()
    for name in sent:
        transactions.send(call(name))
    for _ in range(60):
        transactions.poll()
        chain.mine()
    chain.mine(FINAL_DEPTH)
    transactions.poll()
    assert [state(transactions, name) for name in sent] == [State.FINAL] * len(sent)
    done = [tx["data"].decode() for tx in chain.mined() if tx["data"]]
    assert done == sorted(done, key=lambda name: int(name[1:]))
    assert sorted(done) == sorted(sent)
    transactions.close()


def misfortune(pick, chain):
    """Something that goes wrong with a chain or its node, or right again."""
    depth = min(pick.randrange(1, FINAL_DEPTH), len(chain.blocks) - 1)
    match pick.randrange(9):
        case 0 if depth > 0:
            chain.reorganise(depth, keep=pick.random() < 0.5, longer=pick.randrange(2))
        case 1:
            chain.pool.clear()
        case 2:
            chain.down = not chain.down
        case 3:
            chain.refusals = {"eth_sendRawTransaction": "too busy"} if not chain.refusals else {}
        case 4:
            chain.floor = pick.choice([0, 10**9, 2 * 10**9])
        case 5:
            chain.pruned = set(chain.seen) if not chain.pruned else set()
        case _:
            pass


def known(transactions, name):
    """A call's state, None before it was sent."""
    try:
        return state(transactions, name)
    except InputError:
        return None


# The node's address


def test_an_address_that_is_none_and_a_node_that_is_not_there():
    """What is no http address is refused, and what doesn't answer is told without the path, which may hold a key."""
    with pytest.raises(InputError, match="no http"):
        HttpNode("file:///etc/passwd")
    with pytest.raises(EnvironmentUnusableError, match="gave no answer") as told:
        HttpNode("http://127.0.0.1:9/v3/secret", timeout_s=2)("eth_chainId")
    assert "secret" not in str(told.value)


def test_a_key_that_is_none_is_not_repeated():
    """A wrong key is refused without being shown, and an account shows its address alone."""
    with pytest.raises(InputError) as told:
        Account(b"hunter2")
    assert "hunter2" not in str(told.value)
    assert repr(Account(KEY)) == "Account(0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266)"
