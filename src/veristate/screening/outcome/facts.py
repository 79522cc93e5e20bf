"""What happened in a run, before it is put into words."""

from dataclasses import dataclass

from veristate.core import Certificate, Request
from veristate.decisions import Outcome as Rounds
from veristate.devices import Coverage, FaultModel, SuspectPass
from veristate.devices.trusted import Certification, PlannedPass
from veristate.ledger import Outcome
from veristate.screening.episode import Episode
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.inputs.prepare import Prepared
from veristate.screening.scoretable import Table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """The values a run left. `rounds` are those of recomputed bits (None under exact arithmetic), `certification` what
    the trusted process certified at once (None where it recomputed group by group). `certified` is None when nothing
    was certified; `reference` is the healthy reference where it was computed: the same table, or one computed for
    comparison alone. `reason` says why nothing was committed, `commitment` is the payload's digest of what goes into
    the log (empty: nothing), `comparable` says whether a healthy suspect device would have given the reference's bits.
    """

    options: ScreeningOptions
    prepared: Prepared
    request: Request
    coverage: Coverage
    suspect: SuspectPass
    planned: PlannedPass
    rounds: Rounds | None
    certification: Certification | None
    certificate: Certificate | None
    certified: Table | None
    reference: Table | None
    fault: FaultModel | None
    episode: Episode
    outcome: Outcome | None
    commitment: str
    reason: str
    comparable: bool
