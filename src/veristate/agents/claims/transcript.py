"""The transcript of one attempt at a claim: every reply, every delivery, the ending, as values and canonical bytes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from veristate.agents.claims.settings import ClaimSettings
from veristate.agents.models import Reply
from veristate.agents.state import Message
from veristate.core import InputError, Record, canonical_bytes, digest, plain

Tool = Literal["search", "read", "finish"]
Verdict = Literal["SUPPORT", "REFUTE", "NOT_ENOUGH_INFO"]
Replaced = Literal["nothing", "tools", "history and tools"]


class Ending(StrEnum):
    """How an attempt ended. FINISHED: a verdict was accepted. BUDGET_SPENT: no call was left. INVALID: a reply was no
    JSON, or longer than allowed. FAILED: the model gave no reply at all.
    """

    FINISHED = "finished"
    BUDGET_SPENT = "budget_spent"
    INVALID = "invalid"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Record):
    """A claim as the agent is shown it: nothing of its annotation."""

    FORMAT: ClassVar[str] = "veristate.claim/1"
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(Record):
    """An abstract: its title and its sentences, counted from 0."""

    FORMAT: ClassVar[str] = "veristate.document/1"
    id: str
    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Record):
    """One entry of a delivered search result; the title is empty where it is masked, the score as it was shown."""

    FORMAT: ClassVar[str] = "veristate.listed/1"
    document: str
    title: str
    score: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited(Record):
    """A document and the sentences of it that a finish cites, as given."""

    FORMAT: ClassVar[str] = "veristate.cited/1"
    document: str
    sentences: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Record):
    """A well-formed call. `document` is empty but for a read, `verdict` and `citations` but for a finish."""

    FORMAT: ClassVar[str] = "veristate.call/1"
    tool: Tool
    document: str = ""
    verdict: str = ""
    citations: tuple[Cited, ...] = ()

    @property
    def text(self) -> str:
        """The call in its one spelling: the canonical JSON that an agent would have to reply."""
        content: dict[str, object] = {"action": self.tool}
        if self.tool == "read":
            content["document"] = self.document
        if self.tool == "finish":
            content["verdict"] = self.verdict
            content["citations"] = [{"document": c.document, "sentences": c.sentences} for c in self.citations]
        return canonical_bytes({"call": content}).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Record):
    """What the tools answered: `text` as the agent sees it, and the same as values. An accepted search fills `listed`,
    an accepted read `documents`; `rejection` is the reason of a rejected call, else empty.
    """

    FORMAT: ClassVar[str] = "veristate.delivery/1"
    text: str
    listed: tuple[Listed, ...] = ()
    documents: tuple[Document, ...] = ()
    rejection: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Record):
    """One call. `request` is the digest of the whole history it answered; `call` is empty when the reply was none that
    the protocol knows.
    """

    FORMAT: ClassVar[str] = "veristate.turn/1"
    request: str
    reply: Reply
    call: tuple[Call, ...]
    delivery: Delivery

    @property
    def accepted(self) -> bool:
        """Whether the call was carried out."""
        return bool(self.call) and not self.delivery.rejection


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Record):
    """Where a continuation comes from: the digest of the recorded transcript, how many of its calls were taken over,
    and what was replaced.
    """

    FORMAT: ClassVar[str] = "veristate.origin/1"
    transcript: str
    calls: int
    replaced: Replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Record):
    """One attempt from its opening messages to its ending; what it retrieved, read, cited, did and concluded is read
    off it in order and with repetition. `decider` is a canonical JSON text that names who decided, with its settings;
    `origin` is empty unless it continues another.
    """

    FORMAT: ClassVar[str] = "veristate.claim-transcript/1"
    claim: Claim
    settings: ClaimSettings
    decider: str
    opening: tuple[Message, ...]
    turns: tuple[Turn, ...]
    ending: Ending
    reason: str = ""
    origin: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        """Raises: InputError for an unknown ending."""
        if self.ending not in tuple(Ending):
            raise InputError(f"a transcript has the ending {self.ending!r}; use one of {', '.join(Ending)}")
        object.__setattr__(self, "ending", Ending(self.ending))

    @property
    def retrieved(self) -> tuple[str, ...]:
        """The documents that searches listed."""
        return tuple(entry.document for turn in self.turns for entry in turn.delivery.listed)

    @property
    def read(self) -> tuple[str, ...]:
        """The documents that reads delivered."""
        return tuple(document.id for turn in self.turns for document in turn.delivery.documents)

    @property
    def cited(self) -> tuple[Cited, ...]:
        """The citations of the accepted finish."""
        return tuple(cited for call in self.calls for cited in call.citations)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls that were carried out."""
        return tuple(turn.call[0] for turn in self.turns if turn.accepted)

    @property
    def actions(self) -> tuple[str, ...]:
        """The calls that were carried out, each in its one spelling."""
        return tuple(call.text for call in self.calls)

    @property
    def verdict(self) -> str | None:
        """The accepted verdict; None when the attempt did not finish."""
        return self.calls[-1].verdict if self.ending is Ending.FINISHED else None

    @property
    def rejected(self) -> int:
        """How many calls were not carried out."""
        return sum(not turn.accepted for turn in self.turns)

    @property
    def exposed(self) -> bool:
        """Whether a search result was delivered: whether the values at the intervention site were accessed."""
        return any(turn.accepted and turn.call[0].tool == "search" for turn in self.turns)

    @property
    def revisited(self) -> bool:
        """Whether a search was made after the calls that were taken over from another transcript; of an attempt that
        continues none, whether one was made at all.
        """
        start = self.origin[0].calls if self.origin else 0
        return any(turn.accepted and turn.call[0].tool == "search" for turn in self.turns[start:])

    @property
    def reply_tokens(self) -> int:
        """Tokens of all replies of which the number is known, those taken over included."""
        return sum(turn.reply.reply_tokens or 0 for turn in self.turns)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all requests of which the number is known, those taken over included."""
        return sum(turn.reply.prompt_tokens or 0 for turn in self.turns)

    def history(self, call: int) -> tuple[Message, ...]:
        """The visible history that call number `call`, counted from 0, answered."""
        return history(self.opening, self.turns[:call])

    @property
    def exchanges(self) -> tuple[tuple[str, str], ...]:
        """Each request, its whole visible history as canonical JSON, and the reply to it."""
        return tuple((request_text(self.history(at)), turn.reply.text) for at, turn in enumerate(self.turns))


def history(opening: tuple[Message, ...], turns: tuple[Turn, ...]) -> tuple[Message, ...]:
    """The opening messages, then reply and delivery of each turn."""
    later = [
        message
        for turn in turns
        for message in (
            Message(role="assistant", content=turn.reply.text),
            Message(role="tool", content=turn.delivery.text),
        )
    ]
    return (*opening, *later)


def request_text(messages: tuple[Message, ...]) -> str:
    """The visible history as canonical JSON."""
    return canonical_bytes(plain(messages)).decode()


def request_digest(messages: tuple[Message, ...]) -> str:
    """What a turn records of the visible history."""
    return digest(request_text(messages).encode())
