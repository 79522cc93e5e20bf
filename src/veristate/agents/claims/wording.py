"""Every text that the claim protocol shows an agent. Records hold these bytes: a new wording is a new protocol."""

from collections.abc import Sequence

from veristate.agents.claims.settings import ClaimSettings
from veristate.agents.claims.transcript import Claim, Document, Listed
from veristate.agents.state import Message

_RULES = """You check a claim against scientific abstracts. Reply with one JSON object and nothing else: one call.
{{"call":{{"action":"search"}}}} lists documents for the claim: identifier | score | title.
{{"call":{{"action":"read","document":"ID"}}}} delivers the numbered sentences of a listed document.
{{"call":{{"action":"finish","verdict":"VERDICT","citations":[{{"document":"ID","sentences":[NUMBER]}}]}}}} ends. \
VERDICT is SUPPORT, REFUTE or NOT_ENOUGH_INFO. Cite only sentences you were delivered; SUPPORT and REFUTE need at \
least one, NOT_ENOUGH_INFO may cite none: "citations":[].
Search first, read before you finish. You have {calls} calls: {searches} search, up to {reads} read, one finish. A \
rejected call costs a call too."""

# All three verdicts, and nothing that a study could ask about.
_EXAMPLES = """
Examples, of another claim:
{"call":{"action":"search"}}
{"call":{"action":"read","document":"111"}}
{"call":{"action":"finish","verdict":"SUPPORT","citations":[{"document":"111","sentences":[2]}]}}
{"call":{"action":"finish","verdict":"REFUTE","citations":[{"document":"222","sentences":[0,4]}]}}
{"call":{"action":"finish","verdict":"NOT_ENOUGH_INFO","citations":[]}}"""

_RIGHT_FORM = {
    "search": '{"call":{"action":"search"}}',
    "read": '{"call":{"action":"read","document":"ID"}} with no other field, ID as text',
    "finish": '{"call":{"action":"finish","verdict":"NOT_ENOUGH_INFO","citations":[]}} with verdict and citations '
    "beside the action, sentence numbers as numbers and only of sentences that a read delivered",
}
MASKED = "(masked)"


def opening(claim: Claim, settings: ClaimSettings) -> tuple[Message, ...]:
    """The messages an attempt begins with."""
    rules = _RULES.format(calls=settings.calls, searches=settings.searches, reads=settings.reads)
    examples = _EXAMPLES if settings.prompt == "examples" else ""
    return (
        Message(role="system", content=rules + examples),
        Message(role="user", content=f"Claim {claim.id}: {claim.text}"),
    )


def listing(entries: Sequence[Listed]) -> str:
    """What a search delivers."""
    rows = [f"{entry.document} | {entry.score} | {entry.title or MASKED}" for entry in entries]
    return "\n".join(["Documents:", *rows]) if rows else "No documents."


def document_text(document: Document) -> str:
    """What a read delivers."""
    sentences = [f"[{number}] {sentence}" for number, sentence in enumerate(document.sentences)]
    return "\n".join([f"Document {document.id}: {document.title or MASKED}", *(sentences or ["No sentences."])])


def rejection_text(reason: str, tool: str, settings: ClaimSettings) -> str:
    """The answer to a rejected call; `tool` is empty when it was no call at all."""
    explained = settings.prompt == "examples"
    forms = [_RIGHT_FORM[tool]] if tool else list(_RIGHT_FORM.values())
    return f"Rejected: {reason}." + (f" The right form: {'; '.join(forms)}." if explained else "")


def budget_line(calls: int, available: Sequence[str]) -> str:
    """What every answer ends with: the budget and the available actions."""
    return f"Calls left: {calls}. Available: {', '.join(available) or 'none'}."
