"""Asking a model within the budget: reserved before the call, settled after it, refused when it does not fit."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from veristate.core import EnvironmentUnusableError, RefusedError
from veristate.ledger import Entry
from veristate.research.running.budget import Meter
from veristate.research.running.record import CampaignRecord
from veristate.research.states import Standing
from veristate.research.workers.chat import Said, Words

_LATE_S = 0.5
_CHARACTERS_A_TOKEN = 2  # fewer than any usual tokeniser needs: a reservation is an upper estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A chat model as it is passed in. `say` puts a history with a JSON schema to it and returns within `deadline_s`.

    Prices are per million tokens, in the currency of the budget; without them money is not counted.
    """

    say: Callable[[Words, Mapping[str, Any], float], Said]
    reply_tokens: int = 2000
    deadline_s: float = 120.0
    prompt_price: Decimal = Decimal(0)
    reply_price: Decimal = Decimal(0)

    def cost(self, prompt: int, reply: int) -> Decimal:
        """What a call of so many tokens costs."""
        return (self.prompt_price * prompt + self.reply_price * reply) / 1_000_000


def metered(
    talk: Talk, record: CampaignRecord, meter: Meter, over: Callable[[], str | None]
) -> Callable[[Words, Mapping[str, Any]], Said]:
    """`talk` so that no call is made that could pass a limit, and none after the deadline.

    Raises: RefusedError naming the limit, before anything is sent.
    """

    def ask(words: Words, schema: Mapping[str, Any]) -> Said:
        if reason := over():
            raise RefusedError(reason)
        prompt = sum(len(text) for _, text in words) // _CHARACTERS_A_TOKEN + 1
        tokens, money = prompt + talk.reply_tokens, talk.cost(prompt, talk.reply_tokens)

        def unless(standing: Standing) -> str | None:
            budget = meter.budget
            if budget.tokens is not None and standing.spent_tokens() + tokens > budget.tokens:
                return f"budget: a call of up to {tokens} tokens does not fit into {budget.tokens}"
            if budget.money is not None and standing.spent_money() + money > budget.money:
                return f"budget: a call of up to {money} does not fit into {budget.money}"
            return None

        body = {"tokens": tokens, "money": str(money)}
        reserved = record.append("call.reserved", body, unless=unless)
        if not isinstance(reserved, Entry):
            raise RefusedError(reserved)
        said = _within(talk, words, schema, min(talk.deadline_s, meter.wall_left_s()))
        used_prompt = said.prompt_tokens if said.prompt_tokens is not None else prompt
        used_reply = said.reply_tokens if said.reply_tokens is not None else talk.reply_tokens
        settled = {
            "reserved": reserved.seq,
            "tokens": used_prompt + used_reply,
            "money": str(talk.cost(used_prompt, used_reply)),
        }
        record.append("call.settled", settled)
        return said

    return ask


def _within(talk: Talk, words: Words, schema: Mapping[str, Any], seconds: float) -> Said:
    """What the model said. A call that ignores its own deadline is left behind: its answer comes to nobody.

    Raises: EnvironmentUnusableError when nothing came in time, or the call failed.
    """
    answer: Future[Said] = Future()

    def call() -> None:
        try:
            answer.set_result(talk.say(words, schema, seconds))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=call, daemon=True, name="model call").start()
    try:
        return answer.result(timeout=seconds + _LATE_S)
    except TimeoutError as error:
        raise EnvironmentUnusableError(f"the model gave no answer in {seconds:.1f} s") from error
