"""Evaluator and exact check of `climb`: 100 - (x - peak)^2, rejected outside [0, 10]."""

from fractions import Fraction

from veristate.research import Rejection, Score


def evaluate(candidate, parameters):
    """The height in floating point."""
    x = float((candidate / "x.txt").read_text())
    if not 0 <= x <= 10:
        return Rejection(reason=f"x = {x} is not in [0, 10]")
    return Score(metric=100 - (x - parameters["peak"]) ** 2, details={"x": str(x)})


def audit(candidate, parameters):
    """The height as an exact fraction, when it ends in decimals."""
    x = Fraction((candidate / "x.txt").read_text().strip())
    if not 0 <= x <= 10:
        return Rejection(reason="outside")
    return Score(metric=str(float(100 - (x - parameters["peak"]) ** 2)))
