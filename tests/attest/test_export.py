"""Exports: one file, every byte of it determined, verified by a stranger with the base install."""

import io
import json
import random
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest
from attest_cases import NOW, ORIGIN, commit, fixed_key, note_key
from hypothesis import given
from hypothesis import strategies as st

from veristate.attest import Home, NoteKind, Quorum, Stamp, Trust, export_run, read_export
from veristate.attest.commitments import read_record
from veristate.attest.export import ExportFindingKind, read_archive, write_archive, writing
from veristate.attest.export.crate import CONTENTS, METADATA, SUGGESTED, describe
from veristate.attest.export.verifying import Contents
from veristate.core import InputError, RefusedError, TamperError

LATER = NOW + 10**9


@pytest.fixture
def home(open_recorder):
    """A recorder with six steps, a key rotation between them, and its log, published."""
    recorder = open_recorder()
    for n in range(3):
        commit(recorder, n, context={"note": b"the same in every step"})
    recorder.rotate("yearly")
    for n in range(3, 6):
        commit(recorder, n, context={"note": b"the same in every step"})
    opened = Home.open(recorder)
    opened.deliver()
    return opened


@pytest.fixture
def trust(home):
    """Whom the verifier believes: the log's key, by another way than the file."""
    return Trust.parse(f"log {home.log.key}\nquorum none\n")


@pytest.fixture
def exported(home, tmp_path):
    """The export of it."""
    export_run(home, tmp_path / "run.zip")
    return tmp_path / "run.zip"


def members(path):
    """The files in an export."""
    with path.open("rb") as source:
        return dict(read_archive(source))


def pack(path, files, *, described=True):
    """Writes an export whose archive is right, and its description too, as an adversary would."""
    if described:
        contents = read_record(Contents, files[CONTENTS])
        date = json.loads(files[METADATA])["@graph"][1]["datePublished"]
        files = files | {METADATA: describe(contents, [(n, len(d)) for n, d in files.items() if n != METADATA], date)}
    with path.open("wb") as target:
        write_archive(target, files.items())
    return path


def kinds(path, trust):
    """The kinds of what is wrong with an export."""
    return {finding.kind for finding in read_export(path, trust, now=LATER).findings}


def test_a_whole_export_tells_everything(exported, trust):
    """Each step with its place, what its signature is worth, and its artifacts."""
    found = read_export(exported, trust, now=LATER).require()
    assert [step.place for step in found.steps] == [1, 2, 3, 5, 6, 7]
    assert [step.standing.name for step in found.steps] == ["RETIRED"] * 3 + ["CURRENT"] * 3
    assert found.artifacts(found.steps[4].commitment.outputs) == {"answer": b"a4"}
    assert found.contents.origin == ORIGIN


def test_any_zip_program_opens_it_and_the_description_is_an_ro_crate(exported):
    """The standard library's reader, and the entities that RO-Crate 1.2 asks for."""
    with zipfile.ZipFile(exported) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == members(exported)
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    assert entities["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    assert entities["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
    root = entities["./"]
    assert root["@type"] == "Dataset"
    assert {"name", "description", "datePublished", "license"} <= set(root)
    listed = {part["@id"] for part in root["hasPart"]}
    assert listed == set(members(exported)) - {METADATA}
    assert listed <= set(entities)


def test_the_same_run_gives_the_same_file(home, exported, tmp_path):
    """Byte for byte, so two people can compare digests."""
    export_run(home, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == exported.read_bytes()
    with pytest.raises(InputError, match="exists"):
        export_run(home, exported)


def test_any_changed_byte_is_reported(exported, trust, tmp_path):
    """Headers, names, directory and contents: bits flipped, ends cut, bytes added."""
    data, chance = exported.read_bytes(), random.Random(8)
    broken = tmp_path / "broken.zip"
    for _ in range(80):
        at = chance.randrange(len(data))
        broken.write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
        assert kinds(broken, trust), at
    for changed in (data[:-1], data + b"\0", b"", data[: len(data) // 2], b"\0" + data):
        broken.write_bytes(changed)
        assert kinds(broken, trust)


def test_an_adversary_who_repairs_the_archive_is_found_in_every_kind_of_file(exported, trust, tmp_path):
    """A byte changed in each file, archive and description made right again: what it hit is named."""
    files, chance = members(exported), random.Random(9)
    for name in files:
        if name in (SUGGESTED, CONTENTS, METADATA):
            continue
        for _ in range(2):
            at = chance.randrange(len(files[name]))
            changed = bytes([files[name][at] ^ 1 << chance.randrange(8)])
            data = files[name][:at] + changed + files[name][at + 1 :]
            found = read_export(pack(tmp_path / "x.zip", files | {name: data}), trust, now=LATER).findings
            base = name.removesuffix(".dsse.json").removesuffix(".tlog-proof")
            assert any(base in finding.path for finding in found), (name, at)


def test_a_file_that_is_left_out_or_added_is_found(exported, trust, tmp_path):
    """Each in turn."""
    files = members(exported)
    for name in files:
        left = {other: data for other, data in files.items() if other != name}
        if name not in (METADATA, CONTENTS):
            assert kinds(pack(tmp_path / "x.zip", left), trust), name
        assert kinds(pack(tmp_path / "x.zip", left, described=False), trust), name
    assert kinds(pack(tmp_path / "x.zip", files | {"blobs/readme": b"x"}), trust) == {ExportFindingKind.BLOB}
    assert kinds(pack(tmp_path / "x.zip", files | {"more": b"x"}), trust) == {ExportFindingKind.STRAY}
    assert kinds(pack(tmp_path / "x.zip", files | {"entries/../1.dsse.json": b"x"}), trust) == {ExportFindingKind.STRAY}


def test_a_step_that_is_left_out_with_its_proof_breaks_the_chain(exported, trust, tmp_path):
    """Its number is due; only the end of a chain can be kept back, and that is what a newer head shows."""
    files = members(exported)
    left = {name: data for name, data in files.items() if "000000002" not in name}
    assert ExportFindingKind.CHAIN in kinds(pack(tmp_path / "x.zip", left), trust)
    without_rotation = {name: data for name, data in files.items() if "000000004" not in name}
    assert {ExportFindingKind.CHAIN, ExportFindingKind.SIGNATURE} <= kinds(
        pack(tmp_path / "x.zip", without_rotation), trust
    )


def test_redacted_artifacts_are_told_and_stay_committed_to(home, trust, tmp_path):
    """Left out by name; the manifests still name their digests; what is missing otherwise is a finding."""
    export_run(home, tmp_path / "r.zip", redact={"question"})
    found = read_export(tmp_path / "r.zip", trust, now=LATER).require()
    assert len(found.contents.redacted) == 6
    assert found.artifacts(found.steps[0].commitment.inputs) == {"question": None}
    assert b"q1" not in members(tmp_path / "r.zip").values()
    files = members(tmp_path / "r.zip")
    blob = next(name for name, data in files.items() if data == b"a3")
    hidden = {name: data for name, data in files.items() if name != blob}
    assert kinds(pack(tmp_path / "x.zip", hidden), trust) == {ExportFindingKind.MISSING}


def test_another_log_key_or_no_key_does_not_verify(exported, tmp_path):
    """Whoever exports can't choose whom the verifier believes."""
    stranger = Trust.parse(f"log {note_key(ORIGIN, 9)}\nquorum none\n")
    assert kinds(exported, stranger) == {ExportFindingKind.PROOF}
    assert kinds(exported, Trust.parse("quorum none")) == {ExportFindingKind.PROOF}
    with pytest.raises(TamperError, match="findings"):
        read_export(exported, stranger, now=LATER).require()


def test_without_the_quorum_it_is_refused(exported, home):
    """And that is all that is wrong."""
    witness = note_key("w.example.org", 2, NoteKind.WITNESS)
    trust = Trust(logs=(home.log.key,), quorum=Quorum(members=(witness,), threshold=1), addresses={})
    found = read_export(exported, trust, now=LATER)
    assert {finding.kind for finding in found.findings} == {ExportFindingKind.QUORUM}
    with pytest.raises(RefusedError, match="no quorum"):
        found.require()


def test_a_stolen_run_does_not_verify_as_somebody_elses(home, exported, open_recorder, tmp_path, trust):
    """The same entries, said to be of another recorder."""
    other = open_recorder("other")
    files = members(exported)
    contents = read_record(Contents, files[CONTENTS])
    claimed = Contents(origin=contents.origin, recorder=other.id, redacted=(), pending=0)
    assert kinds(pack(tmp_path / "x.zip", files | {CONTENTS: claimed.to_bytes()}), trust) == {ExportFindingKind.CHAIN}


def test_pending_commitments_are_counted_and_not_exported(home, trust, tmp_path):
    """What is not under the published head is no part of it."""
    commit(home.recorder, 9)
    export_run(home, tmp_path / "p.zip")
    found = read_export(tmp_path / "p.zip", trust, now=LATER).require()
    assert (found.contents.pending, len(found.steps)) == (1, 6)


def test_an_export_shows_one_head_and_its_timestamp_though_another_is_published_meanwhile(
    home, trust, tmp_path, monkeypatch
):
    """Another process publishes while the blobs are looked up: all proofs lead to the head that was taken first."""
    head = home.log.published().head
    reply = home.recorder.store.put(b"an authority's reply")
    said = Stamp(size=head.size, time="2026-03-01T12:00:00+00:00", authority="http://tsa", reply=reply)
    home.recorder.outbox.timestamped(str(head), said)
    named = writing._named

    def meanwhile(*arguments):
        commit(home.recorder, 6)
        home.deliver()
        later = home.log.published().head
        home.recorder.outbox.timestamped(str(later), replace(said, size=later.size))
        return named(*arguments)

    monkeypatch.setattr(writing, "_named", meanwhile)
    export_run(home, tmp_path / "run.zip")
    found = read_export(tmp_path / "run.zip", trust, now=LATER).require()
    assert found.stamps == {head.size: None}
    assert len(found.heads) == 1


def test_nothing_published_is_nothing_to_export(open_recorder, tmp_path):
    """Say what to do."""
    recorder = open_recorder()
    commit(recorder, 1)
    with pytest.raises(InputError, match="log deliver"):
        export_run(Home.open(recorder), tmp_path / "p.zip")


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), st.binary(max_size=99)), max_size=9
    )
)
def test_archives_read_back(files):
    """Names of any text, contents of any bytes."""
    target = io.BytesIO()
    assert write_archive(target, files) == len(target.getvalue())
    target.seek(0)
    assert list(read_archive(target)) == files


def test_verifying_needs_neither_numpy_nor_torch_nor_pickle(exported, home, tmp_path):
    """With both forbidden, the command verifies; exit 5 without a policy, 0 with one."""
    policy = tmp_path / "policy"
    policy.write_text(f"log {home.log.key}\nquorum none\n")
    code = (
        "import sys\n"
        "class Forbidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('numpy', 'torch', 'scipy', 'numba', 'cloudpickle'):\n"
        "            raise AssertionError(name)\n"
        "sys.meta_path.insert(0, Forbidden())\n"
        "import pickle\n"
        "pickle.loads = pickle.load = pickle.Unpickler = None\n"
        "sys.argv[0] = 'veristate'\n"
        "from veristate.interfaces.cli import main\n"
        "main()\n"
    )
    for arguments, expected in (([], 5), (["--policy", str(policy)], 0)):
        done = subprocess.run(
            [sys.executable, "-c", code, "verify", str(exported), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected, done.stdout + done.stderr
    exported.write_bytes(exported.read_bytes()[:-1])
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", str(exported), "--policy", str(policy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "TAMPERED" in done.stdout) == (3, True)


def test_a_witnessed_export(home, tmp_path):
    """The times that the witnesses gave are told."""
    from veristate.attest import TileLog, Witness, witness_head

    witness = Witness(tmp_path / "w", name="w.example.org", key=fixed_key(2), logs=[home.log.key], clock=lambda: NOW)
    quorum = Quorum(members=(witness.key,), threshold=1)
    log = TileLog.open(home.log.folder, origin=ORIGIN, key=home.log._signing, quorum=quorum)
    witness_head(log, [(witness.key, witness.add_checkpoint)]).require()
    trust = Trust(logs=(log.key,), quorum=quorum, addresses={})
    export_run(Home(home.recorder, log, trust), tmp_path / "w.zip")
    assert read_export(tmp_path / "w.zip", trust, now=NOW).require().cosigned == {"w.example.org": NOW}
    with pytest.raises(RefusedError):
        read_export(tmp_path / "w.zip", trust, now=NOW - 1).require()
