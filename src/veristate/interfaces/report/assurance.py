"""Under which contract a run is certified, how, at what cost, and each score's interval with why it is enough."""

import math
from collections.abc import Iterator, Sequence

from veristate.core import Rule
from veristate.interfaces.report.ladder import threshold
from veristate.interfaces.report.markup import Child, Markup, el, join
from veristate.interfaces.report.words import SHOWN, clip, count, named, plural, rule_title, score, seconds, small
from veristate.screening import Scores, ScreeningResult

CONTRACTS = {
    "C1": "exact arithmetic of the represented weights",
    "C2": "the bits of a healthy run on the named device and in the named batches",
    "C3": "correctly rounded layers",
    "C4": "integers",
}
CERTIFIES = {
    "values": "the score values themselves, and so every decision",
    "decisions": "the decisions, not the score values",
}
_STRATEGIES = {
    "probes": "probes on what the device exported, bounds carried to the scores, the rest recomputed",
    "memo": "trusted recomputation of everything, equal environments once",
    "full": "trusted recomputation of everything",
}
Interval = tuple[float, float]


def assurance_section(result: ScreeningResult) -> Markup:
    """The contract and the strategy as facts; the intervals, where scores are certified as such."""
    told = result.assurance
    spent = "not measured" if told.spent_seconds is None else seconds(told.spent_seconds)
    predicted = "not predicted" if told.predicted_seconds is None else f"predicted {seconds(told.predicted_seconds)}"
    facts: list[tuple[str, Child]] = [
        ("Contract", f"{told.contract_kind}: {CONTRACTS.get(told.contract_kind, 'unknown')}"),
        ("Certified", CERTIFIES.get(told.certifies, "nothing")),
        ("Chance of failure (delta)", "0: it rests on no chance" if told.delta == "0" else clip(told.delta, 40)),
        ("Strategy", f"{told.strategy}: {_STRATEGIES.get(told.strategy, 'unknown')}"),
        ("Why this one", clip(told.reason, 600) or "nothing else was weighed"),
        ("Cost on the trusted side", f"{spent}, {predicted}"),
    ]
    if told.rows_checked:
        rows = f"{count(told.rows_checked)} exported rows"
        facts.append(("Checked", f"{rows}, with {told.probe_draws} secret Gaussian probes each, drawn afterwards"))
    if told.values_evaluated:
        stood_out = f"{count(told.values_evaluated)} exported values that stood out, in place of the device's"
        facts.append(("Evaluated on the trusted side", stood_out))
    listed = el("dl", [[el("dt", name), el("dd", value)] for name, value in facts], class_="facts")
    return el("section", el("h2", "What is certified, and how"), listed, _intervals(result), id="assurance")


def _intervals(result: ScreeningResult) -> Markup | None:
    """For each rule the scores nearest to its boundary with the room that is left."""
    scores = result.scores
    if scores.lower is None or scores.upper is None:
        return None
    lead = (
        "The exact score of each candidate lies in its interval. An interval is enough when all of it lies on one side "
        "of the boundary: then no value in it decides otherwise, and none has to be known more closely."
    )
    tables = [_table(rule, frozenset(d.chosen), scores) for d in result.decisions or () for rule in (d.rule,)]
    return join(el("h3", "Each score\u2019s interval, and why it is enough"), el("p", lead), *tables)


def _table(rule: Rule, chosen: frozenset[str], scores: Scores) -> Markup:
    assert scores.lower is not None
    assert scores.upper is not None
    order = list(_by_room(rule, chosen, scores))
    head = el(
        "tr",
        [
            el("th", name, scope="col", class_="number" if 1 <= i <= 3 else None)
            for i, name in enumerate(("Candidate", "From", "To", "Room left", "Why it is enough"))
        ],
    )
    rows = [
        el(
            "tr",
            el("td", clip(named(scores.names[i], scores.ids[i]), 40)),
            el("td", score(scores.lower[i]), class_="number"),
            el("td", score(scores.upper[i]), class_="number"),
            el("td", "tie" if room <= 0 else "any" if math.isinf(room) else small(room), class_="number"),
            el("td", why),
        )
        for room, i, why in order[:SHOWN]
    ]
    left = len(order) - len(rows)
    rest = f"The other {plural(left, 'candidate')} have more room than the last one here." if left > 0 else None
    table = el("div", el("table", el("thead", head), el("tbody", rows), class_="intervals"), class_="scroll")
    return join(el("h4", rule_title(rule)), table, el("p", rest, class_="note") if rest else None)


def _by_room(rule: Rule, chosen: frozenset[str], scores: Scores) -> Iterator[tuple[float, int, str]]:
    """(room, position, reason) of every candidate, the least room first."""
    ends = _measured(rule, scores)
    inside = [i for i, name in enumerate(scores.ids) if name in chosen]
    outside = [i for i, name in enumerate(scores.ids) if name not in chosen]
    if rule.kind == "threshold":
        at = threshold(rule)
        found = [(ends[i][0] - at, i, f"all of it is at or above {rule.threshold}") for i in inside]
        found += [(at - ends[i][1], i, f"all of it is below {rule.threshold}") for i in outside]
    else:
        what = "nearer than" if rule.kind == "nearest" else "above"
        worst_in, best_out = _lowest(ends, inside), _highest(ends, outside)
        found = [(ends[i][0] - best_out, i, f"all of it is {what} every candidate left out") for i in inside]
        back = "farther than" if rule.kind == "nearest" else "below"
        found += [(worst_in - ends[i][1], i, f"all of it is {back} every chosen candidate") for i in outside]
    tie = "its bounds meet another\u2019s; the tie goes by the identifier, or both are known exactly"
    kept = ((room, i, why if room > 0 or rule.kind == "threshold" else tie) for room, i, why in found)
    yield from sorted(kept, key=lambda each: (each[0], scores.ids[each[1]]))


def _measured(rule: Rule, scores: Scores) -> list[Interval]:
    """The ends of what the rule ranks by, more being better: the score, or minus the distance to the threshold."""
    assert scores.lower is not None
    assert scores.upper is not None
    pairs = list(zip(scores.lower, scores.upper, strict=True))
    if rule.kind != "nearest":
        return pairs
    at = threshold(rule)
    far = [max(abs(low - at), abs(high - at)) for low, high in pairs]
    near = [max(low - at, at - high, 0.0) for low, high in pairs]
    return [(-f, -n) for f, n in zip(far, near, strict=True)]


def _lowest(ends: Sequence[Interval], which: Sequence[int]) -> float:
    return min((ends[i][0] for i in which), default=math.inf)


def _highest(ends: Sequence[Interval], which: Sequence[int]) -> float:
    return max((ends[i][1] for i in which), default=-math.inf)
