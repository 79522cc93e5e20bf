"""The evidence policy: the same evidence gives the same decision.

Rules, the first that fits:

1. Nothing counts yet. After fewer than `BARREN` segments: live, extend, with the last rejection as the focus. Then: the
   initial state, redirect.
2. The last segment improved on everything before it: live, extend, or the best state itself when results after it were
   worse.
3. The last segment's results were all refused (at least `FAILURES`), or it had none: the best state, extend.
4. Little is left (below `RESERVE` thousandths of some budget): the best state, extend.
5. A plateau of `PATIENCE` segments without gain, a peer ahead: the best state, redirect, with the peer's focus.
6. A plateau: the counting state that was restarted from least often without gain, the better first; redirect. When the
   plateau has lasted `PATIENCE` times the number of states tried, and at least `ABANDON` segments: the initial state.
7. No plateau yet: the best state, extend; where the live state is the best, live.
"""

from collections import Counter

from veristate.research.deciding.decision import LIVE, ReAnchoring
from veristate.research.deciding.evidence import Evidence
from veristate.research.states import Card, Place

BARREN = 2
FAILURES = 3
PATIENCE = 2
ABANDON = 6
RESERVE = 150


def decide(evidence: Evidence, *, failure: str = "") -> ReAnchoring:
    """The policy's decision. `failure` says why a model did not make it."""
    decider = "policy-after-model" if failure else "policy"
    restart, direction, bottleneck, rationale, focus = _rule(evidence)
    return ReAnchoring(
        restart=restart,
        direction="redirect" if direction == "redirect" else "extend",
        bottleneck=bottleneck,
        evidence=_said(evidence),
        rationale=rationale,
        focus=focus,
        decider=decider,
        failure=failure[:500],
    )


_Rule = tuple[str, str, str, str, str]


def _rule(evidence: Evidence) -> _Rule:
    best = evidence.best
    if best is None:
        return _barren(evidence)
    there = LIVE if evidence.live == best.place else best.place
    last = evidence.stretches[-1]
    if last.best_after != last.best_before:
        focus = f"go on from {best.metric}"
        return there, "extend", "none: the last segment improved", f"{best.place} is the best so far", focus
    if last.stages == 0 or (last.counting == 0 and last.stages >= FAILURES):
        why = _last_reason(evidence) or "the segment had no result"
        return best.place, "extend", f"results that don't count: {why}", "back to the last state that stood", why
    if evidence.remaining < RESERVE:
        rationale = f"{evidence.remaining / 10:.1f} % of a budget is left: no new branch pays off"
        return there, "extend", "the budget", rationale, f"refine {best.metric}"
    stale = _plateau(evidence)
    if stale < PATIENCE:
        return there, "extend", "no gain in the last segment", "one segment without gain is no plateau", "go on"
    return _turn(evidence, best, stale)


def _barren(evidence: Evidence) -> _Rule:
    why = _last_reason(evidence) or "no result yet"
    if len(evidence.stretches) < BARREN:
        return LIVE, "extend", f"nothing counts yet: {why}", "the first results are still being worked on", why
    start = str(Place(worker=evidence.worker, stage=0))
    return start, "redirect", f"nothing counts yet: {why}", "what lies in the workspace led nowhere", why


def _turn(evidence: Evidence, best: Card, stale: int) -> _Rule:
    bottleneck = f"a plateau at {best.metric} for {stale} segments"
    lead = evidence.lead
    if lead is not None:
        focus = f"{lead.worker} is ahead with {lead.best}: {' '.join(lead.note.split())[:200] or lead.focus}"
        return best.place, "redirect", bottleneck, "a peer shows that more is possible", focus
    tried = Counter(stretch.restart for stretch in evidence.stretches if stretch.best_before == stretch.best_after)
    states = evidence.counting
    if stale >= max(ABANDON, PATIENCE * len({card.place for card in states if tried[card.place]})):
        start = str(Place(worker=evidence.worker, stage=0))
        if tried[start] <= min(tried[card.place] for card in states):
            return start, "redirect", bottleneck, "the archived states are exhausted too", "another approach"
    chosen = min(states, key=lambda card: tried[card.place])  # of equal ones the first, which is the better
    rationale = f"{chosen.place} was restarted from {tried[chosen.place]} times without gain, no state less often"
    return chosen.place, "redirect", bottleneck, rationale, "another direction from here"


def _plateau(evidence: Evidence) -> int:
    """How many segments at the end had no gain."""
    length = 0
    for stretch in reversed(evidence.stretches):
        if stretch.best_after != stretch.best_before:
            break
        length += 1
    return length


def _last_reason(evidence: Evidence) -> str:
    against = [card for card in evidence.cards if not card.counts]
    return against[-1].reason[:300] if against else ""


def _said(evidence: Evidence) -> tuple[str, ...]:
    best, lead = evidence.best, evidence.lead
    against = sum(not card.counts for card in evidence.cards)
    return (
        f"best {best.metric} at {best.place}" if best else "no result counts",
        f"{len(evidence.cards)} results, {against} of them don't count",
        f"{_plateau(evidence)} segments without gain",
        f"{lead.worker} leads with {lead.best}" if lead else "no peer leads",
        f"{evidence.remaining / 10:.1f} % of the scarcest budget is left",
    )
