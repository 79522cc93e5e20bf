"""A pass that is checked by probes on its exports: run here on the suspect device, certified by the trusted process."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import EnvironmentUnusableError, InputError
from veristate.decisions import Question
from veristate.decisions.enclosures import Wanted
from veristate.devices.faults import FaultModel
from veristate.devices.predictors import Predictor
from veristate.devices.predictors.spec import state_digest
from veristate.devices.trusted.certification import Certification, RowsAsked
from veristate.devices.trusted.executor import Group, TrustedExecutor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExportedPass:
    """The scores as the device gave them, float32 [members, candidates], what the trusted process certifies, and the
    seconds of both.
    """

    scores: NDArray[np.float32]
    certification: Certification
    seconds: float


def run_exported(
    predictor: Predictor,
    trusted: TrustedExecutor,
    question: Question,
    wanted: Wanted,
    *,
    fault: FaultModel | None = None,
    progress: Callable[[Group], None] | None = None,
) -> ExportedPass:
    """The pass that was planned as probes, member by member; `fault` acts before anything is exported.

    Raises: as `TrustedExecutor.certify` does; InputError when the two processes loaded different weights, since every
    difference would look like a fault.
    """
    from veristate.devices.certified import Exporter, batch_spans, run_exporting

    if predictor.weight_digests() != trusted.weight_digests:
        raise InputError("the trusted process loaded other weights than this one: name the same files to both")
    start = time.perf_counter()
    weights: dict[int, str] = {}
    rows: dict[int, list[NDArray[np.float32]]] = {}

    def export(asked: RowsAsked, rooms: Mapping[str, NDArray[np.float32]]) -> tuple[NDArray[np.float32], str]:
        spans = batch_spans(predictor, asked.batches)  # type: ignore[arg-type]
        exporter = Exporter(asked.depth, asked.places, spans, lambda name, shape: _fitting(rooms[name], shape))
        scores = run_exporting(
            predictor,  # type: ignore[arg-type]
            asked.member,
            asked.batches,
            exporter,
            fault=fault,
            progress=progress,
        )
        if asked.member not in weights:
            weights[asked.member] = state_digest(predictor.models[asked.member])
        rows.setdefault(asked.member, []).append(scores)
        return scores, weights[asked.member]

    certification = trusted.certify(question, wanted, export)
    scores = np.stack([np.concatenate(rows[member]) for member in sorted(rows)])
    return ExportedPass(scores=scores, certification=certification, seconds=time.perf_counter() - start)


def no_export(_asked: RowsAsked, _rooms: Mapping[str, NDArray[np.float32]]) -> tuple[NDArray[np.float32], str]:
    """The suspect's part of a pass that needs none. Raises: EnvironmentUnusableError when it is asked all the same."""
    raise EnvironmentUnusableError("the trusted process asked for an export that was not planned")


def _fitting(room: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    if room.shape != shape:
        raise InputError(f"rows of shape {shape} were to be exported where {room.shape} were asked for")
    return room
