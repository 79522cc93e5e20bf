"""Timestamps of a log's heads: asked for by the command, kept, exported, and judged offline."""

import json
import sys

import pytest
from attest_cases import commit
from timestamp_authority import SIGNED, TestAuthority, nonce_in
from typer.testing import CliRunner

from veristate.attest import Home, Recorder
from veristate.attest.export.archive import read_archive, write_archive
from veristate.core import VeristateError
from veristate.interfaces.cli.app import app

pytest.importorskip("rfc3161_client", reason="rfc3161-client is not installed: pip install 'veristate[timestamps]'")
TIME = SIGNED.isoformat()


@pytest.fixture
def command():
    """Runs `veristate ...`: exit code and what it said."""

    def run(*arguments):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if isinstance(done.exception, VeristateError):
            return done.exception.exit_code, str(done.exception)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run


@pytest.fixture
def store(open_recorder, tmp_path, tsa):
    """A store with a published head, beside a policy and the authority's root."""
    recorder = open_recorder()
    commit(recorder, 1, execution="e1")
    home = Home.open(recorder)
    home.deliver()
    (tmp_path / "policy").write_text(f"log {home.log.key}\nquorum none\n")
    (tmp_path / "root.pem").write_bytes(tsa.pem)
    return tmp_path / "run"


@pytest.fixture
def stamped(command, store, tsa, served, tmp_path):
    """The same with a timestamp of its head, exported to `run.zip`."""
    head = str(_head(store))
    served.answer = lambda query: tsa.reply(head.encode(), nonce=nonce_in(query))
    code, said = command(*asked(store, served), "--json")
    assert (code, json.loads(said)["timestamp"], json.loads(said)["size"]) == (0, TIME, 2)
    assert command("export", store, "--out", tmp_path / "run.zip")[0] == 0
    return store


def asked(store, served):
    """The command that asks for a timestamp."""
    url = f"http://127.0.0.1:{served.server_port}"
    return "log", "anchor", "--store", store, "--timestamp", url, "--authority", store.parent / "root.pem"


def _head(store):
    with Recorder.open(store) as recorder:
        return Home.open(recorder).log.published().head


def test_a_head_with_a_timestamp_verifies_offline_everywhere(command, stamped, tmp_path):
    """Shown, proven beside the proof, and in the export; each says the authority's time."""
    assert TIME in command("log", "show", "--store", stamped)[1]
    proof = tmp_path / "p.tlog-proof"
    assert command("log", "prove", "1", "--store", stamped, "--out", proof)[0] == 0
    policy, root = ("--policy", tmp_path / "policy"), ("--authority", tmp_path / "root.pem")
    assert TIME not in command("log", "verify", proof, *policy)[1]
    code, said = command("log", "verify", proof, *policy, *root, "--json")
    assert (code, json.loads(said)["timestamp"]) == (0, TIME)
    code, said = command("verify", tmp_path / "run.zip", *policy, *root, "--json")
    assert (code, json.loads(said)["timestamps"]) == (0, {"2": TIME})
    code, said = command("verify", tmp_path / "run.zip", *policy)
    assert (code, "is judged with --authority" in said) == (0, True)
    assert command("log", "fsck", "--store", stamped)[0] == 0


def test_a_proof_written_anew_leaves_no_timestamp_of_the_head_before(command, stamped, tmp_path):
    """The next head has none yet: what lay beside the proof would be judged as its timestamp, and found forged."""
    write = ("log", "prove", "1", "--store", stamped, "--out", tmp_path / "p")
    command(*write)
    assert (tmp_path / "p.tsr").exists()
    with Recorder.open(stamped) as recorder:
        commit(recorder, 2, execution="e2")
        Home.open(recorder).deliver()
    assert command(*write)[0] == 0
    assert not (tmp_path / "p.tsr").exists()


def test_a_timestamp_without_an_authority_is_refused(command, stamped, tmp_path):
    """Named and not judged, it would seem to hold."""
    command("log", "prove", "1", "--store", stamped, "--out", tmp_path / "p")
    code, said = command(
        "log", "verify", tmp_path / "p.tlog-proof", "--policy", tmp_path / "policy", "--timestamp", tmp_path / "p.tsr"
    )
    assert (code, "--authority" in said) == (2, True)


def test_another_authority_is_not_believed(command, stamped, tmp_path, tmp_path_factory):
    """A root that did not sign: exit 3, from the proof and from the export."""
    (tmp_path / "other.pem").write_bytes(TestAuthority(tmp_path_factory.mktemp("other")).pem)
    other = ("--policy", tmp_path / "policy", "--authority", tmp_path / "other.pem")
    command("log", "prove", "1", "--store", stamped, "--out", tmp_path / "p")
    assert command("log", "verify", tmp_path / "p.tlog-proof", *other)[0] == 3
    code, said = command("verify", tmp_path / "run.zip", *other)
    assert (code, "timestamps/000000002.tsr: timestamp:" in said) == (3, True)


def test_a_changed_or_missing_timestamp_is_told(command, stamped, tsa, tmp_path):
    """In an archive made anew, so that its sums are right: another head's token, none at all, one of another size."""
    with (tmp_path / "run.zip").open("rb") as source:
        members = list(read_archive(source))
    check = ("--policy", tmp_path / "policy", "--authority", tmp_path / "root.pem")

    def verified(changed):
        with (tmp_path / "changed.zip").open("wb") as target:
            write_archive(target, changed)
        return command("verify", tmp_path / "changed.zip", *check)

    name = "timestamps/000000002.tsr"
    assert verified(members)[0] == 0
    code, said = verified([(path, tsa.reply(b"another") if path == name else data) for path, data in members])
    assert (code, f"{name}: timestamp:" in said) == (3, True)
    code, said = verified([one for one in members if one[0] != name])
    assert (code, "the head has no timestamp" in said) == (3, True)
    code, said = verified([(path.replace("002.tsr", "003.tsr"), data) for path, data in members])
    assert (code, "003.tsr: stray" in said) == (3, True)


def test_a_reply_that_is_not_valid_is_not_kept(command, store, tsa, served):
    """An old token shown again: exit 3, nothing in the journal, nothing in the next export."""
    served.answer = lambda query: tsa.reply(str(_head(store)).encode(), nonce=1)
    code, said = command(*asked(store, served))
    assert (code, "not a valid timestamp" in said) == (3, True)
    assert json.loads(command("log", "show", "--store", store, "--json")[1])["timestamps"] == []


def test_what_is_missing_is_named(command, store, served, tmp_path, monkeypatch):
    """No node and no authority, no certificates, no answer, and the extra that is not installed."""
    assert "--node" in command("log", "anchor", "--store", store)[1]
    url = f"http://127.0.0.1:{served.server_port}"
    code, said = command("log", "anchor", "--store", store, "--timestamp", url)
    assert (code, "--authority" in said) == (2, True)
    code, said = command("verify", tmp_path / "run.zip", "--authority", tmp_path / "none.pem")
    assert (code, "none.pem" in said) == (2, True)
    code, said = command(*asked(store, served)[:5], "http://127.0.0.1:9/", *asked(store, served)[6:])
    assert (code, "gave no answer" in said) == (6, True)
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    code, said = command(*asked(store, served))
    assert (code, "pip install 'veristate[timestamps]'" in said) == (6, True)


def test_without_the_extra_an_export_with_a_timestamp_still_verifies(command, stamped, tmp_path, monkeypatch):
    """The base install judges everything but the time, and says so; asked for the time it names what is missing."""
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    policy = ("--policy", tmp_path / "policy")
    assert command("verify", tmp_path / "run.zip", *policy)[0] == 0
    code, said = command("verify", tmp_path / "run.zip", *policy, "--authority", tmp_path / "root.pem")
    assert (code, "pip install" in said) == (6, True)


def test_a_head_without_entries_gets_none(command, served, tmp_path):
    """Nothing is published: nothing is asked."""
    with Recorder.open(tmp_path / "new") as recorder:
        Home.open(recorder)
    (tmp_path / "root.pem").write_bytes(b"")
    code, _ = command(*asked(tmp_path / "new", served))
    assert code == 2
    assert served.queries == []
