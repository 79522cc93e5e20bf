"""Feed-forward chains whose every layer is rounded correctly (contract C3): from a device's sums before rounding.

A device hands over each wide layer's sums in float32. Probes bound how far a row is off; nearly every element rounds
one way all over that interval, and the few others are evaluated here. So the whole table is certified, not the
decisions alone, and a device whose own chain went another way is corrected where it did.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristate.decisions.enclosures import Declined
from veristate.devices.certified.bounds import MemberBounds
from veristate.devices.certified.models import Propagation
from veristate.numerics.formats import Format
from veristate.numerics.probes import (
    Probes,
    RowMap,
    Term,
    check_rows,
    products_exact,
    rounded,
    rounded_layer,
    rounded_sigmoid,
    rounded_sums,
)
from veristate.numerics.probes.rounding import Floats


def unrounded(propagation: Propagation, form: Format) -> Declined | None:
    """Why C3 is not known for that chain, or None: the rounding of a leaky slope is not stated, and a format's products
    must be exact in FP64.
    """
    if not products_exact(form):
        return Declined(reason=f"C3 in {form.name}: its products are not exact in FP64", next_strategy="full")
    slopes = [step.slope if step.dense is None else step.dense.slope for step in propagation.steps]
    pools = [step for step in propagation.steps if step.dense is None]
    if any(slope not in (0.0, 1.0) for slope in slopes) or any(step.slope != 0.0 for step in pools):
        return Declined(reason="C3 is stated for ReLU, before a pool too, and for no other slope", next_strategy="full")
    if propagation.link == "softmax":
        return Declined(reason="C3 is stated for a sigmoid or no link, not for a softmax", next_strategy="full")
    return None


def rounded_bounds(
    propagation: Propagation, inputs: NDArray[Any], form: Format, probes: Probes | None = None
) -> MemberBounds:
    """The scores [n], each a single float32: layers rounded once from exact values, the sigmoid rounded to float32.

    With probes the exported layers' sums are taken where bounds settle them. Raises: InputError where a value is beyond
    the format's range, or the export is of other weights.
    """
    x, count, evaluated, widest = rounded(inputs.reshape(-1, inputs.shape[-1]), form), len(inputs), 0, 0.0
    for step in propagation.steps:
        if step.dense is None:
            each = len(x) // count
            divisor = np.full(count, step.divide or float(each))
            x, more = rounded_sums(x, np.arange(len(x)), form, starts=np.arange(count + 1) * each, divisor=divisor)
        else:
            x = x if step.dense.slope == 1.0 else np.maximum(x, 0.0)
            W, b, seen = rounded(step.dense.W, form), rounded(step.dense.b, form), None
            if probes is not None and step.exported:
                layer = RowMap(terms=(Term(W=W, inputs=x, index=np.arange(len(x))[:, None]),), bias=b)
                eps = check_rows(probes, step.name, layer, weights=propagation.weights).eps
                seen = _within(probes.export.values[step.name], eps)
                widest = max(widest, float(seen[1].max(initial=0.0)))
            x, more = rounded_layer(W, b, x, form, seen=seen)
        evaluated += more
    output, scores = x[:, propagation.output], _scored(propagation, x).astype(np.float64)
    return MemberBounds(
        output=output, reach=np.zeros(count), lower=scores, upper=scores, widest_eps=widest, evaluated=evaluated
    )


def rounded_accumulators(
    propagation: Propagation, inputs: NDArray[Any], form: Format
) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
    """(scores, exports) of a device that computes this contract: sums in float32, in its own order, then rounded."""
    x, count, found = rounded(inputs.reshape(-1, inputs.shape[-1]), form), len(inputs), {}
    for step in propagation.steps:
        if step.dense is None:
            sums = np.maximum(x, 0.0).reshape(count, -1, x.shape[1]).sum(axis=1)
            x = rounded(sums / (step.divide or float(len(x) // count)), form)
            continue
        x = x if step.dense.slope == 1.0 else np.maximum(x, 0.0)
        W, b = (rounded(a, form).astype(np.float32) for a in (step.dense.W, step.dense.b))
        z = x.astype(np.float32) @ W.T + b
        if step.exported:
            found[step.name] = z
        x = rounded(z, form)
    return _scored(propagation, x), found


def _scored(propagation: Propagation, x: Floats) -> NDArray[np.float32]:
    output = x[:, propagation.output]
    return rounded_sigmoid(output) if propagation.link == "sigmoid" else output.astype(np.float32)


def _within(values: NDArray[Any], eps: Floats) -> tuple[Floats, Floats]:
    """Values that are not finite say nothing: they stand as zeros within infinity."""
    bad = ~np.isfinite(values).all(axis=1)
    return np.where(bad[:, None], 0.0, values).astype(np.float64), np.where(bad, np.inf, eps)
