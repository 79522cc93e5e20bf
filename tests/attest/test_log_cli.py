"""`veristate log` and `veristate witness`, as a user meets them."""

import json
import re
import subprocess
import sys
import threading

import pytest
from attest_cases import ORIGIN, commit, fixed_key, note_key
from typer.testing import CliRunner

from veristate.attest import Head, Home, NoteKind, Witness, serve
from veristate.attest.signing import Checkpoint, Note, sign_note
from veristate.attest.witness import AddCheckpoint
from veristate.core import VeristateError
from veristate.interfaces.cli.app import app


@pytest.fixture
def command():
    """Runs the command: exit code and output; an error of ours has its own code, as in `main`."""

    def run(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if isinstance(result.exception, VeristateError):
            return result.exception.exit_code, str(result.exception)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return run


@pytest.fixture
def store(open_recorder, tmp_path):
    """A store with three steps that were committed to, none of them logged."""
    with open_recorder() as recorder:
        for n in range(3):
            commit(recorder, n, execution=f"e{n}")
    return tmp_path / "run"


@pytest.fixture
def policy(command, store, tmp_path):
    """A policy that believes the store's log and asks for no witness."""
    path = tmp_path / "log.policy"
    path.write_text(command("log", "key", "--store", store)[1] + "quorum none\n")
    return path


def test_a_store_where_nothing_was_committed_to_is_refused(command, tmp_path):
    """And looking makes nothing."""
    code, said = command("log", "show", "--store", tmp_path / "nowhere")
    assert (code, "nothing was committed" in said) == (2, True)
    assert not (tmp_path / "nowhere").exists()


def test_from_pending_to_a_verified_proof(command, store, policy, tmp_path):
    """Show, deliver, show, prove, verify, fsck."""
    assert "4 pending" in command("log", "show", "--store", store)[1]
    code, said = command("log", "prove", "2", "--store", store)
    assert (code, "0 of 4" in said) == (2, True)
    assert command("log", "deliver", "--store", store, "--json")[0] == 0
    states = json.loads(command("log", "show", "--store", store, "--json")[1])
    assert [(c["state"], c["place"]) for c in states["commitments"]] == [("logged", n) for n in range(4)]
    out = tmp_path / "p.tlog-proof"
    assert command("log", "prove", "2", "--store", store, "--out", out)[0] == 0
    code, said = command("log", "verify", out, "--policy", policy)
    assert (code, "execution e1" in said, f"entry 2 of {ORIGIN}" in said) == (0, True, True)
    assert command("log", "fsck", "--store", store) == (0, f"all 4 entries of {ORIGIN} are what its head says.\n")


def test_a_pending_commitment_has_no_proof(command, store):
    """By its payload it is found, and called pending."""
    commitments = json.loads(command("log", "show", "--store", store, "--json")[1])["commitments"]
    code, said = command("log", "prove", commitments[1]["payload"][:20], "--store", store)
    assert (code, "pending" in said) == (2, True)


def test_a_changed_entry_or_proof_exits_with_3(command, store, policy, tmp_path):
    """Tampering has an exit code of its own."""
    command("log", "deliver", "--store", store)
    out = tmp_path / "p.tlog-proof"
    command("log", "prove", "1", "--store", store, "--out", out)
    entry = tmp_path / "p.dsse.json"
    data = entry.read_bytes()
    entry.write_bytes(data.replace(b"a", b"b", 1))
    assert command("log", "verify", out, "--policy", policy)[0] == 3
    entry.write_bytes(data)
    assert command("log", "verify", out, "--policy", policy)[0] == 0
    stranger = tmp_path / "stranger.policy"
    stranger.write_text(f"log {note_key(ORIGIN, 9)}\nquorum none\n")
    assert command("log", "verify", out, "--policy", stranger)[0] == 3
    stranger.write_text(f"log {note_key('other.example', 9)}\nquorum none\n")
    assert command("log", "verify", out, "--policy", stranger)[0] == 3
    assert command("log", "verify", out, "--policy", tmp_path / "none")[0] == 2


def test_a_policy_with_a_quorum_refuses_a_proof_without_it(command, store, policy, tmp_path):
    """Exit 4."""
    command("log", "deliver", "--store", store)
    out = tmp_path / "p.tlog-proof"
    command("log", "prove", "1", "--store", store, "--out", out)
    witness = note_key("w.example.org", 2, NoteKind.WITNESS)
    policy.write_text(policy.read_text().replace("quorum none", f"witness w {witness}\nquorum w"))
    code, said = command("log", "verify", out, "--policy", policy)
    assert (code, "no quorum" in said) == (4, True)


def test_fsck_of_a_damaged_log_exits_with_3(command, store, policy):
    """It names the file, and reads a copy in another folder by its key alone."""
    command("log", "deliver", "--store", store)
    key = policy.read_text().split()[1]
    assert command("log", "fsck", store / "log", "--key", key)[0] == 0
    assert command("log", "fsck", store / "log")[0] == 2
    (tile,) = (store / "log" / "tile" / "0").rglob("000.p/*")
    tile.write_bytes(tile.read_bytes()[:-1] + b"\0")
    code, said = command("log", "fsck", store / "log", "--key", key)
    assert (code, "tile/0/000.p/4" in said) == (3, True)


def test_delivery_through_a_witness(command, store, policy, tmp_path):
    """While it is down nothing is published and exit is 4; afterwards the commitments are witnessed."""
    key = note_key("w.example.org", 2, NoteKind.WITNESS)
    (store / "log.policy").write_text(f"witness w {key} http://127.0.0.1:9/\nquorum w\n")
    code, said = command("log", "deliver", "--store", store)
    assert (code, "NOT PUBLISHED" in said, "4 logged" in command("log", "show", "--store", store)[1]) == (4, True, True)
    log_key = command("log", "key", "--store", store)[1].split()[1]
    from veristate.attest import NoteKey

    witness = Witness(tmp_path / "w", name="w.example.org", key=fixed_key(2), logs=[NoteKey.parse(log_key)])
    server = serve(witness, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        (store / "log.policy").write_text(f"witness w {key} http://127.0.0.1:{server.server_port}/\nquorum w\n")
        code, said = command("log", "deliver", "--store", store)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert (code, "cosigned by w.example.org" in said) == (0, True)
    assert "4 witnessed" in command("log", "show", "--store", store)[1]
    code, said = command("log", "fsck", "--store", store)
    assert (code, said.splitlines()[1:]) == (0, ["cosigned by w.example.org."])
    told = tmp_path / "told.policy"
    told.write_text(f"log {log_key}\nwitness w {key}\nquorum w\n")
    assert command("log", "fsck", store / "log", "--policy", told)[1] == said
    stranger = json.loads(command("log", "fsck", store / "log", "--key", log_key, "--json")[1])
    assert (stranger["whole"], stranger["cosigned"], stranger["unjudged"]) == (True, [], ["w.example.org"])
    head = store / "log" / "checkpoint"
    kept = head.read_bytes()
    head.write_text(kept.decode().replace("— w.example.org ", "— v.example.org "))
    code, said = command("log", "fsck", "--store", store)
    head.write_bytes(kept)
    assert (code, "not judged" in said, "v.example.org" in said) == (0, True, True)
    out = tmp_path / "p"
    command("log", "prove", "3", "--store", store, "--out", out)
    policy.write_text(f"log {log_key}\nwitness w {key}\nquorum w\n")
    assert command("log", "verify", tmp_path / "p.tlog-proof", "--policy", policy)[0] == 0


def test_a_home_whose_policy_is_broken_is_refused(open_recorder):
    """Fail closed: it is not taken for none."""
    recorder = open_recorder()
    (recorder.folder / "log.policy").write_text("quorum everybody\n")
    with pytest.raises(VeristateError, match="line 1"):
        Home.open(recorder)


def test_a_witness_in_a_process_of_its_own(tmp_path, command):
    """It prints its line for policy files, cosigns, keeps a fork, and shows it."""
    log_key = note_key(ORIGIN, 1)
    arguments = ["--name", "w.example.org", "--log", str(log_key), "--folder", str(tmp_path / "w")]
    process = subprocess.Popen(
        [sys.executable, "-m", "veristate", "witness", "serve", *arguments, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        address = re.search(r"http://\S+", line)[0]
        from veristate.attest import http_ask

        ask = http_ask(address)
        statuses = [int(ask(request(3, root)).status) for root in (b"r", b"r", b"x")]
        assert statuses == [200, 409, 409]
        assert int(ask(request(3, b"x", old=3)).status) == 409
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert command("witness", "key", *arguments[:2], *arguments[4:])[1] == line.rsplit(" ", 1)[0] + "\n"
    code, said = command("witness", "forks", *arguments)
    assert (code, "for the same size 3" in said) == (3, True)
    (evidence,) = (tmp_path / "w").glob("*/fork-*.json")
    assert command("witness", "check", evidence, "--log", log_key)[0] == 0
    assert command("witness", "check", evidence, "--log", note_key(ORIGIN, 9))[0] == 3


def request(size, root, old=0):
    """A signed head of that size and root."""
    head = Head(origin=ORIGIN, size=size, root=root * 32)
    note = Note(text=str(head), signatures=(sign_note(str(head), note_key(ORIGIN, 1), fixed_key(1)),))
    return AddCheckpoint(old=old, proof=(), checkpoint=Checkpoint(head=head, note=note)).to_bytes()


def test_export_and_verify(command, store, policy, tmp_path):
    """Nothing to export before delivery; undecided without a policy; refused without the quorum; 3 when changed."""
    out = tmp_path / "run.zip"
    assert command("export", store, "--out", out)[0] == 2
    command("log", "deliver", "--store", store)
    code, said = command("export", store, "--out", out, "--redact", "question", "--json")
    assert (code, len(json.loads(said)["redacted"])) == (0, 3)
    assert command("export", store, "--out", out)[0] == 2
    code, said = command("verify", out)
    assert (code, "UNDECIDED" in said) == (5, True)
    code, said = command("verify", out, "--policy", policy, "--json")
    verdict = json.loads(said)
    assert (code, verdict["verdict"], [step["execution"] for step in verdict["steps"]]) == (
        0,
        "verified",
        ["e0", "e1", "e2"],
    )
    witness = note_key("w.example.org", 2, NoteKind.WITNESS)
    asking = tmp_path / "asking.policy"
    asking.write_text(policy.read_text().replace("quorum none", f"witness w {witness}\nquorum w"))
    assert command("verify", out, "--policy", asking)[0] == 4
    out.write_bytes(out.read_bytes().replace(b"a1", b"a2", 1))
    code, said = command("verify", out, "--policy", policy)
    assert (code, "TAMPERED" in said) == (3, True)
    assert command("verify", tmp_path / "nowhere.zip")[0] == 6
    assert command("verify", out, "--policy", tmp_path / "nowhere")[0] == 2


def test_fsck_judges_what_entries_say(command, store):
    """An honest log passes; an entry that is no commitment is named."""
    command("log", "deliver", "--store", store)
    assert command("log", "fsck", "--store", store, "--entries")[0] == 0
    from veristate.attest import Recorder

    with Recorder.open(store) as recorder:
        Home.open(recorder).log.append([b"hello"])
    assert command("log", "fsck", "--store", store)[0] == 0
    code, said = command("log", "fsck", "--store", store, "--entries")
    assert (code, "entry 4: no commitment" in said) == (3, True)
