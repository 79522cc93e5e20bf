"""What happened in a run, before it is put into words."""

from dataclasses import dataclass

from veristate.core import Certificate, Request
from veristate.decisions import Outcome as Rounds
from veristate.devices import Coverage, FaultModel, SuspectPass
from veristate.ledger import Outcome
from veristate.screening.episode import Episode
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.inputs.prepare import Prepared
from veristate.screening.scoretable import ScoreTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """The values a run left. `certified` is None when nothing was certified; `reference` is the healthy reference where
    it was computed: the same table, or one computed for comparison alone. `reason` says why nothing was committed,
    `comparable` whether a healthy suspect device would have given the reference's very bits.
    """

    options: ScreeningOptions
    prepared: Prepared
    request: Request
    coverage: Coverage
    suspect: SuspectPass
    rounds: Rounds
    certificate: Certificate | None
    certified: ScoreTable | None
    reference: ScoreTable | None
    fault: FaultModel | None
    episode: Episode
    outcome: Outcome | None
    reason: str
    comparable: bool
