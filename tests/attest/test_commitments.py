"""Commitments at a step's boundary, and what a key's signature is worth."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from attest_cases import ORIGIN, commit, fixed_key

import veristate
from veristate.attest import (
    EXACT,
    Commitment,
    Envelope,
    KeyEvent,
    KeyHistory,
    Manifest,
    Policy,
    Recorder,
    SigningKey,
    Standing,
    stage,
    to_artifact,
)
from veristate.attest.commitments import read_record
from veristate.core import EnvironmentUnusableError, InputError, RefusedError
from veristate.store import Store


def logged(recorder, log):
    """The recorder's envelopes in the log, each with its place, and the keys' history from the log alone."""
    recorder.outbox.flush(log.append)
    entries = [Envelope.from_bytes(entry) for entry in log.reader(log.published()).entries()]
    return entries, KeyHistory.of(enumerate(entries))


def standing(recorder, log, committed, place=None):
    """What the log's reader says of a commitment's signature."""
    entries, history = logged(recorder, log)
    place = entries.index(committed.envelope) if place is None else place
    return history.standing(committed.commitment, committed.envelope, place)


def test_a_commitment_names_everything_that_was_claimed(recorder):
    """Inputs, outputs, context and policy by digest, recorder, log, execution, predecessor; all of it in the store."""
    policy = replace(EXACT, metric="edit distance", nondeterminism="text", environment={"model": "m1"})
    first = commit(recorder, 1, execution="e1", policy=policy)
    second = commit(recorder, 2)
    said = first.commitment
    assert (said.origin, said.recorder, said.execution, said.stage) == (ORIGIN, recorder.id, "e1", "answer")
    store = recorder.store
    inputs = read_record(Manifest, store.get(said.inputs))
    assert store.get(inputs.artifacts["question"]) == b"q1"
    outputs = read_record(Manifest, store.get(said.outputs))
    assert store.get(outputs.artifacts["answer"]) == b"a1"
    assert read_record(Manifest, store.get(said.context)).artifacts == {}
    assert read_record(Policy, store.get(said.policy)) == policy
    assert (said.sequence, second.commitment.sequence) == (1, 2)
    assert second.commitment.predecessor == first.envelope.payload_digest
    assert second.commitment.execution != "e1"


def test_each_part_of_a_claim_changes_what_is_signed(recorder):
    """Replayed by another recorder, for another log, step, input or policy it is another commitment."""
    said = commit(recorder, 1).commitment
    others = [
        replace(said, **{name: "f" * 64})
        for name in ("recorder", "key", "predecessor", "inputs", "outputs", "context", "policy")
    ]
    others += [replace(said, **{name: "other"}) for name in ("origin", "execution", "stage", "time")]
    others.append(replace(said, sequence=9))
    assert len({c.statement() for c in [said, *others]}) == 13


def test_another_recorder_can_not_log_a_commitment_as_its_own(open_recorder, log):
    """Its id is inside what is signed, and its key is not the signer's."""
    victim, thief = open_recorder(), open_recorder("thief")
    original = commit(victim, 1)
    stolen = replace(original.commitment, recorder=thief.id)
    relabelled = Envelope(
        payload_type=original.envelope.payload_type, payload=stolen.statement(), signatures=original.envelope.signatures
    )
    logged(thief, log)
    entries, history = logged(victim, log)
    place = len(entries)
    assert history.standing(original.commitment, original.envelope, place).good
    assert history.standing(stolen, relabelled, place) is Standing.UNKNOWN
    as_thief = replace(stolen, key=thief.id)
    envelope = replace(relabelled, payload=as_thief.statement())
    assert history.standing(as_thief, envelope, place) is Standing.FORGED


def test_rotation_keeps_what_was_signed_before(recorder, log, open_recorder):
    """Signed by a retired key is a verdict of its own, and a good one."""
    before = commit(recorder, 1)
    assert standing(recorder, log, before) is Standing.CURRENT
    recorder.rotate("yearly")
    after = commit(recorder, 2)
    assert before.commitment.key != after.commitment.key
    assert standing(recorder, log, before) is Standing.RETIRED
    assert standing(recorder, log, after) is Standing.CURRENT
    again = open_recorder()
    third = commit(again, 3)
    assert third.commitment.key == after.commitment.key
    assert again.id == recorder.id


def test_a_retired_key_signs_nothing_new(recorder, log):
    """Logged after the rotation, it is too late."""
    before = commit(recorder, 1)
    recorder.rotate()
    entries, _ = logged(recorder, log)
    assert standing(recorder, log, before, place=len(entries) + 1) is Standing.AFTER_RETIREMENT
    assert not Standing.AFTER_RETIREMENT.good


def test_revocation_fixes_what_was_logged_and_refuses_the_rest(recorder, log):
    """The log's order is the time of revocation; before it the signature holds, and the verdict says so."""
    before = commit(recorder, 1)
    old = recorder.history().current(recorder.id)
    recorder.rotate("stolen")
    recorder.revoke(old, "stolen")
    after = commit(recorder, 2)
    entries, _ = logged(recorder, log)
    assert standing(recorder, log, before) is Standing.REVOKED
    assert standing(recorder, log, before, place=len(entries)) is Standing.AFTER_REVOCATION
    assert standing(recorder, log, after) is Standing.CURRENT
    assert (Standing.REVOKED.good, Standing.AFTER_REVOCATION.good) == (True, False)


def test_a_recorder_whose_current_key_is_revoked_can_not_go_on(recorder, open_recorder):
    """Neither this process nor the next."""
    recorder.revoke(recorder.history().current(recorder.id), "lost")
    with pytest.raises(EnvironmentUnusableError, match="revoked"):
        commit(recorder, 1)
    with pytest.raises(EnvironmentUnusableError, match="revoked"):
        open_recorder()


def event(action, key, sequence=1, recorder=1):
    """An event about the key of that number."""
    return KeyEvent(
        origin=ORIGIN,
        recorder=fixed_key(recorder).public.id,
        sequence=sequence,
        predecessor="0" * 64,
        action=action,
        key=fixed_key(key).public.raw.hex(),
        time="2026-01-01T00:00:00.000000Z",
    )


FIRST = (0, event("introduced", 1).sealed(fixed_key(1)))


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([(0, event("introduced", 2).sealed(fixed_key(2)))], "signs for itself"),
        ([(0, event("introduced", 1).sealed(fixed_key(2)))], "signs for itself"),
        ([FIRST, (1, event("introduced", 1).sealed(fixed_key(1)))], "signs for itself"),
        ([FIRST, (1, event("rotated", 2).sealed(fixed_key(2)))], "current key did not"),
        ([FIRST, (1, event("rotated", 2).sealed(fixed_key(1)))], "new key did not"),
        ([FIRST, (1, event("rotated", 1).sealed(fixed_key(1)))], "used before"),
        ([FIRST, (1, event("revoked", 1).sealed(fixed_key(2)))], "current key did not"),
        ([FIRST, (1, event("revoked", 2).sealed(fixed_key(1)))], "no key of this recorder"),
        ([(0, event("revoked", 1).sealed(fixed_key(1)))], "current key did not"),
    ],
)
def test_an_event_without_the_right_signatures_changes_nothing(events, why):
    """A stranger can't take over, retire or revoke a recorder's keys."""
    history = KeyHistory.of(events)
    assert why in history.rejected[events[-1][0]]
    if len(events) > 1:
        assert history.current(fixed_key(1).public.id) == fixed_key(1).public


def test_a_stage_commits_in_one_line(tmp_path):
    """What went in as it was before the call, what came out, the function's text and the environment."""

    @veristate.stage(recorder=tmp_path / "run")
    def grow(items, by=2):
        items.append(by)
        return {"items": items, "mean": sum(items) / len(items)}

    assert grow([1]) == {"items": [1, 2], "mean": 1.5}
    assert grow.__name__ == "grow"
    with Recorder.open(tmp_path / "run") as recorder:
        (_, (item, state)) = recorder.outbox.items()
        assert state == "pending"
        said = Commitment.from_envelope(Envelope.from_bytes(item.envelope))
        store = recorder.store
        inputs = read_record(Manifest, store.get(said.inputs)).artifacts
        assert {name: store.get(blob) for name, blob in inputs.items()} == {"items": b"[1]", "by": b"2"}
        result = read_record(Manifest, store.get(said.outputs)).artifacts["result"]
        assert json.loads(store.get(result)) == {"map": {"items": [1, 2], "mean": {"float": "1.5"}}}
        context = read_record(Manifest, store.get(said.context)).artifacts
        assert b"items.append(by)" in store.get(context["source"])
        assert set(context) == {"function", "source", "environment"}
        assert said.stage.endswith("grow")


def test_a_stage_that_raises_or_gives_what_has_no_bytes_commits_to_nothing(open_recorder):
    """The error is the caller's."""
    recorder = open_recorder()

    @stage(recorder=recorder)
    def fails(x):
        raise KeyError(x)

    @stage(recorder=recorder)
    def strange(x):
        return {x}

    with pytest.raises(KeyError):
        fails(1)
    with pytest.raises(InputError, match="encode of your own"):
        strange(1)
    with pytest.raises(InputError, match="encode of your own"):
        strange(object())
    assert len(recorder.outbox.items()) == 1


def test_values_that_differ_have_bytes_that_differ():
    """1, 1.0, "1", True, [1], NaN and null, and maps that look like tags."""
    values = [
        1,
        1.0,
        "1",
        True,
        None,
        [1],
        {"a": 1},
        {"float": "1.0"},
        float("nan"),
        float("inf"),
        [[]],
        [],
        -0.0,
        0.0,
        [b"\x01"],
    ]
    assert len({to_artifact([value]) for value in values}) == len(values)
    assert to_artifact((1, 2)) == to_artifact([1, 2])
    assert to_artifact({"b": 1, "a": 2}) == to_artifact({"a": 2, "b": 1})
    assert to_artifact(bytearray(b"x")) == to_artifact("x") == b"x"
    assert to_artifact(EXACT) == EXACT.to_bytes()
    for refused in ("\ud800", {1: 2}, {1, 2}, 2**60):
        with pytest.raises(InputError):
            to_artifact(refused)


def test_a_step_without_outputs_is_refused(recorder):
    """There is nothing to commit to."""
    with pytest.raises(InputError, match="no outputs"):
        recorder.commit_to("answer", inputs={}, outputs={}, context={})


def test_a_kill_at_every_step_of_a_commitment(tmp_path, killed_at, open_recorder, unsynced):
    """Either nothing was committed to or all of it is there, artifacts too; and the chain goes on."""
    seen = set()
    with open_recorder("base") as recorder:
        commit(recorder, 0)
    for step in itertools.count(1):
        folder = f"kill{step}"
        shutil.copytree(tmp_path / "base", tmp_path / folder)

        def run(folder=folder):
            with open_recorder(folder) as recorder:
                commit(recorder, 1, execution="e1")

        killed = killed_at(step, run)
        with open_recorder(folder) as recorder:
            recorder.ledger.require()
            found = len(recorder.outbox.items()) - 2
            seen.add((killed, found))
            if not found:
                commit(recorder, 1, execution="e1")
            commit(recorder, 2)
            items = [item for item, _ in recorder.outbox.items()]
            chain = [Commitment.from_envelope(Envelope.from_bytes(item.envelope)) for item in items[1:]]
            assert [c.sequence for c in chain] == [1, 2, 3]
            assert [c.predecessor for c in chain] == [item.payload for item in items[:-1]]
            for said in chain:
                for manifest in (said.inputs, said.outputs, said.context):
                    for blob in read_record(Manifest, recorder.store.get(manifest)).artifacts.values():
                        recorder.store.get(blob)
        if not killed:
            break
    assert (True, 0) in seen
    assert (False, 1) in seen
    assert step > 15


def test_two_processes_commit_to_one_chain(open_recorder):
    """No number twice, no number left out."""
    open_recorder().close()
    pids = []
    for n in range(2):
        pid = os.fork()
        if pid == 0:
            try:
                with open_recorder() as recorder:
                    for k in range(8):
                        commit(recorder, 100 * n + k)
                os._exit(0)
            except BaseException:
                os._exit(1)
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0]
    with open_recorder() as recorder:
        items = [item for item, _ in recorder.outbox.items()]
        assert [item.sequence for item in items] == list(range(17))


def test_a_number_out_of_turn_is_refused(recorder):
    """The outbox is no place for a fork of one's own."""
    said = commit(recorder, 1).commitment
    key = SigningKey.load(recorder._key_path(recorder.history().current(recorder.id)))
    branch = replace(said, execution="other").sealed(key)
    with pytest.raises(RefusedError, match="not its next, 2"):
        recorder.outbox.add(branch, recorder=recorder.id, sequence=1, more={})


def test_a_lost_private_key_stops_the_recorder(recorder, open_recorder):
    """It does not begin a second identity."""
    recorder._key_path(recorder.history().current(recorder.id)).unlink()
    with pytest.raises(EnvironmentUnusableError, match=r"\.pem"):
        open_recorder()


def test_committing_needs_neither_numpy_nor_torch(tmp_path):
    """Nor does any part of attest import them."""
    code = (
        "import sys, veristate\n"
        "f = veristate.stage(recorder=sys.argv[1])(lambda x: x)\n"
        "f(1)\n"
        "import veristate.attest.witness, veristate.attest.log\n"
        "assert not {'numpy', 'torch', 'pickle5', 'cloudpickle'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_store_of_a_recorder_is_a_store(recorder):
    """Blobs and journal are what fsck reads."""
    commit(recorder, 1)
    assert list(Store.open(recorder.folder / "objects").fsck([])) == []
    assert recorder.ledger.verify() == ()
