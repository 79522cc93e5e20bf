"""`veristate log anchor` on a real EVM in this process: deployed, submitted, final, and what it refuses."""

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from chain_nodes import EvmNode
from typer.testing import CliRunner

from veristate.attest import Home, Recorder, Stamp, State
from veristate.core import InputError
from veristate.interfaces.cli import anchor, timestamp
from veristate.interfaces.cli.app import app

KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"


@pytest.fixture
def store(tmp_path):
    """A store with three commitments under a published head."""
    folder = tmp_path / "store"
    with Recorder.open(folder) as recorder:
        for number in range(3):
            recorder.commit_to("step", inputs={}, outputs={"n": b"%d" % number}, context={})
        Home.open(recorder).deliver()
    return folder


@pytest.fixture
def chain(monkeypatch):
    """A chain on which the command finds its node, and the account's key in the environment."""
    node = EvmNode()
    monkeypatch.setattr(anchor, "HttpNode", lambda _url: node)
    monkeypatch.setenv(anchor.KEY_VARIABLE, KEY)
    return node


def anchored(store, *options):
    """The command's exit code and what it says."""
    done = CliRunner().invoke(app, ["log", "anchor", "--node", "x", "--store", str(store), "--json", *options])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout)


def states(store):
    """How far the store's commitments have come."""
    with Recorder.open(store) as recorder:
        return {state for _, state in recorder.outbox.items()}


def test_a_head_is_anchored_when_the_chain_calls_it_final(store, chain):
    """Deployed and submitted at first; when its block is final the entries are anchored, and stay so, asked again."""
    code, said = anchored(store, "--deploy", "--wait", "5")
    assert (code, said["size"], said["anchored"]) == (5, 4, False)
    assert states(store) == {State.LOGGED}
    for _ in range(20):
        chain.mine()
        code, said = anchored(store, "--contract", said["contract"])
        if code == 0:
            break
    assert (code, said["state"]) == (0, "final")
    assert states(store) == {State.ANCHORED}
    with Recorder.open(store) as recorder:
        before = len(list(recorder.ledger.entries()))
    assert anchored(store, "--contract", said["contract"])[0] == 0
    with Recorder.open(store) as recorder:
        assert len(list(recorder.ledger.entries())) == before


@pytest.mark.parametrize(
    ("key", "options", "said"),
    [
        (KEY, [], "--contract ADDRESS"),
        ("zz", ["--deploy"], "not hexadecimal"),
        ("", ["--deploy"], "32 bytes"),
    ],
)
def test_what_can_not_be_anchored_is_refused(store, chain, monkeypatch, key, options, said):
    """No contract, no key, or a key that is none: an InputError that does not hold the key."""
    monkeypatch.setenv(anchor.KEY_VARIABLE, key)
    with pytest.raises(InputError, match=said) as found:
        anchored(store, *options)
    assert not key or key not in str(found.value)


def test_a_head_that_is_stamped_and_anchored_is_one_json_object(store, chain, monkeypatch):
    """What the authority and the chain say of one head, which is read once."""
    time = datetime(2026, 3, 1, tzinfo=UTC)

    def stamped(_home, head, url, _authority, *, now):
        with Recorder.open(store) as recorder:
            recorder.commit_to("step", inputs={}, outputs={"n": b"later"}, context={})
            Home.open(recorder).deliver()
        return Stamp(size=head.size, time=time.isoformat(), authority=url, reply=""), time

    monkeypatch.setattr(timestamp, "stamp_head", stamped)
    monkeypatch.setattr(timestamp, "read_authority", lambda _file: "an authority")
    code, said = anchored(store, "--deploy", "--timestamp", "http://tsa")
    assert (code, said["anchored"], said["timestamp"], said["size"]) == (5, False, time.isoformat(), 4)


def test_without_a_published_head_there_is_nothing_to_anchor(tmp_path, chain):
    """Pending commitments are named, and a folder without any is refused."""
    with Recorder.open(tmp_path / "fresh"):
        pass
    with pytest.raises(InputError, match="published head"):
        anchored(tmp_path / "fresh", "--deploy")
    with pytest.raises(InputError, match="nothing was committed"):
        anchored(tmp_path / "none", "--deploy")


def test_the_chain_library_does_not_let_recursion_grow():
    """What loads with the account leaves the process's limit: deep nesting raises, it does not end the process."""
    code = (
        "import json, sys; from veristate.attest.chain import Account; Account(bytes(31) + b'\\1');"
        "assert sys.getrecursionlimit() == 1000\n"
        "try: json.loads('[' * 200_000)\nexcept RecursionError: print('raised')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "raised"
