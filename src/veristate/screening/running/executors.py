"""The two executions of a run, side by side: the suspect's predictor here, the trusted executor in its own process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from veristate.devices import Granularity, Predictor, TrustedExecutor, load_predictor, prepare_process
from veristate.screening.inputs.prepare import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """Both, loaded from one spec."""

    suspect: Predictor
    trusted: TrustedExecutor


@contextmanager
def start_executors(prepared: Prepared, trusted_device: str, granularity: Granularity) -> Iterator[Executors]:
    """Both executors; the trusted process loads while this one does. Raises: as loading does."""
    spec = prepared.trusted_spec(trusted_device)
    device = prepared.spec.device
    with TrustedExecutor(spec, prepared.candidates, granularity=granularity, suspect_device=device) as trusted:
        prepare_process(prepared.spec.device, prepared.spec.threads)
        suspect = load_predictor(prepared.spec, prepared.candidates)
        trusted.wait_until_loaded()
        yield Executors(suspect=suspect, trusted=trusted)
