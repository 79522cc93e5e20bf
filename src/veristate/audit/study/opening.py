"""From a study's specification to the bench it runs on: task, reference, captures, and who acts."""

from collections.abc import Mapping
from dataclasses import dataclass

from veristate.agents.claims import Claim, Document
from veristate.audit.endpoints import Component, list_ndcg, list_recall
from veristate.audit.endpoints.path import items
from veristate.audit.statistics import Attempt
from veristate.audit.study.benches import (
    RETRIEVED,
    ArrayBench,
    Bench,
    ClaimBench,
    MakeDecider,
    captures_of,
    reference_at,
    site_of,
)
from veristate.audit.study.spec import StudySpec
from veristate.audit.tasks import Data, load_task
from veristate.audit.tasks.scifact_text import Claim as AnnotatedClaim
from veristate.audit.tasks.scifact_text import read_scifact
from veristate.core import decimal_string

RECALL_AT = 5
_LABELS = {"SUPPORT": "SUPPORT", "CONTRADICT": "REFUTE"}


def open_bench(spec: StudySpec, data: Data, make_decider: MakeDecider) -> Bench:
    """The bench of a study; an array-only one never asks for a decider.

    Raises: InputError for what the study asks of the task in vain; EnvironmentUnusableError where data is absent.
    """
    task = load_task(spec.task, data)
    site = site_of(spec, task)
    if spec.agent.kind == "none":
        captures = captures_of(spec, task, reference_at(task, site))
        return ArrayBench.of(task, site, captures, spec.arms)
    text = read_scifact(data)
    labels = (tuple(claim.id for claim in text.claims), tuple(abstract.id for abstract in text.abstracts))
    return ClaimBench.of(
        captures=captures_of(spec, task, reference_at(task, site, labels)),
        claims=[Claim(id=claim.id, text=claim.text) for claim in text.claims],
        documents=[Document(id=one.id, title=one.title, sentences=one.sentences) for one in text.abstracts],
        chosen=spec.claims,
        agent=spec.agent,
        arms=spec.arms,
        selection=spec.selection,
        make_decider=make_decider,
        evaluate=Evaluator(claims={claim.id: claim for claim in text.claims}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """What annotations say of an attempt; no agent sees any of it."""

    claims: Mapping[str, AnnotatedClaim]

    def __call__(self, attempt: Attempt) -> tuple[tuple[str, str], ...]:
        """Whether the verdict is the annotated one, whether an annotated sentence is cited, and how good the retrieval
        was; nothing for an attempt without a verdict.

        Source: BioAgent-DF F.1 (labels remain evaluator-only), H.10, H.12.
        """
        path = attempt.path
        if path is None or path.verdict is None:
            return ()
        claim = self.claims[attempt.task]
        labels = {_LABELS[one.label] for one in claim.evidence} or {"NOT_ENOUGH_INFO"}
        annotated = {f"{one.document}/{sentence}" for one in claim.evidence for sentence in one.sentences}
        gains = dict.fromkeys(claim.relevant, 1.0)
        return (
            ("verdict as annotated", str(int(path.verdict in labels))),
            ("cites an annotated sentence", str(int(bool(annotated & set(items(path, Component.CITED)))))),
            (f"Recall@{RECALL_AT}", decimal_string(list_recall(path.retrieved, gains, RECALL_AT))),
            (f"nDCG@{RETRIEVED}", decimal_string(list_ndcg(path.retrieved, gains, RETRIEVED))),
        )
