"""The trusted side of a message-passing ensemble: its members as bounds know them, and its table in stretches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veristate.core.records import ContractKind
from veristate.decisions import Box
from veristate.decisions.enclosures import Declined, Strategy, Wanted
from veristate.devices.certified.adjoint import WIDE
from veristate.devices.certified.bounds import WRONG, MemberBounds, export_rows, member_bounds
from veristate.devices.certified.certify import joined
from veristate.devices.certified.exporting import graphs_of
from veristate.devices.certified.graphs import Environments, environments
from veristate.devices.certified.members import Member, member_of
from veristate.devices.certified.memo import memoised_pass
from veristate.devices.certified.planner import Estimate
from veristate.devices.certified.rounded import rounded_scores
from veristate.devices.certified.sampling import estimates_of
from veristate.devices.certified.tables import all_followed
from veristate.devices.predictors.chemprop import ChempropPredictor
from veristate.numerics import format_named
from veristate.numerics.probes import ProbePlan, Probes

Mask = NDArray[np.bool_]

# Candidates that are recomputed at once. All 2,845 of the default case take its peak memory from 1.8 to 2.1 GB and save
# no time, since what is wide are the rows of every depth.
STRETCH = 512
# Candidates whose exports are checked at once. Environments are distinct within such a piece: in pieces of 512 the
# default case has half as many rows to check again (443,330 instead of 291,910). An export is 25 kB a candidate.
EXPORTED = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrustedSide:
    """The trusted predictor's members as bounds know them, and its table's batches in stretches: those whose exports
    are checked at once, and those that are recomputed at once. `wide` and `wrong`: as for `member_bounds`.
    """

    predictor: ChempropPredictor
    members: tuple[Member, ...]
    exported: tuple[range, ...]
    stretches: tuple[range, ...]
    wide: float = WIDE
    wrong: float = WRONG
    _kept: dict[range, Environments] = field(default_factory=dict)

    @classmethod
    def of(
        cls, predictor: ChempropPredictor, stretch: int = STRETCH, exported: int = EXPORTED
    ) -> "TrustedSide | Declined":
        """The trusted side of that predictor, or why its models can't be followed. Stretches are in candidates."""
        members = all_followed(member_of(model, predictor.output) for model in predictor.models)
        if isinstance(members, Declined):
            return members
        if len({member.depth for member in members}) > 1:
            return Declined(reason="the members have different depths", next_strategy="full")
        return cls(
            predictor=predictor,
            members=members,
            exported=_stretches(predictor, exported),
            stretches=_stretches(predictor, stretch),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Members and candidates."""
        return len(self.members), self.predictor.batches[-1].stop

    @property
    def dtype(self) -> str:
        """The format of the suspect device."""
        return self.predictor.spec.dtype

    def environments(self, stretch: range) -> Environments:
        """The distinct environments of a stretch; those of the last one are kept."""
        if stretch not in self._kept:
            self._kept.clear()
            self._kept[stretch] = environments(graphs_of(self.predictor, stretch), self.members[0].depth)
        return self._kept[stretch]

    def asked(self, stretch: range) -> Environments:
        """The environments, whose representatives are exported."""
        return self.environments(stretch)

    def positions(self, batches: range) -> slice:
        """The table positions of consecutive batches."""
        spans = self.predictor.batches
        return slice(spans[batches.start].start, spans[batches.stop - 1].stop)

    def estimates(self, wanted: Wanted, clock: Callable[[], float]) -> tuple[Estimate, ...]:
        """From a sample of the table."""
        return estimates_of(self, wanted, clock)

    def plan_probes(self, wanted: Wanted) -> ProbePlan:
        """Delta and T, before anything is exported: in a table of several stretches every bond and atom counts, as if
        no two environments were equal, so that none need be known beforehand.
        """
        if len(self.exported) == 1:
            rows = export_rows(self.environments(self.exported[0]), wanted.trusted)
        else:
            depths = max(self.members[0].depth - wanted.trusted, 0)
            atoms, bonds = self.predictor.atoms, self.predictor.bonds
            rows = sum(len(a) + depths * len(b) for a, b in zip(atoms, bonds, strict=True))
        return ProbePlan(delta=wanted.delta, rows=max(rows * len(self.members), 1), draws=wanted.draws)

    def bounds(self, member: int, stretch: range, probes: Probes, wanted: Wanted) -> MemberBounds:
        """Bounds on the scores of a stretch from its export."""
        env = self.environments(stretch)
        limits = {"wide": self.wide, "wrong": self.wrong}
        return member_bounds(self.members[member], env, probes, trusted=wanted.trusted, **limits)

    def enclose(self, asked: Mask) -> Box:
        """Enclosures of the exact values of these units, from scratch in FP64; the rest is left open."""
        lower, upper = np.full(asked.shape, -np.inf), np.full(asked.shape, np.inf)
        for number, positions in enumerate(self.predictor.batches):
            inside = asked[:, positions.start : positions.stop]
            local = np.flatnonzero(inside.any(axis=0))
            if not len(local):
                continue
            env = environments(graphs_of(self.predictor, range(number, number + 1)).only(local), self.members[0].depth)
            for m in np.flatnonzero(inside.any(axis=1)):
                found = member_bounds(self.members[m], env)
                lower[m, positions.start + local], upper[m, positions.start + local] = found.lower, found.upper
        return Box(lower=lower, upper=upper)

    def everything(self, strategy: Strategy = "memo") -> Box:
        """Enclosures of all exact values, each distinct environment of a stretch (or of a batch) evaluated in FP64."""
        if strategy == "full":
            return self.enclose(np.ones(self.shape, dtype=np.bool_))
        found = []
        for stretch in self.stretches:
            env = self.environments(stretch)
            found.append([member_bounds(member, env) for member in self.members])
        return joined(found)

    def values(self, kind: ContractKind, strategy: Strategy) -> NDArray[np.float32] | Declined:
        """C2: the bits of a run, memoised or in full. C3: each layer rounded correctly."""
        runs = self.predictor
        if kind == "C3":
            stretches = self.stretches if strategy == "memo" else [range(b, b + 1) for b in range(len(runs.batches))]
            return self._rounded(stretches)
        if strategy == "memo":
            return memoised_pass(runs, self.stretches)
        return np.stack(
            [np.concatenate([runs.run(m, b) for b in range(len(runs.batches))]) for m in range(len(runs.models))]
        )

    def _rounded(self, stretches: Sequence[range]) -> NDArray[np.float32]:
        form, parts = format_named(self.dtype), []
        for stretch in stretches:
            env = self.environments(stretch)
            parts.append(np.stack([rounded_scores(member, env, form).scores for member in self.members]))
        return np.concatenate(parts, axis=1)


def _stretches(predictor: ChempropPredictor, candidates: int) -> tuple[range, ...]:
    each, count = max(candidates // max(len(predictor.batches[0]), 1), 1), len(predictor.batches)
    return tuple(range(b, min(b + each, count)) for b in range(0, count, each))
