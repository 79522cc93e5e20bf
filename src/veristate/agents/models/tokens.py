"""Replies token by token: as they were sampled, and how likely the model finds each token of a given one."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from veristate.core import EnvironmentUnusableError, InputError, canonical_bytes

_CUT_UPPER = 4  # bytes: what is shown of a character that was cut off, of which no token is told
LIKELY = 60  # tokens whose probabilities are asked for: half as many again as llama.cpp's top_k leaves
UNTOLD_UPPER = 3  # tokens of a split character: of its up to four the runtime tells the last
SPLIT_UPPER = 3  # characters of a reply that may be split: of their first tokens the runtime tells nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A reply as it was sampled: its tokens by number, the bytes of each, and whether the model ended it by itself.

    The runtime tells of no token that ends within a character: the one that completes it stands for all of them.
    """

    tokens: tuple[int, ...]
    pieces: tuple[bytes, ...]
    ended: bool

    @property
    def text(self) -> str:
        """What the tokens say."""
        return b"".join(self.pieces).decode("utf-8", "replace")

    def to_bytes(self) -> bytes:
        """The reply as a committed output has it, canonical JSON: its text for who reads it, pieces in hexadecimal."""
        said = {"text": self.text, "tokens": list(self.tokens), "ended": self.ended}
        return canonical_bytes(said | {"pieces": [piece.hex() for piece in self.pieces]})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The reply in such an output. Raises: InputError when it is none or its text is not what its tokens say."""
        try:
            said = json.loads(data)
            pieces = tuple(bytes.fromhex(piece) for piece in said["pieces"])
            found = cls(tokens=tuple(said["tokens"]), pieces=pieces, ended=said["ended"])
            if not all(type(number) is int for number in found.tokens) or len(found.tokens) != len(pieces):
                raise ValueError("a piece for each token, which is a number")
            if type(found.ended) is not bool:
                raise ValueError("whether it ended is true or false")
            if found.to_bytes() != data:  # canonical: whoever reads the text reads what is judged
                raise ValueError("its text is not what its tokens say, or it is not canonical JSON")
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, InputError) as error:
            raise InputError(f"not a reply in tokens: {error!r}") from error
        return found

    @property
    def doubtful(self) -> dict[int, bytes]:
        """The tokens, by number, that may stand for several: one character of several bytes, after a blank or not."""
        parts = zip(self.tokens, self.pieces, strict=True)
        return {number: piece for number, piece in parts if not piece.isascii() and _characters(piece) == 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChoice:
    """One place of a reply: the log-probabilities of the likeliest tokens there, descending, which of them was chosen
    (None: none of these), and the bytes that it stands for; none for the end.
    """

    likely: tuple[float, ...]
    place: int | None
    piece: bytes


def sampled_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request whose completion also names its tokens."""
    return {**body, "logprobs": True, "top_logprobs": 1}


def sampled_of(completion: Any) -> Sampled:
    """The reply that such a completion holds. Raises: EnvironmentUnusableError when it names no tokens."""
    try:
        choice = completion["choices"][0]
        rows = [(int(row["id"]), bytes(row["bytes"])) for row in choice["logprobs"]["content"]]
        said = (choice["message"].get("content") or "").encode()
        ended = choice["finish_reason"] == "stop"
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        what = str(completion)[:300]
        raise EnvironmentUnusableError(f"the completion names no tokens ({error!r}): {what}") from error
    tokens, pieces, at = [], [], 0
    for number, piece in rows:
        if not piece:
            continue  # the end is a token without bytes
        whole = piece if said.startswith(piece, at) else _next_character(said[at:])
        tokens.append(number)
        pieces.append(whole)
        at += len(whole)
    if b"" in pieces or len(said) - at > _CUT_UPPER:
        raise EnvironmentUnusableError(f"the completion's tokens are not its text: {str(completion)[:300]}")
    return Sampled(tokens=tuple(tokens), pieces=tuple(pieces), ended=ended)


def _next_character(said: bytes) -> bytes:
    """The first character, with the blank before it: of a split one the runtime may tell the last bytes alone."""
    text = said.decode("utf-8", "replace")
    return text[: 2 if text.startswith(" ") else 1].encode()


def weighing_body(body: Mapping[str, Any], reply: Sampled, by_text: Collection[int] = ()) -> dict[str, Any]:
    """The request that can only be answered with this reply, and tells how likely each token was.

    Tokens are forced by number, which the runtime does not take for parts of a character: those of `by_text` are forced
    as the text that they complete. Probabilities are the model's own, before any sampling rule and before the grammar.
    Raises: InputError when the reply is no text.
    """
    spelt, most = [], len(reply.tokens) + reply.ended
    for number, piece in zip(reply.tokens, reply.pieces, strict=True):
        try:
            text = piece.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"the reply is no text: {error}") from error
        if number in by_text:
            spelt.append(json.dumps(text, ensure_ascii=False))
            most += len(piece)
        else:
            spelt.append(f"<[{number}]>")
    forced = "root ::= " + (" ".join(spelt) or '""')
    asked = {"grammar": forced, "temperature": 0.0, "logprobs": True, "top_logprobs": LIKELY, "max_tokens": most}
    return {name: value for name, value in body.items() if name != "response_format"} | asked


def choices_of(completion: Any, reply: Sampled, by_text: Collection[int] = ()) -> tuple[TokenChoice, ...] | None:
    """What such a completion tells of each place; None when tokens don't stand for their pieces, or the model gave the
    same text in other tokens. Of those that were forced as text it may tell the last bytes alone.

    Raises: EnvironmentUnusableError when it tells of no tokens.
    """
    try:
        rows = completion["choices"][0]["logprobs"]["content"]
        found = [(int(row["id"]), _choice(row)) for row in rows]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = str(completion)[:300]
        raise EnvironmentUnusableError(f"the completion weighs no tokens ({error!r}): {what}") from error
    held = len(reply.tokens)
    given = [number for number, _ in found[:held]]
    pieces = zip(found, reply.pieces, strict=False)
    right = given == list(reply.tokens) and len(found) >= held + reply.ended
    if not right or any(choice.piece != piece and number not in by_text for (number, choice), piece in pieces):
        return None
    return tuple(choice for _, choice in found[: held + reply.ended])


def _characters(piece: bytes) -> int:
    """How many characters a piece has, blanks around them apart."""
    return len(piece.decode("utf-8", "replace").strip())


def _choice(row: Mapping[str, Any]) -> TokenChoice:
    likely = sorted(((float(other["logprob"]), int(other["id"])) for other in row["top_logprobs"]), reverse=True)
    numbers = [number for _, number in likely]
    chosen = int(row["id"])
    return TokenChoice(
        likely=tuple(value for value, _ in likely),
        place=numbers.index(chosen) if chosen in numbers else None,
        piece=bytes(row["bytes"]),
    )
