"""A pass on the device that is not trusted, its captures streamed to the trusted process as they arise."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.core import InputError
from veristate.devices.faults import FaultModel, injecting
from veristate.devices.predictors import Predictor
from veristate.devices.trusted import CheckedPass, Group, TrustedExecutor
from veristate.devices.watch import LinearCall, watch


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectPass:
    """The scores of a pass, float32 [members, candidates], what the checks say of it, and the seconds it took."""

    scores: NDArray[np.float32]
    checked: CheckedPass
    seconds: float


def run_suspect(
    predictor: Predictor,
    trusted: TrustedExecutor,
    *,
    fault: FaultModel | None = None,
    entropy: str = "",
    progress: Callable[[Group], None] | None = None,
) -> SuspectPass:
    """All groups in order, member by member, every linear call checked by `trusted`.

    `fault` acts on layer outputs before the watcher reads them. The scores are what the device gave, NaN included.

    Raises: InputError when the two processes loaded different weights: every difference would look like a fault.
    """
    if predictor.weight_digests() != trusted.weight_digests:
        raise InputError(
            "the trusted process loaded other weights than this one: a factory must make the same models every time "
            "(set its seed, or read the weights from a file)"
        )
    start = time.perf_counter()
    rows = []
    with trusted.checking(entropy=entropy) as stream:
        for member, model in enumerate(predictor.models):
            scores = []
            for batch in range(len(predictor.batches)):

                def on_call(call: LinearCall, group: Group = (member, batch)) -> None:
                    stream.put(*group, call)

                with injecting(model, fault, member, batch), watch(model, on_call):
                    scores.append(predictor.run(member, batch))
                if progress:
                    progress((member, batch))
            rows.append(np.concatenate(scores))
    assert stream.result is not None
    return SuspectPass(scores=np.stack(rows), checked=stream.result, seconds=time.perf_counter() - start)


def require_probabilities(scores: NDArray[np.float32], ids: tuple[str, ...]) -> None:
    """Raises InputError naming candidates whose score is NaN or outside [0, 1]."""
    bad = ~((scores >= 0) & (scores <= 1)).all(axis=0)
    if bad.any():
        names = ", ".join(ids[i] for i in np.flatnonzero(bad)[:5])
        raise InputError(f"{int(bad.sum())} candidates have scores that are not probabilities in [0, 1]: {names}")
