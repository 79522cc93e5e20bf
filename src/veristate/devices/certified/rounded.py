"""A message-passing member whose every layer is rounded correctly: one value on every machine (contract C3).

Operands are rounded to the format first, then each pre-activation, message sum, pooled row and tail layer once, from
its exact value. Equal environments have equal exact sums, so each distinct one is evaluated once, in any order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.devices.certified.graphs import Environments
from veristate.devices.certified.members import Member
from veristate.numerics.formats import Format
from veristate.numerics.probes import Dense, rounded, rounded_layer, rounded_sigmoid, rounded_sums
from veristate.numerics.probes.rounding import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundedScores:
    """Scores [n] in float32, and how many values were so near a midpoint that a fraction had to tell."""

    scores: NDArray[np.float32]
    fractions: int


def rounded_scores(member: Member, env: Environments, form: Format) -> RoundedScores:
    """The scores of all candidates of `env` by that member, float32, correctly rounded as all before them.

    Maths: a_0 = RN(W_i (x || e)); a_t = RN(a_0 + W_h RN(sum relu(a_(t-1)))); o = RN(W_o (x || RN(sum relu(a))) + b);
    z = RN(sum relu(o) / norm); each layer of the tail is rounded once; the score is RN32(sigmoid(output)).
    Raises: InputError where a value is beyond the format's range.
    """
    start, counted = _layer(member.start, rounded(env.start_rows, form), form)
    rows = start
    for level in env.bonds[1:]:
        sums, more = rounded_sums(rows, level.index, form)
        rows, evaluated = _layer(member.step, sums, form, add=start[level.known])
        counted += more + evaluated
    atoms = env.atoms
    sums, more = rounded_sums(rows, atoms.index, form)
    inputs = np.concatenate([rounded(env.feature_rows, form)[atoms.features], sums], axis=1)
    both = np.concatenate([member.features.W, member.message.W], axis=1)
    rows, evaluated = rounded_layer(rounded(both, form), rounded(member.features.b, form), inputs, form)
    starts = env.graphs.atom_starts
    divisor = member.divisors(np.diff(starts).astype(np.float64))
    z, pooled = rounded_sums(rows, atoms.of, form, starts=starts, divisor=divisor)
    counted += more + evaluated + pooled
    for layer in member.tail:
        z, evaluated = _layer(layer, z if layer.slope == 1.0 else np.maximum(z, 0.0), form)
        counted += evaluated
    output = z[:, member.output]
    scores = rounded_sigmoid(output) if member.sigmoid else output.astype(np.float32)
    return RoundedScores(scores=scores, fractions=counted)


def _layer(layer: Dense, X: Floats, form: Format, add: Floats | None = None) -> tuple[Floats, int]:
    return rounded_layer(rounded(layer.W, form), rounded(layer.b, form), X, form, add=add)
