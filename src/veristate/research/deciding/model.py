"""A language model as decider: one question, one answer in a fixed form, no tools. What it says is checked."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from veristate.core import InputError, VeristateError
from veristate.research.deciding.decision import LIVE, ReAnchoring
from veristate.research.deciding.evidence import Evidence, peer_text
from veristate.research.deciding.policy import decide
from veristate.research.states import Place

Ask = Callable[[str, Mapping[str, Any]], str]
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["restart", "direction", "bottleneck", "evidence", "rationale", "focus", "imports"],
    "properties": {
        "restart": {"type": "string"},
        "direction": {"enum": ["extend", "redirect"]},
        "bottleneck": {"type": "string"},
        "evidence": {"type": "array", "items": {"type": "string"}},
        "rationale": {"type": "string"},
        "focus": {"type": "string"},
        "imports": {"type": "array", "items": {"type": "string"}},
    },
}
_TEXT_UPPER = 2000


def model_decides(evidence: Evidence, ask: Ask, memory: str) -> ReAnchoring:
    """The model's decision; the policy's, with the reason, when it gives none that can be carried out.

    `ask` puts one prompt with a JSON schema to the model and may raise any error of ours.
    """
    try:
        return _read(ask(_prompt(evidence, memory), SCHEMA), evidence)
    except VeristateError as error:
        return decide(evidence, failure=str(error))


def _prompt(evidence: Evidence, memory: str) -> str:
    states = ", ".join([LIVE, str(Place(worker=evidence.worker, stage=0)), *(c.place for c in evidence.counting[:40])])
    return "\n\n".join(
        [
            f"You steer worker {evidence.worker}, which seeks to {evidence.objective.direction} "
            f"{evidence.objective.metric}. Its segment has ended. Choose where the next one starts and whether it "
            "extends what was done or redirects it. Archived states are restored exactly. Answer with one JSON object.",
            f"restart: one of {states}. live is the workspace as it is, grown from {evidence.live}.",
            "imports: files of other archived states to bring in, as place:path; usually none.",
            f"Of the scarcest budget {evidence.remaining / 10:.1f} % is left.",
            "Segments: "
            + "; ".join(
                f"{s.number} from {s.restart} ({s.direction}): {s.stages} results, best {s.best_before} -> "
                f"{s.best_after}, ended by {s.reason}"
                for s in evidence.stretches[-12:]
            ),
            f"Peers:\n{peer_text(evidence.peers) or 'none'}",
            f"Results:\n{memory}",
        ]
    )


def _read(answer: str, evidence: Evidence) -> ReAnchoring:
    try:
        content = json.loads(answer)
        texts = {key: str(content[key])[:_TEXT_UPPER] for key in ("restart", "bottleneck", "rationale", "focus")}
        decision = ReAnchoring(
            direction=content["direction"],
            evidence=tuple(str(item)[:_TEXT_UPPER] for item in content["evidence"][:10]),
            imports=tuple(str(item) for item in content["imports"][:10]),
            decider="model",
            **texts,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"the model's decision can't be read: {error!r}") from error
    if decision.direction not in ("extend", "redirect"):
        raise InputError(f"the model chose the direction {decision.direction!r}")
    start = str(Place(worker=evidence.worker, stage=0))
    if decision.restart not in {LIVE, start, *(card.place for card in evidence.counting)}:
        raise InputError(f"the model chose the restart state {decision.restart!r}, which is none")
    return decision
