"""From exports to score bounds of one message-passing member: trusted layers, checked layers, and what they leave open.

On distinct environments alone: a candidate's score is evaluated here, from the rows that stand for its bonds and atoms;
what the device itself made of the others is never read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.devices.certified.graphs import Environments
from veristate.devices.certified.members import Member
from veristate.numerics.probes import (
    Dense,
    Probes,
    Pull,
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
class Rows:
    """The distinct rows of one place: their values, exported or evaluated, and the radius that holds the exact ones."""

    values: NDArray[Any]
    radius: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberBounds:
    """For each candidate the output as evaluated, how far the exact one may be from it, and the interval of the score.
    `widest_eps` is the largest row error bound; `evaluated` how many values of an export had to be computed anew, where
    values are certified.
    """

    output: Floats
    reach: Floats
    lower: Floats
    upper: Floats
    widest_eps: float
    evaluated: int = 0


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
    member: Member, env: Environments, probes: Probes | None = None, *, trusted: int | None = None
) -> MemberBounds:
    """Bounds on the member's scores. Without probes all is evaluated in FP64, and its rounding alone is left.

    With them, bond depths below `trusted` are evaluated, the others and the atoms are read from the export and checked.

    Maths: r_0 = rho; r_t = r_0 + |W_h| sum r_(t-1) + (eps or rho); r_o likewise; then the tail's local Jacobian J,
    masked where o surely is not positive: sum over atoms |J mask| r_o, plus what the tail's unstable elements may add.
    Differs: a further adjoint, through W_o to the bonds, would cost a product per atom and save a few units at most.
    """
    depth = member.depth
    first = depth + 1 if probes is None else max(trusted or 1, 1)
    eps_seen: list[float] = []
    start = _evaluated(member.start, env.start_rows, np.zeros(len(env.bonds[0].place)))
    rows = start
    for t in range(1, depth):
        level = env.bonds[t]
        if t < first:
            rows = _stepped(member.step, start, level.known, rows, level.index)
            continue
        assert probes is not None
        term = Term(W=member.step.W, inputs=rows.values, index=level.index, slope=0.0)
        layer = RowMap(terms=(term,), bias=member.step.b, known=start.values, known_index=level.known)
        rows = _checked(probes, f"a{t}", layer, member, start.radius[level.known], rows, level.index, eps_seen)
    features = _evaluated(member.features, env.feature_rows, np.zeros(len(env.atom_features)))
    atoms = env.atoms
    if probes is None or first > depth:
        rows = _stepped(member.message, features, atoms.features, rows, atoms.index)
    else:
        term = Term(W=member.message.W, inputs=rows.values, index=atoms.index, slope=0.0)
        layer = RowMap(terms=(term,), known=features.values, known_index=atoms.features)
        rows = _checked(probes, "o", layer, member, features.radius[atoms.features], rows, atoms.index, eps_seen)
    return _read_out(member, env, rows, max(eps_seen, default=0.0))


def _evaluated(layer: Dense, inputs: NDArray[Any], radius: Floats) -> Rows:
    standing = forward([layer], inputs, radius)[-1]
    return Rows(values=standing.values, radius=standing.radius)


def _stepped(layer: Dense, start: Rows, known: NDArray[np.intp], below: Rows, index: NDArray[Any]) -> Rows:
    """start[known] + W sum relu(below[index]) + b, evaluated in FP64."""
    width = index.shape[1]
    sums = rectified_sums(below.values, index, np.empty((len(index), layer.W.shape[1])))
    norms = gathered(row_norms_upper(below.values), index)
    values = _product(sums, layer.W)
    values += start.values[known]
    values += layer.b
    sizes = layer.abs_norm * norms + row_norms_upper(start.values)[known] + float(np.abs(layer.b).sum())
    own = gamma_upper(layer.W.shape[1] + width + 8) * sizes + 2.0**-900
    radius = start.radius[known] + layer.norm * gathered(below.radius, index) + own
    return Rows(values=values, radius=np.asarray(raised(radius, width + 16)))


def _checked(
    probes: Probes,
    name: str,
    layer: RowMap,
    member: Member,
    start_radius: Floats,
    below: Rows,
    index: NDArray[Any],
    eps_seen: list[float],
) -> Rows:
    """The exported rows of that name; a row that is not finite has an infinite radius and stands as zero."""
    eps = check_rows(probes, name, layer, weights=member.weights).eps
    norm = (member.message if name == "o" else member.step).norm
    radius = raised(start_radius + norm * gathered(below.radius, index) + eps, index.shape[1] + 8)
    eps_seen.append(float(eps.max(initial=0.0)))
    return Rows(values=probes.export.values[name], radius=np.asarray(radius))


def _read_out(member: Member, env: Environments, rows: Rows, widest: float) -> MemberBounds:
    starts = env.graphs.atom_starts
    count = len(env.graphs)
    divisor = member.divisors(np.diff(starts).astype(np.float64))
    longest = int(np.diff(starts).max(initial=0))
    of = env.atoms.of
    owners = np.repeat(np.arange(count), np.diff(starts))
    z = rectified_segments(rows.values, of, starts, np.empty((count, rows.values.shape[1])))
    z /= divisor[:, None]
    norms = np.bincount(owners, weights=row_norms_upper(rows.values)[of], minlength=count) / divisor
    own = np.asarray(raised(gamma_upper(longest + 8) * norms, longest + 8))
    moved = np.bincount(owners, weights=rows.radius[of], minlength=count) / divisor
    radius = np.asarray(raised(moved + own, longest + 8))
    standings = forward(member.tail, z, radius)
    pull = pull_back(member.tail, standings, member.output)
    masked = masked_reach(pull.J, rows.values, rows.radius, of, starts, pull.excess) / divisor
    lengths = row_norms_upper(pull.J) + pull.excess
    reach = raised(masked + lengths * own + pull.rest, longest + z.shape[1] + 32)
    return _scored(member, standings[-1], pull, np.minimum(reach, raised(lengths * radius + pull.rest, 16)), widest)


def _scored(member: Member, last: Standing, pull: Pull, reach: Floats, widest: float) -> MemberBounds:
    output = last.values[:, member.output]
    if member.sigmoid:
        lower, upper = sigmoid_interval(output, reach)
    else:
        known = np.isfinite(output) & np.isfinite(reach)
        lower = np.where(known, np.nextafter(output - reach, -np.inf), -np.inf)
        upper = np.where(known, np.nextafter(output + reach, np.inf), np.inf)
    return MemberBounds(output=output, reach=reach, lower=lower, upper=upper, widest_eps=widest)


def _product(X: Floats, W: Floats) -> Floats:
    """X W^T in FP64 by torch, whose product is the faster one."""
    return torch.nn.functional.linear(torch.from_numpy(X), torch.from_numpy(W)).numpy()
