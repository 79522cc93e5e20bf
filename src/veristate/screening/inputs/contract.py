"""The contract and the request of a run, from what will be executed."""

from collections.abc import Mapping

from veristate.core import Contract, Request, Rule, canonical_bytes, decimal_string, digest
from veristate.core.records import ContractKind
from veristate.devices import Candidates, PredictorSpec, TrustedExecutor
from veristate.numerics import bf16_arithmetic, fp32_arithmetic


def contract_of(
    kind: ContractKind,
    spec: PredictorSpec,
    candidates: Candidates,
    trusted: TrustedExecutor,
    libraries: Mapping[str, str],
    temperature: float,
) -> Contract:
    """The reference computation of this ensemble. C2: the bits of a healthy run on the trusted device in this geometry.
    C1: real numbers; C3: the same with every layer rounded once, correctly. No device is part of either, only the
    `libraries` that turn a candidate into a graph.
    """
    model = {f"member_{i}": name for i, name in enumerate(trusted.weight_digests)}
    model |= {"kind": spec.kind, "output": "" if spec.output is None else str(spec.output), "factory": spec.factory}
    flush = trusted.settings["flush_denormal"] == "true"
    declared = fp32_arithmetic(bias=True, flush=flush) if spec.dtype == "fp32" else bf16_arithmetic(bias=True)
    apart = {
        "C1": {"format": "real numbers", "weights": "as they are in the checkpoints"},
        "C3": {"format": spec.dtype, "rounding": "to nearest, ties to even: operands, each layer, each sum once"},
    }
    return Contract(
        kind=kind,
        candidates=candidates.digest,
        count=len(candidates.ids),
        batch=spec.batch,
        dtype=spec.dtype,
        temperature=decimal_string(temperature),
        model=model,
        arithmetic=apart.get(kind) or declared.describe(),
        settings=dict(libraries) if kind in apart else trusted.settings,
    )


def request_of(contract: Contract, rules: tuple[Rule, ...], request_id: str | None) -> Request:
    """The request; without an id of the user's its id follows from what is asked, so that asking again is the same."""
    asked = {"contract": contract.digest, "rules": list(rules)}
    name = request_id or f"request-{digest(canonical_bytes(asked))[:16]}"
    return Request(request_id=name, contract=contract.digest, rules=rules)
