"""What the checks of a watched piece of work found, and how they tell it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from veristate.core import FaultProvenError, Verdict
from veristate.numerics import BLOCK

# Elements that a finding names one by one.
NAMED = 8
# Fused operations that multiply, and whose multiply-adds torch's counter does not know.
UNCOUNTED = (
    "_native_multi_head",
    "_transformer_encoder",
    "lstm",
    "gru",
    "rnn",
    "mkldnn_rnn",
    "_cudnn_rnn",
    "quantized",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One checked operation that did not simply pass.

    `layer` is the module it ran in ("" outside every module, or the weight's name with "backward of" before it),
    `number` counts the checked operations. `elements` are (row, column) of the first outputs that are proven wrong, or,
    where `verdict` is PASS, that are unresolved: above the statistical screen, below the bound. `rows` counts the rows
    with a proven fault, `columns` the flagged column cells, `worst` is the largest residual over its bound, `loudest`
    over the statistical screen. `seed` repeats the signs.
    """

    layer: str
    operation: str
    number: int
    shape: tuple[int, ...]
    dtype: str
    verdict: Verdict
    reason: str = ""
    rows: int = 0
    columns: int = 0
    elements: tuple[tuple[int, int], ...] = ()
    worst: float = 0.0
    loudest: float = 0.0
    seed: str = ""

    def describe(self) -> str:
        """One line for a person."""
        where = f"{self.layer or 'outside every layer'}: {self.operation} {'x'.join(map(str, self.shape))} {self.dtype}"
        if self.verdict is Verdict.INAPPLICABLE:
            return f"INAPPLICABLE  {where}: {self.reason}"
        places = ", ".join(f"({i}, {j})" for i, j in self.elements)
        if self.verdict is Verdict.PASS:
            return f"unresolved    {where}: above the statistical screen at {places}; compute it again"
        parts = [f"residual {self.worst:.3g} times its bound"] if self.worst > 1 else []
        parts += [f"{self.rows} rows, {self.columns} column cells"] if self.rows or self.columns else []
        parts += [f"wrong at {places}"] if places else []
        return f"FLAG          {where}: {'; '.join(parts)} (operation {self.number})"


@dataclass(slots=True, kw_only=True)
class Checks:
    """The checks of everything that ran while they were open. They ran on the device that computed: self-checked.

    `counts` are operations by verdict, `flags`, `inapplicable` and `unresolved` the findings in order; `watched` and
    `total` multiply-adds, `beside` the operations no check saw, by name. `draws` is the number of sign draws a call,
    `sums` the share of the columns of a sum by destination that a check draws. `worst` and `loudest` are the largest
    residuals, over their bounds and over the statistical screen: `Screen().calibrated([checks.loudest])` of healthy
    passes is a screen for this model.
    """

    draws: int
    sums: float
    scattered: int = 0
    counts: Counter[Verdict] = field(default_factory=Counter)
    layers: dict[str, int] = field(default_factory=dict)
    flags: list[Finding] = field(default_factory=list)
    inapplicable: list[Finding] = field(default_factory=list)
    unresolved: list[Finding] = field(default_factory=list)
    watched: int = 0
    total: int = 0
    beside: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    worst: float = 0.0
    loudest: float = 0.0

    def verdict(self) -> Verdict:
        """FLAG for a proven fault, PASS when something ran and all of it passed, INAPPLICABLE otherwise."""
        if self.flags:
            return Verdict.FLAG
        return Verdict.PASS if self.counts[Verdict.PASS] and not self.inapplicable else Verdict.INAPPLICABLE

    def require(self) -> None:
        """Raises: FaultProvenError naming the first fault, when there is one."""
        if self.flags:
            raise FaultProvenError(f"a fault is proven: {self.flags[0].describe()}")

    @property
    def share(self) -> float:
        """Watched multiply-adds over all; 0 when nothing multiplied."""
        return self.watched / self.total if self.total else 0.0

    def record(self, finding: Finding) -> None:
        """Takes one checked operation in."""
        self.counts[finding.verdict] += 1
        self.layers[finding.layer] = self.layers.get(finding.layer, 0) + 1
        self.worst = max(self.worst, finding.worst)
        self.loudest = max(self.loudest, finding.loudest)
        if finding.verdict is Verdict.FLAG:
            self.flags.append(finding)
        elif finding.verdict is Verdict.INAPPLICABLE:
            self.inapplicable.append(finding)
        elif finding.elements:
            self.unresolved.append(finding)

    def report(self) -> str:
        """What was found, for a person to read."""
        done = sum(self.counts.values())
        lines = [
            f"{self.verdict().value}: {done:,} operations in {len(self.layers):,} layers checked, on the device that "
            f"computed them; {self.share:.1%} of the multiply-adds watched, {self.seconds:.2f} s spent",
            f"  passed {self.counts[Verdict.PASS]:,}, flagged {len(self.flags):,}, not applicable "
            f"{len(self.inapplicable):,}, unresolved {len(self.unresolved):,}; largest residual {self.worst:.2g} of "
            "its bound",
            f"  errors that cancel within {BLOCK} rows of one column go unseen with probability 2^-{self.draws}",
        ]
        if self.scattered and self.sums < 1:
            lines.append(
                f"  of {self.scattered:,} sums by destination {self.sums:.0%} of the columns each (16 at least), drawn "
                "after they were computed"
            )
        uncounted = [name for name in self.beside if name.startswith(UNCOUNTED)]
        if uncounted:
            lines.append(f"  uncounted: {', '.join(uncounted)} multiply too, and nothing tells how much")
        if self.beside:
            names = ", ".join(f"{name} ({n:,})" for name, n in self.beside.most_common(12))
            lines.append(f"  not watched: {names}")
        return "\n".join([*lines, *_listed(self.flags), *_listed(self.inapplicable), *_listed(self.unresolved)])


def _listed(findings: Sequence[Finding], most: int = 10) -> list[str]:
    lines = [f"  {finding.describe()}" for finding in findings[:most]]
    return [*lines, f"  ... and {len(findings) - most:,} more"] if len(findings) > most else lines
