"""How a campaign reads in a terminal."""

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime

from veristate.research import Card, Decided, Segment, Standing, best_audited, objective_of, ranked, summary


def status_lines(standing: Standing) -> list[str]:
    """Where a campaign stands: result, what was spent, each worker."""
    said, objective = summary(standing), objective_of(standing)
    state = f"finished: {said['finished']}" if standing.finished else _state(standing)
    lines = [f"{said['task']}: {state}", f"  {objective.direction} {objective.metric}"]
    best = next(iter(ranked(standing, objective)), None)
    if best is None:
        lines.append(f"  no result counts, of {len(standing.cards)}")
    else:
        when = f"after {float(best.spent_s):.1f} s"
        lines.append(f"  best {best.metric} at {best.place} {when}, arithmetic {best.arithmetic}")
    lines += _audit_lines(standing)
    known = f", best known {objective.best_known}{_source(objective.best_known_source)}" if objective.best_known else ""
    if objective.target or known:
        lines.append(f"  target {objective.target or 'none'}{known}")
    lines.append(
        f"  {len(standing.cards)} results, {standing.queries} evaluations, "
        f"{_wall_s(standing):.1f} s of wall-clock time, {standing.cpu_ms / 1000:.1f} s of processor time"
        + (f", {standing.spent_tokens():,} tokens" if standing.spent_tokens() else "")
        + (f", {len(standing.sessions)} engines" if len(standing.sessions) > 1 else "")
    )
    for name, worker in standing.workers.items():
        mine = objective.best([str(card.metric) for card in worker.cards if card.counts])
        segment = worker.segments[-1] if worker.segments else None
        doing = worker.ended or (f"segment {segment.number}, {segment.direction}" if segment else "starting")
        lines.append(f"  {name}: best {mine}, {len(worker.cards)} results, {doing[:160]}")
    return [*lines, *(f"  warning: {warning}" for warning in standing.warnings)]


def watched_lines(standing: Standing, width: int, height: int) -> list[str]:
    """The same for a terminal of that size, with as much of the end of the tree of states as there is room for."""
    lines = [part for line in status_lines(standing) for part in _wrapped(line, width)]
    room = height - len(lines) - 2
    if room < 3:
        return lines
    end = textwrap.dedent("\n".join(tree_lines(standing)[-room:])).splitlines()
    return [*lines, "", *(line[:width] for line in end)]


def _wrapped(line: str, width: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())] + "  "
    return textwrap.wrap(line, max(width, 20), subsequent_indent=indent, break_on_hyphens=False)


def one_line(standing: Standing) -> str:
    """The same in one line, for a terminal that watches."""
    objective = objective_of(standing)
    best = next(iter(ranked(standing, objective)), None)
    shown = f"best {best.metric} at {best.place}" if best else "no result counts yet"
    return f"{standing.opened['task']}: {_wall_s(standing):.0f} s, {len(standing.cards)} results, {shown}"[:110]


def tree_lines(standing: Standing) -> list[str]:
    """The states of each worker, indented under the one they came from; segments and re-anchorings between them."""
    lines = []
    for name, worker in standing.workers.items():
        lines.append(f"{name}")
        objective = objective_of(standing)
        best = objective.best([str(card.metric) for card in worker.cards if card.counts])
        decided = {each.after: each for each in worker.decisions}
        depth: dict[str, int] = {f"{name}/S00": 0}
        for segment in worker.segments:
            level = depth.get(segment.restart, 0)
            decision = decided.get(segment.number - 1)
            lines.append("  " * (level + 1) + _segment_line(segment, decision))
            for card in (card for card in worker.cards if card.segment == segment.number):
                branch = decision is not None and decision.content["restart"] != "live"
                depth[card.place] = level + branch
                mark = " *" if card.counts and card.metric == best else ""
                lines.append("  " * (level + 2) + _card_line(card) + mark)
    return lines


def _segment_line(segment: Segment, decision: Decided | None) -> str:
    who = f", by {decision.content['decider']}: {decision.content['bottleneck']}" if decision else ""
    ended = f" -> {segment.reason}" if segment.reason else ""
    return f"segment {segment.number} from {segment.restart}, {segment.direction}{who}{ended}"[:180]


def _card_line(card: Card) -> str:
    shown = card.metric if card.status == "valid" else f"{card.status}: {card.reason[:80]}"
    flagged = " FLAG" if card.arithmetic == "FLAG" else ""
    return f"{card.place} {shown}{flagged}  ({float(card.spent_s):.1f} s) {' '.join(card.note.split())[:60]}"


def _audit_lines(standing: Standing) -> Iterator[str]:
    objective = objective_of(standing)
    best = best_audited(standing, objective)
    if best is not None:
        repaired = " after a repair" if standing.audits[best[0]]["repaired"] else ""
        yield f"  audited {best[1]} at {best[0]}{repaired}"
    for place, said in standing.audits.items():
        if said["status"] != "valid":
            yield f"  audit excludes {place}, claimed {said['claimed']}: {said['reason'][:160]}"
    if standing.finished and not standing.audits:
        yield "  not audited: the task has no exact check, or nothing counts"


def _source(source: str) -> str:
    return f" ({source})" if source else ""


def _state(standing: Standing) -> str:
    if not standing.sessions:
        return "opened"
    return "running, or killed" if standing.sessions[-1].wall_ms is None else "stopped; resume goes on"


def _wall_s(standing: Standing) -> float:
    """Charged time, with that of an engine that runs."""
    running = 0.0
    if standing.sessions and standing.sessions[-1].wall_ms is None:
        running = (datetime.now(UTC) - datetime.fromisoformat(standing.sessions[-1].started)).total_seconds()
    return standing.wall_ms() / 1000 + running
