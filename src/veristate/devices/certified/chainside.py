"""The trusted side of a user's own ensemble: chains of Linear, ReLU-like, one pool and a link, over a table of arrays.

side = ChainSide.of(models, inputs)                  # or why bounds don't go through these models
certify_pass(question, side, side.device(models), Wanted(), entropy=secrets.token_bytes, clock=time.process_time)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core.records import ContractKind
from veristate.decisions import Box
from veristate.decisions.enclosures import Declined, Strategy, Wanted
from veristate.devices.certified.bounds import MemberBounds
from veristate.devices.certified.certify import SuspectRun
from veristate.devices.certified.chains import chain_bounds, chain_rows
from veristate.devices.certified.models import Propagation, layer_outputs, propagation_of
from veristate.devices.certified.planner import Estimate
from veristate.devices.certified.roundedchain import rounded_accumulators, rounded_bounds, unrounded
from veristate.devices.certified.tables import (
    SAMPLED,
    Clock,
    all_followed,
    batches_of,
    estimated,
    positions_of,
    unavailable,
)
from veristate.numerics import format_named
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan, Probes

Mask = NDArray[np.bool_]
Scores = NDArray[np.float32]
REAL = Declined(reason="these models compute with real numbers; C4 is for an IntegerSide", next_strategy="full")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainSide:
    """Members as chains, their models for the bits of a run (C2), and the trusted inputs [n, F] or [n, T, F], float32.
    `spans` are the batches' table positions, `exported` the stretch of them whose exports are checked at once: all.
    """

    members: tuple[Propagation, ...]
    models: tuple[torch.nn.Module, ...]
    inputs: NDArray[np.float32]
    spans: tuple[range, ...]
    dtype: str = "fp32"

    @classmethod
    def of(
        cls,
        models: Sequence[torch.nn.Module],
        inputs: NDArray[np.float32],
        *,
        output: int = 0,
        batch: int = 64,
        dtype: str = "fp32",
    ) -> "ChainSide | Declined":
        """The trusted side of these models, or why one of them can't be followed."""
        members = all_followed(propagation_of(model, output=output) for model in models)
        if isinstance(members, Declined):
            return members
        spans = batches_of(len(inputs), batch)
        return cls(members=members, models=tuple(models), inputs=inputs, spans=spans, dtype=dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Members and candidates."""
        return len(self.members), len(self.inputs)

    @property
    def exported(self) -> tuple[range, ...]:
        """All batches at once."""
        return (range(len(self.spans)),)

    def asked(self, stretch: range) -> NDArray[np.float32]:
        """The inputs of a stretch."""
        return self.inputs[positions_of(self.spans, stretch)]

    def device(self, models: Sequence[torch.nn.Module], kind: ContractKind = "C1") -> SuspectRun:
        """A suspect device that runs these models and exports what each wide layer gives: under C3 its sums before they
        are rounded.
        """

        def run(member: int, batches: range, asked: NDArray[np.float32]) -> tuple[Scores, Export]:
            chain, model, parts = self.members[member], models[member], []
            if kind == "C3":
                scores, sums = rounded_accumulators(chain, asked, format_named(self.dtype))
                return scores, Export.fix({name: [rows] for name, rows in sums.items()}, chain.weights)

            def score() -> None:
                for b in batches:
                    parts.append(self._scored(model, chain, b))

            exported_rows = layer_outputs(model, chain, score)
            return np.concatenate(parts), Export.fix(exported_rows, chain.weights)

        return run

    def estimates(self, wanted: Wanted, clock: Clock) -> tuple[Estimate, ...]:
        """From one member over the first candidates."""
        first, sample = self.members[0], self.inputs[:SAMPLED]
        reason = REAL if wanted.kind == "C4" else None
        if wanted.kind == "C3":
            reason = unrounded(first, format_named(self.dtype))
        if reason is not None:
            return unavailable(reason)
        scale = self.shape[0] * len(self.inputs) / len(sample)

        def full() -> object:
            if wanted.kind == "C3":
                return rounded_bounds(first, sample, format_named(self.dtype))
            if wanted.kind == "C1":
                return chain_bounds(first, sample)
            return self._run(self.models[0], first, sample)

        def probed() -> object:
            probes = self._probes(wanted, sample)
            if wanted.kind == "C3":
                return rounded_bounds(first, sample, format_named(self.dtype), probes)
            return chain_bounds(first, sample, probes)

        return estimated(clock, scale, probed, full)

    def plan_probes(self, wanted: Wanted) -> ProbePlan:
        """Delta and T: every row of every exported layer of every member."""
        rows = sum(chain_rows(member, self.inputs.shape) for member in self.members)
        return ProbePlan(delta=wanted.delta, rows=max(rows, 1), draws=wanted.draws)

    def bounds(self, member: int, stretch: range, probes: Probes, wanted: Wanted) -> MemberBounds:
        """Bounds on the scores of a stretch; under C3 the scores."""
        inputs, chain = self.asked(stretch), self.members[member]
        if wanted.kind == "C3":
            return rounded_bounds(chain, inputs, format_named(self.dtype), probes)
        return chain_bounds(chain, inputs, probes)

    def enclose(self, asked: Mask) -> Box:
        """Enclosures of the exact values of these units in FP64; the rest is left open."""
        lower, upper = np.full(asked.shape, -np.inf), np.full(asked.shape, np.inf)
        for number, member in enumerate(self.members):
            chosen = np.flatnonzero(asked[number])
            if len(chosen):
                found = chain_bounds(member, self.inputs[chosen])
                lower[number, chosen], upper[number, chosen] = found.lower, found.upper
        return Box(lower=lower, upper=upper)

    def everything(self, strategy: Strategy = "full") -> Box:
        """Enclosures of all exact values."""
        return self.enclose(np.ones(self.shape, dtype=np.bool_))

    def values(self, kind: ContractKind, strategy: Strategy) -> Scores | Declined:
        """C2: the bits of the models' own run here, in these batches. C3: each layer rounded correctly."""
        if kind == "C3":
            form = format_named(self.dtype)
            return np.stack([rounded_bounds(m, self.inputs, form).lower.astype(np.float32) for m in self.members])
        pairs = zip(self.models, self.members, strict=True)
        return np.stack([np.concatenate([self._scored(m, c, b) for b in range(len(self.spans))]) for m, c in pairs])

    def _scored(self, model: torch.nn.Module, chain: Propagation, batch: int) -> Scores:
        return self._run(model, chain, self.asked(range(batch, batch + 1)))

    def _run(self, model: torch.nn.Module, chain: Propagation, inputs: NDArray[np.float32]) -> Scores:
        narrow = self.dtype == "bf16"
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
            out = model(torch.from_numpy(inputs)).float()
        return np.asarray((out if out.ndim == 1 else out[:, chain.output]).numpy(), dtype=np.float32)

    def _probes(self, wanted: Wanted, sample: NDArray[np.float32]) -> Probes:
        """Probes of the model's own export of a sample, for timing alone: nothing is certified with them."""
        first, model = self.members[0], self.models[0]
        if wanted.kind == "C3":
            _, sums = rounded_accumulators(first, sample, format_named(self.dtype))
            exported = {name: [rows] for name, rows in sums.items()}
        else:
            exported = layer_outputs(model, first, lambda: self._run(model, first, sample))
        plan = ProbePlan(delta=wanted.delta, rows=max(chain_rows(first, sample.shape), 1), draws=wanted.draws)
        return ProbeAccount(plan, bytes).draw(Export.fix(exported, first.weights))
