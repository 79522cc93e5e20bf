"""The parts of the page that are read: key figures, every re-anchoring, the results, the audit."""

from veristate.interfaces.report.markup import Markup, el
from veristate.interfaces.report.research.facts import Turn, improvements, turns
from veristate.interfaces.report.words import SHOWN, clip, count, plural, seconds
from veristate.research import Card, Standing, best_audited, objective_of, ranked, summary


def tiles(standing: Standing) -> Markup:
    """The key figures."""
    said = summary(standing)
    objective = objective_of(standing)
    refused = sum(card.status == "rejected" for card in standing.cards)
    failed = sum(card.status == "failed" for card in standing.cards)
    parts = [
        ("Best", said["best"] or "none", f"at {said['best_at']}" if said["best_at"] else ""),
        ("Audited exactly", said["audited"] or "nothing", f"at {said['audited_at']}" if said["audited_at"] else ""),
        ("Target", objective.target or "none", f"best known {objective.best_known}" if objective.best_known else ""),
        ("Results", count(len(standing.cards)), f"{refused} rejected, {failed} evaluator failures"),
        ("Evaluations", count(standing.queries), "each different candidate once"),
        ("Wall-clock time", seconds(float(said["spent_wall_s"])), plural(said["sessions"], "engine")),
        ("Processor time", seconds(float(said["spent_cpu_s"])), plural(len(standing.workers), "worker")),
    ]
    if said["spent_tokens"]:
        parts.append(("Tokens", count(said["spent_tokens"]), f"cost {said['spent_money']}"))
    shown = [
        el("div", el("dt", name), el("dd", value, class_="value"), el("dd", note, class_="note"))
        for name, value, note in parts
    ]
    return el("dl", shown, class_="tiles")


def turns_table(standing: Standing) -> Markup:
    """Every re-anchoring: when, from where, why."""
    found = turns(standing)
    if not found:
        return el("p", "No segment has ended yet, so nothing was decided.", class_="lead")
    head = el(
        "tr", [el("th", text) for text in ("At", "Worker", "Restart state", "Direction", "Bottleneck", "Why", "By")]
    )
    rows = [_turn_row(turn) for turn in found[-200:]]
    return el("div", el("table", el("thead", head), el("tbody", rows)), class_="scroll rows", tabindex=0)


def _turn_row(turn: Turn) -> Markup:
    said = turn.decided.content
    by = said["decider"] + (f" ({clip(said['failure'], 80)})" if said["failure"] else "")
    restart = f"{turn.restart} restored" if turn.back else f"live ({turn.restart})"
    cells = (turn.worker, restart, turn.direction, clip(said["bottleneck"], 140), clip(said["rationale"], 140), by)
    evidence = el("small", "; ".join(said["evidence"]))
    return el(
        "tr",
        el("td", seconds(turn.seconds), class_="number"),
        [el("td", text, el("br"), evidence) if i == 4 else el("td", text) for i, text in enumerate(cells)],
    )


def results_table(standing: Standing) -> Markup:
    """The results that improved on all before them, by worker, and the last refusals."""
    objective = objective_of(standing)
    better = [card for worker in standing.workers.values() for card in improvements(worker, objective)]
    better.sort(key=lambda card: float(card.spent_s))
    against = [card for card in standing.cards if not card.counts][-SHOWN:]
    return el(
        "div",
        el("h3", "Improvements"),
        _cards(better[-SHOWN:]) if better else el("p", "None yet.", class_="lead"),
        el("h3", "What did not count"),
        _cards(against) if against else el("p", "Everything counted.", class_="lead"),
    )


def _cards(cards: list[Card]) -> Markup:
    head = el("tr", [el("th", text) for text in ("At", "State", "From", "Result", "Arithmetic", "Note")])
    rows = [
        el(
            "tr",
            el("td", seconds(float(card.spent_s)), class_="number"),
            el("td", card.place),
            el("td", card.parent),
            el("td", card.metric if card.status == "valid" else f"{card.status}: {clip(card.reason, 200)}"),
            el("td", card.arithmetic),
            el("td", clip(card.note, 120)),
        )
        for card in cards
    ]
    return el("div", el("table", el("thead", head), el("tbody", rows)), class_="scroll")


def audit_part(standing: Standing) -> Markup:
    """What the exact check said of the best candidates."""
    if not standing.audits:
        return el("p", "Nothing was audited: the task has no exact check, nothing counts, or the campaign goes on.")
    objective = objective_of(standing)
    best = best_audited(standing, objective)
    order = [card.place for card in ranked(standing, objective)]
    head = el("tr", [el("th", text) for text in ("State", "Claimed", "Exact", "Said")])
    rows = [
        el(
            "tr",
            el("td", place + (" (best)" if best and place == best[0] else "")),
            el("td", said["claimed"]),
            el("td", said["metric"] or "excluded"),
            el("td", ("repaired; " if said["repaired"] else "") + (clip(said["reason"], 200) or said["status"])),
        )
        for place, said in sorted(standing.audits.items(), key=lambda item: order.index(item[0]))
    ]
    return el("div", el("table", el("thead", head), el("tbody", rows)), class_="scroll")
