"""`veristate research`: from a new task to an export, what each exit code means, and a page that shows it all."""

import json
import sys
import threading
import time
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest

from veristate.interfaces.cli import main
from veristate.interfaces.cli.research_wording import watched_lines
from veristate.interfaces.report.research import render_campaign
from veristate.ledger import GENESIS
from veristate.research import CampaignHome, CampaignOptions, Surroundings, read_standing, read_task, run_campaign
from veristate.research.states import Segment, Session, Standing, WorkerStanding
from veristate.research.states.standing import Decided

from .campaigning import card


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """A function that runs `veristate research`: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["veristate", "research", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


def test_wrong_uses_are_told(command, make_task, tmp_path):
    """No such task, no campaign, an unknown decider, no worker, half a model: exit 2 and one line."""
    folder = make_task()
    for arguments, said in (
        (("run", "no-such-task"), "no bundled task is called so"),
        (("status", "nowhere"), "no campaign is there"),
        (("resume", "nowhere"), "no campaign is there"),
        (("run", folder, "--decider", "coin"), "policy, model or none"),
        (("run", folder, "--endpoint", "http://localhost:1/v1"), "go together"),
        (("run", folder, "--worker", "model"), "needs an endpoint"),
    ):
        code, _, err = command(*arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert said in err


def test_from_a_task_to_an_export(command, make_task, tmp_path):
    """Run, status, show, export tell the same; the exported candidate is the best one's bytes."""
    folder = make_task(('target = "1000"', 'target = "919"'))
    code, out, _ = command("run", folder, "--home", "here", "--report", "page.html", "--json")
    said = json.loads(out)
    assert (code, said["best"], said["best_at"], said["audited"]) == (0, "919", "w0/S04", None)
    assert all("no sandbox" in warning for warning in said["warnings"])  # none where bubblewrap is
    assert json.loads(command("status", "here", "--json")[1])["best"] == "919"
    assert "best 919 at w0/S04" in command("status", "here")[1]
    tree = command("show", "here")[1]
    assert "w0/S04 919" in tree
    assert tree.index("w0/S01") < tree.index("w0/S02")
    assert command("status", "here", "--watch")[0] == 0
    code, out, _ = command("export", "here", "out")
    assert code == 0
    assert (tmp_path / "out/best/x.txt").read_text() == "3"
    lines = [json.loads(line) for line in (tmp_path / "out/journal.jsonl").read_text().splitlines()]
    assert lines[0]["previous"] == GENESIS
    assert all(later["previous"] == earlier["digest"] for earlier, later in pairwise(lines))
    assert json.loads((tmp_path / "out/summary.json").read_text())["results"] == 4
    assert "w0/S04" in (tmp_path / "page.html").read_text()
    assert command("export", "here", "out")[0] == 2


def test_nothing_that_counts_is_undecided(command, make_task):
    """A campaign that ends without a result exits 5, not 0."""
    folder = make_task(files={"climber.py": "import sys; sys.exit(0)"})
    code, out, _ = command("run", folder, "--home", "here")
    assert code == 5
    assert "no result counts" in out


def test_check_tries_the_examples(command, make_task, tmp_path):
    """As expected is 0, otherwise is 1, nothing tried is 5; a new task passes as it is."""
    assert command("check", make_task())[0] == 5
    wrong = make_task(
        ("[segment]", '[[examples]]\nfolder = "e"\nexpect = "rejected"\n[segment]'),
        name="wrong",
        files={"e/x.txt": "3"},
    )
    code, out, _ = command("check", wrong)
    assert code == 1
    assert "WRONG" in out
    assert command("new", "hill")[0] == 0
    assert command("check", "hill")[0] == 0


class Page(HTMLParser):
    """What a browser would load or run, and the text."""

    def __init__(self):
        super().__init__()
        self.loads, self.text = [], ""

    def handle_starttag(self, tag, attributes):
        """Scripts, and addresses that lead away."""
        found = dict(attributes)
        if tag == "script" or any(found.get(name, "#")[0] != "#" for name in ("src", "href")):
            self.loads.append((tag, found))

    def handle_data(self, data):
        """The text."""
        self.text += data


def campaign_by_hand(note="moved one circle"):
    """A standing with two workers, a restored state, a refusal and a flagged result."""
    decision = {
        "restart": "w0/S01",
        "direction": "redirect",
        "bottleneck": "a plateau",
        "evidence": ["best 5"],
        "rationale": "<b>why</b>",
        "focus": "elsewhere",
        "imports": [],
        "decider": "policy",
        "failure": "",
    }
    segments = [
        Segment(
            number=n,
            restart=r,
            tree="0" * 64,
            direction="extend",
            focus="f",
            started="2026-01-01T00:00:00Z",
            reason="x",
        )
        for n, r in ((1, "w0/S00"), (2, "w0/S01"))
    ]
    first = WorkerStanding(
        name="w0",
        cards=[
            card(1, "5", note=note),
            card(2, reason="<script>alert(1)</script>"),
            card(3, "7.25", segment=2, parent="w0/S01", arithmetic="FLAG"),
            card(4, "6", segment=2, parent="w0/S03"),
        ],
        segments=segments,
        decisions=[Decided(worker="w0", after=1, live="w0/S02", content=decision, time="2026-01-01T00:00:03Z")],
    )
    opened = {
        "task": "by hand",
        "campaign": "c",
        "metric": "m",
        "direction": "maximise",
        "target": "8",
        "best_known": None,
        "best_known_source": "",
        "time": "2026-01-01T00:00:00Z",
    }
    sessions = [Session(started="2026-01-01T00:00:00Z", mark="c-1", wall_ms=5000)]
    workers = {"w0": first, "w1": WorkerStanding(name="w1", cards=[card(1, "4", worker="w1")])}
    return Standing(opened=opened, workers=workers, sessions=sessions)


def test_the_page_shows_every_result_and_every_reanchoring():
    """Each state stands in the picture, the restored one is named, and a flagged metric is not the best."""
    page = render_campaign(campaign_by_hand())
    read = Page()
    read.feed(page)
    assert read.loads == []
    for shown in ("w0/S01", "w0/S02", "w0/S03", "w0/S04", "w1/S01", "w0/S01 restored", "a plateau"):
        assert shown in read.text
    assert "m = 6 (not audited)" in read.text
    assert page.count("boundary-before") >= 1
    assert render_campaign(campaign_by_hand()) == page


def test_a_phone_and_a_narrow_terminal_can_read_it():
    """On the page each cell names its column, for rows become cards there; in a terminal no line is too wide, and the
    end of the tree fills what is left of the height.
    """
    page = render_campaign(campaign_by_hand())
    assert page.count('data-label="Result"') == page.count('data-label="Note"') >= 4
    standing = campaign_by_hand(note="a rather long note " * 9)
    lines = watched_lines(standing, 40, 30)
    assert max(map(len, lines)) <= 40
    assert len(lines) <= 30
    assert any(line.strip().startswith("w0/S04 6") for line in lines)
    assert any(line.startswith("  w0: best 6") for line in lines)
    assert len(watched_lines(standing, 40, 5)) < len(lines)


def test_what_workers_write_is_shown_as_text():
    """A note or a reason that is HTML stays text; control characters are shown as such."""
    page = render_campaign(campaign_by_hand(note='"><img src=x onerror=alert(1)>\u202e'))
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page


def test_a_campaign_without_results_has_a_page_too(tmp_path):
    """Just opened: nothing to draw, and it says so."""
    empty = campaign_by_hand()
    for worker in empty.workers.values():
        worker.cards.clear(), worker.segments.clear(), worker.decisions.clear()
    assert "No result counts" in render_campaign(empty)


def test_a_running_campaign_can_be_watched(command, make_task, home):
    """Status reads the journal while the engine writes it."""
    stop = threading.Event()
    around = Surroundings(stop=stop)
    engine = threading.Thread(target=run_campaign, args=(home, read_task(make_task()), CampaignOptions(), around))
    engine.start()
    deadline = time.monotonic() + 30
    while not (home.ledger.is_file() and home.heartbeat.exists() and read_standing(home).cards):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    code, out, _ = command("status", home.folder)
    stop.set()
    engine.join()
    assert code == 0
    assert "results" in out
    assert CampaignHome(folder=Path("x")).folder.is_absolute()


class Answers(BaseHTTPRequestHandler):
    """A chat endpoint that writes 12, hands it in, and stops; it keeps what it was sent."""

    seen: ClassVar[list[tuple[str, dict]]] = []

    def do_POST(self):
        """One completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.headers["Authorization"], body))
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        tool, argument, content = [("write", "x.txt", "12"), ("submit", "", "done"), ("stop", "", "")][min(turn, 2)]
        text = json.dumps({"tool": tool, "argument": argument, "content": content})
        usage = {"prompt_tokens": 100, "completion_tokens": 20}
        said = json.dumps(
            {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        """Nothing is logged."""


def test_a_model_at_an_endpoint_works_alone(command, make_task, monkeypatch):
    """The tool loop over a real connection: tokens and money are counted, and the key is in no record."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("TEST_KEY", "sk-secret-123")
    options = ("--endpoint", f"http://127.0.0.1:{server.server_port}/v1", "--model", "tiny", "--key", "TEST_KEY")
    folder = make_task()
    code, out, _ = command(
        "run", folder, "--home", "here", "--worker", "model", *options, "--prices", "1", "10", "--json"
    )
    server.shutdown()
    server.server_close()
    said = json.loads(out)
    assert (code, said["best"], said["spent_tokens"]) == (0, "1000", 240)
    assert said["spent_money"] == "0.0006"
    assert {key for key, _ in Answers.seen} == {"Bearer sk-secret-123"}
    held = b"".join(path.read_bytes() for path in Path("here").rglob("*") if path.is_file())
    assert b"sk-secret-123" not in held
