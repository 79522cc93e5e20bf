"""A campaign as the tests look at it: whole, with nothing left; and cards made by hand."""

import psutil

from veristate.ledger import Ledger
from veristate.research import Card, read_standing
from veristate.research.processes import MARK
from veristate.store import Store


def assert_whole(home):
    """The journal and every snapshot it names are what was written, and no process of the campaign lives."""
    standing = read_standing(home)
    trees = {card.tree for card in standing.cards} | {standing.opened["template"]}
    trees |= {s.end_tree for w in standing.workers.values() for s in w.segments if s.end_tree}
    trees -= standing.released
    with Ledger.open(home.ledger) as ledger:
        ledger.require()
    assert [found for found in Store.open(home.objects).fsck(trees) if not found.harmless] == []
    assert living(standing.opened["campaign"]) == []
    return standing


def living(campaign):
    """The living processes that carry a campaign's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
            if mark.startswith(campaign) and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process.pid, process.cmdline()))
        except psutil.Error:
            continue
    return found


def card(stage, metric=None, *, worker="w0", segment=1, status=None, reason="", note="", **more):
    """A card with the fields a test does not care about filled in."""
    values = {
        "place": f"{worker}/S{stage:02d}",
        "parent": f"{worker}/S{stage - 1:02d}",
        "segment": segment,
        "status": status or ("valid" if metric is not None else "rejected"),
        "metric": metric,
        "arithmetic": "UNCHECKED",
        "reason": reason,
        "note": note,
        "tree": "0" * 64,
        "candidate": f"{stage:064x}",
        "time": f"2026-01-01T00:{stage // 60:02d}:{stage % 60:02d}.000000Z",
        "spent_s": f"{stage}.000",
        "evaluator_s": "0.100",
        "attempts": 1,
    }
    return Card(**values | more)
