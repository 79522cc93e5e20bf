"""Many passes of one case on the same two executors: what studies, benchmarks and calibration are made of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import Contract, Rule
from veristate.devices import Event, FaultModel, Findings, run_suspect
from veristate.screening.inputs.contract import contract_of
from veristate.screening.inputs.options import ScreeningOptions
from veristate.screening.inputs.prepare import Prepared, prepare
from veristate.screening.running.executors import Executors, start_executors
from veristate.screening.running.recovery import GroupRecomputer
from veristate.screening.scoretable import ScoreTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """One saved pass: what the suspect device scored, what the checks found, which units they mark, and, of a simulated
    fault, what it did.
    """

    table: ScoreTable
    findings: Findings
    marked: NDArray[np.bool_]
    events: tuple[Event, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """A case with its contract and its reference, recomputed once by the trusted executor and reused."""

    prepared: Prepared
    contract: Contract
    reference: ScoreTable
    temperature: float
    executors: Executors

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The case's decision rules."""
        return self.prepared.rules

    def source(self, fault: FaultModel | None) -> Source:
        """A new pass on the suspect device, with fresh signs, and with the fault if there is one."""
        done = run_suspect(self.executors.suspect, self.executors.trusted, fault=fault)
        return Source(
            table=ScoreTable.of(self.prepared.candidates.ids, done.scores, self.temperature),
            findings=done.checked.findings,
            marked=done.checked.findings.marked_units(*done.scores.shape),
            events=tuple(fault.events) if fault else (),
            seconds=done.seconds,
        )

    def after_r1(self, source: Source) -> ScoreTable:
        """R1 proper, as a view: marked units take the reference's bits, the others stay as the suspect gave them."""
        members = np.where(source.marked, self.reference.members, source.table.members)
        return ScoreTable.of(self.prepared.candidates.ids, members, self.temperature)

    def residual_after_r1(self, source: Source) -> float:
        """The largest absolute calibrated residual that R1 leaves."""
        return float(np.abs(self.after_r1(source).scores - self.reference.scores).max())


@contextmanager
def open_series(options: ScreeningOptions, note: Callable[[str], None] = lambda _text: None) -> Iterator[Series]:
    """A series of that case. The trusted executor is qualified before, and again when the series ends."""
    prepared = prepare(options)
    with start_executors(prepared, options.trusted_device, options.granularity) as executors:
        executors.trusted.qualify()
        note("trusted executor qualified; recomputing the reference once")
        shape = (len(executors.suspect.models), len(prepared.candidates.ids))
        members = GroupRecomputer(executors.trusted, executors.suspect.batches, prepared.candidates.ids).everything(
            shape
        )
        yield Series(
            prepared=prepared,
            contract=contract_of(
                "C2",
                prepared.trusted_spec(options.trusted_device),
                prepared.candidates,
                executors.trusted,
                executors.suspect.libraries(),
                options.temperature,
            ),
            reference=ScoreTable.of(prepared.candidates.ids, members, options.temperature),
            temperature=options.temperature,
            executors=executors,
        )
        executors.trusted.qualify()
