"""One attempt at a claim, from the opening to the ending."""

from dataclasses import dataclass

from veristate.agents.claims.calls import NoJsonError, RejectedError, read_call
from veristate.agents.claims.desk import Decider, Library, Situation, answer, opened, rejected
from veristate.agents.claims.settings import ClaimSettings
from veristate.agents.claims.transcript import Claim, Delivery, Ending, Origin, Transcript, Turn, request_digest
from veristate.agents.models import Reply
from veristate.core import EnvironmentUnusableError

DEFAULTS = ClaimSettings()


def attempt_claim(claim: Claim, library: Library, decider: Decider, settings: ClaimSettings = DEFAULTS) -> Transcript:
    """The transcript of one attempt, whatever became of it.

    Raises: InputError for a library that lacks a document of its own list, and what the decider raises other than
    EnvironmentUnusableError.
    """
    return go_on(opened(claim, settings), (), library, decider)


def go_on(
    situation: Situation,
    turns: tuple[Turn, ...],
    library: Library,
    decider: Decider,
    origin: tuple[Origin, ...] = (),
) -> Transcript:
    """The transcript of an attempt that has come to `situation` by `turns`, and is decided and delivered to its end."""
    for hit in library.results:
        library.document(hit.document)
    made = list(turns)
    ending, reason = Ending.BUDGET_SPENT, f"all {situation.settings.calls} calls were made without an accepted finish"
    while situation.calls_left:
        try:
            reply = decider.decide(situation)
        except EnvironmentUnusableError as error:
            ending, reason = Ending.FAILED, str(error)
            break
        step = take(reply, situation, library)
        made.append(step.turn)
        if step.ending:
            ending, reason = step.ending, step.reason
            break
        situation = situation.after(step.turn)
    return Transcript(
        claim=situation.claim,
        settings=situation.settings,
        decider=decider.name,
        opening=opened(situation.claim, situation.settings).messages,
        turns=tuple(made),
        ending=ending,
        reason=reason,
        origin=origin,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A turn, and the ending it brings; None when the attempt goes on."""

    turn: Turn
    ending: Ending | None = None
    reason: str = ""


def take(reply: Reply, situation: Situation, library: Library) -> Step:
    """What a reply leads to. Raises: InputError for a library that lacks a document of its own list."""
    request = request_digest(situation.messages)
    limit = situation.settings.reply_tokens
    try:
        if (reply.reply_tokens or 0) > limit:
            raise NoJsonError(f"the reply has {reply.reply_tokens} tokens, more than the limit of {limit}")
        call = read_call(reply.text)
    except NoJsonError as error:
        cut = f" (it stopped at the limit of {limit} tokens)" if reply.stopped == "length" else ""
        reason = f"{error}{cut}"
        turn = Turn(request=request, reply=reply, call=(), delivery=Delivery(text="", rejection=reason))
        return Step(turn=turn, ending=Ending.INVALID, reason=reason)
    except RejectedError as error:
        delivery = rejected(str(error), error.tool, situation)
        return Step(turn=Turn(request=request, reply=reply, call=(), delivery=delivery))
    turn = Turn(request=request, reply=reply, call=(call,), delivery=answer(call, situation, library))
    return Step(turn=turn, ending=Ending.FINISHED if turn.accepted and call.tool == "finish" else None)
