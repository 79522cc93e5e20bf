"""A study of an agent that checks claims: each attempt reads a saved row of scores under one condition."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.agents.claims import (
    Claim,
    ClaimSettings,
    Decider,
    Document,
    Ending,
    Hit,
    Library,
    Transcript,
    attempt_claim,
)
from veristate.audit.design import (
    SELECTIVE,
    Condition,
    PlannedGroup,
    Replacement,
    Treatment,
    schedule,
    treat,
)
from veristate.audit.endpoints import Citation, Comparison, Component, Endpoint, Exchange, Path, Ranking
from veristate.audit.statistics import Attempt, Outcome
from veristate.audit.study.benches.capturing import StudyCapture
from veristate.audit.study.benches.choosing import RETRIEVED, groups_of, selection_of
from veristate.audit.study.benches.executions import Done, Execution
from veristate.audit.study.spec import AgentSpec, ArmSpec, ClaimsSpec, SelectionKind
from veristate.core import InputError, canonical_bytes, digest
from veristate.numerics import array_bytes, storage_bits

_OUTCOMES = {
    Ending.FINISHED: Outcome.COMPLETED,
    Ending.BUDGET_SPENT: Outcome.INCOMPLETE,
    Ending.FAILED: Outcome.INCOMPLETE,
    Ending.INVALID: Outcome.INVALID,
}

# The decider of an arm's temperature and of one request seed.
MakeDecider = Callable[[float, int], Decider]
# What an evaluator says of an attempt: name and decimal string.
Evaluate = Callable[[Attempt], tuple[tuple[str, str], ...]]
ENDPOINTS_COMPARED = tuple(
    Endpoint(component=component, comparison=comparison)
    for component, comparison in (
        (Component.RETRIEVED, Comparison.MEMBERSHIP),
        (Component.RETRIEVED, Comparison.ORDER),
        (Component.READ, Comparison.MEMBERSHIP),
        (Component.READ, Comparison.ORDER),
        (Component.CITED, Comparison.MEMBERSHIP),
        (Component.ACTIONS, Comparison.SEQUENCE),
        (Component.VERDICT, Comparison.MEMBERSHIP),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a search delivers under one condition, the digests of the rows it came from, and what was replaced."""

    results: tuple[Hit, ...]
    rows: tuple[str, str]
    replacement: Replacement | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimBench:
    """Claims over the rows of the captures' arrays, documents over their columns; made by `of`."""

    captures: tuple[StudyCapture, ...]
    claims: Mapping[str, Claim]
    documents: Mapping[str, Document]
    documents_digest: str
    groups: tuple[PlannedGroup, ...]
    shown: Mapping[tuple[str, str, Condition], Shown]
    agent: AgentSpec
    arms: Mapping[str, ArmSpec]
    make_decider: MakeDecider
    evaluate: Evaluate

    @classmethod
    def of(
        cls,
        *,
        captures: Sequence[StudyCapture],
        claims: Sequence[Claim],
        documents: Sequence[Document],
        chosen: ClaimsSpec,
        agent: AgentSpec,
        arms: Sequence[ArmSpec],
        selection: SelectionKind,
        make_decider: MakeDecider,
        evaluate: Evaluate = lambda attempt: (),
    ) -> "ClaimBench":
        """The bench; every condition of every group is built here, and what a search will deliver read off it.

        Raises: InputError for claims that aren't there, a capture whose values are not finite in a row that is shown,
        and a treatment that is not exact.
        """
        known = {claim.id: claim for claim in claims}
        rows = {claim.id: row for row, claim in enumerate(claims)}
        ranking = Ranking([document.id for document in documents])
        wanted = tuple(dict.fromkeys(condition for arm in arms for condition in arm.conditions))
        confirmed = [one for one in captures if one.role == "confirmation"]
        groups = [group for one in confirmed for group in groups_of(one, chosen, rows, wanted)]
        if not groups:
            raise InputError("no claim is chosen: none changes its list under any capture; choose claims by name")
        shown: dict[tuple[str, str, Condition], Shown] = {}
        for one in confirmed:
            mine = [group.task for group in groups if group.capture == one.name]
            picked = selection_of(one, captures, selection, [rows[claim] for claim in mine], wanted)
            for condition in wanted:
                treatment = treat(one.capture, condition, picked if condition in SELECTIVE else None)
                for claim in mine:
                    shown[one.name, claim, condition] = _shown(one, treatment, rows[claim], ranking)
        return cls(
            captures=tuple(captures),
            claims=known,
            documents={document.id: document for document in documents},
            documents_digest=digest(canonical_bytes([document.digest for document in documents])),
            groups=tuple(groups),
            shown=shown,
            agent=agent,
            arms={arm.name: arm for arm in arms},
            make_decider=make_decider,
            evaluate=evaluate,
        )

    def executions(self, arm: ArmSpec) -> Iterator[Execution]:
        """One for each attempt: repeat by repeat, group by group, each group interleaved."""
        environments = {one.name: one.environment for one in self.captures}
        groups = [
            PlannedGroup(capture=group.capture, task=group.task, role=group.role, conditions=arm.conditions)
            for group in self.groups
        ]
        for planned in schedule(groups, [str(repeat) for repeat in arm.repeats]):
            yield Execution(
                key=self._key(arm, planned.group, planned.repeat, planned.condition),
                arm=arm.name,
                environment=environments[planned.group.capture],
                role=planned.group.role,
                capture=planned.group.capture,
                task=planned.group.task,
                repeat=planned.repeat,
                condition=planned.condition,
            )

    def run(self, execution: Execution) -> Done:
        """One attempt at a claim."""
        arm = self.arms[execution.arm]
        shown = self.shown[execution.capture, execution.task, execution.condition]
        seed = request_seed(arm, execution.capture, execution.task, execution.repeat, execution.condition)
        transcript = attempt_claim(
            self.claims[execution.task],
            Library(results=shown.results, documents=self.documents),
            self.make_decider(arm.temperature, seed),
            self.settings(arm),
        )
        attempt = attempt_of(transcript, execution)
        return Done(
            attempts=(attempt,),
            replacement=shown.replacement,
            transcript=transcript.to_bytes(),
            rejected=transcript.rejected,
            reply_tokens=transcript.reply_tokens,
            exchanges=exchanges_of(transcript),
            metrics=self.evaluate(attempt),
        )

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Reads and citations by membership are the primary ones."""
        return ENDPOINTS_COMPARED

    def titles(self) -> dict[str, str]:
        """The documents' titles."""
        return {name: document.title for name, document in self.documents.items()}

    def settings(self, arm: ArmSpec) -> ClaimSettings:
        """What the protocol allows under an arm."""
        return ClaimSettings(
            calls=self.agent.calls,
            reads=self.agent.reads,
            reply_tokens=self.agent.reply_tokens,
            masking=arm.masking,
            prompt=arm.prompt,
        )

    def _key(self, arm: ArmSpec, group: PlannedGroup, repeat: str, condition: Condition) -> str:
        shown = self.shown[group.capture, group.task, condition]
        seed = request_seed(arm, group.capture, group.task, repeat, condition)
        return digest(
            canonical_bytes(
                {
                    "format": "veristate.claim-execution/1",
                    "claim": self.claims[group.task].digest,
                    "documents": self.documents_digest,
                    "results": [[hit.document, hit.score] for hit in shown.results],
                    "rows": shown.rows,
                    "decider": self.make_decider(arm.temperature, seed).name,
                    "settings": self.settings(arm).digest,
                    "seed": seed,
                    "place": [arm.name, group.capture, group.task, repeat, condition],
                    "role": group.role,
                }
            )
        )


def attempt_of(transcript: Transcript, execution: Execution) -> Attempt:
    """The attempt that a transcript is: what it read, cited, did and concluded, and how it ended."""
    return Attempt(
        capture=execution.capture,
        task=execution.task,
        repeat=execution.repeat,
        condition=execution.condition.value,
        outcome=_OUTCOMES[transcript.ending],
        exposed=transcript.exposed,
        path=Path(
            retrieved=transcript.retrieved,
            read=transcript.read,
            cited=tuple(Citation(document=c.document, sentences=c.sentences) for c in transcript.cited if c.sentences),
            actions=transcript.actions,
            verdict=transcript.verdict,
        ),
        reason="" if transcript.ending is Ending.FINISHED else f"{transcript.ending}: {transcript.reason}",
    )


def exchanges_of(transcript: Transcript) -> tuple[Exchange, ...]:
    """Its exchanges: the digests of the whole visible history and of the reply to it."""
    return tuple(Exchange(request=turn.request, response=digest(turn.reply.text.encode())) for turn in transcript.turns)


def request_seed(arm: ArmSpec, capture: str, task: str, repeat: str, condition: Condition) -> int:
    """The seed that an attempt's requests carry: the repeat's where nothing is sampled or draws are shared, else one
    of its own, so that H2 differs from H1 by as much chance as C does.
    """
    if not arm.temperature or arm.draws == "shared":
        return int(repeat)
    return int(digest(canonical_bytes([capture, task, repeat, condition.value]))[:7], 16)


def _shown(one: StudyCapture, treatment: Treatment, row: int, ranking: Ranking) -> Shown:
    state, shown = treatment.state[row], treatment.shown[row]
    best = ranking.top(state, RETRIEVED)
    made = treatment.intervention
    replacement = None
    if made is not None:
        replacement = Replacement(
            selected=int(made.selection.mask[row].sum()),
            effective=int(made.effective.mask[row].sum()),
            differing=int(one.capture.differing[row].sum()),
        )
    return Shown(
        results=tuple(
            Hit(document=name, score=score_text(shown[column]))
            for name, column in zip(ranking.names(best), best.tolist(), strict=True)
        ),
        rows=(_bits(one, state), _bits(one, shown)),
        replacement=replacement,
    )


def score_text(score: np.floating) -> str:
    """A score as the agent sees it: the fewest digits that read back as this value."""
    return np.format_float_positional(score, unique=True, trim="0")


def _bits(one: StudyCapture, row: NDArray[np.floating]) -> str:
    return digest(array_bytes(storage_bits(row, one.capture.representation)))
