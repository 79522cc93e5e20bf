"""The boundary of a run's steps: once each, in one outbox, and never the reason why a run ends."""

import platform
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from veristate.attest import EXACT, Boundary, Recorder, State, environment_of
from veristate.attest.challenge import Finding, Step, challenge_step
from veristate.attest.commitments.environment import processor_of
from veristate.core import RefusedError
from veristate.store import Store

PARTS = {"inputs": {"x": b"1"}, "outputs": {"y": b"2"}, "context": {}}


@pytest.fixture
def told():
    """What a boundary told."""
    return []


@pytest.fixture
def boundary(tmp_path, told):
    """A boundary in a new folder."""
    made = Boundary(tmp_path / "store", tell=told.append)
    yield made
    made.close()


def test_nothing_is_made_before_the_first_step_ends(boundary):
    """Whoever commits to nothing leaves no key and no journal."""
    assert not boundary.folder.exists()


def test_a_step_is_committed_to_once_and_pending(boundary, told):
    """Asked again, also by a new process or as another stage, it is the same commitment."""
    first = boundary.commit_to("s", execution="e", **PARTS)
    assert boundary.commit_to("s", execution="e", **PARTS) == first != ""
    assert boundary.commit_to("t", execution="e", **PARTS) == first
    assert boundary.commit_to("t", execution="f", **PARTS) != first
    boundary.close()
    assert boundary.commit_to("s", execution="e", **PARTS) == first
    assert (boundary.made, boundary.missing, told) == (2, 0, [])
    with Recorder.open(boundary.folder) as recorder:
        assert recorder.committed("e") == first
        assert recorder.committed("other") == ""
        with pytest.raises(RefusedError, match="committed to already"):
            recorder.commit_to("s", execution="e", **PARTS)
        assert [state for _, state in recorder.outbox.items()] == [State.PENDING] * 3


def test_threads_and_runs_share_one_outbox_without_gaps(boundary, tmp_path, told, unsynced):
    """Two boundaries of one store, four threads each: numbers follow each other and nothing is there twice."""
    other = Boundary(boundary.folder, tell=told.append)

    def work(which, thread):
        for n in range(3):
            which.commit_to("s", execution=f"{thread}-{n}", **PARTS)

    threads = [threading.Thread(target=work, args=(which, n)) for which in (boundary, other) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    with Recorder.open(boundary.folder) as recorder:
        items = [item for item, _ in recorder.outbox.items()]
    assert [item.sequence for item in items] == list(range(13))
    assert boundary.made + other.made == 12
    assert told == []


def test_a_store_that_can_not_be_used_is_told_once_and_stops_nothing(tmp_path, told):
    """A file where the folder should be: every step goes on, the reason is heard once, the steps are counted."""
    (tmp_path / "store").write_text("no folder")
    boundary = Boundary(tmp_path / "store", tell=told.append)
    assert [boundary.commit_to("s", execution=str(n), **PARTS) for n in range(3)] == ["", "", ""]
    boundary.close()
    assert (boundary.made, boundary.missing, len(told)) == (0, 3, 1)
    assert "not committed to" in told[0]


def test_after_a_trouble_has_passed_steps_are_committed_to_again(boundary, told, monkeypatch):
    """A disk that refuses in the middle costs the steps of that time alone."""
    assert boundary.commit_to("s", execution="1", **PARTS)

    def refuse(self, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", refuse)
        assert boundary.commit_to("s", execution="2", **PARTS) == ""
    assert boundary.commit_to("s", execution="3", **PARTS)
    assert boundary.commit_to("s", execution="2", **PARTS)
    assert (boundary.made, boundary.missing) == (3, 1)


def test_a_private_key_that_is_gone_is_told(boundary, told):
    """A recorder without its key commits to nothing, and the run goes on."""
    boundary.commit_to("s", execution="1", **PARTS)
    boundary.close()
    for path in Path(boundary.folder, "keys").glob("recorder-*.pem"):
        path.unlink()
    assert boundary.commit_to("s", execution="2", **PARTS) == ""
    assert len(told) == 1


def test_an_environment_names_what_is_installed_alone():
    """Libraries that are not there are not named."""
    found = environment_of("rfc8785", "no-such-library-anywhere")
    assert set(found) - {"processor", "instructions"} == {"python", "system", "machine", "rfc8785"}
    assert found.items() >= processor_of(Path("/proc/cpuinfo")).items()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu amx_tile avx2 sse4_2 avx avx512f fma f16c\n"
            "bugs\t\t: none\n\nprocessor\t: 1\nmodel name\t: Another\nflags\t\t: fpu\n",
            {"processor": "Some CPU @ 2 GHz", "instructions": "amx_tile avx avx2 avx512f f16c fma sse4_2"},
        ),
        ("processor\t: 0\nFeatures\t: fp asimd sve\n", {"processor": "as Python says", "instructions": "asimd sve"}),
        (None, {"processor": "as Python says"}),
    ],
)
def test_a_processor_is_named_by_its_model_and_the_instructions_that_floats_depend_on(
    tmp_path, monkeypatch, text, found
):
    """As the first processor of /proc/cpuinfo says, on two kinds of machine; without that file as Python does."""
    monkeypatch.setattr(platform, "processor", lambda: "as Python says")
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    assert processor_of(tmp_path / "cpuinfo") == found


def test_a_difference_on_another_processor_accuses_nobody():
    """A policy that names this machine's environment, rerun where all is the same but the processor."""
    mine = environment_of()
    policy = replace(EXACT, environment=mine)
    step = Step(commitment=None, policy=policy, inputs={}, outputs={"answer": b"0.1"}, context={}, compared="answer")
    processor = dict.fromkeys({"processor", "instructions"} & set(mine), "another")
    judged = [
        challenge_step(step, lambda _i, _s: b"0.10000001", [b"seed"], environment=here)
        for here in (mine | processor, mine)
    ]
    assert [one.finding for one in judged] == [Finding.ENVIRONMENT_DRIFT, Finding.INCONSISTENT]
