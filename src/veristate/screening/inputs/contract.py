"""The contract and the request of a run, from what will be executed."""

from veristate.core import Contract, Request, Rule, canonical_bytes, decimal_string, digest
from veristate.devices import Candidates, PredictorSpec, TrustedExecutor
from veristate.numerics import bf16_arithmetic, fp32_arithmetic


def contract_of(spec: PredictorSpec, candidates: Candidates, trusted: TrustedExecutor, temperature: float) -> Contract:
    """The reference computation: bits of a healthy run (C2) of this ensemble on the trusted device in this geometry."""
    model = {f"member_{i}": name for i, name in enumerate(trusted.weight_digests)}
    model |= {"kind": spec.kind, "output": "" if spec.output is None else str(spec.output), "factory": spec.factory}
    flush = trusted.settings["flush_denormal"] == "true"
    arithmetic = fp32_arithmetic(bias=True, flush=flush) if spec.dtype == "fp32" else bf16_arithmetic(bias=True)
    return Contract(
        kind="C2",
        candidates=candidates.digest,
        count=len(candidates.ids),
        batch=spec.batch,
        dtype=spec.dtype,
        temperature=decimal_string(temperature),
        model=model,
        arithmetic=arithmetic.describe(),
        settings=trusted.settings,
    )


def request_of(contract: Contract, rules: tuple[Rule, ...], request_id: str | None) -> Request:
    """The request; without an id of the user's its id follows from what is asked, so that asking again is the same."""
    asked = {"contract": contract.digest, "rules": list(rules)}
    name = request_id or f"request-{digest(canonical_bytes(asked))[:16]}"
    return Request(request_id=name, contract=contract.digest, rules=rules)
