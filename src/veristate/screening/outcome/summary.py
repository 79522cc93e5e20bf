"""What a run changed, in the words of a result: who would have moved, why, and where the flags were."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veristate.core import Decision
from veristate.decisions import margins
from veristate.devices import CallFinding
from veristate.screening.outcome.result import Change, LayerFlags
from veristate.screening.scoretable import IntervalTable, ScoreTable, Table


def changes_of(
    before: ScoreTable,
    after: Table,
    names: Sequence[str],
    unchecked: Sequence[Decision],
    certified: Sequence[Decision],
) -> tuple[Change, ...]:
    """Every candidate on which a decision from the unchecked scores differs from the certified one, farthest first."""
    position = {name: i for i, name in enumerate(after.ids)}
    found = []
    for old, new in zip(unchecked, certified, strict=True):
        for name in set(old.chosen) ^ set(new.chosen):
            i = position[name]
            found.append(
                Change(
                    id=name,
                    name=names[i],
                    rule=new.rule.kind,
                    entered=name in set(new.chosen),
                    score_before=float(before.scores[i]),
                    score_after=float(after.scores[i]),
                    boundary=boundary_of(new, after),
                    own=_moved(before, after, i),
                )
            )
    return tuple(sorted(found, key=lambda c: (c.rule, -abs(c.score_before - c.score_after), c.id)))


def _moved(before: ScoreTable, after: Table, i: int) -> bool:
    """Whether the score was another than is certified: of an interval, whether it lay outside."""
    if isinstance(after, IntervalTable):
        return not after.lower[i] <= before.scores[i] <= after.upper[i]
    return bool(before.scores[i] != after.scores[i])


def boundary_of(decision: Decision, table: Table) -> float:
    """The score at a decision's boundary: the threshold, or the last score that is in."""
    if decision.rule.kind == "threshold":
        return float(decision.rule.threshold or 0)
    chosen = np.isin(np.array(table.ids), np.array(decision.chosen))
    if decision.rule.kind == "top_k":
        return float(table.scores[chosen].min())
    return float(table.scores[chosen][np.argmin(margins(decision.rule, table.scores, table.ids)[chosen])])


def layer_flags(calls: Sequence[CallFinding]) -> tuple[LayerFlags, ...]:
    """The findings by member and layer, in the order in which the layers ran."""
    groups: dict[tuple[int, str], list[CallFinding]] = defaultdict(list)
    for call in calls:
        groups[call.member, call.layer].append(call)
    return tuple(
        LayerFlags(
            member=member,
            layer=layer,
            calls=len(found),
            flagged=sum(call.verdict.value == "FLAG" for call in found),
            worst=max((call.worst for call in found if call.worst), key=float, default=""),
            units=tuple(sorted({unit for call in found for unit in call.units})),
        )
        for (member, layer), found in groups.items()
    )


def bits_differ(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Where two float32 arrays hold different bits: a NaN differs from no equal NaN, +0 differs from -0."""
    different: NDArray[np.bool_] = a.view(np.uint32) != b.view(np.uint32)
    return different
