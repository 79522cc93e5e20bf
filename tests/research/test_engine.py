"""Campaigns from end to end: segments, the gate, re-anchoring, budgets, peers, the audit, what workers are told."""

import json
import threading
import time
from types import SimpleNamespace

import pytest

from veristate.core import InputError, RefusedError
from veristate.ledger import Ledger
from veristate.research import (
    CampaignOptions,
    Code,
    Said,
    Surroundings,
    Talk,
    best_audited,
    objective_of,
    read_standing,
    read_task,
    run_campaign,
    summary,
)
from veristate.research.running.archiving import named
from veristate.research.running.opening import opening_body, reopened
from veristate.research.states import Standing
from veristate.research.states.standing import WorkerStanding
from veristate.store import Store

from .campaigning import assert_whole, card


def script(body):
    """A worker as a command: Python source after what makes `submit(x, note)`, and two files to `wait` for."""
    head = """
import os, pathlib, sys, time, json
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
mailbox = pathlib.Path(os.environ["VERISTATE_MAILBOX"])
loader = SourceFileLoader("submit", str(mailbox / "submit"))
module = module_from_spec(spec_from_loader("submit", loader)); loader.exec_module(module)
segment = json.loads((mailbox / "segment.json").read_text())
def submit(x, note=""):
    pathlib.Path("x.txt").write_text(str(x))
    return module.ask(mailbox, {"kind": "submit", "note": note})
first, second = (pathlib.Path(sys.argv[0]).parent.parent / name for name in ("first", "second"))
def wait(file):
    while not file.exists(): time.sleep(0.02)
"""
    return {"climber.py": head + body}


def test_a_campaign_climbs_to_its_target(make_task, run):
    """The best is the target, each candidate was evaluated once, and each card's tree holds the candidate it judged."""
    folder = make_task()
    result = run(folder)
    standing = result.standing
    assert result.reason == "target: 1000 is reached"
    assert [card.metric for card in standing.cards] == [str(1000 - (x - 12) ** 2) for x in range(13)]
    assert (folder.parent / "began.log").read_text().split() == [str(x) for x in range(13)]
    assert [s.stages for s in standing.workers["w0"].segments] == [4, 4, 4, 1]
    assert standing.queries == 13
    said = summary(standing)
    assert (said["best"], said["best_at"], said["sessions"]) == ("1000", "w0/S13", 1)
    home_store = Store.open(folder.parent / "home" / "objects")
    trace = {entry.name: entry for entry in home_store.tree(standing.cards[4].tree).entries}[b"trace.txt"]
    assert home_store.get(trace.blob) == b"0\n1\n2\n3\n4\n"


def test_the_same_command_again_starts_nothing(make_task, run):
    """A finished campaign stays as it is: no evaluation, no entry."""
    folder = make_task(('1000"', '879"'))
    first = run(folder)
    entries = first.standing.entries
    assert run(folder).standing.entries == entries


def test_another_task_in_the_same_place_is_refused(make_task, run, home):
    """A campaign's folder keeps its campaign; a task that has changed since can't go on in it."""
    folder = make_task(('1000"', '850"'))
    run(folder)
    with pytest.raises(InputError, match="another --home"):
        run(make_task(name="other"))
    (folder / "judge.py").write_text("")
    with pytest.raises(InputError, match="changed"):
        run_campaign(home)


def test_one_engine_at_a_time(make_task, home):
    """A second engine on the same folder is refused while the first one runs."""
    stop = threading.Event()
    folder = make_task(files=script("time.sleep(60)"))
    around = Surroundings(stop=stop)
    first = threading.Thread(target=run_campaign, args=(home, read_task(folder), CampaignOptions(), around))
    first.start()
    while not home.heartbeat.exists():
        time.sleep(0.01)
    with pytest.raises(RefusedError, match="in use by process"):
        run_campaign(home)
    stop.set()
    first.join()


def test_a_rejected_candidate_is_told_with_its_reason(make_task, run):
    """The worker reads the evaluator's own words, and what it was told is what the card says."""
    body = "r = submit(99); pathlib.Path('told').write_text(r['text']); submit(12)"
    result = run(make_task(files=script(body)))
    card = result.standing.cards[0]
    assert (card.status, card.reason) == ("rejected", "99 is above 20")
    assert "99 is above 20" in _file(result, 1, "told")


def test_the_same_candidate_again_costs_no_query(make_task, run):
    """A stale artifact is no new result: it is refused with the state that judged it."""
    body = "submit(5); r = submit(5); pathlib.Path('told').write_text(r['text']); submit(12)"
    result = run(make_task(files=script(body)))
    assert [card.metric for card in result.standing.cards] == ["951", "1000"]
    assert result.standing.queries == 2
    assert "the same candidate as w0/S01" in _file(result, 1, "told")


def test_a_peers_evaluation_is_not_repeated(make_task, run):
    """Two workers hand in the same bytes: one evaluation, two cards, and the second names the first."""
    body = """
if segment["worker"] == "w0":
    submit(7); first.touch(); wait(second); submit(12)
else:
    wait(first); submit(7); second.touch(); time.sleep(60)
"""
    result = run(make_task(files=script(body)), options=CampaignOptions(workers=2))
    cards = [card for card in result.standing.cards if card.metric == "975"]
    assert len(cards) == 2
    assert cards[1].details["judged as"] == cards[0].place
    assert result.standing.queries == 2


def test_queries_are_a_hard_limit(make_task, run):
    """Not one evaluation more than allowed, split over the workers as they come."""
    folder = make_task(("queries = 1000", "queries = 7"))
    result = run(folder, options=CampaignOptions(workers=2))
    assert result.reason == "budget: all 7 evaluator queries are used"
    assert len((folder.parent / "began.log").read_text().split()) <= 7


def test_requests_without_end_do_not_outlast_a_deadline(make_task, run):
    """A worker that always has one more request in its mailbox is ended like any other."""
    body = "n = 0\nwhile True:\n    n += 1; (mailbox / 'requests' / str(n)).touch(); time.sleep(0.0005)\n"
    began = time.monotonic()
    result = run(make_task(("wall_s = 60\n", "wall_s = 2\n"), files=script(body)))
    assert result.reason == "budget: 2 s of wall-clock time are spent"
    assert time.monotonic() - began < 15


def test_many_requests_at_once_do_not_pass_a_segments_limit(make_task, run):
    """Thirty lie there before the first is served: four are evaluated, the rest is refused with the reason."""
    body = """
import threading
if segment["segment"] > 1: sys.exit()
for i in range(30): (mailbox / "requests" / f"{i:02d}").write_text('{"kind": "submit"}')
for i in range(30):
    pathlib.Path("x.txt").write_text(str(20 + i))
    while not (mailbox / "replies" / f"{i:02d}").exists(): time.sleep(0.001)
said = [json.loads((mailbox / "replies" / f"{i:02d}").read_text()) for i in range(30)]
(first.parent / "said").write_text(json.dumps([(each["status"], each["segment_over"]) for each in said]))
"""
    folder = make_task(files=script(body))
    standing = run(folder, options=CampaignOptions(decider="none")).standing
    assert standing.workers["w0"].segments[0].stages == 4
    said = json.loads((folder.parent / "said").read_text())
    assert [over for _, over in said[-20:]] == [True] * 20
    assert {status for status, _ in said[-20:]} == {"refused"}


def test_queries_can_be_split_over_workers(make_task, run):
    """Each worker uses its own part, the first the odd one, and is told of no other; one that is done ends alone."""
    body = "base = 20 if segment['worker'] == 'w0' else 0\n"
    body += "told = [submit(base - i if base else i)['queries_left'] for i in range(4)]"
    folder = make_task(("queries = 1000", "queries = 7\nsplit_queries = true"), files=script(body))
    standing = run(folder, options=CampaignOptions(workers=2)).standing
    assert {name: worker.queries for name, worker in standing.workers.items()} == {"w0": 4, "w1": 3}
    assert standing.workers["w1"].ended == "budget: all 3 evaluator queries of w1 are used"


def test_nothing_works_after_the_deadline(make_task, run):
    """A worker that ignores every signal and its child are dead within a moment of the deadline."""
    body = "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    body += "submit(3); subprocess.Popen(['setsid', 'sleep', '300']); time.sleep(300)"
    began = time.monotonic()
    result = run(make_task(("wall_s = 60\n", "wall_s = 2\n"), files=script(body)))
    assert time.monotonic() - began < 6
    assert result.reason == "budget: 2 s of wall-clock time are spent"
    assert [card.metric for card in result.standing.cards] == ["919"]


def test_a_deadline_inside_an_evaluation_ends_it(make_task, run):
    """The evaluator is killed with the budget; what it was doing is a failure, and no score."""
    judge = "import time\ntime.sleep(300)\n"
    result = run(make_task(("wall_s = 60\n", "wall_s = 1.5\n"), files={"judge.py": judge}))
    assert {card.status for card in result.standing.cards} == {"failed"}
    assert result.reason.startswith("budget")


def test_a_hung_segment_ends_at_its_limit_and_the_campaign_goes_on(make_task, run):
    """A worker that hangs loses its segment; the next one starts from what it had archived."""
    body = "submit(segment['segment']); time.sleep(300) if segment['segment'] == 1 else submit(12)"
    result = run(make_task(("wall_s = 10\n", "wall_s = 1\n"), files=script(body)))
    first, second, *_ = result.standing.workers["w0"].segments
    assert first.reason == "segment: 1 s"
    assert second.restart == "w0/S01"
    assert result.reason.startswith("target")


def test_a_worker_that_gives_nothing_is_given_up(make_task, run):
    """Five segments without a result end the worker, with its last words; one bad worker does not end the others."""
    body = "if segment['worker'] == 'w0':\n"
    body += "    segment['segment'] == 5 and first.touch(); sys.exit('no module named torch')\n"
    body += "[submit(x) for x in (1, 2)]; wait(first); time.sleep(0.5); submit(12)"
    result = run(make_task(files=script(body)), options=CampaignOptions(workers=2))
    assert "no module named torch" in result.standing.workers["w0"].ended
    assert result.reason.startswith("target")
    assert len(result.standing.workers["w0"].segments) == 5


def test_words_and_exit_codes_are_no_evidence(make_task, run):
    """A worker that claims success and ends with 0 without a result has none."""
    folder = make_task(("wall_s = 60\n", "wall_s = 3\n"), files=script("print('metric = 1000, target reached')"))
    result = run(folder)
    assert result.standing.cards == []
    assert summary(result.standing)["best"] is None


BACK = """
s = segment["segment"]
seen = sorted(p.name for p in pathlib.Path(".").iterdir())
pathlib.Path(f"seen-{s}").write_text(json.dumps(seen))
if s == 1:
    submit(11, "good"); pathlib.Path("junk").write_text("x"); pathlib.Path("empty").mkdir()
elif s <= 3:
    submit(s, "worse")
else:
    submit(12)
"""


def test_a_plateau_restores_an_archived_state_exactly(make_task, run):
    """What came after the restart state is gone from the disk, told as a folded tail, and still in the store."""
    result = run(make_task(files=script(BACK)))
    worker = result.standing.workers["w0"]
    decided = [each.content for each in worker.decisions]
    assert decided[0]["restart"] == "live" or decided[0]["restart"] == "w0/S01"
    assert {each["decider"] for each in decided} == {"policy"}
    back = next(s for s, each in zip(worker.segments[1:], decided, strict=True) if each["restart"] != "live")
    card = result.standing.card(back.restart)
    assert back.tree == card.tree
    left = worker.segments[back.number - 2].end_tree
    assert b"junk" in {entry.name for entry in _store(result).tree(worker.segments[0].end_tree).entries}
    assert left != back.tree
    of_segment = next(card for card in worker.cards if card.segment == back.number)
    seen = json.loads(_of_tree(result, of_segment.tree, f"seen-{back.number}"))
    assert not {"junk", "empty", "seen-2"} & set(seen)
    assert {"x.txt", "seen-1"} <= set(seen)
    assert worker.folded
    assert worker.folded[0][0].startswith("L_w0_S02")


def test_without_reanchoring_the_live_state_goes_on(make_task, run):
    """The decider none: live and extend, always."""
    options = CampaignOptions(decider="none")
    result = run(make_task(('1000"', '975"')), options=options)
    assert {each.content["restart"] for each in result.standing.workers["w0"].decisions} == {"live"}


def test_the_brief_tells_what_is_needed_and_hides_what_is_not(make_task, run):
    """AGENTS.md has objective, artifact and how to hand in; CLAUDE.md leads to it; best known values are not told."""
    folder = make_task(
        ('target = "1000"', 'target = "1000"\nbest_known = "1234.5"'),
        files=script("r = pathlib.Path('CLAUDE.md').read_text(); pathlib.Path('read').write_text(r); submit(12)"),
    )
    read = _file(run(folder), 0, "read")
    assert "maximise height" in read
    assert "VERISTATE_SUBMIT" in read
    assert "Target: 1000" in read
    assert "1234.5" not in read


def test_a_worker_sees_no_keys(make_task, run, monkeypatch):
    """The engine's environment stays with the engine, but for what the user names."""
    monkeypatch.setenv("SECRET_API_KEY", "sk-1")
    monkeypatch.setenv("NAMED", "yes")
    body = "pathlib.Path('env').write_text(json.dumps(dict(os.environ))); submit(12)"
    seen = json.loads(_file(run(make_task(files=script(body)), options=CampaignOptions(passed=("NAMED",))), 0, "env"))
    assert "SECRET_API_KEY" not in seen
    assert seen["NAMED"] == "yes"


def test_a_result_file_is_a_signal(make_task, run):
    """An agent that only writes files is judged at each change, and reads what came of it in RESULTS.md."""
    body = "results = pathlib.Path('RESULTS.md'); pathlib.Path('x.txt').write_text('50')\n"
    body += "while not results.exists(): time.sleep(0.02)\n"
    body += "pathlib.Path('read').write_text(results.read_text())\n"
    body += "pathlib.Path('x.txt').write_text('12'); time.sleep(5)"
    folder = make_task(('climber.py"]', 'climber.py"]\nresult_file = "x.txt"'), files=script(body))
    result = run(folder)
    assert [card.status for card in result.standing.cards] == ["rejected", "valid"]
    assert "50 is above 20" in _file(result, 1, "read")


def test_a_command_line_worker_is_run_as_given(make_task, run):
    """An argv template of any agent: the placeholders are filled, and $VERISTATE_SUBMIT hands in."""
    command = ("/bin/sh", "-c", 'echo 12 > x.txt; "$VERISTATE_SUBMIT" from {workspace}; echo "$0" | head -1', "{brief}")
    result = run(make_task(), options=CampaignOptions(worker=Code(command=command)))
    [card] = result.standing.cards
    assert card.metric == "1000"
    assert card.note.startswith("from ")
    assert card.note.endswith("w0/workspace")


def test_broken_requests_are_answered_or_ignored(make_task, run):
    """Nothing that a worker puts into its mailbox ends the engine."""
    body = """
box = mailbox / "requests"
(box / "a.json").write_text("[" * 5000); (box / "b.json").write_bytes(b"\\xff"); (box / "c.json").write_text("5")
(box / "d").mkdir() if False else None
r = module.ask(mailbox, {"kind": "no such"}); assert not r["ok"]
r = module.ask(mailbox, {"kind": "unfold", "id": 7, "stages": "x"}); assert not r["ok"]
r = module.ask(mailbox, {"kind": "submit", "note": ["a", {"b": 1}]})
submit(12, "\\ud800 broken")
"""
    result = run(make_task(files=script(body)))
    assert result.standing.cards[-1].metric == "1000"


def test_peers_are_told_in_short(make_task, run):
    """A worker behind learns of the lead, the peer's best and note, and gets none of its files."""
    body = """
if segment["worker"] == "w0":
    submit(10, "jumped near the top"); first.touch(); wait(second)
else:
    wait(first)
    s = segment["segment"]
    pathlib.Path(f"peers-{s}").write_text(segment["peers"]); submit(6 - s)
    if s == 5: submit(12); second.touch()
"""
    result = run(make_task(files=script(body)), options=CampaignOptions(workers=2))
    last = result.standing.workers["w1"].cards[-1]
    assert "996" in _of_tree(result, last.tree, "peers-5")
    assert "jumped near the top" in _of_tree(result, last.tree, "peers-5")
    assert any("w0 is ahead" in d.content["focus"] for d in result.standing.workers["w1"].decisions)


AUDITED = '\n[audit]\nfunction = "exact.py:audit"\n[parameters]\n'
EXACT = """
from veristate.research import Rejection, Score
def audit(candidate, parameters):
    x = int((candidate / "x.txt").read_text())
    if x == 12:
        return Rejection(reason="overlaps by 1e-9")
    if x == 11:
        return Score(metric="99999", repaired=True)
    return Score(metric=str(1000 - (x - 12) ** 2 - (1 if x == 10 else 0)), repaired=x == 10)
"""


def test_a_tolerance_exploit_ranks_below_the_exact_result(make_task, run):
    """The exact check excludes what a tolerance accepted, refuses a repair that raises, takes one that lowers."""
    body = "[submit(x) for x in (3, 10, 11, 12)]"
    folder = make_task(("[budget]", AUDITED + "[budget]"), files=script(body) | {"exact.py": EXACT})
    result = run(folder)
    standing = result.standing
    assert summary(standing)["best"] == "1000"
    assert {place: said["status"] for place, said in standing.audits.items()} == {
        "w0/S04": "rejected",
        "w0/S03": "rejected",
        "w0/S02": "valid",
    }
    assert "raised the score" in standing.audits["w0/S03"]["reason"]
    assert best_audited(standing, objective_of(standing)) == ("w0/S02", "995")


def talking(*answers, tokens=(10, 5)):
    """A model that gives these answers in turn, then stops."""
    asked = []

    def say(words, schema, seconds):
        asked.append((words, time.monotonic(), seconds))
        text = answers[len(asked) - 1] if len(asked) <= len(answers) else tool("stop", content="nothing more")
        return Said(text=text, prompt_tokens=tokens[0], reply_tokens=tokens[1])

    return Talk(say=say, reply_tokens=100), asked


def tool(name, argument="", content=""):
    """One tool call."""
    return json.dumps({"tool": name, "argument": argument, "content": content})


MODEL = CampaignOptions(worker=Code(command=("model",)))


def test_no_text_of_a_model_ends_its_worker(make_task, run):
    """A NUL, half a character, a link to itself, a command that can't be passed on: the model is told, and goes on."""
    odd = ["a\0b", "a\ud800", "self"]
    talk, asked = talking(
        tool("run", content="ln -s self self"),
        *(tool(name, text, "x") for text in odd for name in ("read", "write")),
        *(tool("run", content=text) for text in odd[:2]),
        tool("job", content=odd[1]),
        tool("write", "x.txt", "12"),
        tool("submit", content="done"),
    )
    result = run(make_task(), options=MODEL, talk=talk)
    assert [card.metric for card in result.standing.cards] == ["1000"]
    assert str(asked).count("that did not work") >= len(odd)


def test_the_tool_loop_reads_writes_runs_and_submits(make_task, run):
    """Each tool does its work in the workspace; what leads out of it is refused; fenced JSON is read."""
    talk, asked = talking(
        tool("write", "x.txt", "3"),
        tool("read", "../../../ledger.sqlite"),
        "Let me check.\n```json\n" + tool("run", content="cat x.txt; echo $SECRET; sleep 300 & echo done") + "\n```",
        tool("submit", content="first"),
        "no tool at all",
        tool("write", "x.txt", "12"),
        tool("submit", content="second"),
    )
    result = run(make_task(), options=MODEL, talk=talk)
    assert [card.metric for card in result.standing.cards] == ["919", "1000"]
    told = [words[-1][1] for words, _, _ in asked]
    assert "not inside the workspace" in told[2]
    assert "\n3" in told[3]
    assert "height = 919" in told[4]
    assert result.standing.tokens == 15 * 7


def test_tokens_are_a_hard_limit_before_the_call(make_task, run):
    """A call whose answer could pass the limit is not made; what was reserved and never settled counts as spent."""
    talk, asked = talking(*[tool("read", "x.txt")] * 50, tokens=(400, 100))
    result = run(make_task(("queries = 1000", "tokens = 2500")), options=MODEL, talk=talk)
    assert result.standing.tokens <= 2500
    assert "does not fit" in result.reason
    assert 1 <= len(asked) <= 5


def test_no_model_call_after_the_deadline(make_task, run):
    """The last call begins before the deadline and is given no more time than is left."""
    talk, asked = talking(*[tool("run", content="sleep 0.3")] * 50)
    began = time.monotonic()
    result = run(make_task(("wall_s = 60\n", "wall_s = 1.5\n")), options=MODEL, talk=talk)
    assert result.reason.startswith("budget")
    assert all(at - began < 1.5 + 0.3 and seconds <= 1.5 for _, at, seconds in asked)


def test_a_model_that_never_answers_holds_nobody(make_task, run):
    """A call that ignores its deadline is left behind; the campaign ends with its budget, and the call counts."""

    def say(words, schema, seconds):
        time.sleep(60)

    began = time.monotonic()
    folder = make_task(("wall_s = 60\n", "wall_s = 1\ntokens = 100000\n"))
    result = run(folder, options=MODEL, talk=Talk(say=say, reply_tokens=100))
    assert time.monotonic() - began < 10
    assert result.reason.startswith("budget")
    assert result.standing.spent_tokens() > 100


QUOTA = ("wall_s = 60\n", "wall_s = 60\ndisk_bytes = 3000000\n")


def test_a_disk_full_of_snapshots_makes_room_of_what_nobody_needs(make_task, run):
    """Refused repetitions and rejected results with a megabyte each, twice the budget in all, give way; every
    state that counts is there at the end, and what was let go is journaled.
    """
    body = "submit(3)\nfor x in [21, 22, 23, 23, 23, 23, 24]:\n"
    body += "    pathlib.Path('big').write_bytes(os.urandom(1_000_000)); told = submit(x)\n"
    body += "    assert 'disk' not in told['text'], told\nsubmit(12)"
    result = run(make_task(QUOTA, ("stages = 4", "stages = 40"), files=script(body)))
    assert result.reason == "target: 1000 is reached"
    cards = result.standing.cards
    assert [card.status for card in cards] == ["valid", *["rejected"] * 4, "valid"]
    trees = {card.tree for card in cards if card.status == "valid"}
    store = _store(result)
    assert all(store.has(tree) for tree in trees)
    assert result.standing.released == {card.tree for card in cards if not store.has(card.tree)}
    assert len(result.standing.released) >= 2
    assert store.size_bytes() <= 3_000_000


def test_what_is_captured_again_is_no_longer_let_go():
    """A tree that was released and is named by a later card or segment is in the store again, and is named as such."""
    standing = Standing(opened={"template": "t"}, workers={"w0": WorkerStanding(name="w0")})
    entries = [
        ("segment.started", {"restart": "live", "tree": "t", "direction": "", "focus": ""}),
        ("snapshots.released", {"trees": ["one", "two", "three"]}),
        ("stage.recorded", {"stage": 1, "card": card(1, tree="one").to_bytes().decode(), "cpu_ms": 0}),
        ("segment.ended", {"reason": "stages", "tree": "two", "cpu_ms": 0}),
    ]
    for number, (kind, content) in enumerate(entries):
        body = {"worker": "w0", "segment": 1} | content
        standing.take(SimpleNamespace(seq=number, kind=kind, content=body, time="2026-01-01T00:00:00+00:00"))
    assert standing.released == {"three"}
    assert set(named(standing)) == {"t", "one", "two"}


def test_a_campaign_of_before_jobs_could_be_refused_goes_on(make_task, tmp_path):
    """Its opening doesn't say whether jobs are allowed; they were."""
    body = opening_body(read_task(make_task()), CampaignOptions(jobs=False), Store.open(tmp_path / "objects"))
    assert reopened(body)[1].jobs is False
    del body["jobs"]
    assert reopened(body)[1].jobs is True


def test_a_state_beyond_the_disk_budget_is_refused_with_the_reason(make_task, run):
    """What can be gone back to is never let go: the third megabyte does not fit, the worker is told, makes its
    workspace smaller and goes on.
    """
    body = "for x in (1, 2, 3):\n    pathlib.Path('big').write_bytes(os.urandom(1_200_000)); told = submit(x)\n"
    body += "os.remove('big'); pathlib.Path('told').write_text(told['text']); submit(12)"
    result = run(make_task(QUOTA, files=script(body)))
    assert result.reason == "target: 1000 is reached"
    assert [card.metric for card in result.standing.cards] == ["879", "900", "1000"]
    told = _of_tree(result, result.standing.cards[-1].tree, "told")
    assert "of 3,000,000 bytes of disk, and this one does not fit" in told


def test_workers_that_make_room_at_once_do_not_wait_for_each_other_for_ever(make_task, run):
    """Two workers under one disk budget, collecting while the other is told of its share: both come to their ends."""
    body = "first = 21 if segment['worker'] == 'w0' else 31\nfor x in range(first, first + 3):\n"
    body += "    pathlib.Path('big').write_bytes(os.urandom(900_000)); submit(x)\n"
    body += "os.remove('big'); submit(11 if segment['segment'] < 2 else 12)"
    result = run(make_task(QUOTA, files=script(body)), options=CampaignOptions(workers=2))
    assert result.reason == "target: 1000 is reached"
    assert result.standing.released


def test_a_worker_that_leaves_no_room_is_ended_with_the_reason(make_task, run):
    """Its live workspace can't be kept, so its segment has no end to go on from; everything archived is whole."""
    body = "[(pathlib.Path('big').write_bytes(os.urandom(1_200_000)), submit(x)) for x in (1, 2, 3)]"
    result = run(make_task(QUOTA, files=script(body)))
    assert "bytes of disk" in result.reason
    assert len(result.standing.cards) == 2


def test_what_a_dead_worker_leaves_behind_does_not_end_it(make_task, run):
    """Sockets, FIFOs, write-protected folders and links that lead out are no obstacle to the next segment."""
    body = """
import socket
s = segment["segment"]
if s == 1:
    submit(3)
    os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("sock"); os.symlink("/", "root")
    os.mkdir("shut"); pathlib.Path("shut/file").write_text("x"); os.chmod("shut", 0o500)
else:
    submit(12)
"""
    result = run(make_task(files=script(body)))
    assert [card.metric for card in result.standing.cards] == ["919", "1000"]
    names = {entry.name for entry in _store(result).tree(result.standing.cards[-1].tree).entries}
    assert {b"shut", b"root"} <= names
    assert not {b"pipe", b"sock"} & names


def test_the_context_limit_ends_a_segment(make_task, run):
    """A history that has grown too long ends the segment, and the next one starts with a short one."""
    talk, asked = talking(
        *[tool("run", content="head -c 6000 /dev/zero | tr '\\0' x")] * 6, tool("write", "x.txt", "12")
    )
    folder = make_task(("stages = 4", "stages = 4\ncontext_chars = 20000"))
    result = run(folder, options=MODEL, talk=talk)
    assert result.standing.workers["w0"].segments[0].reason == "the context limit"
    assert max(sum(len(t) for _, t in words) for words, _, _ in asked) < 30_000


def test_an_importable_artifact_comes_by_name(make_task, run):
    """A decision may bring in one file of another archived state; the rest of that state stays away."""
    decision = {
        "restart": "w0/S02",
        "direction": "extend",
        "bottleneck": "b",
        "evidence": [],
        "rationale": "r",
        "focus": "f",
        "imports": ["w0/S01:x.txt", "w0/S01:../../x", "w0/S07:x.txt"],
    }
    talk, _ = talking(json.dumps(decision))
    body = "s = segment['segment']\n[submit(x) for x in ((1, 2) if s == 1 else (12,))]"
    result = run(make_task(files=script(body)), options=CampaignOptions(decider="model"), talk=talk)
    worker = result.standing.workers["w0"]
    assert worker.decisions[0].content["decider"] == "model"
    assert worker.segments[1].restart == "w0/S02"
    assert _of_tree(result, worker.cards[-1].tree, "imports/w0-S01/x.txt") == "1"


def test_a_stopped_campaign_goes_on(make_task, home):
    """Stopping ends the workers in order; resuming finishes, with both engines' time charged."""
    body = "if segment['segment'] == 1:\n    submit(3); first.touch(); time.sleep(60)\nsubmit(12)"
    folder = make_task(files=script(body))
    stop = threading.Event()

    def stopping():
        while not (folder.parent / "first").exists():
            time.sleep(0.02)
        stop.set()

    threading.Thread(target=stopping, daemon=True).start()
    first = run_campaign(home, read_task(folder), CampaignOptions(), Surroundings(stop=stop))
    assert first.reason == ""
    charged = first.standing.wall_ms()
    assert_whole(home)
    result = run_campaign(home)
    assert result.reason == "target: 1000 is reached"
    assert result.standing.wall_ms() > charged > 0
    with Ledger.open(home.ledger) as ledger:
        kinds = [entry.kind for entry in ledger.entries()]
    assert kinds.count("engine.started") == kinds.count("engine.ended") == 2
    assert read_standing(home).finished is not None


def _store(result):
    """The campaign's store."""
    return Store.open(result.task.folder.parent / "home" / "objects")


def _file(result, number, name):
    """A file of the state of the card with that number."""
    return _of_tree(result, result.standing.cards[number].tree, name)


def _of_tree(result, tree, name):
    store = _store(result)
    *above, last = name.split("/")
    for part in above:
        tree = next(entry.tree for entry in store.tree(tree).entries if entry.name == part.encode())
    return store.get(next(e.blob for e in store.tree(tree).entries if e.name == last.encode())).decode()
