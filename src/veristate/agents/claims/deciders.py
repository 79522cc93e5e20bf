"""Who decides: a controller without a model, by words in sentences; and a chat model under a JSON schema."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import get_args

from veristate.agents.claims.desk import Situation
from veristate.agents.claims.schema import Allowed, reply_schema
from veristate.agents.claims.transcript import Call, Cited
from veristate.agents.models import ChatModel, ChatRequest, Reply
from veristate.core import InputError, canonical_bytes, decimal_string

# Words that say nothing of what a claim is about, and words that turn a sentence round.
_COMMON = """a an and are as at be been by can for from had has have in into is it its of on or than that the their
these this those to was were which while who with"""
_NEGATIONS = "cannot fail failed fails lack lacking lacks neither never no nor not unable without"
_UP = "elevated enhance enhanced enhances high higher increase increased increases induce induces more"
_DOWN = "decrease decreased decreases fewer inhibit inhibited inhibits less low lower reduce reduced reduces suppress"
_WORD = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalController:
    """Searches, reads the first `reads` documents of the list (as many as the budget allows), and judges by one
    sentence: the delivered one that holds the most of the claim's words, the first delivered among equals.

    Less than `enough` of the words: NOT_ENOUGH_INFO without a citation. Else that sentence is cited, for REFUTE when
    exactly one of claim and sentence holds an odd number of negations, or when one speaks of more and the other of less
    (both: they cancel), and for SUPPORT otherwise.
    """

    reads: int = 3
    enough: Fraction = Fraction(1, 2)

    def __post_init__(self) -> None:
        """Raises: InputError when it would read nothing."""
        if self.reads < 1:
            raise InputError(f"the controller is to read {self.reads} documents; let it read one or more")

    @property
    def name(self) -> str:
        """Kind and settings."""
        return _name({"decider": "lexical controller", "reads": str(self.reads), "enough": str(self.enough)})

    def decide(self, situation: Situation) -> Reply:
        """The next call; a function of what was delivered alone."""
        return Reply(text=self._call(situation).text)

    def _call(self, situation: Situation) -> Call:
        if not situation.listed:
            return Call(tool="search")
        done = {document.id for document in situation.documents}
        wanted = dict.fromkeys(entry.document for entry in situation.listed)
        unread = [name for name in list(wanted)[: self.reads] if name not in done]
        if unread and situation.reads_left:
            return Call(tool="read", document=unread[0])
        return self._judged(situation)

    def _judged(self, situation: Situation) -> Call:
        claim = _words(situation.claim.text)
        about = frozenset(claim) - _listed(_COMMON)
        best, most = None, Fraction(-1)
        for document in situation.documents:
            for number, sentence in enumerate(document.sentences):
                words = _words(sentence)
                share = Fraction(len(about & frozenset(words)), max(len(about), 1))
                if share > most:
                    best, most = (Cited(document=document.id, sentences=(number,)), words), share
        if best is None or most < self.enough:
            return Call(tool="finish", verdict="NOT_ENOUGH_INFO")
        cited, words = best
        turned = (_odd(claim) != _odd(words)) != (_direction(claim) * _direction(words) < 0)
        return Call(tool="finish", verdict="REFUTE" if turned else "SUPPORT", citations=(cited,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDecider:
    """A chat model at one temperature with one seed, the same for each of an attempt's requests. `allowed` chooses the
    schema its replies must meet.
    """

    model: ChatModel
    temperature: float = 0.0
    seed: int = 0
    allowed: Allowed = "any"

    def __post_init__(self) -> None:
        """Raises: InputError for a temperature below 0 or not finite, and for an unknown `allowed`."""
        if not 0 <= self.temperature < math.inf:
            raise InputError(f"the temperature is {self.temperature}; give a number from 0")
        if self.allowed not in get_args(Allowed):
            raise InputError(f"allowed calls are {self.allowed!r}; use one of {', '.join(get_args(Allowed))}")

    @property
    def name(self) -> str:
        """The model with everything that decides its replies."""
        sampling = {"temperature": decimal_string(self.temperature), "seed": str(self.seed), "allowed": self.allowed}
        return _name({"decider": "chat model", **self.model.name, **sampling})

    def decide(self, situation: Situation) -> Reply:
        """The model's reply to the visible history. Raises: as `ChatModel.reply`."""
        request = ChatRequest(
            messages=situation.messages,
            schema=reply_schema(situation, self.allowed),
            temperature=self.temperature,
            seed=self.seed,
            max_tokens=situation.settings.reply_tokens,
        )
        return self.model.reply(request)


def _name(settings: dict[str, str]) -> str:
    return canonical_bytes(settings).decode()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@cache
def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _odd(words: list[str]) -> bool:
    return sum(word in _listed(_NEGATIONS) for word in words) % 2 == 1


def _direction(words: list[str]) -> int:
    """1 for words of more alone, -1 for words of less alone, else 0."""
    return bool(_listed(_UP) & set(words)) - bool(_listed(_DOWN) & set(words))
