"""Outputs whose residuals lie at their bounds: what decides alike here decides alike everywhere."""

import numpy as np

from veristate.numerics import Operands, check_linear

from . import honest

# Elements that carry a correction: each adds its format's significand bits, and float64 has 53.
CARRIERS = {honest.F32: 3, honest.B16: 6}


def rows_near(call, arithmetic, form, rng, **options):
    """The call with other outputs, that have the definition's residual of every row at its bound, ever closer: three
    for each element that carries the correction, itself at the nearest value, one step below it and one above.
    """
    M, N = call.Y.shape
    expected = _product(call).sum(axis=1) + call.weights.b.sum()
    carriers = [(np.arange(M), np.full(M, column), 1.0) for column in rng.permutation(N)[: CARRIERS[form]]]

    def cells(Y):
        found = check_linear(with_outputs(call, Y), arithmetic, **options).rows
        return np.sign(Y.sum(axis=1) - expected) * found.residual, found.bound

    yield from _near(call, form, rng, carriers, cells)


def columns_near(call, arithmetic, form, rng, signs, **options):
    """The same for every column cell of the first draw, whose signs [M] are given."""
    M, N = call.Y.shape
    step = options["block"] or M
    starts = np.arange(0, M, step)
    expected = np.add.reduceat(signs[:, None] * (_product(call) + call.weights.b), starts)
    carriers = []
    for offset in range(min(CARRIERS[form], M - starts[-1])):
        rows = np.repeat(starts + offset, N)
        carriers.append((rows, np.tile(np.arange(N), len(starts)), signs[rows]))

    def cells(Y):
        found = check_linear(with_outputs(call, Y), arithmetic, **options).columns
        side = np.sign(np.add.reduceat(signs[:, None] * Y, starts) - expected)
        return (side * found.residual[0]).ravel(), found.bound[0].ravel()

    yield from _near(call, form, rng, carriers, cells)


def with_outputs(call, Y):
    """The call with outputs Y."""
    return Operands(X=call.X, weights=call.weights, Y=Y.astype(np.float32))


def _product(call):
    return call.X.astype(np.float64) @ call.weights.W.astype(np.float64).T


def _near(call, form, rng, carriers, cells):
    """Sets the elements of one carrier (rows, columns, signs) after the other to bring each cell to its bound."""
    Y = call.Y.astype(np.float64)
    for rows, columns, _ in carriers:
        Y[rows, columns] = 0.0
    wanted = rng.choice([-1.0, 1.0], len(carriers[0][0]))
    for rows, columns, signs in carriers:
        residual, bound = cells(Y)
        move = np.clip(wanted * bound - residual, -(2.0**127), 2.0**127)
        Y[rows, columns] = honest.narrow(Y[rows, columns] + signs * np.nan_to_num(move), form)
        for direction in (0, -1, 1):
            near = Y.copy()
            near[rows, columns] += direction * _step(Y[rows, columns], form)
            yield with_outputs(call, near)


def _step(values, form):
    """How far apart values of the format lie at each value."""
    _, exponent = np.frexp(values)
    return np.ldexp(1.0, np.maximum(exponent, form[1] + 1) - form[0])
