"""Claim: what R1 and R1+M recover before anything else is recomputed, against random and disagreement choices (I.5).

bf16, simulated faults. Epsilon is twice the largest residual after R1 in a retrospective series; it is judged on Case 2
sources that it has not seen. All seeds stand here; they were fixed before the first run.
"""

import time

import numpy as np

from benchmarks.record import Claim, note, write
from veristate.audit import wilson
from veristate.core import Decision
from veristate.decisions import (
    Current,
    Question,
    decide,
    disagreement_choice,
    epsilon_from_residuals,
    near_boundary,
    random_choice,
)
from veristate.devices import fault_named
from veristate.screening import ScreeningOptions
from veristate.screening.scoretable import ScoreTable
from veristate.screening.studies.series import Series, Source, open_series

RETROSPECTIVE = [("case1", seed) for seed in range(1, 9)] + [("case2", seed) for seed in range(1, 9)]
CONFIRMATION = [("case2", seed) for seed in range(101, 165)]
MULTIPLIERS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
RANDOM_SEEDS = range(20)


def main() -> None:
    """Runs both series and writes the table."""
    started = time.time()
    with open_series(ScreeningOptions(dtype="bf16"), note) as series:
        residuals = []
        for kind, seed in RETROSPECTIVE:
            residuals.append(series.residual_after_r1(series.source(fault_named(kind, seed))))
            note(f"retrospective {kind} seed {seed}: residual after R1 {residuals[-1]:.3g}")
        epsilon = epsilon_from_residuals(np.array(residuals))
        rows = []
        for kind, seed in CONFIRMATION:
            rows.append(judge(series, series.source(fault_named(kind, seed)), epsilon) | {"fault": kind, "seed": seed})
            note(f"confirmation {kind} seed {seed}: {rows[-1]['summary']}")
    write(
        "selective_recovery",
        claims_of(rows, epsilon),
        {"epsilon": epsilon, "residuals": residuals, "sources": rows},
        started,
    )


def judge(series: Series, source: Source, epsilon: float) -> dict:
    """What every choice recovers of one source: for each rule whether the decision is the reference's."""
    r1 = series.after_r1(source)
    wanted = decisions(series, series.reference)
    question = Question(rules=series.rules, ids=r1.ids)
    current = Current.of(question, r1.members)
    chosen = {f"margin {m}": near_boundary(current, m * epsilon) for m in MULTIPLIERS}
    size = int(chosen["margin 1.0"].sum())
    chosen |= {f"random {seed}": random_choice(len(r1.ids), size, np.random.default_rng(seed)) for seed in RANDOM_SEEDS}
    chosen["disagreement"] = disagreement_choice(r1.members, size)
    agree = {"raw": agreement(decisions(series, source.table), wanted), "r1": agreement(decisions(series, r1), wanted)}
    for name, mask in chosen.items():
        agree[name] = agreement(decisions(series, with_reference(series, r1, mask)), wanted)
    return {
        "agree": agree,
        "sizes": {name: int(mask.sum()) for name, mask in chosen.items() if not name.startswith("random")},
        "marked_units": int(source.marked.sum()),
        "wrong_units": int((source.table.members != series.reference.members).sum()),
        "wrong_units_after_r1": int((r1.members != series.reference.members).sum()),
        "residual_after_r1": float(np.abs(r1.scores - series.reference.scores).max()),
        "events": len(source.events),
        "summary": f"raw {agree['raw']} R1 {agree['r1']} R1+M {agree['margin 1.0']} ({size} candidates)",
    }


def decisions(series: Series, table: ScoreTable) -> list[Decision]:
    """The decisions of both rules."""
    return [decide(rule, table.scores, table.ids) for rule in series.rules]


def agreement(found: list[Decision], wanted: list[Decision]) -> list[bool]:
    """For each rule whether the decision is the wanted one."""
    return [a == b for a, b in zip(found, wanted, strict=True)]


def with_reference(series: Series, table: ScoreTable, candidates: np.ndarray) -> ScoreTable:
    """The table with all members of the chosen candidates recomputed."""
    members = np.where(candidates, series.reference.members, table.members)
    return ScoreTable.of(table.ids, members, series.temperature)


def claims_of(rows: list[dict], epsilon: float) -> list[Claim]:
    """The rows of I.5's table: sources whose decision is the reference's, per rule."""
    n = len(rows)
    detail = f"bf16, simulated Case 2, {n} confirmation sources, epsilon {epsilon:.6f} from {len(RETROSPECTIVE)} others"

    def right(name: str, rule: int) -> int:
        return sum(row["agree"][name][rule] for row in rows)

    def share(count: int) -> str:
        low, high = wilson(count, n)
        return f"{count}/{n} ({low:.2f}-{high:.2f})"

    def both(name: str) -> str:
        return f"{share(right(name, 0))} / {share(right(name, 1))}"

    def claim(title: str, measured: str, more: str = "") -> Claim:
        title = f"{title}: sources with the reference's selection / triage"
        return Claim(claim=title, measured=measured, unit="sources", bar="reported", met=None, detail=detail + more)

    claims = [claim("no recovery", both("raw")), claim("R1", both("r1"))]
    for m in MULTIPLIERS:
        size = np.median([row["sizes"][f"margin {m}"] for row in rows])
        claims.append(claim(f"R1+M, {m} epsilon", both(f"margin {m}"), f"; {size:.0f} candidates (median)"))
    spans = []
    for rule in (0, 1):
        counts = [right(f"random {seed}", rule) for seed in RANDOM_SEEDS]
        spans.append(f"{min(counts)}-{max(counts)}/{n}")
    claims.append(claim("R1, then as many at random, 20 seeds", " / ".join(spans)))
    claims.append(claim("R1, then as many by ensemble disagreement", both("disagreement")))
    differ = sum(row["agree"]["r1"] != row["agree"]["margin 1.0"] for row in rows)
    claims.append(
        Claim(
            claim="sources where R1 and R1+M decide differently",
            measured=share(differ),
            unit="sources (95 % Wilson)",
            bar="reported; 1 of 16 in the paper",
            met=None,
            detail=detail,
        )
    )
    return claims


if __name__ == "__main__":
    main()
