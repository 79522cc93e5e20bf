"""The same difference in another healthy environment: its reference, and its reference plus the residual."""

from typing import Any

from numpy.typing import NDArray

from veristate.audit.captures import Capture, Provenance, Saved
from veristate.audit.interventions import with_residual
from veristate.audit.selections import Selection
from veristate.core import InputError


def in_environment(capture: Capture, reference: Saved) -> Capture:
    """The capture whose reference is that of environment B and whose candidate is Q(h_B + r), r being `capture`'s
    residual. Its candidate is constructed.

    Raises: InputError for a reference of another site, shape, representation, model, inputs or document order.
    Source: BioAgent-DF 2.2 (F_B(Q(h_B + r))).
    """
    Capture.of(capture.reference, reference)
    whole = Selection.full(capture.shape)
    values = with_residual(reference.values, capture.residual, whole, capture.representation)
    return Capture.of(reference, constructed_from(reference, values, "a residual on this environment's reference"))


def constructed_from(reference: Saved, values: NDArray[Any], note: str) -> Saved:
    """Values that software made in place of a device's; everything else is as the reference says it.

    Raises: InputError for values that don't fit.
    """
    if values.shape != reference.values.shape:
        raise InputError(f"values of shape {values.shape} don't fit a reference of shape {reference.values.shape}")
    told = reference.provenance
    return Saved.of(
        values,
        site=reference.site,
        representation=reference.representation,
        labels=reference.labels,
        provenance=Provenance(model=told.model, inputs=told.inputs, order=told.order, note=note, constructed=True),
    )
