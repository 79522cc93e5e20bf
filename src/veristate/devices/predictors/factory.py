"""A user's own predictor: anything that maps candidates to scores per member through torch.

`module:factory` names a callable. It receives the tuple of inputs (the SMILES column, or any column the user names)
and returns an object with

    models   a sequence of torch.nn.Module, one per member
    score(member, positions) -> tensor [len(positions)] of probabilities, computed by models[member] for those rows

and, if it can tell, `rows(positions, rows) -> array [rows]`: the table position each row of a layer call belongs to.
"""

import inspect
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import InputError, digest
from veristate.devices.predictors.spec import Candidates, PredictorSpec, state_digest


class FactoryPredictor:
    """An ensemble made by a user's factory."""

    def __init__(self, spec: PredictorSpec, candidates: Candidates) -> None:
        self._spec = spec
        self._made = _call(spec.factory, candidates)
        self._source = _source_digest(self._made)
        self.models = tuple(m.eval().to(spec.device) for m in _members(self._made, spec.factory))
        self.batches = spec.batches(len(candidates.ids))
        self._digests = tuple(state_digest(model) for model in self.models)
        if spec.digests and self._digests != spec.digests:
            raise InputError(
                f"{spec.factory} made other weights than before: {self._digests} instead of {spec.digests}"
            )

    def run(self, member: int, batch: int) -> NDArray[np.float32]:
        """The scores of one batch by one member."""
        bf16 = torch.autocast(torch.device(self._spec.device).type, dtype=torch.bfloat16)
        positions = self.batches[batch]
        with torch.inference_mode(), bf16 if self._spec.dtype == "bf16" else nullcontext():
            scores = self._made.score(member, positions)
        if not isinstance(scores, torch.Tensor) or scores.shape != (len(positions),):
            shape = getattr(scores, "shape", type(scores).__name__)
            raise InputError(
                f"{self._spec.factory}: score() gave {shape}, expected a tensor of {len(positions)} scores"
            )
        return scores.float().cpu().numpy()

    def rows(self, batch: int, rows: int) -> NDArray[np.intp] | None:
        """The user's own map, or one row a candidate when the numbers agree, or None."""
        positions = self.batches[batch]
        if callable(getattr(self._made, "rows", None)):
            owners = self._made.rows(positions, rows)
            return None if owners is None else self._checked_rows(np.asarray(owners), positions, rows)
        return np.arange(positions.start, positions.stop) if rows == len(positions) else None

    def libraries(self) -> dict[str, str]:
        """The digest of the file the factory stands in; what else it uses is not known."""
        return {"factory_source": self._source}

    def weight_digests(self) -> tuple[str, ...]:
        """A digest of each member's parameters and buffers, as they were loaded."""
        return self._digests

    def _checked_rows(self, owners: NDArray[Any], positions: range, rows: int) -> NDArray[np.intp]:
        inside = owners.shape == (rows,) and bool(((owners >= positions.start) & (owners < positions.stop)).all())
        if not inside or not np.issubdtype(owners.dtype, np.integer):
            raise InputError(
                f"{self._spec.factory}: rows() must give {rows} table positions in {positions.start}.."
                f"{positions.stop - 1}, or None; it gave {owners.dtype} {owners.shape}"
            )
        return owners.astype(np.intp)


def _call(name: str, candidates: Candidates) -> Any:
    module, _, attribute = name.partition(":")
    try:
        factory = getattr(import_module(module), attribute)
        if not callable(factory):
            raise TypeError(f"{attribute} is not callable")
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InputError(f"--predictor {name}: {error}; expected module:factory, importable from here") from error
    return factory(candidates.inputs)


def _members(made: Any, name: str) -> tuple[torch.nn.Module, ...]:
    models = tuple(getattr(made, "models", ()))
    if not models or not all(isinstance(m, torch.nn.Module) for m in models) or not hasattr(made, "score"):
        raise InputError(f"{name} must return an object with `models` (torch modules) and `score(member, positions)`")
    return models


def _source_digest(made: Any) -> str:
    """The SHA-256 of the source file of what the factory made; "none" where there is no file."""
    try:
        file = inspect.getsourcefile(type(made))
    except TypeError:
        file = None
    return digest(Path(file).read_bytes()) if file and Path(file).is_file() else "none"
