"""What is claimed about a step: policy, manifests, commitment, and the in-toto statement that says it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from veristate.attest.commitments.reading import Digest, Name, read_value
from veristate.attest.signing import Envelope, SigningKey, read_json
from veristate.core import Record, TamperError, canonical_bytes

STATEMENT = "https://in-toto.io/Statement/v1"
STATEMENT_TYPE = "application/vnd.in-toto+json"
STEP = "urn:veristate:step:1"

Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Nondeterminism = Literal["exact", "numeric", "ranking", "text", "structured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Record):
    """What fixes how a step may be challenged, before it runs. Parameters are text, numbers in it decimal strings.

    `retention_s`: how long artifacts are kept from the commitment's time. `seed_rule`: how the challenge's randomness
    follows from what nobody knew at the commitment. `calibration`: the digest of the calibration set, if there is one.
    """

    FORMAT: ClassVar[str] = "veristate.policy/1"
    nondeterminism: Nondeterminism
    metric: Name
    threshold_rule: Name
    seed_rule: Name
    retention_s: Count
    reruns_upper: Count
    calibration: Digest | None = None
    metric_parameters: Mapping[str, str] = field(default_factory=dict)
    threshold_parameters: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


EXACT = Policy(
    nondeterminism="exact",
    metric="digest",
    threshold_rule="equal",
    seed_rule="none",
    retention_s=30 * 24 * 3600,
    reruns_upper=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Record):
    """Artifacts by name, each the digest of its bytes. A redacted artifact is one whose bytes are not handed out."""

    FORMAT: ClassVar[str] = "veristate.manifest/1"
    artifacts: Mapping[Name, Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment(Record):
    """One step of one recorder. Inputs, outputs and context are digests of manifests, `policy` that of a policy.

    `origin` is the log it is meant for and `recorder` the id of the recorder's first key: with both inside what is
    signed, nobody else can log it as theirs, nor elsewhere. `time` is the recorder's own clock and proves nothing.
    """

    FORMAT: ClassVar[str] = "veristate.commitment/1"
    origin: Name
    recorder: Digest
    key: Digest
    sequence: Count
    predecessor: Digest
    execution: Name
    stage: Name
    inputs: Digest
    outputs: Digest
    context: Digest
    policy: Digest
    time: Name

    def statement(self) -> bytes:
        """The in-toto Statement v1 in canonical bytes: its subject is the outputs, its predicate everything here."""
        subject = [{"name": self.stage, "digest": {"sha256": self.outputs}}]
        predicate = read_json(self.to_bytes())
        return canonical_bytes({"_type": STATEMENT, "subject": subject, "predicateType": STEP, "predicate": predicate})

    def sealed(self, key: SigningKey) -> Envelope:
        """The statement in a DSSE envelope, signed."""
        return Envelope.seal(STATEMENT_TYPE, self.statement(), [key])

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> "Commitment":
        """The commitment that an envelope's payload says; who signed it is not judged here.

        Raises: TamperError when the payload is not such a statement, or says the same twice and differently.
        """
        if envelope.payload_type != STATEMENT_TYPE:
            raise TamperError(f"an envelope of type {envelope.payload_type!r}, not an in-toto statement")
        try:
            content: Any = read_json(envelope.payload)
            predicate = content["predicate"]
        except (ValueError, KeyError, TypeError) as error:
            raise TamperError(f"not an in-toto statement of a step: {error!r}") from error
        commitment = read_value(cls, predicate)
        if commitment.statement() != envelope.payload:
            raise TamperError("a statement that differs from what its own predicate says; don't trust it")
        return commitment
