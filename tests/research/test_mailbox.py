"""What a worker puts in the place of files that the engine reads and writes: links, pipes, folders."""

import json
import os

import pytest

from veristate.core import InputError
from veristate.research.jobs.admission import read_offer
from veristate.research.running.workspaces import remove_endpoints
from veristate.research.untrusted import output_file, regular_file, write_text
from veristate.research.workers.chat import _inside
from veristate.research.workers.mailbox import Mailbox


@pytest.fixture
def outside(tmp_path):
    """A folder of the user's that no worker may touch, and what it must hold afterwards."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.json").write_text('{"kind": "submit"}')
    yield folder
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"precious.json": '{"kind": "submit"}'}


def ask(mailbox: Mailbox, name: str, text: str = '{"kind": "submit"}') -> None:
    """A request as `submit` makes it."""
    (mailbox.folder / "requests" / name).write_text(text)


def test_requests_are_served_in_order_once(tmp_path):
    """Oldest first by name; what is no JSON object is a request without content."""
    mailbox = Mailbox(tmp_path / "mailbox")
    with mailbox.open_for({"segment": 1}):
        for name, text in (("2", "[]"), ("1", '{"kind": "unfold"}'), ("3", "{")):
            ask(mailbox, name, text)
        asked = list(mailbox.pending())
        assert [(each.name, each.content) for each in asked] == [("1", {"kind": "unfold"}), ("2", {}), ("3", {})]
        assert list(mailbox.pending()) == []
        mailbox.answer(asked[0], {"ok": True})
        assert json.loads((mailbox.folder / "replies/1").read_text()) == {"ok": True}
    with mailbox.open_for({"segment": 2}):
        assert not list((mailbox.folder / "replies").iterdir())
        assert json.loads((mailbox.folder / "segment.json").read_text()) == {"segment": 2}


@pytest.mark.parametrize("replaced", ["requests", "drafts", "replies"])
def test_a_link_in_a_folders_place_leads_nowhere(tmp_path, outside, replaced):
    """Nothing outside is read as a request, removed, or written over."""
    mailbox = Mailbox(tmp_path / "mailbox")
    with mailbox.open_for({}):
        ask(mailbox, "precious.json")
        (mailbox.folder / replaced).rename(mailbox.folder / "moved")
        (mailbox.folder / replaced).symlink_to(outside)
        for asked in mailbox.pending():
            mailbox.answer(asked, {"ok": False})


def test_a_link_in_a_replys_place_is_not_written_through(tmp_path, outside):
    """The draft of a reply whose name the worker knows is a link to a file of the user's."""
    mailbox = Mailbox(tmp_path / "mailbox")
    with mailbox.open_for({}):
        ask(mailbox, "1")
        (mailbox.folder / "drafts/reply-1").symlink_to(outside / "precious.json")
        (mailbox.folder / "replies/1").symlink_to(outside / "precious.json")
        for asked in mailbox.pending():
            mailbox.answer(asked, {"ok": True})


def test_what_is_no_file_is_no_request(tmp_path):
    """A pipe without a writer, a link and a folder hold nobody up; the request behind them is served."""
    mailbox = Mailbox(tmp_path / "mailbox")
    with mailbox.open_for({}):
        os.mkfifo(mailbox.folder / "requests/1")
        (mailbox.folder / "requests/2").symlink_to("/dev/zero")
        (mailbox.folder / "requests/3").mkdir()
        ask(mailbox, "4")
        assert [(each.name, each.content) for each in mailbox.pending()] == [
            ("1", {}),
            ("2", {}),
            ("4", {"kind": "submit"}),
        ]
        assert list(mailbox.pending()) == []


def test_what_a_dead_worker_left_is_removed_however_deep(tmp_path):
    """Folders nested deeper than Python's rmtree goes: the next segment has a mailbox of its own."""
    mailbox = Mailbox(tmp_path / "mailbox")
    with mailbox.open_for({}):
        deep = os.open(mailbox.folder, os.O_RDONLY)
        for _ in range(1200):
            os.mkdir("d", dir_fd=deep)
            below = os.open("d", os.O_RDONLY, dir_fd=deep)
            os.close(deep)
            deep = below
        os.close(deep)
    remove_endpoints(tmp_path)
    with mailbox.open_for({}):
        ask(mailbox, "1")
        assert [each.name for each in mailbox.pending()] == ["1"]
    assert [path.name for path in tmp_path.iterdir()] == ["mailbox"]


def test_a_job_of_half_a_character_is_refused():
    """No record could hold it."""
    for part in ("\ud800", "a\0b"):
        with pytest.raises(InputError, match="half a character"):
            read_offer({"argv": ["echo", part]})


def test_a_mailbox_that_was_removed_gets_no_answers(tmp_path):
    """The engine goes on."""
    mailbox = Mailbox(tmp_path / "mailbox")
    with mailbox.open_for({}):
        ask(mailbox, "1")
        asked = next(mailbox.pending())
        for name in ("requests", "drafts", "replies"):
            (mailbox.folder / name).rmdir()
        mailbox.answer(asked, {"ok": True})
        assert list(mailbox.pending()) == []


@pytest.mark.parametrize("append", [False, True])
def test_only_regular_files_are_written(tmp_path, outside, append):
    """A link is not followed, a pipe not waited for; a file is emptied or appended to."""
    (tmp_path / "link").symlink_to(outside / "precious.json")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic|device"):
            output_file(tmp_path / name, append=append)
    (tmp_path / "plain").write_text("before ")
    write_text(tmp_path / "plain", "after\udcff", append=append)
    assert (tmp_path / "plain").read_text() == ("before " if append else "") + "after\\udcff"


def test_a_model_reads_and_writes_files_of_its_workspace_alone(tmp_path, outside):
    """Links inside are followed, those that lead out are not, and a pipe is no file."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "notes.txt").write_text("found")
    (workspace / "inside").symlink_to("notes.txt")
    (workspace / "out").symlink_to(outside)
    os.mkfifo(workspace / "pipe")
    with regular_file(_inside(workspace, "inside")) as source:
        assert source.read() == b"found"
    for name in ("out/precious.json", "../outside/precious.json", "/etc/hostname", ""):
        with pytest.raises(InputError, match="not inside the workspace"):
            _inside(workspace, name)
    with pytest.raises(OSError, match="no regular file"), regular_file(_inside(workspace, "pipe")):
        pass
