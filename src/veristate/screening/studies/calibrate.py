"""Setting epsilon for R1+M: twice the largest residual that R1 leaves in a retrospective series (BioAgent-DF I.5)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from veristate.core import Clock, InputError, decimal_string, utc_now
from veristate.decisions import epsilon_from_residuals
from veristate.devices import fault_named
from veristate.ledger import Ledger
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.running.home import open_home
from veristate.screening.studies.series import open_series

KIND = "epsilon.calibrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """An epsilon estimate and what it rests on: the residual of each source, by fault and seed. Simulated faults."""

    epsilon: float
    residuals: tuple[tuple[str, int, float], ...]
    contract: str


def calibrate(
    options: ScreeningOptions,
    faults: tuple[str, ...],
    seeds: range,
    *,
    note: Callable[[str], None] = lambda _text: None,
    clock: Clock = utc_now,
) -> Calibration:
    """The calibration of that case, also written to the ledger of `options.store`, where `--policy r1m` finds it.

    Raises: InputError for no source.
    """
    if not faults or not seeds:
        raise InputError("calibration needs at least one source: a fault and a seed")
    with open_home(options.store, clock) as home:
        residuals = []
        with open_series(options, note) as series:
            for fault in faults:
                for seed in seeds:
                    residual = series.residual_after_r1(series.source(fault_named(fault, seed)))
                    residuals.append((fault, seed, residual))
                    note(f"{fault} seed {seed}: R1 leaves {residual:.3g}")
        # Written once the executor has been qualified again: before that nothing it computed counts.
        epsilon = epsilon_from_residuals(np.array([residual for _, _, residual in residuals]))
        found = Calibration(epsilon=epsilon, residuals=tuple(residuals), contract=series.contract.digest)
        lines = [{"fault": f, "seed": s, "residual": decimal_string(r)} for f, s, r in residuals]
        body = {"contract": found.contract, "epsilon": decimal_string(epsilon), "sources": lines, "simulated": True}
        home.ledger.append(KIND, body, records=[series.contract])
    return found


def calibrated_epsilon(ledger: Ledger, contract: str) -> float:
    """The epsilon last calibrated for that contract. Raises: InputError when there is none."""
    found = [entry.content for entry in ledger.entries() if entry.kind == KIND]
    mine = [body["epsilon"] for body in found if body["contract"] == contract]
    if not mine:
        raise InputError(
            "--policy r1m needs an epsilon for this very contract: run veristate calibrate with the same options and "
            "store, or give --epsilon"
        )
    return float(mine[-1])
