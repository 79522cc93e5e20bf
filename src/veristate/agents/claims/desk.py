"""What the tools answer: the claim protocol as a state machine over what was delivered so far."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from veristate.agents.claims.settings import ClaimSettings
from veristate.agents.claims.transcript import Call, Claim, Delivery, Document, Listed, Tool, Turn, history
from veristate.agents.claims.wording import budget_line, document_text, listing, opening, rejection_text
from veristate.agents.models import Reply
from veristate.agents.state import Message
from veristate.core import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A document of a ranked list with the text its score is shown as."""

    document: str
    score: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """What the tools of one condition deliver: the ranked list that a search returns, whatever the agent asks, and the
    documents by identifier.
    """

    results: tuple[Hit, ...]
    documents: Mapping[str, Document]

    def document(self, identifier: str) -> Document:
        """The document. Raises: InputError when the library lacks it, or has another under its identifier."""
        found = self.documents.get(identifier)
        if found is None or found.id != identifier:
            raise InputError(f"the library lacks the document {identifier!r} of its own list; give the whole corpus")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decider may know before a call: the visible history, and the same as values; nothing of the library."""

    claim: Claim
    settings: ClaimSettings
    messages: tuple[Message, ...]
    listed: tuple[Listed, ...] = ()
    documents: tuple[Document, ...] = ()
    searches_left: int
    reads_left: int
    calls_left: int

    @property
    def available(self) -> tuple[Tool, ...]:
        """The actions that can be accepted now."""
        can: dict[Tool, bool] = {
            "search": self.searches_left > 0,
            "read": self.reads_left > 0 and bool(self.listed),
            "finish": bool(self.documents),
        }
        return tuple(tool for tool, open_now in can.items() if open_now and self.calls_left > 0)

    def after(self, turn: Turn) -> "Situation":
        """The situation after a turn: what was delivered is known, what was used is gone; a rejected call costs one of
        the calls alone.
        """
        tool = turn.call[0].tool if turn.accepted else None
        return replace(
            self,
            messages=history(self.messages, (turn,)),
            listed=(*self.listed, *turn.delivery.listed),
            documents=(*self.documents, *turn.delivery.documents),
            searches_left=self.searches_left - (tool == "search"),
            reads_left=self.reads_left - (tool == "read"),
            calls_left=self.calls_left - 1,
        )


class Decider(Protocol):
    """Whoever chooses the next call: a controller or a model."""

    @property
    def name(self) -> str:
        """What records call it: a canonical JSON text that holds its settings too."""
        ...

    def decide(self, situation: Situation) -> Reply:
        """The reply to the visible history. Raises: EnvironmentUnusableError when there is none."""
        ...


def opened(claim: Claim, settings: ClaimSettings) -> Situation:
    """The situation before the first call."""
    return Situation(
        claim=claim,
        settings=settings,
        messages=opening(claim, settings),
        searches_left=settings.searches,
        reads_left=settings.reads,
        calls_left=settings.calls,
    )


def answer(call: Call, situation: Situation, library: Library) -> Delivery:
    """What the tools answer to a call. Raises: InputError when the library lacks a document of its own list."""
    reason = objection(call, situation)
    if reason:
        return rejected(reason, call.tool, situation)
    masking = situation.settings.masking
    listed: tuple[Listed, ...] = ()
    documents: tuple[Document, ...] = ()
    text = "Accepted."
    if call.tool == "search":
        listed = tuple(_entry(hit, library, masked=masking in ("titles", "both")) for hit in library.results)
        text = listing(listed)
    elif call.tool == "read":
        documents = (_shown(library.document(call.document), situation.settings),)
        text = document_text(documents[0])
    delivery = Delivery(text=text, listed=listed, documents=documents)
    if call.tool == "finish":
        return delivery
    after = situation.after(Turn(request="", reply=Reply(text=""), call=(call,), delivery=delivery))
    return replace(delivery, text=f"{text}\n{budget_line(after.calls_left, after.available)}")


def rejected(reason: str, tool: str, situation: Situation) -> Delivery:
    """What the tools answer to a call that they don't carry out."""
    after = replace(situation, calls_left=situation.calls_left - 1)
    text = rejection_text(reason, tool, situation.settings)
    return Delivery(text=f"{text}\n{budget_line(after.calls_left, after.available)}", rejection=reason)


def objection(call: Call, situation: Situation) -> str:
    """Why the call is not carried out; empty when it is."""
    if call.tool == "search":
        return "" if situation.searches_left else f"no search is left of {situation.settings.searches}"
    if not situation.listed:
        return "search first; nothing is listed yet"
    if call.tool == "read":
        if not situation.reads_left:
            return f"no read is left of {situation.settings.reads}"
        known = any(entry.document == call.document for entry in situation.listed)
        return "" if known else f"document {call.document[:40]!a} is not in the list"
    return _objection_to_finish(call, situation)


def _objection_to_finish(call: Call, situation: Situation) -> str:
    if not situation.documents:
        return "read a document before you finish"
    lengths = {document.id: len(document.sentences) for document in situation.documents}
    for cited in call.citations:
        if cited.document not in lengths:
            return f"document {cited.document[:40]!a} is cited and was not read"
        beyond = [number for number in cited.sentences if number >= lengths[cited.document]]
        if beyond:
            return f"sentence {beyond[0]} of document {cited.document} is cited and was not delivered"
    if call.verdict != "NOT_ENOUGH_INFO" and not call.citations:
        return f"{call.verdict} needs at least one citation"
    return ""


def _entry(hit: Hit, library: Library, *, masked: bool) -> Listed:
    title = library.document(hit.document).title
    return Listed(document=hit.document, title="" if masked else title, score=hit.score)


def _shown(document: Document, settings: ClaimSettings) -> Document:
    """The document as it is delivered: a masked text delivers no sentence."""
    title = "" if settings.masking in ("titles", "both") else document.title
    return Document(
        id=document.id, title=title, sentences=() if settings.masking in ("texts", "both") else document.sentences
    )
