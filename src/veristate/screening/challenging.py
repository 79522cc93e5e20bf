"""A screening as a step that anyone may challenge: the commitment to it, and running it again from that alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from veristate.attest import EXACT, Recorder
from veristate.core import (
    Certificate,
    Clock,
    Contract,
    Decision,
    InputError,
    Request,
    UndecidedError,
    canonical_bytes,
    plain,
)
from veristate.decisions import Certified, Current, Question, equal_inputs
from veristate.decisions.enclosures import Wanted
from veristate.devices import (
    Candidates,
    PredictorSpec,
    TrustedExecutor,
    require_probabilities,
)
from veristate.devices.trusted import no_export
from veristate.screening.cases import herg
from veristate.screening.inputs.prepare import Prepared
from veristate.screening.scoretable import ScoreTable

STAGE = "veristate.screening"


def commit_to_screening(
    folder: Path,
    prepared: Prepared,
    *,
    trusted_device: str,
    contract: Contract,
    request: Request,
    certificate: Certificate,
    table: bytes,
    clock: Clock,
) -> str:
    """The digest of the payload that commits to a certified screening, in the folder's outbox when this returns.

    A request is committed to once, under its own id; asked again, also after a crash, it is the same commitment.
    Under C2 the table is what reruns are compared with, bit for bit, in the environment that the contract names. Under
    C1 the decisions are: intervals depend on the probes that were drawn, exact arithmetic has one decision.
    """
    with Recorder.open(folder, clock=clock) as recorder:
        known = recorder.committed(request.request_id)
        if known:
            return known
        spec = prepared.trusted_spec(trusted_device)
        decided = {"decisions": _decided(certificate.decisions)} if contract.kind == "C1" else {}
        candidates = {"ids": list(prepared.candidates.ids), "inputs": list(prepared.candidates.inputs)}
        made = recorder.commit_to(
            STAGE,
            inputs={
                "candidates": canonical_bytes(candidates),
                # Paths say where a checkpoint lies here; its digest says which one it is everywhere.
                "predictor": canonical_bytes(spec.to_json()),
                "contract": contract.to_bytes(),
                "request": request.to_bytes(),
            },
            outputs={"table": table, "certificate": certificate.to_bytes()} | decided,
            context={"executor": certificate.evidence.get("executor", "").encode()},
            policy=replace(
                EXACT,
                metric_parameters={"output": "decisions" if decided else "table"},
                environment=dict(contract.settings),
            ),
            execution=request.request_id,
        )
        return made.item.payload


def rerun(inputs: Mapping[str, bytes], _seed: bytes) -> bytes:
    """What a committed screening is compared by, computed anew by a trusted executor: under C2 and C3 the score
    table, every member over every batch; under C1 the decisions, from enclosures of every exact value.

    Nothing is random in it, so the seed is not used. Raises: InputError when the predictor can't be loaded here, or has
    other weights than were committed to.
    """
    content = json.loads(inputs["candidates"])
    candidates = Candidates(ids=tuple(content["ids"]), inputs=tuple(content["inputs"]))
    spec = _spec(inputs)
    contract = Contract.from_bytes(inputs["contract"])
    if contract.kind == "C1":
        return _exact_decisions(spec, candidates, Request.from_bytes(inputs["request"]), float(contract.temperature))
    if contract.kind == "C3":
        return _rounded_table(spec, candidates, Request.from_bytes(inputs["request"]), float(contract.temperature))
    batches = spec.batches(len(candidates.ids))
    with TrustedExecutor(spec, candidates) as trusted:
        members = len(trusted.weight_digests)
        groups = [(member, batch) for member in range(members) for batch in range(len(batches))]
        done = trusted.recompute(groups)
    scores = np.stack(
        [np.concatenate([done[member, batch] for batch in range(len(batches))]) for member in range(members)]
    )
    require_probabilities(scores, candidates.ids)
    return ScoreTable.of(candidates.ids, scores, float(contract.temperature)).to_csv()


def _exact_decisions(spec: PredictorSpec, candidates: Candidates, request: Request, temperature: float) -> bytes:
    """The decisions of the exact scores. Raises: UndecidedError where FP64 can't tell two of them apart."""
    classes = equal_inputs(candidates.inputs)
    question = Question(rules=request.rules, ids=candidates.ids, temperature=temperature, classes=classes)
    wanted = Wanted(kind="C1", values=True)
    with TrustedExecutor(spec, candidates) as trusted:
        if not trusted.plan(wanted).followed:
            raise InputError("exact arithmetic of these models can't be followed here, so nothing can be compared")
        box = trusted.certify(question, wanted, no_export).box
    current = Current.of(replace(question, enclosures=box), np.zeros((len(spec.members), len(candidates.ids))))
    found = tuple(result.decision for result in current.results if isinstance(result, Certified))
    if len(found) < len(request.rules):
        raise UndecidedError(
            "two exact scores lie closer together than FP64 tells apart: no rerun decides between them"
        )
    return _decided(found)


def _rounded_table(spec: PredictorSpec, candidates: Candidates, request: Request, temperature: float) -> bytes:
    """The table of values whose layers are rounded correctly: the same on every machine."""
    question = Question(rules=request.rules, ids=candidates.ids, temperature=temperature)
    wanted = Wanted(kind="C3", strategy="memo")
    with TrustedExecutor(spec, candidates) as trusted:
        if not trusted.plan(wanted).followed:
            raise InputError("layers of these models can't be followed here, so nothing can be compared")
        values = trusted.certify(question, wanted, no_export).values
    if values is None:
        raise UndecidedError("the trusted process gave no values to compare")
    require_probabilities(values, candidates.ids)
    return ScoreTable.of(candidates.ids, values, temperature).to_csv()


def _decided(decisions: Sequence[Decision]) -> bytes:
    return canonical_bytes([plain(decision) for decision in decisions])


def environment(inputs: Mapping[str, bytes]) -> dict[str, str]:
    """The settings a rerun would have on this machine, by the names that a contract gives them.

    A trusted process is asked: its threads and libraries are its own, whatever this process was started with.
    """
    content = json.loads(inputs["candidates"])
    one = Candidates(ids=tuple(content["ids"][:1]), inputs=tuple(content["inputs"][:1]))
    with TrustedExecutor(_spec(inputs), one) as trusted:
        return trusted.settings


def _spec(inputs: Mapping[str, bytes]) -> PredictorSpec:
    """The predictor as it lies here: the built-in members are known by their digests, wherever pip put them."""
    spec = PredictorSpec.from_json(json.loads(inputs["predictor"]))
    if spec.digests == herg.MEMBER_DIGESTS:
        return replace(spec, members=tuple(map(str, herg.herg_files().members)))
    return spec
