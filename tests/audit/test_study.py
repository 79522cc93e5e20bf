"""A study from its TOML to its tables: checked, run, killed, resumed, and counted again from the raw transcripts."""

import csv
import io
import itertools
import json
import os
import random
import re
import signal
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import veristate.audit.study.opening as opening
from veristate.agents.claims import LexicalController, Transcript
from veristate.agents.models import Reply
from veristate.audit import DifferenceClass, Selection
from veristate.audit.design import Condition
from veristate.audit.study import (
    Executed,
    as_json,
    deciders,
    open_bench,
    opened,
    read_recorded,
    read_run,
    read_study,
    read_transcript,
    results_of,
    run_study,
    sides_of,
    tables_of,
    texts_of,
)
from veristate.audit.study.benches import reference_at, request_seed, score_text
from veristate.audit.tasks import Data
from veristate.audit.tasks.judges import best_columns
from veristate.audit.tasks.scifact_text import Abstract, Claim, Evidence, SciFactText
from veristate.audit.tasks.task import Description, LayeredTask, Product, TaskOutcome
from veristate.core import EnvironmentUnusableError, InputError, RefusedError, TamperError
from veristate.numerics import round_to_bf16

CLAIMS, DOCUMENTS, WIDTH = 6, 14, 8


def tiny_task():
    """Six claims against fourteen documents in eight dimensions, drawn so close that BF16 changes lists."""
    rng = np.random.default_rng(5)
    base = rng.standard_normal(WIDTH)
    X = (rng.standard_normal((CLAIMS, WIDTH)) * 0.2 + base).astype(np.float32)
    W = (rng.standard_normal((DOCUMENTS, WIDTH)) * 0.004 + base).astype(np.float32)
    about = Description(name="tiny", data="", size=(), split=(), computation="", endpoint="", aggregate="", differs="")

    def judge(scores):
        return TaskOutcome(
            lists=best_columns(scores, 10), labels=(scores[:, 0] > 8).astype(int), metrics=(("first", 0.5),)
        )

    return LayeredTask(about=about, X=X, layers=(Product(site="scores", W=W),), judge=judge)


def tiny_text():
    """Claims 0..5 and documents d00..d13 of three sentences; each claim is annotated with its own document's first."""
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    abstracts = tuple(
        Abstract(id=f"d{n:02}", title=f"Title {n}", sentences=(f"About {words[n % 6]} rays.", "Not so.", f"End {n}."))
        for n in range(DOCUMENTS)
    )
    claims = tuple(
        Claim(
            id=str(n),
            text=f"{words[n]} rays",
            evidence=(Evidence(document=f"d{n:02}", sentences=(0,), label="SUPPORT"),) if n % 2 else (),
            relevant=frozenset({f"d{n:02}"}),
        )
        for n in range(CLAIMS)
    )
    return SciFactText(abstracts=abstracts, claims=claims)


@dataclass(frozen=True)
class Noisy:
    """A decider whose choices follow from its seed and what it sees: it also replies no JSON, and never ends."""

    seed: int
    calls: Counter

    @property
    def name(self):
        """Its seed is its setting."""
        return json.dumps({"decider": "noisy", "seed": self.seed})

    def decide(self, situation):
        """A search, reads and an ending, or none of them."""
        self.calls["decisions"] += 1
        dice = random.Random(f"{self.seed}|{situation.messages[-1].content}")
        if dice.random() < 0.05:
            return Reply(text="no JSON at all")
        if not situation.listed:
            return Reply(text='{"call":{"action":"search"}}')
        if dice.random() < 0.6 or not situation.documents:
            chosen = dice.choice(situation.listed[:4]).document
            return Reply(text=json.dumps({"call": {"action": "read", "document": chosen}}))
        cited = [{"document": dice.choice(situation.documents).id, "sentences": [dice.randrange(3)]}]
        verdict = dice.choice(["SUPPORT", "REFUTE", "NOT_ENOUGH_INFO"])
        return Reply(text=json.dumps({"call": {"action": "finish", "verdict": verdict, "citations": cited}}))


STUDY = """
name = "tiny"
task = "scifact"
least_groups = 2
[agent]
kind = "controller"
calls = 6
reads = 3
[statistics]
resamples = 200
[[captures]]
name = "bf16"
kind = "bf16"
[[captures]]
name = "flips"
kind = "fault"
fault = "case2"
seed = 3
state = 3
rows = 6
[[arms]]
name = "main"
"""
NOISY_ARMS = """
[[arms]]
name = "noisy"
temperature = 0.5
repeats = [1, 2, 3]
"""


@pytest.fixture(autouse=True, scope="module")
def tiny():
    """The tiny task and its text in the place of SciFact's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "load_task", lambda name, data: tiny_task())
        patch.setattr(opening, "read_scifact", lambda data: tiny_text())
        # A kill of the process loses nothing that was written; only a power cut would, and no test cuts the power.
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def study_of(tmp_path, text):
    """The specification of a study's text."""
    path = tmp_path / "study.toml"
    path.write_text(text)
    return read_study(path)


def bench_of(spec, make_decider=lambda temperature, seed: LexicalController()):
    """Its bench."""
    return open_bench(spec, Data(folder=None), make_decider)


def ticking():
    """A clock that counts."""
    ticks = itertools.count()
    return lambda: f"t{next(ticks)}"


def noisy_study(tmp_path):
    """A study of noisy attempts, its bench, and how often its deciders were asked."""
    calls = Counter()
    text = STUDY.replace('kind = "controller"', 'kind = "endpoint"\nurl = "http://x/v1"\nmodel = "m"')
    spec = study_of(tmp_path, text.replace('[[arms]]\nname = "main"\n', NOISY_ARMS))
    return spec, bench_of(spec, lambda temperature, seed: Noisy(seed, calls)), calls


@pytest.fixture(scope="module")
def noisy(tiny, tmp_path_factory):
    """A run of the noisy study, for those who only read it: its specification, bench, folder, run and results."""
    above = tmp_path_factory.mktemp("noisy")
    spec, bench, _ = noisy_study(above)
    ran = run_study(spec, bench, above / "run", clock=ticking())
    results = results_of(spec, ran, bench.endpoints())
    return SimpleNamespace(spec=spec, bench=bench, folder=above / "run", ran=ran, results=results)


# What a study may not say.


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('task = "scifact"', 'task = "scifakt"', "study.toml: task = 'scifakt': give one of scifact"),
        ('name = "tiny"\n', "", "study.toml: name: this key is missing"),
        ('name = "tiny"', 'name = "a b"', "study.toml: name: 'a b' is no name here"),
        ('kind = "bf16"', 'kind = "bf61"', r"study.toml: captures\[0\].kind = 'bf61': give one of bf16"),
        ("seed = 3", "sead = 3", r"study.toml: captures\[1\].seed: this key is missing"),
        ("seed = 3", "seed = 3\nsede = 4", r"study.toml: captures\[1\].sede: unknown key; known here are fault, kind"),
        ("seed = 3", 'seed = "3"', r"study.toml: captures\[1\].seed = '3': give a whole number of 0 or more"),
        ("seed = 3", "seed = true", r"captures\[1\].seed = True: give a whole number"),
        ("calls = 6", "calls = 0", "study.toml: agent.calls = 0: give a whole number of 1 or more"),
        ('name = "flips"', 'name = "bf16"', "captures: two of them have one name"),
        ('name = "main"', 'name = "main"\ntemperature = 0.5', r"arms\[0\].temperature: 0.5, but an agent of kind"),
        ('name = "main"', 'name = "main"\ntemperature = nan', "give a number of 0 or more"),
        ('name = "main"', 'name = "main"\nconditions = ["H1", "C"]', "H2 must be among them"),
        ('name = "main"', 'name = "main"\nconditions = ["H1", "H2", "C", "C"]', "something stands there twice"),
        ('name = "main"', 'name = "main"\nrepeats = []', "give different whole numbers"),
        (
            'name = "main"',
            'name = "main"\nconditions = ["H1", "H2", "C", "list H values C"]',
            "list x values needs all four conditions",
        ),
        ("[[arms]]", '[design]\nselection = "development"\n[[arms]]', "needs a capture whose role is development"),
        ('kind = "bf16"', 'kind = "bf16"\nrole = "development"', None),
        ("[[arms]]", '[claims]\nchoose = ["1"]\ncontrols = ["1"]\n[[arms]]', "chosen and control at once"),
        ("[[arms]]", "[claims]\nchoose = []\n[[arms]]", "an empty list chooses nothing"),
        ("[[captures]]", "[captures]", "captures: give tables, each begun by"),
        ("least_groups = 2", "least_groups = 2 2", "is no TOML file"),
        ('task = "scifact"', 'task = "nci"', "study.toml: agent.kind: the task nci has no agent"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, old, new, said):
    """An unknown, missing or wrong value names file, table and key; a lawful change is taken."""
    text = STUDY.replace(old, new, 1) if old != "[[captures]]" else STUDY.split("[[captures]]")[0] + "[captures]\n"
    assert text != STUDY
    if said is None:
        assert study_of(tmp_path, text).captures[0].role == "development"
        return
    with pytest.raises(InputError, match=said):
        study_of(tmp_path, text)


def test_a_study_that_can_not_be_read(tmp_path):
    """A missing file and bytes that are no text are errors of the input."""
    with pytest.raises(InputError, match="No such file"):
        read_study(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is no TOML file"):
        read_study(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STUDY + '[claims]\nchoose = ["7"]', "claims: 7 is none of the task's claims"),
        ('site = "hidden"\n' + STUDY, "site = 'hidden': the task scifact has the sites scores"),
        (STUDY.replace('"case2"', '"case9"'), "case9: known are case1"),
        (STUDY.replace('"case2"', '"tile"'), "the fault tile has no states"),
    ],
)
def test_what_the_task_does_not_have_is_refused(tmp_path, text, said):
    """Claims, sites and faults that are not there."""
    with pytest.raises(InputError, match=said):
        bench_of(study_of(tmp_path, text))


# Captures.


def test_captures_are_classed_and_simulated_ones_say_so(tmp_path):
    """BF16 rounding is ordinary, a fault model's constructed; each difference is counted."""
    rounded, flipped = bench_of(study_of(tmp_path, STUDY)).captures
    h = tiny_task().X @ tiny_task().layers[0].W.T
    assert rounded.capture.c.tolist() == round_to_bf16(h).tolist()
    assert rounded.classes == ((DifferenceClass.ORDINARY, int((round_to_bf16(h) != h).sum())),)
    assert (rounded.simulated, flipped.simulated) == ("", "case2, seed 3, state 3, calls of 6 rows")
    assert flipped.classes == ((DifferenceClass.CONSTRUCTED, flipped.differing),)
    assert flipped.differing > 0


def test_files_of_the_user_are_judged_against_the_bound(tmp_path):
    """One value far off is proven; values off by less than rounding may make them are unresolved."""
    h = tiny_task().X @ tiny_task().layers[0].W.T
    c = h.copy()
    c[0, 0] += 1
    c[1, 1] = np.nextafter(c[1, 1], np.float32(9))
    np.save(tmp_path / "c.npy", c)
    text = STUDY + '[[captures]]\nname = "mine"\nkind = "files"\ncandidate = "c.npy"\n'
    found = bench_of(study_of(tmp_path, text)).captures[2]
    assert dict(found.classes) == {DifferenceClass.PROVEN: 1, DifferenceClass.UNRESOLVED: 1}
    np.save(tmp_path / "c.npy", c[:, :-1])
    with pytest.raises(InputError, match="label"):
        bench_of(study_of(tmp_path, text))


def test_a_site_that_a_run_passes_twice_is_refused():
    """Its values are no single array."""

    class Twice:
        def run(self, change):
            change("scores", change("scores", np.zeros((2, 2), dtype=np.float32)))

    with pytest.raises(InputError, match="passes the site 'scores' 2 times"):
        reference_at(Twice(), "scores")


def test_a_second_healthy_environment_doubles_the_captures(tmp_path):
    """Each capture stands again on the other reference, its candidate that reference plus the same residual."""
    text = STUDY + '[[environments]]\nname = "wide"\nkind = "fp64"\n'
    found = bench_of(study_of(tmp_path, text)).captures
    assert [one.name for one in found] == ["bf16", "flips", "bf16@wide", "flips@wide"]
    task = tiny_task()
    other = (task.X.astype(np.float64) @ task.layers[0].W.astype(np.float64).T).astype(np.float32)
    assert found[2].capture.h.tolist() == other.tolist()
    assert found[2].capture.c.tolist() == (other + found[0].capture.residual).tolist()


# The run.


def test_what_is_shown_is_the_best_ten_with_their_values(tmp_path):
    """The delivered list of every condition is the sorted row, ties by identifier, scores in full."""
    bench = bench_of(study_of(tmp_path, STUDY))
    assert float(np.float32(score_text(np.float32(0.1)))) == float(np.float32(0.1))
    for (name, claim, condition), shown in bench.shown.items():
        one = next(one for one in bench.captures if one.name == name)
        if condition not in (Condition.H1, Condition.C):
            continue
        row = (one.capture.h if condition == "H1" else one.capture.c)[int(claim)]
        order = sorted(range(DOCUMENTS), key=lambda n: (-row[n], f"d{n:02}"))[:10]
        assert [hit.document for hit in shown.results] == [f"d{n:02}" for n in order]
        assert [np.float32(hit.score) for hit in shown.results] == [row[n] for n in order]


def test_the_controller_comes_back_to_the_reference_under_full_restoration(tmp_path):
    """A deterministic agent: H2, full and zero give H1's path always, and BF16 changes some lists."""
    spec = study_of(tmp_path, STUDY)
    bench = bench_of(spec)
    ran = run_study(spec, bench, tmp_path / "run", clock=ticking())
    assert ran.complete
    results = results_of(spec, ran, bench.endpoints())
    (series,) = results.series
    assert series.joint == len(series.groups) == 2 * CLAIMS
    for summary in series.summaries:
        assert (summary.restored, summary.discordance.repeat) == (0, 0)
    assert series.summaries[0].discordance.candidate > 0
    assert results.failures == ()
    for group in series.groups:
        assert group.path("H1") == group.path("H2") == group.path("full") == group.path("zero")


def read_raw(folder):
    """Every attempt from the lines and the transcripts alone: {(capture, task, repeat): {condition: facts}}."""
    found = {}
    for line in (folder / "attempts.lines").read_text().splitlines():
        content = json.loads(line.split(" ", 1)[1])
        (attempt,) = content["attempts"]
        raw = json.loads(read_transcript(folder, content["transcript"]))
        turns = [turn for turn in raw["turns"] if turn["call"] and not turn["delivery"]["rejection"]]
        calls = [turn["call"][0] for turn in turns]
        done = bool(calls) and calls[-1]["tool"] == "finish"
        facts = {
            "done": done,
            "exposed": any(call["tool"] == "search" for call in calls),
            "retrieved": [entry["document"] for turn in turns for entry in turn["delivery"]["listed"]],
            "read": [call["document"] for call in calls if call["tool"] == "read"],
            "cited": {(c["document"], s) for call in calls for c in call["citations"] for s in c["sentences"]},
            "verdict": calls[-1]["verdict"] if done else None,
        }
        key = (attempt["capture"], attempt["task"], attempt["repeat"])
        found.setdefault(key, {})[content["condition"]] = facts
    return found


def test_discordances_are_counted_again_from_raw_transcripts(noisy):
    """Joint groups, C against H1 and H2 against H1 of four endpoints agree with a recount; nothing is dropped."""
    (series,) = noisy.results.series
    raw = read_raw(noisy.folder)
    assert len(raw) == 2 * CLAIMS * 3
    assert all(len(conditions) == 7 for conditions in raw.values())
    core = ("H1", "H2", "C", "full")
    joint = [g for g in raw.values() if all(g[name]["done"] and g[name]["exposed"] for name in core)]
    assert 0 < len(joint) < len(raw)
    assert series.joint == len(joint)
    views = {
        "retrieved membership": lambda facts: set(facts["retrieved"]),
        "read membership": lambda facts: set(facts["read"]),
        "cited membership": lambda facts: facts["cited"],
        "verdict membership": lambda facts: facts["verdict"],
    }
    for summary in series.summaries:
        view = views.get(summary.endpoint.name)
        if view is None:
            continue
        differing = {name: sum(view(g[name]) != view(g["H1"]) for g in joint) for name in core}
        assert summary.discordance.candidate == differing["C"]
        assert summary.discordance.repeat == differing["H2"]
        assert summary.restored == differing["full"]
    for tally in series.summaries[0].tallies:
        mine = [g[tally.condition] for g in raw.values()]
        assert tally.attempts == len(mine)
        assert tally.counted == sum(facts["done"] and facts["exposed"] for facts in mine)
        assert tally.counted + tally.incomplete + tally.invalid + tally.unexposed == tally.attempts
        assert tally.incomplete + tally.invalid == sum(not facts["done"] for facts in mine)


def test_an_attempt_has_a_draw_of_its_own_or_shares_the_repeats(tmp_path):
    """Independent draws differ between the conditions of a group; shared ones are the repeat, as at temperature 0."""
    spec, _, _ = noisy_study(tmp_path)
    (arm,) = spec.arms
    seeds = {request_seed(arm, "c", "t", repeat, name) for repeat in "12" for name in (Condition.H1, Condition.C)}
    assert len(seeds) == 4
    for changed in (
        STUDY.replace('kind = "controller"', 'kind = "local"') + 'temperature = 0.5\ndraws = "shared"',
        STUDY,
    ):
        (other,) = study_of(tmp_path, changed).arms
        assert {request_seed(other, "c", "t", "7", name) for name in Condition} == {7}


def test_a_run_goes_on_where_it_stopped_and_grows_with_its_study(tmp_path):
    """What is finished is not run again, also when the study asks for more; what it no longer asks for is said."""
    spec, bench, calls = noisy_study(tmp_path)
    folder = tmp_path / "run"
    first = run_study(spec, bench, folder, clock=ticking(), limit=10)
    assert (len(first.executed), first.complete) == (10, False)
    assert results_of(spec, first, bench.endpoints()).failures
    before = (folder / "attempts.lines").read_bytes()
    seen = []
    second = run_study(spec, bench, folder, clock=ticking(), announce=seen.append)
    assert second.complete
    assert (seen[0].finished, seen[0].left) == (10, len(seen[0].executions) - 10)
    assert (folder / "attempts.lines").read_bytes().startswith(before)
    asked = calls["decisions"]
    assert run_study(spec, bench, folder, clock=ticking()).complete
    assert calls["decisions"] == asked
    fewer = study_of(tmp_path, (tmp_path / "study.toml").read_text().replace("[1, 2, 3]", "[2]"))
    part = run_study(fewer, bench_of(fewer, lambda t, s: Noisy(s, calls)), folder, clock=ticking())
    assert part.complete
    assert calls["decisions"] == asked
    assert part.unplanned == len(second.executed) - len(part.executed) > 0


STEPS = ("open", "write", "fsync", "rename", "mkdir", "ftruncate")


def killed_at(step, work):
    """Whether `work`, in a forked process, was killed before its n-th step on files; a write gets half out first."""
    process = os.fork()
    if process == 0:
        left = step

        def deadly(name, call):
            def stepped(*arguments, **options):
                nonlocal left
                left -= 1
                if left == 0:
                    if name == "write":
                        call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return stepped

        for name in STEPS:
            setattr(os, name, deadly(name, getattr(os, name)))
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def test_a_kill_at_every_step_loses_the_attempt_in_flight_alone(tmp_path):
    """Whenever the process dies, what is finished is the beginning of the plan, and going on repeats none of it."""
    text = STUDY.replace('name = "main"', 'name = "main"\nconditions = ["H1", "H2", "C"]')
    before, one, _, after = re.split(r"(?=\[\[captures\]\]|\[\[arms\]\])", text)
    spec = study_of(tmp_path, before + one + after + '[claims]\nchoose = ["1"]')
    told = Counter()

    class Counting:
        name = LexicalController().name

        def decide(self, situation):
            told["searches"] += not situation.listed
            return LexicalController().decide(situation)

    bench = bench_of(spec, lambda temperature, seed: Counting())
    whole = run_study(spec, bench, tmp_path / "whole", clock=lambda: "t")
    plan = [execution.key for execution in whole.plan.executions]
    lengths = set()
    for step in itertools.count(1):
        folder = tmp_path / f"run-{step}"
        killed = killed_at(step, lambda folder=folder: run_study(spec, bench, folder, clock=lambda: "t"))
        finished = list(read_recorded(folder)) if (folder / "attempts.lines").exists() else []
        assert finished == plan[: len(finished)]
        for executed in (read_recorded(folder) if finished else {}).values():
            assert Transcript.from_bytes(read_transcript(folder, executed.transcript)).verdict
        told.clear()
        again = run_study(spec, bench, folder, clock=lambda: "t")
        assert again.complete
        assert told["searches"] == len(plan) - len(finished)
        assert [e.attempts for e in again.executed.values()] == [e.attempts for e in whole.executed.values()]
        lengths.add(len(finished))
        if not killed:
            break
    assert lengths == set(range(len(plan) + 1))
    assert step > 20


def test_lines_that_are_not_what_was_written_are_tampering(tmp_path):
    """A changed byte anywhere but in an unfinished last line is named; the unfinished line is cut off."""
    spec = study_of(tmp_path, STUDY)
    bench, folder = bench_of(spec), tmp_path / "run"
    run_study(spec, bench, folder, clock=ticking(), limit=3)
    path = folder / "attempts.lines"
    data = path.read_bytes()
    path.write_bytes(data + b'0123 {"half')
    assert len(read_recorded(folder)) == 3
    assert len(run_study(spec, bench, folder, clock=ticking(), limit=0).executed) == 3
    assert path.read_bytes() == data
    changed = data.replace(b"completed", b"compLeted")
    for wrong, said in ((changed, "line 1 is not what was written"), (data + data.splitlines(True)[0], "repeats")):
        path.write_bytes(wrong)
        with pytest.raises(TamperError, match=said):
            read_recorded(folder)
        with pytest.raises(TamperError, match=said):
            run_study(spec, bench, folder, clock=ticking())
    with pytest.raises(EnvironmentUnusableError, match="give the folder of a run"):
        read_recorded(tmp_path / "elsewhere")


def test_one_run_at_a_time(tmp_path):
    """A second writer is refused while the first one holds the folder."""
    with opened(tmp_path), pytest.raises(RefusedError, match="in use by another run"), opened(tmp_path):
        pass


def test_an_execution_reads_back_as_written(tmp_path):
    """Lines are canonical: reading and writing gives the same bytes, and no other bytes are read."""
    spec = study_of(tmp_path, STUDY)
    ran = run_study(spec, bench_of(spec), tmp_path / "run", clock=ticking(), limit=9)
    for executed in ran.executed.values():
        assert Executed.from_bytes(executed.to_bytes()) == executed
    with pytest.raises(TamperError, match="not a line of"):
        Executed.from_bytes(b'{"format":"veristate.execution/1"}')
    with pytest.raises(TamperError, match="not canonical"):
        Executed.from_bytes(executed.to_bytes().replace(b'","', b'", "', 1))


# The figures.


def factorial_study(tmp_path):
    """The controller under list x values, and with its content masked."""
    conditions = [name.value for name in Condition]
    masked = '[[arms]]\nname = "masked"\nmasking = "both"\nconditions = ["H1", "H2", "C"]\n'
    return study_of(tmp_path, f"{STUDY}conditions = {json.dumps(conditions)}\n{masked}")


def test_lists_and_values_and_masking_are_counted(tmp_path):
    """A controller that ignores scores follows the list: values have no effect. Masked, it concludes nothing."""
    spec = factorial_study(tmp_path)
    bench = bench_of(spec)
    results = results_of(spec, run_study(spec, bench, tmp_path / "run", clock=ticking()), bench.endpoints())
    shown, masked = results.series
    found = next(one for one in shown.factorial if one.endpoint.name == "retrieved membership")
    reference, candidate = ([shown.groups[n].path(name).retrieved for n in range(12)] for name in ("H1", "C"))
    same = sum(set(a) == set(b) for a, b in zip(reference, candidate, strict=True)) / 12
    assert found.effects.cells == ((1.0, 1.0), (same, same))
    assert (found.effects.values_effect, found.effects.interaction) == (0.0, 0.0)
    assert {group.path("H1").verdict for group in masked.groups} == {"NOT_ENOUGH_INFO"}
    verdicts = [a for _, _, a in results.across if (a.condition, a.endpoint.name) == ("H1", "verdict membership")]
    differing = sum(group.path("H1").verdict != "NOT_ENOUGH_INFO" for group in shown.groups)
    assert [(one.compared, one.differing) for one in verdicts] == [(12, differing)]


def test_too_few_groups_fail_the_study(tmp_path):
    """The arm and its counts are named."""
    spec = study_of(tmp_path, STUDY.replace("least_groups = 2", "least_groups = 13"))
    bench = bench_of(spec)
    results = results_of(spec, run_study(spec, bench, tmp_path / "run", clock=ticking()), bench.endpoints())
    assert results.failures == ("arm main: 12 jointly complete, exposed groups, fewer than the 13 asked for",)


def test_controls_stand_apart_from_chosen_claims(tmp_path):
    """Claims that change are chosen, most replaced first; controls are counted in a series of their own."""
    spec = study_of(tmp_path, STUDY + '[claims]\nchoose = "changed"\nmost = 2\ncontrols = ["0"]')
    bench = bench_of(spec)
    h, c = bench.captures[0].capture.h, bench.captures[0].capture.c
    lost = {n: len(set(best_columns(h, 10)[n]) - set(best_columns(c, 10)[n])) for n in range(1, CLAIMS)}
    wanted = sorted(sorted((n for n in lost if lost[n]), key=lambda n: (-lost[n], n))[:2])
    groups = [group for group in bench.groups if group.capture == "bf16"]
    assert [(group.task, group.role.value) for group in groups] == [
        *((str(n), "chosen") for n in wanted),
        ("0", "control"),
    ]
    results = results_of(spec, run_study(spec, bench, tmp_path / "run", clock=ticking()), bench.endpoints())
    assert [series.role.value for series in results.series] == ["chosen", "control"]


def test_tables_say_the_same_as_csv_and_json(noisy):
    """Every table has its columns in each row, and the JSON object has the rows of the CSV files."""
    bench, ran, folder = noisy.bench, noisy.ran, noisy.folder
    tables = tables_of(bench.captures, noisy.results, bench.endpoints())
    told = as_json(noisy.spec, noisy.results, tables, complete=ran.complete)
    for path, text in texts_of(folder, "x", tables, told).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for name, table in tables.items():
        rows = list(csv.DictReader(io.StringIO((folder / "tables" / f"{name}.csv").read_text())))
        wanted = [{key: "" if v is None else str(v) for key, v in row.items()} for row in table.records()]
        assert rows == wanted
    held = read_run(folder)
    assert held.results["tables"]["discordance"] == tables["discordance"].records()
    assert len(tables["attempts"].rows) == len(held.executed) == len(ran.plan.executions)
    core = ("H1", "H2", "C", "full")
    whole = Counter(
        key[:2] for key, g in read_raw(folder).items() if all(g[name]["done"] and g[name]["exposed"] for name in core)
    )
    for row in tables["strict"].records():
        assert (row["batches"], row["scheduled"]) == (whole[row["capture"], row["task"]], 3)
        assert row["batches"] == 3 or not row["strict"]


def test_what_interventions_cost_is_added_up_once(noisy):
    """Selected, replaced and remaining values of all visited rows, each row once however often it is repeated."""
    bench = noisy.bench
    tables = tables_of(bench.captures, noisy.results, bench.endpoints())
    for row in tables["replacements"].records():
        one = next(one for one in bench.captures if one.name == row["capture"])
        differing = int((one.capture.h != one.capture.c).sum())
        assert (row["replacements"], row["differing"]) == (CLAIMS, differing)
        if row["condition"] == "full":
            assert (row["effective"], row["remaining"], row["b_global"]) == (differing, 0, 1.0)
        if row["condition"] == "zero":
            assert (row["effective"], row["without_effect"]) == (0, CLAIMS)
        assert row["effective"] + row["remaining"] == differing


def test_one_group_side_by_side(tmp_path):
    """A group is found by the name that tables give it; an unknown name names others."""
    spec = study_of(tmp_path, STUDY)
    bench = bench_of(spec)
    ran = run_study(spec, bench, tmp_path / "run", clock=ticking())
    tables = tables_of(bench.captures, results_of(spec, ran, bench.endpoints()), bench.endpoints())
    for row in tables["groups"].records():
        sides = sides_of(ran.executed, row["group"])
        assert set(sides.attempts) == {Condition(name) for name in ("H1", "H2", "C", "full", "selected")} | {
            Condition.TRANSPLANT,
            Condition.ZERO,
        }
        assert (sides.divergence is None) == (row["parts_at"] is None)
        changed = sides.attempts[Condition.H1].path != sides.attempts[Condition.C].path
        assert any(line.differs for line in sides.rows) == changed
    with pytest.raises(InputError, match=r"no group 'main/bf16/9/0'.*it has 12 groups: main/bf16/0/0"):
        sides_of(ran.executed, "main/bf16/9/0")


def test_arrays_alone_are_audited_list_by_list(tmp_path):
    """Each list and each row is a group; what changes agrees with sorting, and full restoration undoes it."""
    text = STUDY.replace('[agent]\nkind = "controller"\ncalls = 6\nreads = 3\n', "")
    spec = study_of(tmp_path, text)
    bench = bench_of(spec, None)
    results = results_of(spec, run_study(spec, bench, tmp_path / "run", clock=ticking()), bench.endpoints())
    (series,) = results.series
    assert len(series.groups) == 2 * (CLAIMS + CLAIMS)
    h = bench.captures[0].capture.h
    lists = [(best_columns(h, 10), best_columns(one.capture.c, 10)) for one in bench.captures]
    members = sum(set(a) != set(b) for H, C in lists for a, b in zip(H.tolist(), C.tolist(), strict=True))
    assert series.summaries[0].discordance.candidate == members > 0
    assert [summary.restored for summary in series.summaries] == [0, 0, 0]
    for name, selection in bench.selections.items():
        one = next(one for one in bench.captures if one.name == name)
        mixed = np.where(selection.mask, one.capture.h, one.capture.c)
        assert best_columns(mixed, 10).tolist() == lists[0][0].tolist()
        assert isinstance(selection, Selection)


def test_deciders_are_made_for_each_kind():
    """A controller needs nothing; an array-only study has nobody to ask."""
    from veristate.audit.study.spec import AgentSpec

    with deciders(AgentSpec(kind="controller")) as make:
        assert make(0.0, 3).name == LexicalController().name
    with deciders(AgentSpec(kind="endpoint", url="http://127.0.0.1:9/v1", model="m")) as make:
        assert json.loads(make(0.5, 3).name) | {"seed": "3"} == json.loads(make(0.5, 3).name)
    with deciders(AgentSpec(kind="none")) as make, pytest.raises(InputError, match="no agent"):
        make(0.0, 0)
