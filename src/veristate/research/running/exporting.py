"""A campaign as plain files: the best candidate as it lies in its snapshot, every card, the journal, a summary."""

import json
from pathlib import Path
from typing import Any

from veristate.core import EnvironmentUnusableError, InputError, plain
from veristate.ledger import Ledger
from veristate.research.evaluating import materialise, read_candidate
from veristate.research.running.auditing import best_audited, ranked
from veristate.research.running.opening import CampaignHome, read_standing
from veristate.research.states import Standing
from veristate.research.tasks import Objective, read_task
from veristate.store import Store


def objective_of(standing: Standing) -> Objective:
    """The objective as it was journaled: a campaign can be read without its task."""
    opened = standing.opened
    return Objective(
        metric=opened["metric"],
        direction=opened["direction"],
        target=opened["target"],
        best_known=opened["best_known"],
        best_known_source=opened["best_known_source"],
    )


def summary(standing: Standing) -> dict[str, Any]:
    """The campaign in one plain object: best, audited best, what was spent, how each worker ended."""
    objective = objective_of(standing)
    best = next(iter(ranked(standing, objective)), None)
    audited = best_audited(standing, objective)
    return {
        "task": standing.opened["task"],
        "campaign": standing.opened["campaign"],
        "metric": objective.metric,
        "direction": objective.direction,
        "target": objective.target,
        "best_known": objective.best_known,
        "best": best.metric if best else None,
        "best_at": best.place if best else None,
        "arithmetic": best.arithmetic if best else None,
        "audited": audited[1] if audited else None,
        "audited_at": audited[0] if audited else None,
        "finished": standing.finished["reason"] if standing.finished else None,
        "results": len(standing.cards),
        "queries": standing.queries,
        "spent_wall_s": f"{standing.wall_ms() / 1000:.3f}",
        "spent_cpu_s": f"{standing.cpu_ms / 1000:.3f}",
        "spent_tokens": standing.spent_tokens(),
        "spent_money": str(standing.spent_money()),
        "sessions": len(standing.sessions),
        "warnings": standing.warnings,
        "workers": {name: worker.ended for name, worker in standing.workers.items()},
    }


def export_campaign(home: CampaignHome, folder: Path) -> list[Path]:
    """The files that were written into `folder`, which must not exist or be empty.

    Raises: InputError when it holds something; EnvironmentUnusableError when it can't be written.
    """
    standing = read_standing(home)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty; give a new folder")
    said = summary(standing)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Ledger.open(home.ledger) as ledger, (folder / "journal.jsonl").open("w", encoding="utf-8") as journal:
            for entry in ledger.entries():
                line = plain(entry.content) | {}
                head = {"seq": entry.seq, "previous": entry.previous, "kind": entry.kind, "time": entry.time}
                journal.write(json.dumps(head | {"body": line, "digest": entry.digest}) + "\n")
        cards = "\n".join(card.text() for card in standing.cards)
        (folder / "cards.md").write_text(cards, encoding="utf-8")
        (folder / "summary.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        place = said["audited_at"] or said["best_at"]
        card = standing.card(place) if place else None
        if card is not None:
            artifact = read_task(standing.opened["folder"]).artifact
            store = Store.open(home.objects)
            materialise(store, read_candidate(store, card.tree, artifact), folder / "best")
    except OSError as error:
        raise EnvironmentUnusableError(f"{folder}: {error.strerror or error}; choose another place") from error
    return sorted(path for path in folder.rglob("*") if path.is_file())
