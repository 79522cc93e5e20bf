"""What was recomputed, what each round would have decided, and where the time went."""

from veristate.core import Decision
from veristate.interfaces.report.markup import Markup, el, join
from veristate.interfaces.report.verdict import total_seconds, units
from veristate.interfaces.report.words import clip, count, plural, seconds, share
from veristate.screening import ScreeningResult

_KINDS = {"top_k": "Selection", "threshold": "Testing", "nearest": "Nearest"}
_REASONS = {
    "all": "all of them",
    "flagged": "flagged, or impossible values",
    "margin": "near a boundary",
    "unresolved": "a decision still open",
    "values": "to certify every score",
}


def cost_section(result: ScreeningResult) -> Markup:
    """The rounds of recomputation with the decisions after them, and the seconds of the phases."""
    whole = units(result)
    lead = (
        f"{count(result.recomputed_units)} of {plural(whole, 'unit')} ({share(result.recomputed_units, whole)}) were "
        f"computed again on the trusted device ({clip(result.trusted_device, 60)}), {_arithmetic(result)}. "
        "A unit is one candidate from one member."
        if result.recomputed_units
        else "Nothing was computed again."
    )
    return el(
        "section",
        el("h2", "What was recomputed, and what it cost"),
        el("p", lead, class_="lead"),
        _rounds(result),
        _phases(result),
        id="cost",
    )


def _arithmetic(result: ScreeningResult) -> str:
    if result.assurance.contract_kind == "C1":
        return "in double precision with every rounding charged"
    return f"in {result.dtype} and with the bits of the original batches"


def _rounds(result: ScreeningResult) -> Markup | None:
    """The rounds, and how far the decisions that stood after each lie from the certified ones."""
    if not result.recomputations:
        return None
    kinds = [rule.kind for rule in result.rules]
    certified = _chosen(result.decisions)
    names = ("Units", "Asked for", "Computed", *(f"{_KINDS[kind]} after it" for kind in kinds))
    head = el(
        "tr", [el("th", name, scope="col", class_="number" if i in (1, 2) else None) for i, name in enumerate(names)]
    )
    rows = [
        el(
            "tr",
            el("td", f"{place}. {clip(_REASONS.get(each.reason, each.reason), 60)}"),
            el("td", count(each.asked), class_="number"),
            el("td", count(each.computed), class_="number"),
            [el("td", _difference(_chosen(each.decisions).get(kind), certified.get(kind))) for kind in kinds],
        )
        for place, each in enumerate(result.recomputations, start=1)
    ]
    note = "Whole batches are computed, so more units are computed than were asked for."
    more = any(each.computed > each.asked for each in result.recomputations)
    table = el("table", el("thead", head), el("tbody", rows), class_="rounds")
    return join(el("h3", "Rounds"), el("div", table, class_="scroll"), el("p", note, class_="note") if more else None)


def _phases(result: ScreeningResult) -> Markup | None:
    phases = [(name, max(value, 0.0)) for name, value in result.seconds.items() if name != "total"]
    if not phases:
        return None
    longest = max(value for _, value in phases) or 1.0
    rows = [
        el(
            "li",
            el("span", clip(name.replace("_", " "), 34), class_="name"),
            el("span", el("i", style=f"width:{100 * value / longest:.1f}%"), class_="bar"),
            el("span", seconds(value), class_="number"),
        )
        for name, value in phases
    ]
    return join(el("h3", f"Time: {seconds(total_seconds(result))}"), el("ul", rows, class_="phases"))


def _chosen(decisions: tuple[Decision, ...] | None) -> dict[str, frozenset[str]]:
    return {decision.rule.kind: frozenset(decision.chosen) for decision in decisions or ()}


def _difference(found: frozenset[str] | None, certified: frozenset[str] | None) -> str:
    if found is None:
        return "no decision"
    if certified is None:
        return f"{count(len(found))} chosen, not certified"
    differ = len(found ^ certified)
    return f"{plural(differ, 'candidate')} otherwise" if differ else "as certified"
