"""The evidence policy: the same evidence gives the same decision.

Rules, the first that fits:

1. Nothing counts yet. After fewer than `BARREN` segments, or `SEARCHING` when the last was cut: live, extend, with the
   last rejection as the focus. Then: the initial state, redirect.
2. The last segment improved on everything before it: live, extend, or the best state itself when results after it were
   worse and the worker ended by itself.
3. The last segment's results were all refused (at least `FAILURES`), or it had none and ended by itself, and that is no
   plateau yet: the best state, extend.
4. Little is left (below `RESERVE` thousandths of some budget): the best state, extend.
5. The last segment was cut, by its limit or with the engine, and not all of its results were refused: live, extend, for
   `SEARCHING` segments since the last gain or redirection; then live, redirect, the first time, which counts as a turn.
   A worker that has more to try is not disturbed; one that ends by itself is out of ideas.
6. A plateau, and the branch of the last redirection still climbs (its last segment was better than what the branch had
   before): live, extend. A detour first looks worse.
7. A plateau of `PATIENCE` segments without gain, a peer ahead: the best state, redirect, with the peer's focus.
8. A plateau: redirect, from further and further back. The n-th time from the state 2^n - 1 records before the best, n
   from 0; from the initial state once there are no more; then from the best again.
9. No plateau yet: the best state, extend; where the live state is the best, live.
"""

from veristate.research.deciding.decision import LIVE, ReAnchoring
from veristate.research.deciding.evidence import Evidence
from veristate.research.states import Card, Place

BARREN = 2
FAILURES = 3
PATIENCE = 2
SEARCHING = 6
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
    last = evidence.stretches[-1]
    there = LIVE if last.cut or evidence.live == best.place else best.place
    if last.best_after != last.best_before:
        focus = f"go on from {best.metric}"
        return there, "extend", "none: the last segment improved", f"{best.place} is the best so far", focus
    nothing = last.counting == 0 and (last.stages >= FAILURES or (last.stages == 0 and not last.cut))
    if nothing and len(evidence.plateau) < PATIENCE:
        why = _last_reason(evidence) or "the segment had no result"
        return best.place, "extend", f"results that don't count: {why}", "back to the last state that stood", why
    if evidence.remaining < RESERVE:
        rationale = f"{evidence.remaining / 10:.1f} % of a budget is left: no new branch pays off"
        return there, "extend", "the budget", rationale, f"refine {best.metric}"
    searches = last.cut and (last.counting > 0 or last.stages == 0)
    if searches and _quiet(evidence) < SEARCHING:
        why = "the segment's limit came before the worker's end"
        return LIVE, "extend", f"no gain on {best.metric} yet", why, "go on"
    if searches and not evidence.turns:
        return (
            LIVE,
            "redirect",
            f"no gain on {best.metric} for long",
            "what it is at leads no further",
            "larger changes",
        )
    if _climbs(evidence):
        return LIVE, "extend", f"a plateau at {best.metric}, and a branch that climbs", "it is not done yet", "go on"
    if len(evidence.plateau) < PATIENCE:
        return there, "extend", "no gain in the last segment", "one segment without gain is no plateau", "go on"
    return _turn(evidence, best)


def _barren(evidence: Evidence) -> _Rule:
    why = _last_reason(evidence) or "no result yet"
    cut = bool(evidence.stretches) and evidence.stretches[-1].cut
    if len(evidence.stretches) < (SEARCHING if cut else BARREN):
        return LIVE, "extend", f"nothing counts yet: {why}", "the first results are still being worked on", why
    start = str(Place(worker=evidence.worker, stage=0))
    return start, "redirect", f"nothing counts yet: {why}", "what lies in the workspace led nowhere", why


def _turn(evidence: Evidence, best: Card) -> _Rule:
    bottleneck = f"a plateau at {best.metric} for {len(evidence.plateau)} segments"
    lead = evidence.lead
    if lead is not None:
        focus = f"{lead.worker} is ahead with {lead.best}: {' '.join(lead.note.split())[:200] or lead.focus}"
        return best.place, "redirect", bottleneck, "a peer shows that more is possible", focus
    turns, records = evidence.turns, evidence.records
    back = 2 ** (turns % (len(records).bit_length() + 1)) - 1
    if back >= len(records):
        start = str(Place(worker=evidence.worker, stage=0))
        return start, "redirect", bottleneck, "what was archived led no further", "another approach"
    rationale = f"{back} records before the best, after {turns} redirections without gain"
    return records[-1 - back].place, "redirect", bottleneck, rationale, "another direction from here"


def _quiet(evidence: Evidence) -> int:
    """How many segments there were since the last gain or redirection, the redirected one among them."""
    turned = [i for i, stretch in enumerate(evidence.plateau) if stretch.direction == "redirect"]
    return len(evidence.plateau) - max(turned, default=0)


def _climbs(evidence: Evidence) -> bool:
    """Whether the branch that the last redirection opened got better in its last segment."""
    plateau = evidence.plateau
    turns = [i for i, stretch in enumerate(plateau) if stretch.direction == "redirect"]
    last = plateau[-1] if turns else None
    if last is None or last.best is None:
        return False
    branch = plateau[turns[-1] : -1]
    before = [stretch.best for stretch in branch if stretch.best is not None] or [last.first or last.best]
    return evidence.objective.better(last.best, evidence.objective.best(before))


def _last_reason(evidence: Evidence) -> str:
    against = [card for card in evidence.cards if not card.counts]
    return against[-1].reason[:300] if against else ""


def _said(evidence: Evidence) -> tuple[str, ...]:
    best, lead = evidence.best, evidence.lead
    against = sum(not card.counts for card in evidence.cards)
    return (
        f"best {best.metric} at {best.place}" if best else "no result counts",
        f"{len(evidence.cards)} results, {against} of them don't count",
        f"{len(evidence.plateau)} segments without gain",
        f"{lead.worker} leads with {lead.best}" if lead else "no peer leads",
        f"{evidence.remaining / 10:.1f} % of the scarcest budget is left",
    )
