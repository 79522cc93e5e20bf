"""The trusted side of an ensemble in whole numbers: every value certified, no tolerance, no false alarm (C4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.core.records import ContractKind
from veristate.decisions import Box
from veristate.decisions.enclosures import Declined, Strategy, Wanted
from veristate.devices.certified.bounds import MemberBounds
from veristate.devices.certified.certify import SuspectRun
from veristate.devices.certified.integers import IntegerChain, integer_accumulators, integer_bounds, integer_chain
from veristate.devices.certified.models import propagation_of
from veristate.devices.certified.planner import Estimate
from veristate.devices.certified.tables import (
    SAMPLED,
    Clock,
    all_followed,
    batches_of,
    estimated,
    positions_of,
    unavailable,
)
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan, Probes, words_needed

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntegerSide:
    """Members in whole numbers, and the trusted inputs [n, F]."""

    members: tuple[IntegerChain, ...]
    inputs: NDArray[np.float32]
    spans: tuple[range, ...]

    @classmethod
    def of(
        cls,
        models: Sequence[torch.nn.Module],
        inputs: NDArray[np.float32],
        *,
        output: int = 0,
        bits: int = 16,
        batch: int = 64,
    ) -> "IntegerSide | Declined":
        """These models in whole numbers of so many bits, scaled to what the inputs need; or why not."""
        chains = (propagation_of(model, output=output) for model in models)
        members = all_followed(c if isinstance(c, Declined) else integer_chain(c, inputs, bits) for c in chains)
        if isinstance(members, Declined):
            return members
        return cls(members=members, inputs=inputs, spans=batches_of(len(inputs), batch))

    @property
    def shape(self) -> tuple[int, int]:
        """Members and candidates."""
        return len(self.members), len(self.inputs)

    @property
    def dtype(self) -> str:
        """What values are stored in."""
        return f"int{self.members[0].bits}"

    @property
    def exported(self) -> tuple[range, ...]:
        """All batches at once."""
        return (range(len(self.spans)),)

    def asked(self, stretch: range) -> NDArray[np.float32]:
        """The inputs of a stretch."""
        return self.inputs[positions_of(self.spans, stretch)]

    def device(self) -> SuspectRun:
        """A suspect device that computes the chains and exports their accumulators."""

        def run(member: int, batches: range, asked: NDArray[np.float32]) -> tuple[NDArray[np.float32], Export]:
            chain = self.members[member]
            found = integer_accumulators(chain, asked)
            scores = chain.scores(found[chain.layers[-1].name])
            return scores, Export.fix({name: [acc] for name, acc in found.items()}, chain.weights)

        return run

    def estimates(self, wanted: Wanted, clock: Clock) -> tuple[Estimate, ...]:
        """From one member over the first candidates."""
        if wanted.kind != "C4":
            why = f"models in whole numbers are certified under C4, not {wanted.kind}"
            return unavailable(Declined(reason=why, next_strategy="full"))
        first, sample, plan = self.members[0], self.inputs[:SAMPLED], self.plan_probes(wanted)
        exported = {name: [acc] for name, acc in integer_accumulators(first, sample).items()}

        def probed() -> None:  # probes for timing alone: nothing is certified with them
            integer_bounds(first, sample, ProbeAccount(plan, bytes).draw(Export.fix(exported, first.weights)))

        scale = self.shape[0] * len(self.inputs) / len(sample)
        return estimated(clock, scale, probed, lambda: integer_bounds(first, sample))

    def plan_probes(self, wanted: Wanted) -> ProbePlan:
        """Delta, T, and as many words as these accumulators need."""
        rows = sum(len(member.layers) for member in self.members) * len(self.inputs)
        limit = max(layer.limit for member in self.members for layer in member.layers)
        return ProbePlan(delta=wanted.delta, rows=max(rows, 1), draws=words_needed(wanted.delta, max(rows, 1), limit))

    def bounds(self, member: int, stretch: range, probes: Probes, wanted: Wanted) -> MemberBounds:
        """The scores of a stretch."""
        return integer_bounds(self.members[member], self.asked(stretch), probes)

    def enclose(self, asked: Mask) -> Box:
        """Raises: InputError: whole numbers are no enclosures."""
        raise InputError("models in whole numbers have values, not enclosures; ask for C4")

    def everything(self, strategy: Strategy = "full") -> Box:
        """Raises: as `enclose`."""
        return self.enclose(np.ones(self.shape, dtype=np.bool_))

    def values(self, kind: ContractKind, strategy: Strategy) -> NDArray[np.float32] | Declined:
        """All scores, evaluated here."""
        return np.stack([integer_bounds(m, self.inputs).lower.astype(np.float32) for m in self.members])
