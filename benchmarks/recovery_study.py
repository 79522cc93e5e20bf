"""Claim: restoring the state before the read recovers every changed decision, and no wrong action is committed (I.7).

bf16, simulated faults: 8 Case 1 and 8 Case 2 sources and one healthy pass, two rules, three repeats: 102 requests in
each recovery condition. The sources are seeds 1 to 8 of each class, whatever they change; those that change nothing are
counted. The trusted recomputation of the one contract is done once and reused by digest in every certificate.
"""

import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.record import Claim, note, write
from veristate.agents import load_agent
from veristate.core import Certificate, Decision, Recovery, Request, Rule, Verdict
from veristate.decisions import decide
from veristate.devices import fault_named
from veristate.ledger import Ledger
from veristate.numerics import put_array
from veristate.screening import ScreeningOptions
from veristate.screening.episode import Episode, decisions_of
from veristate.screening.studies.series import Series, Source, open_series
from veristate.store import Store

SOURCES = [("healthy", 0)] + [(kind, seed) for kind in ("case1", "case2") for seed in range(1, 9)]
REPEATS = 3
CONDITIONS: list[tuple[str, Recovery, str]] = [
    ("before the read, keeps", "hold", "keeps"),
    ("file replacement, keeps", "replace", "keeps"),
    ("file replacement, rereads", "replace", "rereads"),
    ("state restoration, keeps", "restore", "keeps"),
    ("state restoration, rereads", "restore", "rereads"),
]


def main() -> None:
    """Runs passes and episodes and writes the table of I.7."""
    started = time.time()
    with open_series(ScreeningOptions(dtype="bf16"), note) as series:
        sources = {}
        for kind, seed in SOURCES:
            sources[kind, seed] = series.source(None if kind == "healthy" else fault_named(kind, seed))
            found = sources[kind, seed]
            wrong = int((found.table.members != series.reference.members).sum())
            note(f"{kind} seed {seed}: {found.findings.verdict()}, {wrong} wrong units, {len(found.events)} events")
        reference = {rule.kind: decide(rule, series.reference.scores, series.reference.ids) for rule in series.rules}
        episodes = []
        with tempfile.TemporaryDirectory() as folder:
            for name, recovery, agent in CONDITIONS:
                episodes += run_condition(Path(folder), name, recovery, agent, series, sources, reference)
                note(f"{name}: {Counter(e['outcome'] for e in episodes if e['condition'] == name)}")
    write("recovery_study", claims_of(episodes, sources), summary_of(series, sources, episodes), started)


def run_condition(
    folder: Path,
    name: str,
    recovery: Recovery,
    agent: str,
    series: Series,
    sources: dict[tuple[str, int], Source],
    reference: dict[str, Decision],
) -> list[dict]:
    """Every request of one condition, with a commit record of its own."""
    home = folder / name.replace(" ", "-")
    salts = count()
    episodes = []
    store = Store.open(home / "objects")
    with Ledger.open(home / "ledger.sqlite") as ledger:
        ledger.record(series.contract)
        recomputed = put_array(store.put, series.reference.members).blob
        for (kind, seed), source in sources.items():
            for rule in series.rules:
                for repeat in range(REPEATS):
                    request = Request(
                        request_id=f"{kind}-{seed}-{rule.kind}-{repeat}", contract=series.contract.digest, rules=(rule,)
                    )
                    ledger.gateway.open_request(request)
                    with Episode(
                        request=request,
                        make_agent=lambda: load_agent(agent),
                        dropped=series.prepared.dropped,
                        recovery=recovery,
                        workspace=home / "workspace",
                        store=store,
                        ledger=ledger,
                        new_salt=lambda: f"salt-{next(salts)}",
                    ) as episode:
                        episodes.append(
                            run_episode(episode, source, series, rule, reference[rule.kind], recomputed)
                            | {"condition": name, "fault": kind, "seed": seed, "repeat": repeat}
                        )
        ledger.require()
    return episodes


def run_episode(
    episode: Episode, source: Source, series: Series, rule: Rule, reference: Decision, recomputed: str
) -> dict:
    """What became of one request; the judge of rightness is the reference decision, not the gateway."""
    start = time.perf_counter()
    if episode.recovery != "hold":
        episode.read_unverified(source.table)
    certificate = Certificate(
        request_id=episode.request.request_id,
        contract=episode.request.contract,
        contract_kind="C2",
        delta="0",
        certifies="values",
        decisions=(reference,),
        table=episode.store.put(series.reference.to_csv()),
        evidence={"recomputation": recomputed, "reused": "one trusted recomputation of this contract, by digest"},
    )
    outcome = episode.conclude(series.reference, certificate)
    committed = episode.ledger.gateway.committed(episode.request.request_id)
    proposed = outcome.entry.content["action"]["decisions"][0]["chosen"]
    unchecked = decide(rule, source.table.scores, source.table.ids)
    first = decisions_of(episode.first_proposal, episode.request)[0] if episode.first_proposal else None
    return {
        "rule": rule.kind,
        "changed_by_fault": unchecked != reference,
        "first_follows_its_input": first is None or first == unchecked,
        "proposed_right": proposed == list(reference.chosen),
        "outcome": "committed" if outcome.committed else "refused",
        "reasons": [reason.value for reason in outcome.reasons],
        "wrong_committed": committed is not None and committed[1].decisions != (reference,),
        "seconds": time.perf_counter() - start,
    }


def claims_of(episodes: list[dict], sources: dict[tuple[str, int], Source]) -> list[Claim]:
    """The rows of I.7, with their bars."""
    flagged = {key: source.findings.verdict() is Verdict.FLAG for key, source in sources.items()}
    faulty = [key for key in sources if key[0] != "healthy"]
    claims = [
        Claim(
            claim="faulty sources flagged / healthy flagged",
            measured=f"{sum(flagged[k] for k in faulty)}/{len(faulty)} / {int(flagged['healthy', 0])}",
            unit="sources",
            bar="16/16 / 0",
            met=all(flagged[k] for k in faulty) and not flagged["healthy", 0],
            detail="bf16, simulated faults",
        )
    ]
    for name, recovery, _ in CONDITIONS:
        mine = [e for e in episodes if e["condition"] == name]
        changed = [e for e in mine if e["changed_by_fault"]]
        recovered = sum(e["proposed_right"] and e["outcome"] == "committed" for e in changed)
        right = sum(e["proposed_right"] for e in mine)
        refused = [e for e in mine if e["outcome"] == "refused"]
        must = recovery != "replace"
        claims.append(
            Claim(
                claim=f"{name}: changed decisions recovered and committed",
                measured=f"{recovered}/{len(changed)}",
                unit="requests",
                bar=f"{len(changed)}/{len(changed)}" if must else "reported",
                met=(recovered == len(changed) > 0) if must else None,
                detail=f"{right}/{len(mine)} actions agree with the reference, {len(mine) - len(refused)} committed, "
                f"{sum(not e['proposed_right'] for e in refused)} refused deviating, "
                f"{sum(e['proposed_right'] for e in refused)} refused matching; bf16, simulated faults",
            )
        )
    superseded = [e for e in episodes if e["condition"] == "file replacement, keeps" and e["fault"] != "healthy"]
    refused_all = all(e["outcome"] == "refused" for e in superseded)
    wrong = sum(e["wrong_committed"] for e in episodes)
    claims += [
        Claim(
            claim="file replacement: actions prepared on the superseded view that are refused",
            measured=f"{sum(e['outcome'] == 'refused' for e in superseded)}/{len(superseded)}",
            unit="requests",
            bar="all, matching ones included",
            met=refused_all,
            detail="controller keeps; the controller rereads prepares a new action on the current view instead",
        ),
        Claim(
            claim="wrong actions committed",
            measured=str(wrong),
            unit="of all episodes",
            bar="0",
            met=wrong == 0,
            detail=f"{len(episodes)} episodes, judged by the reference decision",
        ),
    ]
    return claims


def summary_of(series: Series, sources: dict[tuple[str, int], Source], episodes: list[dict]) -> dict:
    """What a reader needs to follow the figures."""
    rows = []
    for (kind, seed), source in sources.items():
        moved = np.abs(source.table.scores - series.reference.scores)
        rows.append(
            {
                "fault": kind,
                "seed": seed,
                "events": len(source.events),
                "flagged_calls": len(source.findings.flagged()),
                "marked_units": int(source.marked.sum()),
                "changed_means": int(np.count_nonzero(moved)),
                "largest_displacement": float(moved.max()),
                "changed": sorted(
                    {e["rule"] for e in episodes if (e["fault"], e["seed"]) == (kind, seed) and e["changed_by_fault"]}
                ),
            }
        )
    seconds = [e["seconds"] for e in episodes]
    return {"sources": rows, "episode_seconds_median": float(np.median(seconds)), "episodes": episodes}


if __name__ == "__main__":
    main()
