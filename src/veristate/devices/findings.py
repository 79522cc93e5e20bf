"""What the checks found: one finding a call, and what they add up to for the units of a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.core import Verdict
from veristate.devices.granularity import Granularity


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinding:
    """The check of one linear call.

    `rows` are the rows in which a fault is proven, `columns` the number of flagged column cells, `unexplained` those
    that still exceed their bound without the flagged units' rows; `units` the table positions of the candidates to
    recompute, `suspects` of those with an element above the statistical screen alone: unresolved, no fault. `reason`
    says why a check was not applicable. `worst` is the largest residual over its bound, as a decimal string. `seed`
    repeats the signs. A call that did not pass names its `arithmetic`, and `evidence` are the rows whose operands are
    kept: the flagged ones, or those of the blocks in which only columns were flagged.
    """

    member: int
    batch: int
    layer: str
    ordinal: int
    shape: tuple[int, int, int]
    verdict: Verdict
    reason: str
    rows: tuple[int, ...]
    columns: int
    unexplained: int
    units: tuple[int, ...]
    suspects: tuple[int, ...]
    worst: str
    seed: str
    arithmetic: Mapping[str, str]
    evidence: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        return asdict(self) | {"verdict": self.verdict.value, "arithmetic": dict(self.arithmetic)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "CallFinding":
        """The finding that `to_json` wrote."""
        values = dict(content)
        tuples = {name: tuple(values[name]) for name in ("shape", "rows", "units", "suspects", "evidence")}
        return cls(**values | tuples | {"verdict": Verdict(values["verdict"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All calls of a pass. `checked_on` says which process computed the checks."""

    calls: tuple[CallFinding, ...]
    checked_on: str
    granularity: Granularity

    def verdict(self) -> Verdict:
        """FLAG when a call is flagged, PASS when every call passed, INAPPLICABLE otherwise or when nothing ran."""
        verdicts = self.counts()
        if verdicts[Verdict.FLAG]:
            return Verdict.FLAG
        return Verdict.PASS if verdicts[Verdict.PASS] == len(self.calls) > 0 else Verdict.INAPPLICABLE

    def counts(self) -> Counter[Verdict]:
        """The number of calls by verdict."""
        return Counter(call.verdict for call in self.calls)

    def flagged(self) -> tuple[CallFinding, ...]:
        """The flagged calls, in order."""
        return tuple(call for call in self.calls if call.verdict is Verdict.FLAG)

    def flagged_units(self, members: int, candidates: int) -> NDArray[np.bool_]:
        """[members, candidates]: the units that a proven fault marks."""
        return self._units(members, candidates, {Verdict.FLAG})

    def marked_units(self, members: int, candidates: int) -> NDArray[np.bool_]:
        """[members, candidates]: the units to recompute first: flagged, suspected, or in a call whose check was not
        applicable.
        """
        mask = self._units(members, candidates, {Verdict.FLAG, Verdict.INAPPLICABLE})
        for call in self.calls:
            mask[call.member, list(call.suspects)] = True
        return mask

    def _units(self, members: int, candidates: int, verdicts: set[Verdict]) -> NDArray[np.bool_]:
        mask = np.zeros((members, candidates), dtype=bool)
        for call in self.calls:
            if call.verdict in verdicts:
                mask[call.member, list(call.units)] = True
        return mask


def summarise(calls: Sequence[CallFinding]) -> dict[str, int]:
    """Counts for a report: calls by verdict, flagged rows and column cells, unexplained cells,
    suspected units.
    """
    counts = Counter(call.verdict for call in calls)
    return {
        "calls": len(calls),
        "passed": counts[Verdict.PASS],
        "flagged": counts[Verdict.FLAG],
        "inapplicable": counts[Verdict.INAPPLICABLE],
        "rows": sum(len(call.rows) for call in calls),
        "columns": sum(call.columns for call in calls),
        "unexplained": sum(call.unexplained for call in calls),
        "suspects": sum(len(call.suspects) for call in calls),
    }
