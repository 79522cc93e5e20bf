"""The campaign's journal and its standing, kept in step: an entry is on the disk before anybody acts on it."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from veristate.ledger import Entry, Ledger
from veristate.research.states import Card, Standing


class CampaignRecord:
    """One ledger and what it says. Threads may append at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.RLock()
        self.standing = Standing()
        self.last_time: str | None = None
        for entry in ledger.entries():
            self.standing.take(entry)
            self.last_time = entry.time

    def append(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        card: Card | None = None,
        unless: Callable[[Standing], str | None] = lambda _: None,
    ) -> Entry | str:
        """The new entry, or the reason that `unless` gave against it, asked while nobody else appends."""
        with self._lock:
            against = unless(self.standing)
            if against is not None:
                return against
            entry = self._ledger.append(kind, body, records=[card] if card is not None else [])
            self.standing.take(entry)
            return entry

    def read(self, question: Callable[[Standing], Any]) -> Any:
        """The answer to a question that is asked while nobody appends."""
        with self._lock:
            return question(self.standing)
