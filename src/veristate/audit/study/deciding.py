"""Who acts in a study: made once, and asked for a decider for each temperature and request seed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from veristate.agents.claims import ChatDecider, Decider, LexicalController
from veristate.agents.models import ChatModel, Endpoint, LocalModel
from veristate.audit.study.benches import MakeDecider
from veristate.audit.study.spec import AgentSpec
from veristate.core import InputError


@contextmanager
def deciders(agent: AgentSpec) -> Iterator[MakeDecider]:
    """What makes deciders; a local model's process ends with the block.

    Raises: EnvironmentUnusableError where the local model or its runtime is missing; InputError where there is none.
    """
    with ExitStack() as stack:
        if agent.kind == "none":
            yield _nobody
        elif agent.kind == "controller":
            yield lambda temperature, seed: LexicalController()
        else:
            model: ChatModel = (
                stack.enter_context(LocalModel(keep_prefix=agent.keep_prefix))
                if agent.kind == "local"
                else Endpoint(base_url=agent.url, model=agent.model, key_variable=agent.key_variable)
            )
            yield lambda temperature, seed: ChatDecider(
                model=model, temperature=temperature, seed=seed, allowed=agent.allowed
            )


def _nobody(temperature: float, seed: int) -> Decider:
    raise InputError("an array-only study has no agent")
