"""What a worker is told at a segment's start: a stable prefix, then the restart state, the direction, the memory.

What lies on the disk is listed from the snapshot, so that nobody believes in work that was left behind.
"""

import os
from collections.abc import Iterator, Sequence

from veristate.research.deciding import ReAnchoring
from veristate.research.memory.fold import TAIL_UPPER, summarise
from veristate.research.states import Card
from veristate.research.tasks import Objective, Task
from veristate.store import FileEntry, FolderEntry, LinkEntry, Store

PACKET_UPPER = 12_000
_LISTED = 60


def brief(task: Task, *, worker: str, packet: str, told: Sequence[str] = ()) -> str:
    """The text of AGENTS.md. Everything up to the packet is the same in every segment of a worker."""
    objective = task.objective
    files = ", ".join(task.artifact.files)
    signal = f", or by writing {task.result_file}" if task.result_file else ""
    sections = [
        f"# {task.name}",
        task.description,
        f"## Objective\n{objective.direction} {objective.metric}."
        + (f" Target: {objective.target}." if objective.target is not None else ""),
        f"## Artifact\n{files}. {task.artifact.description}".strip(),
        "## How to hand in\n"
        f'Run `$VERISTATE_SUBMIT "what you did"` whenever {files} in this folder is a candidate{signal}. It is '
        "judged on a copy, by an evaluator you can't reach; the answer is its metric, or the reason why it does not "
        "count. Nothing else is evidence: not what you print, not how you end. Then go on. Stop when you have nothing "
        "more to try. `$VERISTATE_SUBMIT --unfold ID` gives folded results back.",
    ]
    if task.guidance:
        sections.append(f"## Advice\n{task.guidance}")
    if told:
        sections.append("## Limits\n" + "\n".join(f"- {line}" for line in told))
    return "\n\n".join([*sections, f"# Worker {worker}, now", packet]) + "\n"


def state_packet(
    store: Store,
    tree: str,
    decision: ReAnchoring | None,
    *,
    restart: str,
    memory: str,
    peers: str,
    tail: str = "",
) -> str:
    """The restart state for the worker, at most 12,000 characters: files as they are, direction, memory, peers."""
    parts = [f"You start from {restart}. These files are here, and no others:\n{_listing(store, tree)}"]
    if decision is not None:
        evidence = "".join(f"\n- {item[:300]}" for item in decision.evidence)
        parts.append(
            f"Direction: {decision.direction}. Focus: {decision.focus[:800]}\nBottleneck: {decision.bottleneck[:800]}\n"
            f"Why: {decision.rationale[:800]}{evidence}"
        )
    if tail:
        parts.append(f"Left behind, not on the disk any more:\n{tail}")
    if peers:
        parts.append(f"Peers:\n{peers}")
    if memory:
        parts.append(f"Results so far:\n{memory}")
    return "\n\n".join(parts)[:PACKET_UPPER]


def abandoned_tail(cards: Sequence[Card], restart: str, objective: Objective) -> tuple[str, str]:
    """Identifier and summary, at most 1,200 characters, of the results after the restart state; empty without any."""
    after = next((i for i, card in enumerate(cards) if card.place == restart), -1) + 1
    left = cards[after:]
    if not left:
        return "", ""
    first, last = left[0].place.rpartition("/S"), left[-1].place.rpartition("/S")
    identifier = f"L_{first[0]}_S{first[2]}_S{last[2]}"
    return identifier, summarise(left, objective, identifier=identifier, upper=TAIL_UPPER)


def _listing(store: Store, tree: str) -> str:
    lines: list[str] = []
    for line in _files(store, tree, ""):
        if len(lines) == _LISTED:
            lines.append("  ... and more")
            break
        lines.append(line)
    return "\n".join(lines) or "  none"


def _files(store: Store, tree: str, above: str) -> Iterator[str]:
    for entry in store.tree(tree).entries:
        path = f"{above}{os.fsdecode(entry.name)}".encode("utf-8", "backslashreplace").decode()
        match entry:
            case FileEntry():
                yield f"  {path} ({entry.size:,} bytes)"
            case LinkEntry():
                yield f"  {path} (link)"
            case FolderEntry():
                yield from _files(store, entry.tree, f"{path}/")
