"""Writing what the devices found to the store and the ledger: blobs first, then the entry that names them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import canonical_bytes, plain
from veristate.devices import CheckedPass, Event, PredictorSpec, SuspectPass, summarise
from veristate.devices.trusted import Certification
from veristate.numerics import put_array
from veristate.screening.running.home import Home


def keep_unsafe(home: Home, spec: PredictorSpec) -> None:
    """Leaves an entry when checkpoints will be opened whose digests nobody gave: before they are."""
    if spec.unsafe_pickle and not spec.digests:
        home.ledger.append("unsafe.pickle", {"members": list(spec.members)})


def keep_pass(home: Home, request_id: str, done: SuspectPass, settings: Mapping[str, str]) -> None:
    """Keeps the suspect's scores and the settings it computed with."""
    scores = put_array(home.store.put, done.scores)
    home.ledger.append("pass.finished", {"request_id": request_id, "scores": plain(scores), "settings": dict(settings)})


def keep_injection(home: Home, request_id: str, description: str, events: list[Event]) -> None:
    """Keeps what a simulated fault did, so that nobody mistakes it for a finding."""
    body = {
        "request_id": request_id,
        "fault": description,
        "events": len(events),
        "elements_stored": sum(event.stored for event in events),
    }
    home.ledger.append("fault.simulated", body)


def keep_findings(home: Home, request_id: str, checked: CheckedPass) -> str:
    """The digest under which every finding is kept, with the flagged rows' operands and the entropy of the signs."""
    evidence = [
        {
            "finding": item.finding,
            "name": item.name,
            "rows": list(item.rows),
            "dtype": item.dtype,
            "shape": list(item.shape),
            "blob": home.store.put(item.data),
        }
        for item in checked.evidence
    ]
    content = {
        "format": "veristate.findings/1",
        "checked_on": checked.findings.checked_on,
        "block": checked.findings.granularity.block,
        "draws": checked.findings.granularity.draws,
        "entropy": checked.entropy,
        "calls": [call.to_json() for call in checked.findings.calls],
        "evidence": evidence,
    }
    blob = home.store.put(canonical_bytes(content))
    body: dict[str, Any] = {"request_id": request_id, "findings": blob, "verdict": checked.findings.verdict().value}
    home.ledger.append("pass.checked", body | {"counts": summarise(checked.findings.calls)})
    return blob


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCertification:
    """The digests under which the enclosures [m, n] and the probes' records are kept."""

    lower: str
    upper: str
    probes: str


def keep_certification(home: Home, request_id: str, contract: str, told: Certification) -> KeptCertification:
    """Keeps what was proven and, after their use, the seeds that repeat every probe."""
    assert told.box is not None
    assert told.done is not None
    lower, upper = (put_array(home.store.put, end) for end in (told.box.lower, told.box.upper))
    done = put_array(home.store.put, told.done)
    probes = home.store.put(canonical_bytes({"format": "veristate.probes/1", "draws": list(map(dict, told.records))}))
    body: dict[str, Any] = {
        "request_id": request_id,
        "contract": contract,
        "contract_kind": told.terms.kind,
        "delta": told.terms.delta,
        "certifies": told.terms.certifies,
        "strategy": told.strategy,
        "reason": told.reason,
        "ended": told.ended,
        "lower": plain(lower),
        "upper": plain(upper),
        "recomputed": plain(done),
        "units": int(told.done.sum()),
        "probes": probes,
    }
    home.ledger.append("certification.finished", body)
    return KeptCertification(lower=lower.blob, upper=upper.blob, probes=probes)


def keep_recomputation(
    home: Home, request_id: str, contract: str, members: NDArray[np.float64], fixed: NDArray[np.bool_]
) -> str:
    """The digest of the recomputed members, float32 [m, n]; units that were not recomputed are zero and masked out."""
    values = put_array(home.store.put, np.where(fixed, members, 0).astype(np.float32))
    mask = put_array(home.store.put, fixed)
    body = {"request_id": request_id, "contract": contract, "members": plain(values), "fixed": plain(mask)}
    home.ledger.append("recomputation.finished", body | {"units": int(fixed.sum())})
    return values.blob
