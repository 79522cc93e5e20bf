"""What a user asks of a screening run."""

import re
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from pathlib import Path

from veristate.core import (
    ContractName,
    Dtype,
    InputError,
    PolicyName,
    Recovery,
    Rule,
    StrategyName,
    decimal_string,
)
from veristate.decisions.enclosures import NAMES, Wanted
from veristate.devices import Granularity
from veristate.numerics import MOST_DRAWS
from veristate.screening.cases import herg


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreeningOptions:
    """The options of `veristate screen`, checked as far as they can be without reading anything.

    `table` is None for the built-in case. `predictor` is ("herg",), ("module:factory",), or checkpoint paths.
    `top` None means 20 % of the candidates, rounded down; `threshold` None means 0.5; `nearest` adds a rule.
    `recovery` says when the agent may read: "hold" after certification, "restore" and "replace" at once, and how it is
    corrected then. `contract` says what the true scores are: exact arithmetic of the weights, the bits of a healthy run
    on the trusted device, layers that are each rounded correctly, or whole numbers. `delta` is the chance that an exact
    one may fail with, `strategy` how it is certified: "auto" takes what is predicted to cost least. `block` rows of a
    column are summed at once in a check, under `draws` vectors of signs; `budget` is in units.
    """

    table: Path | None = None
    predictor: tuple[str, ...] = ("herg",)
    digests: tuple[str, ...] = ()
    unsafe_pickle: bool = False
    output: int | None = None
    id_column: str = herg.ID_COLUMN
    smiles_column: str = herg.SMILES_COLUMN
    top: int | None = None
    threshold: float | None = None
    nearest: int | None = None
    temperature: float = 1.0
    batch: int = 64
    dtype: Dtype = "fp32"
    device: str = "cpu"
    trusted_device: str = "cpu"
    contract: ContractName = "device"
    delta: str = "1e-9"
    strategy: StrategyName = "auto"
    policy: PolicyName = "full"
    epsilon: float | None = None
    budget: int | None = None
    recovery: Recovery = "hold"
    agent: str = "keeps"
    request_id: str | None = None
    inject: str | None = None
    seed: int = 0
    block: int | None = 32
    draws: int = 2
    compare: bool = False
    strict: bool = False
    store: Path = Path(".veristate")

    def __post_init__(self) -> None:
        checks = (
            (self.batch >= 1, f"--batch {self.batch}: at least 1 candidate at a time"),
            (0 < self.temperature < inf, f"--calibration-temperature {self.temperature}: must be finite and above 0"),
            (self.epsilon is None or 0 <= self.epsilon < inf, f"--epsilon {self.epsilon}: must be finite, 0 or more"),
            (self.epsilon is None or self.policy == "r1m", "--epsilon belongs to --policy r1m"),
            (all(map(_is_sha256, self.digests)), "--sha256 takes 64 hexadecimal digits, as sha256sum prints them"),
            (self.budget is None or self.budget >= 0, f"--budget {self.budget}: must be 0 or more units"),
            (self.block is None or self.block >= 1, f"--block {self.block}: at least 1, or 0 for whole columns"),
            (1 <= self.draws <= MOST_DRAWS, f"--draws {self.draws}: use 1 to {MOST_DRAWS}"),
            (_is_chance(self.delta), f"--delta {self.delta}: a decimal above 0 and at most 0.5, such as 1e-9"),
            (self.delta == "1e-9" or self.contract == "exact", "--delta belongs to --contract exact"),
            (self.strategy in ("auto", "full") or self.policy == "full", "--policy r1 and r1m need --strategy full"),
            (self.contract == "device" or self.policy == "full", f"--policy {self.policy} needs --contract device"),
            (
                self.contract == "device" or self.recovery == "hold",
                f"--recovery {self.recovery} needs --contract device: under {self.contract} the device's values are "
                "never certified, so no agent may read them",
            ),
            (self.inject is not None or self.seed == 0, "--seed belongs to --inject: nothing else is random"),
        )
        for holds, message in checks:
            if not holds:
                raise InputError(message)

    @property
    def granularity(self) -> Granularity:
        """How finely the checks look."""
        return Granularity(block=self.block, draws=self.draws)

    @property
    def wanted(self) -> Wanted:
        """What is asked of a certified pass. Under `device` the rounds keep the budget themselves."""
        kind = NAMES[self.contract]
        strategy = None if self.strategy == "auto" else self.strategy
        budget = self.budget if self.contract == "exact" else None
        return Wanted(kind=kind, delta=self.delta, strategy=strategy, budget=budget)

    def rules(self, candidates: int) -> tuple[Rule, ...]:
        """The decision rules for that many candidates. Raises: InputError naming the option that does not fit."""
        threshold = 0.5 if self.threshold is None else self.threshold
        if not 0 <= threshold <= 1:
            raise InputError(f"--threshold {threshold}: scores lie in [0, 1]")
        text = decimal_string(threshold)
        top = candidates * herg.TOP_SHARE_PERCENT // 100 if self.top is None else self.top
        if self.top is None and top == 0:
            top = 1
        _within("--top", top, candidates)
        rules = [Rule(kind="top_k", count=top), Rule(kind="threshold", threshold=text)]
        if self.nearest is not None:
            _within("--nearest", self.nearest, candidates)
            rules.append(Rule(kind="nearest", count=self.nearest, threshold=text))
        return tuple(rules)


def _is_chance(text: str) -> bool:
    try:
        return 0 < Fraction(text) <= Fraction(1, 2)
    except (ValueError, ZeroDivisionError):
        return False


def _is_sha256(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def _within(option: str, count: int, candidates: int) -> None:
    if count < 1 or count > candidates:
        raise InputError(f"{option} {count}: choose between 1 and the {candidates} candidates of the table")
