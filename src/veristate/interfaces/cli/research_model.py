"""A chat endpoint as the research engine is given it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from veristate.agents import Message
from veristate.agents.models import ChatRequest, Endpoint
from veristate.research import Said, Talk

REPLY_TOKENS = 4000


def endpoint_talk(address: str, model: str, key_variable: str, prices: tuple[Decimal, Decimal]) -> Talk:
    """The model at the address. Its key stays in this process's environment; no worker gets it."""

    def say(words: tuple[tuple[str, str], ...], schema: Mapping[str, Any], seconds: float) -> Said:
        endpoint = Endpoint(base_url=address, model=model, key_variable=key_variable, deadline_s=max(seconds, 0.1))
        messages = tuple(Message(role=role, content=content) for role, content in words)  # type: ignore[arg-type]
        reply = endpoint.reply(ChatRequest(messages=messages, schema=schema, max_tokens=REPLY_TOKENS))
        return Said(text=reply.text, prompt_tokens=reply.prompt_tokens, reply_tokens=reply.reply_tokens)

    return Talk(say=say, reply_tokens=REPLY_TOKENS, prompt_price=prices[0], reply_price=prices[1])
