"""A capture: reference and candidate at one site, admitted only when everything else is the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veristate.audit.captures.saved import Labels, Provenance, Saved
from veristate.core import InputError, Record, Site, canonical_bytes, digest
from veristate.numerics import Representation, storage_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRecord(Record):
    """What a capture is known by: `reference` and `candidate` are digests of the stored bits, `labels` of the names."""

    FORMAT: ClassVar[str] = "veristate.capture/1"
    site: Site
    shape: tuple[int, ...]
    representation: str
    labels: str
    reference: str
    candidate: str
    reference_provenance: Provenance
    candidate_provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Capture:
    """Reference h, candidate c, and `residual` = FP32(c) - FP32(h) in float32. Made by `of`, which refuses mismatches.

    Source: BioAgent-DF 2.1, 2.2.
    """

    reference: Saved
    candidate: Saved
    residual: NDArray[np.float32]

    @classmethod
    def of(cls, reference: Saved, candidate: Saved) -> Self:
        """The capture of two saved states.

        Raises: InputError naming the first difference of site, shape, representation, coordinates, document order,
        model or inputs. What one side states and the other doesn't is a difference. Settings may differ.
        """
        _require_match(reference, candidate)
        with np.errstate(over="ignore", invalid="ignore"):
            residual = candidate.values.astype(np.float32) - reference.values.astype(np.float32)
        residual.flags.writeable = False
        return cls(reference=reference, candidate=candidate, residual=residual)

    @property
    def h(self) -> NDArray[Any]:
        """The reference values."""
        return self.reference.values

    @property
    def c(self) -> NDArray[Any]:
        """The candidate values."""
        return self.candidate.values

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of both."""
        return self.reference.values.shape

    @property
    def representation(self) -> Representation:
        """The representation of both."""
        return self.reference.representation

    @property
    def site(self) -> Site:
        """Where both were saved."""
        return self.reference.site

    @property
    def labels(self) -> Labels:
        """The names of the coordinates."""
        return self.reference.labels

    @property
    def differing(self) -> NDArray[np.bool_]:
        """Delta, in the shape of the values: the coordinates whose stored bits differ.

        Differs: bits, where 2.4 has h_i != c_i: -0.0 against 0.0 is a difference, a NaN against itself none.
        """
        return np.asarray(
            storage_bits(self.h, self.representation) != storage_bits(self.c, self.representation), dtype=np.bool_
        )

    @property
    def constructed(self) -> bool:
        """Whether a simulator or a hand made one of the two."""
        return self.reference.provenance.constructed or self.candidate.provenance.constructed

    @property
    def record(self) -> CaptureRecord:
        """The record of this capture."""
        return CaptureRecord(
            site=self.site,
            shape=self.shape,
            representation=self.representation,
            labels=digest(canonical_bytes(self.labels)),
            reference=self.reference.bits_digest,
            candidate=self.candidate.bits_digest,
            reference_provenance=self.reference.provenance,
            candidate_provenance=self.candidate.provenance,
        )

    @property
    def digest(self) -> str:
        """The digest of the record: what a priority or a study names this capture by."""
        return self.record.digest


def _require_match(h: Saved, c: Saved) -> None:
    """Raises: InputError naming the first thing in which the two are not of the same computation."""
    _require_equal("site", _site(h.site), _site(c.site))
    _require_equal("shape", str(h.values.shape), str(c.values.shape))
    _require_equal("representation", h.representation, c.representation)
    _require_same_labels(h.labels, c.labels)
    _require_equal("document order (digest)", h.provenance.order, c.provenance.order)
    _require_same_digests("model", h.provenance.model, c.provenance.model)
    _require_same_digests("input", h.provenance.inputs, c.provenance.inputs)


def _require_equal(what: str, reference: str, candidate: str) -> None:
    if reference != candidate:
        raise InputError(
            f"different {what}: the reference has {reference or 'none stated'}, the candidate "
            f"{candidate or 'none stated'}; a capture pairs two executions of one computation"
        )


def _require_same_labels(reference: Labels, candidate: Labels) -> None:
    for axis, (ours, theirs) in enumerate(zip(reference, candidate, strict=True)):
        if ours == theirs:
            continue
        last = "document order" if axis == len(reference) - 1 else "coordinates"
        if not ours or not theirs:
            raise InputError(f"different {last}: one side has labels on axis {axis} and the other none; give both")
        where = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
        raise InputError(
            f"different {last}: axis {axis} first differs at coordinate {where}, {ours[where]!r} in the reference and "
            f"{theirs[where]!r} in the candidate; bring both to one order before they are saved"
        )


def _require_same_digests(what: str, reference: Mapping[str, str], candidate: Mapping[str, str]) -> None:
    for name in sorted(reference.keys() | candidate.keys()):
        _require_equal(f"{what} {name!r}", reference.get(name, ""), candidate.get(name, ""))


def _site(site: Site) -> str:
    return f"call {site.ordinal} of layer {site.layer!r}"
