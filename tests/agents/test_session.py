"""A session goes back to a checkpoint whole: history, namespace, files, pending action; and what it must not keep."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from veristate.agents import Checkpoint, Session
from veristate.core import EnvironmentUnusableError, InputError, RefusedError, TamperError
from veristate.store import Store
from veristate.store.packs import read_index


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below `folder` with its mode and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b"/"
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def damage(store: Store, digest: str) -> None:
    """Returns when the blob has another last byte, in the file of its own or in the pack it lies in."""
    places = [(path, path.stat().st_size - 1) for path in (store.root / "blobs").rglob(digest)]
    for path in store.root.rglob("*.pack"):
        found = read_index(path).get(bytes.fromhex(digest))
        if found is not None:
            places.append((path, sum(found) - 1))
    assert places
    for path, last in places:
        data = bytearray(path.read_bytes())
        data[last] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)


def test_nothing_to_read_without_a_tool(session: Session) -> None:
    """Reading without an attached tool is refused with a reason."""
    with pytest.raises(RefusedError, match="no tool"):
        session.read()


def test_no_action_before_a_view(session: Session) -> None:
    """An action that was prepared on no view is refused."""
    with pytest.raises(RefusedError, match="read first"):
        session.propose({"top_k": ("a",)})


@pytest.mark.parametrize("payload", [["a"], {"top_k": "abc"}, {"top_k": [1]}, {1: ["a"]}, {"top_k": None}, None])
def test_a_payload_of_another_shape_is_refused(session: Session, payload: object) -> None:
    """A payload that maps no rule names to identifiers is the agent's error, and nothing becomes pending."""
    session.deliver("scores.csv", b"", "v")
    with pytest.raises(InputError, match="a proposal maps"):
        session.propose(payload)  # type: ignore[arg-type]
    assert session.pending is None


@pytest.mark.parametrize("name", ["../x", "a/b", "/etc/x", "", ".", ".."])
def test_a_delivered_file_stays_in_the_workspace(session: Session, name: str) -> None:
    """Only a plain file name can be delivered."""
    with pytest.raises(InputError, match="plain name"):
        session.deliver(name, b"", "v")


def test_a_delivery_follows_no_link(session: Session, tmp_path: Path) -> None:
    """A link that the agent put in the file's place is replaced; what it led to is untouched."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (session.workspace / "scores.csv").symlink_to(outside)
    session.deliver("scores.csv", b"new", "v")
    assert outside.read_text() == "mine"
    assert (session.workspace / "scores.csv").read_bytes() == b"new"
    (session.workspace / "folder").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        session.deliver("folder", b"", "v")


@pytest.mark.parametrize(("role", "content"), [("robot", "x"), ("user", "\ud800"), ("user", None)])
def test_a_message_is_text_with_a_role(session: Session, role: str, content: str) -> None:
    """What could not be recorded does not enter the history."""
    with pytest.raises(InputError):
        session.say(role, content)  # type: ignore[arg-type]
    assert session.history == ()


def test_the_history_tells_what_happened(session: Session) -> None:
    """Code, observations, deliveries and what was said stand in the history in order, by role."""
    session.say("system", "be brief")
    session.run("print('x')\n1 / 0")
    session.deliver("scores.csv", b"id,score\n", "v1")
    assert [message.role for message in session.history] == ["system", "assistant", "tool", "tool"]
    assert session.history[1].content == "print('x')\n1 / 0"
    assert session.history[2].content.startswith("x\nTraceback")
    assert "scores.csv: 9 bytes" in session.history[3].content
    assert session.view == "v1"


def test_a_refusal_comes_before_anything_is_kept(session: Session, store: Store) -> None:
    """When the namespace holds what can't be kept, the checkpoint is refused by name and the store stays empty."""
    session.run("source = (i for i in [])")
    with pytest.raises(RefusedError, match=r"variable source \(generator\): a generator"):
        session.checkpoint()
    assert [path for path in (store.root / "blobs").rglob("*") if path.is_file()] == []


def test_a_workspace_that_cannot_be_kept_is_refused(session: Session) -> None:
    """A pipe in the workspace refuses the checkpoint as a variable would."""
    os.mkfifo(session.workspace / "pipe")
    with pytest.raises(RefusedError, match="pipe"):
        session.checkpoint()


def test_going_back_is_exact(session: Session) -> None:
    """History, namespace, files, view and pending action are those of the checkpoint; held values are gone."""
    session.say("user", "begin")
    session.run(
        "import os\nos.mkdir('sub')\nopen('sub/run.sh', 'w').write('x')\nos.chmod('sub/run.sh', 0o750)\n"
        "os.symlink('sub/run.sh', 'link')\nos.chdir('sub')\nbest = ['a']"
    )
    session.deliver("scores.csv", b"first", "v1")
    session.propose({"top_k": ["a"]})
    files, history, pending = listing(session.workspace), session.history, session.pending
    checkpoint = session.checkpoint()
    for _ in range(2):
        session.hold("scores.csv", "flagged")
        session.run(
            "best.append('b')\nopen('new', 'w').write('n')\nos.remove('run.sh')\nos.chdir('..')\nos.remove('link')"
        )
        session.deliver("scores.csv", b"second", "v2")
        session.propose({"top_k": ["b"], "nearest": ["c"]})
        session.hold("other.csv", "flagged")
        session.restore(checkpoint)
        assert listing(session.workspace) == files
        assert (session.history, session.pending, session.view, dict(session.held)) == (history, pending, "v1", {})
        assert (
            session.run("print(best, os.path.basename(os.getcwd()), os.listdir())").output == "['a'] sub ['run.sh']\n"
        )
        session.restore(checkpoint)
        again = session.checkpoint()
        assert dataclasses.replace(again, salt=checkpoint.salt) == checkpoint


def test_the_salt_changes_with_each_going_back(session: Session) -> None:
    """What was derived under the salt of a discarded history is never valid again, even for the same checkpoint."""
    checkpoint = session.checkpoint()
    salts = [session.salt]
    for _ in range(3):
        session.restore(checkpoint)
        salts.append(session.salt)
    assert len(set(salts)) == 4
    assert checkpoint.salt == salts[0]


def test_a_salt_given_twice_is_refused(workspace: Path, store: Store) -> None:
    """A source of salts that repeats itself stops the restore before anything changes."""
    with Session(workspace, store, request_id="r", new_salt=lambda: "same") as session:
        checkpoint = session.checkpoint()
        session.run("x = 1")
        with pytest.raises(InputError, match="second time"):
            session.restore(checkpoint)
        assert session.run("print(x)").output == "1\n"


def test_a_checkpoint_of_another_request_is_refused(session: Session) -> None:
    """One request's state is not restored into another's session."""
    other = dataclasses.replace(session.checkpoint(), request_id="another")
    with pytest.raises(RefusedError, match="another"):
        session.restore(other)


@pytest.mark.parametrize("part", ["namespace", "pickle", "buffer", "files", "file"])
def test_a_tampered_checkpoint_harms_nobody(session: Session, store: Store, part: str) -> None:
    """Whatever blob of a checkpoint was changed, going back is refused and the session is as it was."""
    session.deliver("scores.csv", b"first", "v1")
    session.run("import numpy\nx = numpy.ones(100_000)")
    checkpoint = session.checkpoint()
    session.deliver("scores.csv", b"second", "v2")
    session.propose({"top_k": ["a"]})
    session.run("x = 2")
    stored = session._namespace.fetch(checkpoint.namespace).checkpoint
    (file,) = (entry.blob for entry in store.tree(checkpoint.files).entries)
    blobs = {"namespace": checkpoint.namespace, "pickle": stored.pickle, "buffer": stored.buffers[0]}
    damage(store, (blobs | {"files": checkpoint.files, "file": file})[part])
    files, history, pending = listing(session.workspace), session.history, session.pending
    salt = session.salt
    with pytest.raises(TamperError):
        session.restore(checkpoint)
    assert listing(session.workspace) == files
    assert (session.history, session.pending, session.view, session.salt) == (history, pending, "v2", salt)
    assert session.run("import os\nprint(x, os.path.exists('scores.csv'))").output == "2 True\n"


def test_a_checkpoint_that_this_python_cannot_read_changes_nothing(session: Session, store: Store) -> None:
    """When the namespace can't be loaded, the files are put back too and the worker is in its folder again."""
    session.run("import os\nos.mkdir('sub')\nx = 1")
    checkpoint = session.checkpoint()
    record = session._namespace.fetch(checkpoint.namespace).checkpoint
    foreign = store.put(dataclasses.replace(record, python="2.7.18").to_bytes())
    session.run("x = 2\nos.chdir('sub')\nopen('f', 'w').write('later')")
    files, history = listing(session.workspace), session.history
    with pytest.raises(EnvironmentUnusableError, match=r"2\.7\.18"):
        session.restore(dataclasses.replace(checkpoint, namespace=foreign))
    assert listing(session.workspace) == files
    assert session.history == history
    assert session.run("print(x, open('f').read(), os.path.basename(os.getcwd()))").output == "2 later sub\n"


def test_what_a_cell_left_running_does_not_outlive_going_back(session: Session) -> None:
    """Threads and processes started after the checkpoint are gone when it is restored, with all they could write."""
    session.run("import os, threading, time\nx = []")
    checkpoint = session.checkpoint()
    session.run(
        "def late():\n    while True:\n        x.append(1)\n        open('late', 'w')\n        time.sleep(0.01)\n"
        "threading.Thread(target=late).start()\nos.system('while true; do touch later; sleep 0.01; done &')"
    )
    session.restore(checkpoint)
    assert session.run("time.sleep(0.2)\nprint(x, os.listdir(), threading.active_count())").output == "[] [] 1\n"


def test_another_process_can_go_back_from_the_record(
    new_session: Callable[[], Session], store: Store, workspace: Path
) -> None:
    """A session made anew, with nothing but the digest of the record, restores what the first one kept."""
    first = new_session()
    first.run("x = [1, 2]\nopen('f', 'w').write('f')")
    digest = first.checkpoint().digest
    first.close()
    (workspace / "f").unlink()
    second = new_session()
    second.restore(Checkpoint.from_bytes(store.get(digest)))
    assert second.run("print(x, open('f').read())").output == "[1, 2] f\n"
    assert second.history[0].content.startswith("x = [1, 2]")


def test_a_lost_worker_starts_from_the_state_gone_back_to(session: Session) -> None:
    """After going back, a worker that dies is replaced by one with the restored namespace, not a later one."""
    session.run("x = 1")
    checkpoint = session.checkpoint()
    session.run("x = 2")
    session.checkpoint()
    session.restore(checkpoint)
    assert session.run("import os\nos._exit(1)").outcome == "died"
    assert session.run("print(x)").output == "1\n"


def test_a_held_value_is_released_by_its_delivery(session: Session) -> None:
    """What a tool holds back counts as held, with its reason, until the tool delivers it."""
    session.hold("scores.csv", "flagged")
    session.hold("other.csv", "slow")
    session.deliver("scores.csv", b"", "v")
    assert dict(session.held) == {"other.csv": "slow"}


def test_a_workspace_must_be_there(tmp_path: Path, store: Store) -> None:
    """A session in a folder that does not exist is the caller's error."""
    with pytest.raises(InputError, match="make it first"):
        Session(tmp_path / "absent", store, request_id="r", new_salt=lambda: "s")
