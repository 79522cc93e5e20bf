"""One adjoint further (T2): a score's local Jacobian pulled on through W_o, from the atoms to the bonds they receive.

It costs a product with W_o for each atom, since a Jacobian is a candidate's own and equal environments share nothing.
So it is for the candidates whose interval is still wide.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.devices.certified.graphs import Environments
from veristate.numerics.probes import (
    Dense,
    Pull,
    gamma_upper,
    gathered,
    masked_reach,
    pass_stable,
    raised,
    row_norms_upper,
)
from veristate.numerics.probes.rounding import Floats

Indices = NDArray[np.integer[Any]]
# A candidate is wide when its interval is more than so many times the median one. Measured: on a clean pass these are
# 120 of 14,225 units, for 0.3 % of a forward; 2 takes a quarter of them for 4 %, and under faults leaves as many open.
# Relative, since outputs have units of their own, and since a pass that is wide all over is evaluated anyway.
WIDE = 6.0
# Atoms whose Jacobians are held at once: three such arrays of 300 columns take 15 MB.
_ATOMS = 2048


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The distinct rows of one place: their values, exported or evaluated, what these err by themselves (`own`), given
    the rows that they were made of, and the radius that holds the exact ones.
    """

    values: NDArray[Any]
    own: Floats
    radius: Floats


@np.errstate(invalid="ignore", over="ignore")
def bond_reach(message: Dense, env: Environments, bonds: Rows, atoms: Rows, pull: Pull, chosen: Indices) -> Floats:
    """For each chosen candidate, what J (sum over its atoms of relu(o)) may be off by, from its bonds' radii.

    Maths: an atom's o = W_o sum relu(a) + ... is off by W_o (sum of what relu(a) is off by) + its own error. Where o
    surely is positive, q = J passes, and W_o^T q meets each bond's radius where a may be positive; |q| meets the own
    error; where o may change its sign, |J_k| meets what o_k may be off by. Each atom takes this, or |J masked| times
    its radius, as without the adjoint, whichever is less. What J and W_o^T q are rounded by meets all the same radii.
    Shapes: candidates [C] to [C]; not divided by the number of atoms.
    """
    starts = env.graphs.atom_starts
    lengths = (starts[1:] - starts[:-1])[chosen]
    found = np.zeros(len(chosen))
    cuts = np.flatnonzero(np.diff(np.cumsum(lengths) // _ATOMS, prepend=-1))
    for first, last in zip(cuts, [*cuts[1:], len(chosen)], strict=True):
        some = chosen[first:last]
        owners = np.repeat(np.arange(len(some)), lengths[first:last])
        places = np.concatenate([np.arange(starts[c], starts[c + 1]) for c in some])
        each = _atom_reach(message, env, bonds, atoms, pull, some[owners], env.atoms.of[places])
        found[first:last] = np.bincount(owners, weights=each, minlength=len(some))
    return np.asarray(raised(found, int(lengths.max(initial=0)) + 8))


def _atom_reach(
    message: Dense, env: Environments, bonds: Rows, atoms: Rows, pull: Pull, owners: Indices, rows: Indices
) -> Floats:
    """What each atom, of class `rows` and candidate `owners`, adds to that."""
    excess, values, radius, own = pull.excess[owners], atoms.values[rows], atoms.radius[rows], atoms.own[rows]
    index = env.atoms.index[rows]
    q = pull.J[owners]
    near = masked_reach(q, atoms.values, atoms.radius, rows, np.arange(len(rows) + 1), excess)
    moved = np.asarray(raised(gathered(bonds.radius, index), index.shape[1] + 8))
    q, charged = pass_stable(q, values, radius, 0.0, (moved, np.asarray(raised(own, 8)), message.row_norms))
    lengths = row_norms_upper(q)
    lost = gamma_upper(len(q.T) + 2) * message.abs_norm * lengths
    pulled = torch.mm(torch.from_numpy(q), torch.from_numpy(message.W)).numpy()
    ends = np.concatenate([[0], np.cumsum((index >= 0).sum(axis=1))])
    far = masked_reach(pulled, bonds.values, bonds.radius, index[index >= 0], ends, lost)
    far += charged + lengths * own + excess * radius
    roundings = q.shape[1] + pulled.shape[1] + index.shape[1] + 32
    return np.asarray(np.minimum(raised(near, roundings), raised(far, roundings)))
