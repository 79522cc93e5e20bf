"""Folding: old cards as an addressable summary, decisive ones raw. The cards themselves never change.

A summary's identifier says what it stands for: `L_w0_S01_S112` is worker w0's stages 1 to 112. `unfold` gives their
texts back byte for byte.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from veristate.core import InputError
from veristate.research.states import Card, Place
from veristate.research.tasks import Objective

BUDGET = 5000
TAIL_UPPER = 1200
_LINE_UPPER = 110
_IDENTIFIER = re.compile(r"L_(?P<worker>.+)_S(?P<first>\d+)_S(?P<last>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The view of a worker's cards within a budget. `identifier` is empty when nothing had to be folded."""

    text: str
    identifier: str
    summary: str


def fold(
    cards: Sequence[Card], objective: Objective, *, recent: int, keep: Collection[str] = (), budget: int = BUDGET
) -> Folded:
    """The cards as text of at most `budget` characters.

    Raw stay, while there is room, in this order: the best card, the first that counts, those named in `keep`, the cards
    of segment `recent` from the last on, the last that was rejected. All others are in the summary.
    """
    whole = "\n".join(card.text() for card in cards)
    if len(whole) <= budget:
        return Folded(text=whole, identifier="", summary="")
    raw: set[str] = set()
    room = budget - TAIL_UPPER - 2
    for card in _decisive(cards, objective, recent, keep):
        size = len(card.text()) + 1
        if card.place not in raw and size <= room:
            raw.add(card.place)
            room -= size
    rest = [card for card in cards if card.place not in raw]
    identifier = _identifier(rest)
    summary = summarise(rest, objective, identifier=identifier, upper=TAIL_UPPER)
    text = "\n".join([summary, *(card.text() for card in cards if card.place in raw)])
    return Folded(text=text, identifier=identifier, summary=summary)


def summarise(cards: Sequence[Card], objective: Objective, *, identifier: str, upper: int) -> str:
    """The cards in at most `upper` characters: counts, the best, the refusals by reason, the steps that improved."""
    if not cards:
        return ""
    statuses = Counter(card.status for card in cards)
    counting = [card for card in cards if card.counts]
    best = objective.best([str(card.metric) for card in counting])
    at = next((card.place for card in counting if card.metric == best), "none")
    lines = [
        f"[{identifier}: {len(cards)} results, "
        + ", ".join(f"{n} {s}" for s, n in sorted(statuses.items()))
        + f"; best {best} at {at}. unfold {identifier} gives them back.]"[:400]
    ]
    refusals = Counter(" ".join(card.reason.split())[:60] for card in cards if not card.counts)
    lines += [f"- refused {n} times: {reason}" for reason, n in refusals.most_common(4)]
    steps, found = [], None
    for card in counting:
        if objective.better(str(card.metric), found):
            found = str(card.metric)
            steps.append(f"- {card.place} {found[:24]} {' '.join(card.note.split())}"[:_LINE_UPPER])
    # The last improvements say most; the first says where it began.
    chosen = [*steps[:1], *steps[1:][-40:]]
    while chosen and len("\n".join([*lines, *chosen])) > upper:
        del chosen[min(1, len(chosen) - 1)]
    return "\n".join([*lines, *chosen])[:upper]


def unfold(cards: Sequence[Card], identifier: str, stages: Sequence[str] = ()) -> str:
    """The original texts of the folded cards, or of those whose stage (`S18`, `18` or a place) is named.

    Raises: InputError for an identifier or a stage that names no card.
    """
    match = _IDENTIFIER.fullmatch(identifier)
    if match is None:
        raise InputError(f"{identifier!r} is no summary; its name looks like L_w0_S01_S112")
    first, last = int(match["first"]), int(match["last"])
    chosen = [card for card in cards if _in_range(card, match["worker"], first, last)]
    if stages:
        wanted = {_stage(text) for text in stages}
        chosen = [card for card in chosen if _number(card) in wanted]
    if not chosen:
        raise InputError(f"{identifier} holds no such stage: {', '.join(stages) or 'none at all'}")
    return "\n".join(card.text() for card in chosen)


def _decisive(cards: Sequence[Card], objective: Objective, recent: int, keep: Collection[str]) -> list[Card]:
    counting = [card for card in cards if card.counts]
    best = objective.best([str(card.metric) for card in counting])
    return [
        *[card for card in counting if card.metric == best][:1],
        *counting[:1],
        *[card for card in cards if card.place in keep],
        *[card for card in reversed(cards) if card.segment == recent],
        *[card for card in reversed(cards) if card.status == "rejected"][:1],
    ]


def _identifier(cards: Sequence[Card]) -> str:
    first, last = Place.read(cards[0].place), Place.read(cards[-1].place)
    if first is None or last is None:
        raise InputError(f"{cards[0].place} is no state")
    return f"L_{first.worker}_S{first.stage:02d}_S{last.stage:02d}"


def _in_range(card: Card, worker: str, first: int, last: int) -> bool:
    place = Place.read(card.place)
    return place is not None and place.worker == worker and first <= place.stage <= last


def _number(card: Card) -> int:
    place = Place.read(card.place)
    return place.stage if place else -1


def _stage(text: str) -> int:
    digits = text.rpartition("/")[2].removeprefix("S")
    return int(digits) if digits.isascii() and digits.isdigit() else -1
