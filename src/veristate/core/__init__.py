"""The words everything shares: digests, canonical bytes, records, clock, verdicts, errors."""

from veristate.core.canonical import canonical_bytes, decimal_string, digest, plain
from veristate.core.clock import Clock, utc_now
from veristate.core.errors import (
    EnvironmentUnusableError,
    FaultProvenError,
    InputError,
    RefusedError,
    TamperError,
    UndecidedError,
    VeristateError,
)
from veristate.core.records import (
    Action,
    ArrayRef,
    Certificate,
    Contract,
    Decision,
    Record,
    Request,
    Rule,
    Site,
    View,
)
from veristate.core.verdicts import Verdict
from veristate.core.words import ContractName, Dtype, PolicyName, Recovery, StrategyName

__all__ = [
    "Action",
    "ArrayRef",
    "Certificate",
    "Clock",
    "Contract",
    "ContractName",
    "Decision",
    "Dtype",
    "EnvironmentUnusableError",
    "FaultProvenError",
    "InputError",
    "PolicyName",
    "Record",
    "Recovery",
    "RefusedError",
    "Request",
    "Rule",
    "Site",
    "StrategyName",
    "TamperError",
    "UndecidedError",
    "Verdict",
    "VeristateError",
    "View",
    "canonical_bytes",
    "decimal_string",
    "digest",
    "plain",
    "utc_now",
]
