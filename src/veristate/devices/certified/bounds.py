"""From exports to score bounds of one message-passing member: trusted layers, checked layers, and what they leave open.

On distinct environments alone: a candidate's score is evaluated here, from the rows that stand for its bonds and atoms;
what the device itself made of the others is never read.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.devices.certified.adjoint import WIDE, Rows, bond_reach
from veristate.devices.certified.graphs import Environments
from veristate.devices.certified.members import Member
from veristate.numerics.probes import (
    Dense,
    Probes,
    RowMap,
    Standing,
    Term,
    check_rows,
    forward,
    gamma_upper,
    gathered,
    masked_reach,
    pull_back,
    raised,
    rectified_segments,
    rectified_sums,
    row_norms_upper,
    sigmoid_interval,
)
from veristate.numerics.probes.rounding import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberBounds:
    """For each candidate the output as evaluated, how far the exact one may be from it, and the interval of the score.
    `widest_eps` is the largest row error bound; `evaluated` how many values of an export had to be computed anew.
    """

    output: Floats
    reach: Floats
    lower: Floats
    upper: Floats
    widest_eps: float = 0.0
    evaluated: int = 0


# An exported row counts as wrong, and is evaluated here, when its error bound is more than so many times the median one
# of its place: of 291,910 honest ones 10 pass 16 times, none 32. Such a row costs one product with W; left as it is, it
# would open every candidate that it stands for, and each of those costs about a hundred.
WRONG = 32.0


def export_names(depth: int, trusted: int) -> tuple[str, ...]:
    """What a device must export of a member of that depth when depths below `trusted` are evaluated here: the bond
    pre-activations a_t from there on, and the atoms' o. Nothing when `trusted` passes the depth.
    """
    return (*(f"a{t}" for t in range(max(trusted, 1), depth)), "o") if trusted <= depth else ()


def export_rows(env: Environments, trusted: int) -> int:
    """How many rows of one member are checked then."""
    depth = len(env.bonds)
    rows = [len(env.bonds[t].place) for t in range(max(trusted, 1), depth)]
    return sum(rows) + len(env.atoms.place) if trusted <= depth else 0


@np.errstate(invalid="ignore", over="ignore")
def member_bounds(
    member: Member,
    env: Environments,
    probes: Probes | None = None,
    *,
    trusted: int | None = None,
    wide: float = WIDE,
    wrong: float = WRONG,
) -> MemberBounds:
    """Bounds on the member's scores. Without probes all is evaluated in FP64, and its rounding alone is left.

    With them, bond depths below `trusted` are evaluated, the others and the atoms are read from the export and checked;
    rows there whose bound is more than `wrong` times the median are evaluated too, from what stands for their inputs.

    Maths: r_0 = rho; r_t = r_0 + |W_h| sum r_(t-1) + (eps or rho); r_o likewise; then the tail's local Jacobian J,
    masked where o surely is not positive: sum over atoms |J mask| r_o, plus what the tail's unstable elements may add.
    Candidates that are still more than `wide` times as wide as the median take the adjoint through W_o too.
    """
    depth = member.depth
    first = depth + 1 if probes is None else max(trusted or 1, 1)
    checked = _Checked(probes=probes, weights=member.weights, wrong=wrong)
    start = _evaluated(member.start, env.start_rows, np.zeros(len(env.bonds[0].place)))
    bonds = start
    for t in range(1, depth):
        level = env.bonds[t]
        if t < first:
            bonds = _stepped(member.step, start, level.known, bonds, level.index)
        else:
            bonds = checked.rows(f"a{t}", member.step, start, level.known, bonds, level.index)
    features = _evaluated(member.features, env.feature_rows, np.zeros(len(env.atom_features)))
    if first > depth:
        atoms = _stepped(member.message, features, env.atoms.features, bonds, env.atoms.index)
    else:
        atoms = checked.rows("o", member.message, features, env.atoms.features, bonds, env.atoms.index)
    found = _read_out(member, env, bonds, atoms, wide if first <= depth else np.inf)
    return replace(found, widest_eps=checked.widest_eps, evaluated=checked.evaluated)


def _evaluated(layer: Dense, inputs: NDArray[Any], radius: Floats) -> Rows:
    standing = forward([layer], inputs, radius)[-1]
    return Rows(values=standing.values, own=standing.own, radius=standing.radius)


def _stepped(layer: Dense, start: Rows, known: NDArray[np.intp], below: Rows, index: NDArray[Any]) -> Rows:
    """start[known] + W sum relu(below[index]) + b, evaluated in FP64."""
    width = index.shape[1]
    sums = rectified_sums(below.values, index, np.empty((len(index), layer.W.shape[1])))
    norms = gathered(row_norms_upper(below.values), index)
    values = _product(sums, layer.W)
    values += start.values[known]
    values += layer.b
    sizes = layer.abs_norm * norms + row_norms_upper(start.values)[known] + float(np.abs(layer.b).sum())
    own = raised(start.radius[known] + gamma_upper(layer.W.shape[1] + width + 8) * sizes + 2.0**-900, width + 16)
    radius = raised(own + layer.norm * gathered(below.radius, index), width + 8)
    return Rows(values=values, own=np.asarray(own), radius=np.asarray(radius))


@dataclass(slots=True, kw_only=True)
class _Checked:
    """The exported places of one member as they are checked, and what was found on the way."""

    probes: Probes | None
    weights: str
    wrong: float
    widest_eps: float = 0.0
    evaluated: int = 0

    def rows(
        self, name: str, layer: Dense, start: Rows, known: NDArray[np.intp], below: Rows, index: NDArray[Any]
    ) -> Rows:
        """The exported rows of that name, with those that are wrong evaluated anew, in the format of the export."""
        assert self.probes is not None
        term = Term(W=layer.W, inputs=below.values, index=index, slope=0.0)
        place = RowMap(terms=(term,), bias=layer.b, known=start.values, known_index=known)
        eps = check_rows(self.probes, name, place, weights=self.weights).eps
        values, own = self.probes.export.values[name], np.asarray(raised(start.radius[known] + eps, 4))
        wrong = np.flatnonzero(~(eps <= self.wrong * np.median(eps))) if len(eps) else known[:0]
        if len(wrong):
            anew = _stepped(layer, start, known[wrong], below, index[wrong])
            values = values.copy()
            values[wrong] = anew.values
            lost = row_norms_upper(values[wrong] - anew.values)
            own[wrong] = raised(anew.own + lost, 8)
        self.widest_eps = max(self.widest_eps, float(eps.max(initial=0.0)))
        self.evaluated += len(wrong) * values.shape[1]
        radius = raised(own + layer.norm * gathered(below.radius, index), index.shape[1] + 8)
        return Rows(values=values, own=own, radius=np.asarray(radius))


def _read_out(member: Member, env: Environments, bonds: Rows, atoms: Rows, wide: float) -> MemberBounds:
    """The scores from the atoms, and for wide ones from the bonds too."""
    starts, of = env.graphs.atom_starts, env.atoms.of
    divisor = member.divisors(np.diff(starts).astype(np.float64))
    pooled = _pooled(env, atoms, divisor)
    standings = forward(member.tail, pooled.values, pooled.radius)
    pull = pull_back(member.tail, standings, member.output)
    lengths = row_norms_upper(pull.J) + pull.excess
    roundings = int(np.diff(starts).max(initial=0)) + len(pull.J.T) + 32

    def reach_of(summed: Floats, some: NDArray[Any]) -> Floats:
        """How far those outputs may move where J (sum over atoms of relu(o)) moves by `summed`."""
        rest = lengths[some] * pooled.own[some] + pull.rest[some]
        return np.asarray(raised(summed / divisor[some] + rest, roundings))

    masked = masked_reach(pull.J, atoms.values, atoms.radius, of, starts, pull.excess)
    reach = reach_of(masked, np.arange(len(masked)))
    reach = np.minimum(reach, raised(lengths * pooled.radius + pull.rest, 16))
    found = _scored(member, standings[-1], reach)
    width = found.upper - found.lower
    chosen = np.flatnonzero(width > wide * np.median(width))
    if not len(chosen):
        return found
    pulled = bond_reach(member.message, env, bonds, atoms, pull, chosen)
    reach[chosen] = np.minimum(reach[chosen], reach_of(pulled, chosen))
    return _scored(member, standings[-1], reach)


def _pooled(env: Environments, atoms: Rows, divisor: Floats) -> Standing:
    """The sum over each candidate's atoms of relu(o), divided, in FP64."""
    starts, of, count = env.graphs.atom_starts, env.atoms.of, len(env.graphs)
    longest = int(np.diff(starts).max(initial=0))
    owners = np.repeat(np.arange(count), np.diff(starts))
    z = rectified_segments(atoms.values, of, starts, np.empty((count, atoms.values.shape[1])))
    z /= divisor[:, None]
    norms = np.bincount(owners, weights=row_norms_upper(atoms.values)[of], minlength=count) / divisor
    own = np.asarray(raised(gamma_upper(longest + 8) * norms, longest + 8))
    moved = np.bincount(owners, weights=atoms.radius[of], minlength=count) / divisor
    return Standing(values=z, own=own, radius=np.asarray(raised(moved + own, longest + 8)))


def _scored(member: Member, last: Standing, reach: Floats) -> MemberBounds:
    output = last.values[:, member.output]
    if member.sigmoid:
        lower, upper = sigmoid_interval(output, reach)
    else:
        known = np.isfinite(output) & np.isfinite(reach)
        lower = np.where(known, np.nextafter(output - reach, -np.inf), -np.inf)
        upper = np.where(known, np.nextafter(output + reach, np.inf), np.inf)
    return MemberBounds(output=output, reach=reach, lower=lower, upper=upper)


def _product(X: Floats, W: Floats) -> Floats:
    """X W^T in FP64 by torch, whose product is the faster one."""
    return torch.nn.functional.linear(torch.from_numpy(X), torch.from_numpy(W)).numpy()
