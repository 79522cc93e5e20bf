"""Going on from a recorded prefix with the tools of another condition, its visible history replaced or not."""

from dataclasses import dataclass

from veristate.agents.claims.desk import Decider, Hit, Library, Situation, opened
from veristate.agents.claims.episode import go_on, take
from veristate.agents.claims.transcript import Document, Ending, Origin, Replaced, Transcript, Turn
from veristate.core import InputError, TamperError


def continue_claim(
    recorded: Transcript,
    calls: int,
    library: Library,
    decider: Decider,
    *,
    replaced: Replaced,
    record: str = "",
) -> Transcript:
    """The transcript that takes over the first `calls` calls of `recorded` and goes on to its own ending.

    `replaced` "nothing": `library` is the recorded condition's, and everything stays. "tools": only what is delivered
    from now on comes from `library`. "history and tools": the replies of the prefix stay as they were given, and each
    is answered anew by `library`; a read of what its list lacks is then rejected, as the tools would have done. What
    can be read is what the visible history lists. `record` is the digest under which the transcript was kept.

    Raises: TamperError when the recorded content doesn't match its record; InputError for a prefix that holds the
    ending, and when nothing is to be replaced and the library delivers something else than was recorded.
    Source: BioAgent-DF F.3.
    """
    check_transcript(recorded, record=record)
    open_calls = len(recorded.turns) - (recorded.ending in (Ending.FINISHED, Ending.INVALID))
    if not 0 <= calls <= open_calls or calls >= recorded.settings.calls:
        last = min(open_calls, recorded.settings.calls - 1)
        raise InputError(f"a continuation can take over 0 to {last} calls of this transcript, not {calls}")
    prefix = recorded.turns[:calls]
    again = _answered(recorded, prefix, library) if replaced != "tools" else None
    if replaced == "nothing" and again is not None and again.turns != prefix:
        raise InputError("the library delivers something else than the prefix holds; say what is to be replaced")
    start = again if replaced == "history and tools" and again is not None else _taken_over(recorded, prefix)
    origin = Origin(transcript=recorded.digest, calls=calls, replaced=replaced)
    return go_on(start.situation, start.turns, library, decider, (origin,))


def check_transcript(transcript: Transcript, *, record: str = "") -> None:
    """Returns when the transcript holds together: its digest is `record` where one is given, and its replies, answered
    again from what it says was delivered, give its requests, calls, deliveries and ending.

    Raises: TamperError naming the first call that doesn't match.
    """
    if record and transcript.digest != record:
        raise TamperError(f"the transcript's digest is {transcript.digest}, its record's {record}")
    situation = opened(transcript.claim, transcript.settings)
    if transcript.opening != situation.messages:
        raise TamperError("the transcript's opening is not that of its claim, settings and this version's wording")
    ending: Ending | None = None
    for number, turn in enumerate(transcript.turns):
        if ending is not None or not situation.calls_left:
            raise TamperError(f"the transcript goes on with call {number} after its ending")
        try:
            step = take(turn.reply, situation, _delivered(turn))
        except InputError as error:
            raise TamperError(f"call {number} of the transcript does not match its record: {error}") from error
        if step.turn != turn:
            raise TamperError(
                f"call {number} of the transcript does not match its record: {_mismatch(step.turn, turn)}"
            )
        ending, situation = step.ending, situation.after(turn)
    expected = ending or (Ending.FAILED if situation.calls_left else Ending.BUDGET_SPENT)
    if transcript.ending is not expected:
        raise TamperError(f"the transcript's ending is {transcript.ending}, its calls lead to {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Where a continuation begins."""

    turns: tuple[Turn, ...]
    situation: Situation


def _taken_over(recorded: Transcript, prefix: tuple[Turn, ...]) -> _Start:
    situation = opened(recorded.claim, recorded.settings)
    for turn in prefix:
        situation = situation.after(turn)
    return _Start(turns=prefix, situation=situation)


def _answered(recorded: Transcript, prefix: tuple[Turn, ...], library: Library) -> _Start:
    """The prefix with its replies answered by `library`.

    Raises: InputError when they lead to an ending there, as a finish that was rejected before may.
    """
    situation, turns = opened(recorded.claim, recorded.settings), []
    for number, turn in enumerate(prefix):
        step = take(turn.reply, situation, library)
        if step.ending:
            raise InputError(f"answered by this library, call {number} of the prefix ends it; take over fewer calls")
        turns.append(step.turn)
        situation = situation.after(step.turn)
    return _Start(turns=tuple(turns), situation=situation)


def _delivered(turn: Turn) -> Library:
    """A library that holds what this turn says it delivered, and no more."""
    hits = tuple(Hit(document=entry.document, score=entry.score) for entry in turn.delivery.listed)
    listed = {e.document: Document(id=e.document, title=e.title, sentences=()) for e in turn.delivery.listed}
    return Library(results=hits, documents=listed | {document.id: document for document in turn.delivery.documents})


def _mismatch(expected: Turn, found: Turn) -> str:
    names = [name for name in ("request", "call", "delivery") if getattr(expected, name) != getattr(found, name)]
    return ", ".join(names)
