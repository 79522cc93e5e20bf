"""A claim, a small corpus, and deciders that say what a test wrote down."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from veristate.agents.claims import Call, Cited, Claim, Document, Hit, Library, Reply, Situation
from veristate.core import EnvironmentUnusableError

CLAIM = Claim(id="7", text="Cats purr when they are content.")
DOCUMENTS = {
    name: Document(id=name, title=f"Title {name}", sentences=tuple(f"Sentence {n} of {name}." for n in range(length)))
    for name, length in {"a": 3, "b": 1, "c": 2, "d": 4}.items()
}
SEARCH = Call(tool="search").text


def library(names: str, documents: dict[str, Document] = DOCUMENTS) -> Library:
    """A library whose list is these documents with falling scores."""
    hits = tuple(Hit(document=name, score=f"0.{9 - place}") for place, name in enumerate(names))
    return Library(results=hits, documents=documents)


def read(document: str) -> str:
    """The reply that reads."""
    return Call(tool="read", document=document).text


def finish(verdict: str, *cited: tuple[str, tuple[int, ...]]) -> str:
    """The reply that finishes."""
    citations = tuple(Cited(document=document, sentences=sentences) for document, sentences in cited)
    return Call(tool="finish", verdict=verdict, citations=citations).text


class Script:
    """Replies one after the other, and the situations it was asked in; then no reply at all."""

    name = '{"decider":"script"}'

    def __init__(self, replies: Iterable[str | Reply]) -> None:
        self._replies: Iterator[str | Reply] = iter(replies)
        self.asked: list[Situation] = []

    def decide(self, situation: Situation) -> Reply:
        """The next reply."""
        self.asked.append(situation)
        for reply in self._replies:
            return Reply(text=reply) if isinstance(reply, str) else reply
        raise EnvironmentUnusableError("the script is over")


def spell(call: Any) -> str:
    """A reply with whatever call, right or wrong."""
    return json.dumps({"call": call})
