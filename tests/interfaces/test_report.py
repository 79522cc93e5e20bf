"""The report: one page that stands alone, escapes what users wrote, and says the right thing in every situation."""

import math
import random
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import Certificate, Decision, Rule
from veristate.devices import Granularity
from veristate.interfaces.report import render_report
from veristate.interfaces.report.markup import el, number, printable
from veristate.interfaces.report.svg import Scale, span, ticks
from veristate.interfaces.report.words import clip, percent, share, small
from veristate.screening import (
    AgentStory,
    Assurance,
    Change,
    JournalLine,
    LayerFlags,
    Recomputation,
    Scores,
    ScreeningResult,
)

LAYERS = ("message_passing.W_i", "message_passing.W_h", "message_passing.W_o", "predictor.ffn.0.0", "predictor.ffn.1.2")
SYLLABLES = (
    "ami",
    "clo",
    "dex",
    "fen",
    "gli",
    "hal",
    "ket",
    "lor",
    "met",
    "nor",
    "oxa",
    "pra",
    "qui",
    "ris",
    "sul",
    "ter",
)
HOSTILE = (
    "</style></svg><script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)>\x00\u202eevil\ud800"
)
SIMULATED = "case2 (seed 7, simulated)"


def hexes(text):
    """A digest that is the same for the same text."""
    return f"{random.Random(text).getrandbits(256):064x}"


def chosen_by(rule, values, ids):
    """The oracle: what a rule chooses, written a second time, by sorting."""
    t = float(rule.threshold or 0)
    if rule.kind == "threshold":
        return sorted(i for i, v in zip(ids, values, strict=True) if v >= t)
    key = (lambda pair: (-pair[1], pair[0])) if rule.kind == "top_k" else (lambda pair: (abs(pair[1] - t), pair[0]))
    return sorted(i for i, _ in sorted(zip(ids, values, strict=True), key=key)[: rule.count])


def decisions(rules, values, ids):
    """What the oracle says for every rule."""
    return tuple(Decision(rule=rule, chosen=tuple(chosen_by(rule, values, ids))) for rule in rules)


def changes_between(before, after, values_before, values_after, ids, names):
    """The candidates on which two decisions differ."""
    found = []
    place = {name: i for i, name in enumerate(ids)}
    for old, new in zip(before, after, strict=True):
        boundary = float(new.rule.threshold or min(values_after[place[i]] for i in new.chosen))
        for i in set(old.chosen) ^ set(new.chosen):
            at = place[i]
            found.append(
                Change(
                    id=i,
                    name=names[at],
                    rule=new.rule.kind,
                    entered=i in new.chosen,
                    score_before=values_before[at],
                    score_after=values_after[at],
                    boundary=boundary,
                    own=values_before[at] != values_after[at],
                )
            )
    return tuple(sorted(found, key=lambda change: change.id))


def made(n=2845, members=5, *, wrong=580, flagged=True, rules=None, seed=3, certified=True, moves=0.12):
    """A result such as a screening run ends with; `wrong` candidates had another mean before."""
    rng = random.Random(seed)
    rules = rules or (Rule(kind="top_k", count=max(1, n // 5)), Rule(kind="threshold", threshold="0.5"))
    ids = tuple(f"DB{i * 7 + 13:05d}" for i in range(n))
    names = tuple("".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))).capitalize() for _ in ids)
    after = tuple(min(max(rng.betavariate(0.62, 0.85), 0.0), 1.0) for _ in ids)
    hit = set(rng.sample(range(n), min(wrong, n)))
    before = tuple(
        min(max(v + rng.choice((-1, 1)) * moves * rng.random() ** 6, 0.0), 1.0) if i in hit else v
        for i, v in enumerate(after)
    )
    then, now = decisions(rules, before, ids), decisions(rules, after, ids)
    layer_flags = tuple(
        LayerFlags(
            member=member,
            layer=layer,
            calls=90 if layer.endswith("W_h") else 45,
            flagged=(hits := rng.randint(0, 14) if flagged else 0),
            worst=("inf" if hits == 14 else f"{rng.uniform(1.2, 4000):.6g}")
            if hits
            else f"{rng.uniform(0.1, 0.6):.6g}",
            units=tuple(sorted(u for _ in range(hits) for u in burst(rng, n))),
        )
        for member in range(members)
        for layer in LAYERS
    )
    calls, hits = sum(f.calls for f in layer_flags), sum(f.flagged for f in layer_flags)
    units = len({(f.member, u) for f in layer_flags for u in f.units})
    certificate = Certificate(
        request_id="herg-approved",
        contract=hexes("contract"),
        contract_kind="C2",
        delta="0",
        certifies="values",
        decisions=now,
        table=hexes("table"),
        evidence={"recomputation": hexes("again"), "units_recomputed": str(n * members), "findings_verdict": "FLAG"},
    )
    before_recomputing = ("run.started", "executor.qualified", "agent.checkpoint", "view.released", "pass.recorded")
    after_it = ("executor.requalified", "recomputation", "certificate.stored", "agent.restored", "action.committed")
    kinds = (*before_recomputing, "findings.recorded", *after_it)
    return ScreeningResult(
        request_id="herg-approved",
        predictor="hERG blockade, 5 Chemprop members of admet-ai==2.0.1",
        candidates=n,
        members=members,
        dtype="fp32",
        device="cpu",
        trusted_device="cpu",
        injected=SIMULATED if flagged else None,
        policy="r1",
        rules=rules,
        excluded=(),
        coverage=0.99963,
        unwatched=(("relu", 90), ("index_add_", 45), ("sigmoid", 5)),
        checked_on="trusted executor on cpu, process 4711",
        granularity=Granularity(),
        checks={"calls": calls, "passed": calls - hits, "flagged": hits, "inapplicable": 0},
        layer_flags=layer_flags,
        flagged_units=units,
        marked_units=units,
        injected_calls=377,
        injected_residuals="",
        epsilon=None,
        agent="keeps",
        comparable=True,
        recomputed_units=n * members if certified else n * members // 3,
        recomputations=(
            Recomputation(reason="flagged", asked=units, computed=min(units * 4, n * members), decisions=then),
            Recomputation(reason="values", asked=n, computed=n, decisions=now),
        ),
        wrong_values=round(1.03 * len(hit)) if flagged else 0,
        wrong_means=len(hit),
        largest_displacement=max(abs(a - b) for a, b in zip(before, after, strict=True)),
        decisions_before=then,
        decisions=now if certified else None,
        changes=changes_between(then, now, before, after, ids, names) if certified else (),
        scores=Scores(ids=ids, names=names, before=before, certified=after if certified else None),
        certificate=certificate if certified else None,
        committed=certified,
        committed_earlier=None,
        commitment="",
        story=AgentStory(
            agent="keeps",
            recovery="restore",
            read_unverified=True,
            restored=True,
            refused=(),
            steps=(
                "The unverified table was released to it.",
                "The agent (keeps) read the scores before they were verified and prepared an action.",
                "The certified table became the current view.",
                "It was taken back to the state before that read: history, variables and files restored, its prepared "
                "action discarded, its request salt replaced.",
                "The agent (keeps) read the certified scores and prepared its action.",
                "The gateway committed its action (journal entry 14).",
            ),
        ),
        journal=tuple(
            JournalLine(seq=i + 3, time=f"2026-11-30T19:{i:02d}:07.123456Z", kind=kind, digest=hexes(f"entry {i}"))
            for i, kind in enumerate(kinds)
        ),
        journal_head=hexes("entry 11"),
        reference_match=True if certified else None,
        peak_memory_mb=1612.4,
        seconds={
            "read the table": 3.1,
            "load both executors": 8.4,
            "qualify the trusted executor": 1.06,
            "measure coverage": 0.41,
            "score and check": 31.8,
            "recompute on the trusted executor": 12.6,
            "agent and commitment": 0.62,
        },
    )


def burst(rng, n):
    """Table positions hit by one event: some neighbours of one batch."""
    start = rng.randrange(n)
    return {min(n - 1, start + rng.randrange(64)) for _ in range(rng.randint(2, 16))}


def healthy(n=2845):
    """A run without a fault, whose agent was shown nothing before certification."""
    return replace(
        made(n, wrong=0, flagged=False),
        story=replace(made(3).story, read_unverified=False, restored=False, recovery="hold"),
    )


def nothing(n=2845, **more):
    """A run whose budget ended before anything could be certified."""
    made_ = made(n, certified=False, **more)
    return replace(
        made_, story=replace(made_.story, restored=False, steps=("Nothing was proposed: the budget is spent.",))
    )


class Page(HTMLParser):
    """What a reader gets: the text, the elements that were opened, and whether every one was closed in order."""

    VOID = ("meta", "wbr")

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.pieces = [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        """Notes the element and its attributes."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Refuses the XML way of closing."""
        raise AssertionError(f"<{tag}/> is no HTML element without content")

    def handle_endtag(self, tag):
        """Closes the element that was opened last."""
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> out of order"

    def handle_data(self, data):
        """Keeps the text that is not style."""
        if "style" not in self.open:
            self.pieces.append(data)

    @property
    def text(self):
        """The text with its white space run together."""
        return re.sub(r"\s+", " ", " ".join(self.pieces))


def with_names(result, text):
    """The result with every candidate called `text`."""
    scores = replace(result.scores, names=(text,) * result.candidates)
    return replace(result, scores=scores, changes=tuple(replace(change, name=text) for change in result.changes))


def refused(*reasons, **more):
    """A run whose action the gateway refused for these reasons."""
    return replace(made(400), committed=False, story=replace(made(3).story, refused=reasons), **more)


ONE_RULE = (Rule(kind="threshold", threshold="0.5"),)
NEAREST = (
    Rule(kind="top_k", count=80),
    Rule(kind="threshold", threshold="0.5"),
    Rule(kind="nearest", count=20, threshold="0.5"),
)
NANS = Scores(ids=("a", "b", "c"), names=("A", "B", "C"), before=(math.nan,) * 3, certified=(0.1, 0.9, 0.5))
UNTOLD = replace(NANS, certified=None)
SITUATIONS = {
    "committed": lambda: made(moves=0.5),
    "healthy": healthy,
    "nothing certified": nothing,
    "refused": lambda: refused("view superseded"),
    "earlier": lambda: refused("already committed", committed_earlier="2026-11-29T08:11:02Z"),
    "one rule": lambda: made(400, rules=ONE_RULE),
    "nearest": lambda: made(400, rules=NEAREST, wrong=200),
    "no rules": lambda: replace(made(40), rules=(), changes=(), decisions=(), decisions_before=()),
    "no flags": lambda: replace(made(400, flagged=False), layer_flags=()),
    "3 candidates": lambda: made(3, wrong=2, moves=0.9),
    "1 candidate": lambda: made(1, members=1, rules=(Rule(kind="top_k", count=1),)),
    "1 member": lambda: made(400, members=1),
    "20,000 candidates": lambda: made(20000, wrong=9000),
    "NaN before": lambda: replace(made(3), scores=NANS, decisions_before=None, changes=()),
    "nothing but NaN": lambda: replace(made(3, certified=False), scores=UNTOLD, decisions_before=None),
    "infinite before": lambda: with_before(made(40, wrong=20, moves=0.9), (math.inf, -math.inf, 3e38, math.nan)),
    "all scores equal": lambda: equal_scores(made(60, wrong=0)),
    "everyone moved": lambda: made(2845, wrong=2845, moves=1.0),
    "no times": lambda: replace(made(40), seconds={}, peak_memory_mb=None, journal=(), recomputations=()),
    "unknown words": lambda: replace(
        made(40), changes=tuple(replace(change, rule="other") for change in made(40, wrong=40, moves=1.0).changes)
    ),
    "hostile": lambda: replace(with_names(made(400, moves=0.5), HOSTILE), request_id=HOSTILE, injected=HOSTILE),
}


def with_before(result, values):
    """The result, with some scores before replaced, also in its changes."""
    before = (*values, *result.scores.before[len(values) :])
    place = {identifier: i for i, identifier in enumerate(result.scores.ids)}
    changes = tuple(replace(c, score_before=before[place[c.id]], own=True) for c in result.changes)
    more = tuple(
        Change(id=i, name=i, rule="top_k", entered=True, score_before=v, score_after=0.7, boundary=0.6, own=True)
        for i, v in zip(result.scores.ids, values, strict=False)
    )
    return replace(result, scores=replace(result.scores, before=before), changes=(*more, *changes))


def equal_scores(result):
    """The result with one score for all."""
    same = (0.5,) * result.candidates
    now = decisions(result.rules, same, result.scores.ids)
    return replace(result, decisions=now, scores=replace(result.scores, before=same, certified=same))


@pytest.fixture(scope="module", params=SITUATIONS)
def situation(request):
    """Every situation with its page."""
    result = SITUATIONS[request.param]()
    return result, render_report(result)


def test_page_is_balanced_and_whole(situation):
    """Every element of the page is closed in order, there is one heading of the first rank, and all its parts."""
    page = Page(situation[1])
    assert page.tags.count("h1") == 1
    parts = {value for tag, name, value in page.attributes if tag == "section" and name == "id"}
    assert parts == {"figures", "assurance", "changes", "scores", "flags", "cost", "story", "evidence"}


def test_page_loads_and_runs_nothing(situation):
    """No script, no handler, no address to load from: not even in the style sheet; the policy forbids it besides."""
    result, text = situation
    page = Page(text)
    known = (
        "html head body meta title style header nav main section footer div p span a h1 h2 h3 ul ol li dl dt dd pre "
        "code strong b i small details summary figure figcaption table thead tbody tr th td wbr "
        "svg g path circle rect line text"
    )
    assert set(page.tags) <= set(known.split())
    assert not [
        each for each in page.attributes if each[1].startswith("on") or each[1] in ("src", "srcset", "xlink:href")
    ]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src &#x27;none&#x27;" in text
    if HOSTILE not in (result.request_id, result.injected):
        assert not re.search("https?:", text)


def test_coordinates_are_finite(situation):
    """Every number in every picture is finite, whatever the scores were."""
    names = (
        "x",
        "y",
        "x1",
        "x2",
        "y1",
        "y2",
        "cx",
        "cy",
        "r",
        "width",
        "height",
        "d",
        "viewbox",
        "transform",
        "stroke-width",
    )
    for tag, name, value in Page(situation[1]).attributes:
        if name in names and tag != "meta":
            assert not re.search("nan|inf", value, re.IGNORECASE), (tag, name, value)
            for part in re.findall(r"-?\d[\d.e+]*", value):
                assert abs(float(part)) < 1e5


def test_page_says_whether_the_fault_was_simulated(situation):
    """The page names the simulated fault and the number format, or says that none was simulated."""
    result, text = situation
    page = Page(text)
    assert f"The predictor ran in {result.dtype}" in page.text
    if result.injected is None:
        assert "No fault was simulated in this run." in page.text
        assert "Simulated fault" not in page.text
    else:
        assert page.text.count("Simulated fault") == 1
        assert "The fault on this page was simulated." in page.text
        assert "(simulated fault)" in text[: text.index("</title>")]


def test_same_result_gives_same_page():
    """The page depends on nothing but the result."""
    assert render_report(made(200)) == render_report(made(200))


def test_page_encodes_as_utf8(situation):
    """A name of lone surrogates and control characters does not keep the page from being written."""
    assert "\x00" not in situation[1].encode("utf-8").decode("utf-8")


def test_hostile_names_are_shown_not_run():
    """A name that is markup is read as text everywhere; reading directions and control characters are taken out."""
    text = render_report(SITUATIONS["hostile"]())
    assert "<script" not in text
    assert "<img" not in text
    assert text.count("</style>") == 1
    assert "\u202e" not in text
    assert HOSTILE[:15] in Page(text).text


def test_hostile_everything_is_escaped():
    """Layers, reasons, devices, journal kinds, evidence, policies and phases are hostile text as well."""
    result = made(60, moves=0.9, wrong=60)
    certificate = replace(result.certificate, evidence={HOSTILE[:-1]: HOSTILE[:-1]}, delta=HOSTILE[:-1])
    page = Page(
        text := render_report(
            replace(
                result,
                predictor=HOSTILE,
                device=HOSTILE,
                trusted_device=HOSTILE,
                policy=HOSTILE,
                checked_on=HOSTILE,
                excluded=(HOSTILE,) * 60,
                unwatched=((HOSTILE, 3),),
                layer_flags=tuple(replace(f, layer=HOSTILE, worst=HOSTILE) for f in result.layer_flags[:2]),
                recomputations=(Recomputation(reason=HOSTILE, asked=1, computed=1, decisions=None),),
                certificate=certificate,
                committed=False,
                committed_earlier=HOSTILE,
                story=replace(result.story, agent=HOSTILE, recovery=HOSTILE, refused=(HOSTILE,), steps=(HOSTILE,)),
                journal=(JournalLine(seq=1, time=HOSTILE, kind=HOSTILE, digest=HOSTILE),),
                journal_head=HOSTILE,
                seconds={HOSTILE: 1.0},
                changes=tuple(replace(c, id=HOSTILE, name="", rule=HOSTILE) for c in result.changes),
            )
        )
    )
    assert result.changes
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "<script" not in text


def test_size_for_the_default_case():
    """The page for 2,845 candidates stays below 1.5 MB although everything moved, and for 20,000 as well."""
    for name in ("committed", "everyone moved", "20,000 candidates"):
        assert len(render_report(SITUATIONS[name]()).encode()) < 1_500_000


def test_verdict_of_a_committed_run():
    """The banner gives the numbers selected and tested, the wrong scores and the compounds decided otherwise."""
    result = made(moves=0.5)
    text = Page(render_report(result)).text
    tested = len(result.decision("threshold").chosen)
    assert f"Committed: 569 of 2,845 compounds selected, {tested:,} sent to testing." in text
    moved = len({change.id for change in result.changes})
    assert (
        f"{result.wrong_values:,} scores had been computed wrongly; {moved} compounds would have been decided" in text
    )


def test_verdict_of_a_healthy_run():
    """A healthy run says that no fault was found, how many calls passed and that nobody would have moved."""
    text = Page(render_report(healthy())).text
    assert "No fault was found: all 1,350 checked calls passed." in text
    assert "None of the 14,225 recomputed scores had been wrong." in text
    assert "No compound would have been decided otherwise" in text


def test_verdict_never_calls_nothing_a_pass():
    """Where nothing was checked, or some calls could not be judged, the page does not say that all passed."""
    none = replace(healthy(40), checks={"calls": 0, "passed": 0, "flagged": 0, "inapplicable": 0})
    assert "No call was checked: that is not a pass." in Page(render_report(none)).text
    some = replace(healthy(40), checks={"calls": 9, "passed": 7, "flagged": 0, "inapplicable": 2})
    text = Page(render_report(some)).text
    assert "2 calls could not." in text
    assert "all 9 checked calls passed" not in text


def test_verdict_without_a_certificate():
    """Where nothing is certified, the page says so in the banner, at the scores and at the certificate."""
    text = Page(render_report(nothing())).text
    assert (
        "Nothing was committed: only 4,741 of 14,225 units were recomputed, so no decision could be certified." in text
    )
    assert "these are the scores as first computed, which nothing vouches for" in text
    assert "There is no certificate" in text
    assert "score wrong" not in text


def test_verdict_of_a_refusal():
    """A refusal names every reason in plain words, also one it does not know, and the gateway's own words later."""
    text = Page(render_report(refused("view superseded", "moon is full"))).text
    said = "Refused by the gateway: the agent acted on a table that has been replaced since and moon is full."
    assert f"{said} Nothing was committed." in text
    assert "view superseded : the agent acted" in text


def test_verdict_of_an_earlier_commitment():
    """A request that was committed before is told with its time, and as no new commitment."""
    text = Page(render_report(SITUATIONS["earlier"]())).text
    assert "Already committed earlier (2026-11-29T08:11:02Z): nothing was committed a second time." in text


def test_scores_without_numbers():
    """Where the device gave no numbers and nothing is certified, the page says that there is nothing to show."""
    assert "There is no score to show" in Page(render_report(SITUATIONS["nothing but NaN"]())).text
    text = Page(render_report(SITUATIONS["NaN before"]())).text
    assert "3 of them had no number at all" in text
    assert "allow no decision" in text


def test_ties_and_full_selection_are_told():
    """A tie at the boundary is named as one, and so is a rule that takes everybody."""
    assert "the tie is settled by the identifier" in Page(render_report(SITUATIONS["all scores equal"]())).text
    everyone = made(9, rules=(Rule(kind="top_k", count=9),), wrong=0)
    assert "Every candidate is chosen: there is no boundary." in Page(render_report(everyone)).text


def test_changes_say_why():
    """Each compound that moved stands in its rule's table with its way and its reason in words."""
    result = made(moves=0.5, seed=3)
    text = Page(render_report(result)).text
    assert any(not change.own for change in result.changes), "the made-up case must have both kinds"
    for change in result.changes:
        way = "\u25b2 in" if change.entered else "\u25bc out"
        row = re.search(f"{change.name} {change.id} {way} .*?(own score was wrong|a competitor's was wrong)", text)
        assert row, change
        assert row[1] == ("own score was wrong" if change.own else "a competitor's was wrong")


def test_long_lists_are_cut_and_say_so():
    """Of many that moved the farthest 40 a rule are shown, and how many more there are."""
    result = made(2845, wrong=2845, moves=1.0)
    for rule in result.rules:
        moved = sorted(
            (c for c in result.changes if c.rule == rule.kind), key=lambda c: -abs(c.score_after - c.score_before)
        )
        assert len(moved) > 40
        text = Page(render_report(replace(result, changes=tuple(moved)))).text
        assert f"{len(moved) - 40} more compound" in text
        rows = {c.id for c in moved if re.search(f" {c.id} (\u25b2 in|\u25bc out)", text)}
        assert rows == {c.id for c in moved[:40]}


def test_margins_agree_with_a_second_computation():
    """The gap at K and the distance to the threshold on the page are those of a plain sort."""
    result = made()
    text = Page(render_report(result)).text
    best = sorted(result.scores.certified, reverse=True)
    assert f"The gap between the 569th and 570th score is {small(best[568] - best[569])}." in text
    assert f"The nearest score lies {small(min(abs(v - 0.5) for v in best))} from the threshold." in text


def test_flag_cells_tell_counts_and_worst():
    """Every cell of the map carries its counts and the worst residual over its bound, in words under the pointer."""
    result = made(400)
    told = [value for tag, name, value in Page(render_report(result)).attributes if (tag, name) == ("td", "title")]
    for flag in result.layer_flags:
        counts = f"{flag.flagged} of {flag.calls} calls flagged"
        wanted = f"member {flag.member}, {flag.layer}: {counts}, worst residual {flag.worst} times"
        assert any(each.startswith(wanted) for each in told)


def test_digests_are_there_whole():
    """Certificate, table, head and journal digests are in the page in full, so that they can be copied."""
    result = made(40)
    text = Page(render_report(result)).text
    wanted = [
        result.certificate.digest,
        result.certificate.table,
        result.journal_head,
        *(e.digest for e in result.journal),
    ]
    assert all(each in text for each in wanted)


def test_command_repeats_the_options():
    """The command to check with carries the rules, the format, the policy, the fault and its seed."""
    text = Page(render_report(made(400, rules=NEAREST))).text
    for words in (
        "--top 80",
        "--threshold 0.5",
        "--nearest 20",
        "--dtype fp32",
        "--inject case2 --seed 7",
        "--compare",
    ):
        assert words in text


@given(st.text())
def test_text_comes_back_as_it_was(text):
    """A parser reads back what was put in, as content and as attribute, but for what can't be shown."""
    page = Page(el("p", text, title=text))
    assert "".join(page.pieces) == printable(text)
    assert page.attributes == [("p", "title", printable(text))]


@given(st.floats(allow_nan=False), st.lists(st.floats(), max_size=5), st.lists(st.floats(), max_size=5))
def test_scale_keeps_everything_inside(value, core, extra):
    """A scale over any span puts any number inside the picture."""
    low, high = span(core, extra)
    assert low < high
    if high - low < math.inf:
        assert 10 <= Scale(low=low, high=high, start=10, end=200)(value) <= 200.0001


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6))
def test_ticks_are_inside_and_few(low, width):
    """Ticks lie in the range and never crowd it."""
    found = ticks(low, low + width) if low + width > low else []
    assert len(found) <= 12
    slack = width * 1e-6 + 4 * math.ulp(abs(low) + width)
    assert all(low - slack <= value <= low + width + slack for value, _ in found)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_coordinate_without_a_number(value):
    """NaN and infinities are refused as coordinates."""
    with pytest.raises(ValueError, match="no coordinate"):
        number(value)


def test_percentages_round_down():
    """Nearly everything never reads as everything, nor a little as nothing."""
    assert percent(0.99963) == "99.9 %"
    assert percent(1.0) == "100 %"
    assert share(1, 100_000) == "< 0.1 %"
    assert share(0, 5) == share(0, 0) == "0 %"


def test_clip_counts_wide_characters_twice():
    """A name of wide characters is cut to half as many."""
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdefg", 6) == "abcde\u2026"
    assert len(clip("\u6f22" * 20, 10)) <= 6


def probed(**more):
    """A run under exact arithmetic whose scores are known as intervals."""
    result = made(300, wrong=20, **more)
    after = result.scores.certified
    lower = tuple(max(v - 1e-6, 0.0) for v in after)
    upper = tuple(min(v + 1e-6, 1.0) for v in after)
    told = Assurance(
        contract_kind="C1",
        delta="1e-9",
        certifies="decisions",
        strategy="probes",
        reason="probes is predicted to cost 1.4 s, against memo 3.1 s, full 22 s",
        predicted_seconds=1.4,
        spent_seconds=1.9,
        rows_checked=291910,
        probe_draws=16,
        values_evaluated=323400,
    )
    certificate = replace(result.certificate, contract_kind="C1", delta="1e-9", certifies="decisions")
    scores = replace(result.scores, certified=lower, lower=lower, upper=upper)
    checks = dict.fromkeys(result.checks, 0)
    more = {"assurance": told, "certificate": certificate, "checks": checks, "layer_flags": ()}
    return replace(result, scores=scores, recomputed_units=3, wrong_values=None, recomputations=(), **more)


def test_each_interval_is_shown_with_the_room_that_makes_it_enough():
    """Contract, delta, what is certified, strategy, reason and both costs; the room is what a second count gives."""
    result = probed()
    page = render_report(result)
    text = re.sub("<[^>]*>", " ", page[page.index('id="assurance"') :])
    for said in ("C1: exact arithmetic", "1e-9", "the decisions, not the score values", "against memo 3.1 s"):
        assert said in text
    for said in ("1.9 s, predicted 1.4 s", "291,910 exported rows, with 16 secret Gaussian probes"):
        assert said in text
    assert "323,400 exported values that stood out" in text
    top = set(result.decisions[0].chosen)
    ends = list(zip(result.scores.ids, result.scores.lower, result.scores.upper, strict=True))
    rooms = [low - max(h for i, _, h in ends if i not in top) for n, low, _ in ends if n in top]
    rooms += [min(low for i, low, _ in ends if i in top) - h for n, _, h in ends if n not in top]
    table = page[page.index('class="intervals"') :]
    shown = re.findall(r'<td class="number">([^<]*)</td>', table[: table.index("</table>")])[2::3]
    assert shown[:5] == [small(room) for room in sorted(rooms)[:5]]
    assert "No call was checked" not in page
    assert "--contract exact --delta 1e-9 --strategy probes" in page


def test_a_score_inside_its_interval_was_not_wrong():
    """What the device gave is compared with the interval, not with one of its ends."""
    result = probed()
    outside = sum(
        not a <= v <= b for a, v, b in zip(result.scores.lower, result.scores.before, result.scores.upper, strict=True)
    )
    assert 0 < outside <= 20
    assert f"{outside} candidate" in render_report(result)
