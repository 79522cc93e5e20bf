"""The parts of the page that are read: key figures, every re-anchoring, the results, the audit."""

from collections.abc import Sequence

from veristate.interfaces.report.markup import Child, Markup, el, void
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
    head = ("At", "Worker", "Restart state", "Direction", "Bottleneck", "Why", "By")
    return _table(head, [_turn_cells(turn) for turn in found[-200:]])


def _turn_cells(turn: Turn) -> list[Sequence[Child]]:
    said = turn.decided.content
    by = said["decider"] + (f" ({clip(said['failure'], 80)})" if said["failure"] else "")
    restart = f"{turn.restart} restored" if turn.back else f"live ({turn.restart})"
    why = [clip(said["rationale"], 140), void("br"), el("small", "; ".join(said["evidence"]))]
    bottleneck = clip(said["bottleneck"], 140)
    return [[seconds(turn.seconds)], [turn.worker], [restart], [turn.direction], [bottleneck], why, [by]]


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
    rows: list[list[Sequence[Child]]] = [
        [
            [seconds(float(card.spent_s))],
            [card.place],
            [card.parent],
            [card.metric if card.status == "valid" else f"{card.status}: {clip(card.reason, 200)}"],
            [card.arithmetic],
            [clip(card.note, 120)],
        ]
        for card in cards
    ]
    return _table(("At", "State", "From", "Result", "Arithmetic", "Note"), rows)


def audit_part(standing: Standing) -> Markup:
    """What the exact check said of the best candidates."""
    if not standing.audits:
        return el("p", "Nothing was audited: the task has no exact check, nothing counts, or the campaign goes on.")
    objective = objective_of(standing)
    best = best_audited(standing, objective)
    order = [card.place for card in ranked(standing, objective)]
    rows: list[list[Sequence[Child]]] = [
        [
            [place + (" (best)" if best and place == best[0] else "")],
            [said["claimed"]],
            [said["metric"] or "excluded"],
            [("repaired; " if said["repaired"] else "") + (clip(said["reason"], 200) or said["status"])],
        ]
        for place, said in sorted(standing.audits.items(), key=lambda item: order.index(item[0]))
    ]
    return _table(("State", "Claimed", "Exact", "Said"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[Sequence[Child]]]) -> Markup:
    """Rows under their heads; on a phone each row is a card whose cells name their head."""
    top = el("tr", [el("th", text) for text in head])
    drawn = [
        el(
            "tr",
            [
                el("td", *cell, data_label=name, class_="number" if name == "At" else None)
                for name, cell in zip(head, cells, strict=True)
            ],
        )
        for cells in rows
    ]
    return el(
        "div", el("table", el("thead", top), el("tbody", drawn), class_="stacked"), class_="scroll rows", tabindex=0
    )
