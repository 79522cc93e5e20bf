"""What a chat model is to this room: a visible history in, one reply out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from veristate.agents.state import Message
from veristate.core import EnvironmentUnusableError, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request: the whole visible history, a JSON schema that the reply must meet (None: any text), and how to
    sample it.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 384


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Record):
    """What was answered: its text, why it stopped ("stop", "length", ...), tokens where they were counted, and how
    many times it was asked for until it came.
    """

    FORMAT: ClassVar[str] = "veristate.reply/1"
    text: str
    stopped: str = "stop"
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    attempts: int = 1


class ChatModel(Protocol):
    """A model that answers a history."""

    @property
    def name(self) -> Mapping[str, str]:
        """What records say of it: everything that decides its replies but the request."""
        ...

    def reply(self, request: ChatRequest) -> Reply:
        """The reply. Raises: EnvironmentUnusableError when none came; InputError when none can come as it is set up."""
        ...


def request_body(request: ChatRequest) -> dict[str, Any]:
    """The request as the chat completions interface spells it.

    What a tool delivered goes under the role "user": the role "tool" is tied to function calls there, which small
    models' templates don't know.
    """
    said = {"name": "reply", "strict": True, "schema": request.schema}
    shape = {} if request.schema is None else {"response_format": {"type": "json_schema", "json_schema": said}}
    return {
        "messages": [
            {"role": "user" if message.role == "tool" else message.role, "content": message.content}
            for message in request.messages
        ],
        **shape,
        "temperature": request.temperature,
        "seed": request.seed,
        "max_tokens": request.max_tokens,
    }


def completion_reply(content: Any, *, attempts: int = 1) -> Reply:
    """The reply that a completion holds. No text, as after a refusal, is an empty one.

    Raises: EnvironmentUnusableError for what is no completion.
    """
    try:
        choice, usage = content["choices"][0], content.get("usage") or {}
        text = choice["message"].get("content") or ""
        counts = [usage.get(key) for key in ("prompt_tokens", "completion_tokens")]
        if not isinstance(text, str) or any(type(count) not in (int, type(None)) for count in counts):
            raise TypeError("a field has another type")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        start = json.dumps(content)[:300]
        raise EnvironmentUnusableError(f"the answer is no chat completion ({error!r}): {start}") from error
    return Reply(
        text=text.encode("utf-8", "backslashreplace").decode(),  # a lone surrogate as the escape it came from
        stopped=str(choice.get("finish_reason") or ""),
        prompt_tokens=counts[0],
        reply_tokens=counts[1],
        attempts=attempts,
    )
