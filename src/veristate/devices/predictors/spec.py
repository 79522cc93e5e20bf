"""What a predictor is, in strings and digests alone: both processes of a run load the same thing from it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import Dtype, canonical_bytes, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorSpec:
    """An ensemble and how it is run.

    `kind` is "chemprop" (`members` are checkpoint paths, `digests` their SHA-256, `output` the column that is the
    score, None where there is but one) or "factory" (`factory` is "module:callable", `digests` those of the members'
    weights, once known). `batch` candidates at a time in table order, the last batch short: the geometry belongs to the
    contract. `unsafe_pickle` allows a checkpoint whose digest nobody gave.
    """

    kind: Literal["chemprop", "factory"]
    dtype: Dtype
    device: str
    batch: int
    members: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    output: int | None = None
    factory: str = ""
    threads: int = 1
    unsafe_pickle: bool = False

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "PredictorSpec":
        """The spec that `to_json` wrote."""
        values = dict(content)
        return cls(**values | {"members": tuple(values["members"]), "digests": tuple(values["digests"])})

    def batches(self, count: int) -> tuple[range, ...]:
        """The candidates of each batch, as ranges of table positions."""
        return tuple(range(i, min(i + self.batch, count), 1) for i in range(0, count, self.batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The table in its original order. `inputs` is what the predictor reads of a candidate: a SMILES, or the row."""

    ids: tuple[str, ...]
    inputs: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Of identifiers and inputs in order."""
        return digest(canonical_bytes({"ids": list(self.ids), "inputs": list(self.inputs)}))


class Predictor(Protocol):
    """An ensemble in memory, over one table of candidates.

    Law: `run(member, batch)` depends on nothing but its arguments and the contract's settings.
    """

    models: tuple[torch.nn.Module, ...]
    batches: tuple[range, ...]

    def run(self, member: int, batch: int) -> NDArray[np.float32]:
        """The scores of one batch by one member, in table order, widened to float32."""
        ...

    def rows(self, batch: int, rows: int) -> NDArray[np.intp] | None:
        """The table position of the candidate that each of `rows` rows of a layer call belongs to, or None when the
        predictor can't tell: then every candidate of the batch is meant.
        """
        ...

    def weight_digests(self) -> tuple[str, ...]:
        """One digest per member of what was loaded."""
        ...

    def libraries(self) -> dict[str, str]:
        """The versions of what turns a candidate into numbers, beside torch: they belong to the contract."""
        ...


def state_digest(model: torch.nn.Module) -> str:
    """A digest of the names, dtypes, shapes and bytes of a model's parameters and buffers."""
    entries = []
    for name, tensor in sorted(model.state_dict().items()):
        held = tensor.detach().to("cpu").contiguous()
        raw = digest(held.reshape(-1).view(torch.uint8).numpy().tobytes() if held.numel() else b"")
        entries.append([name, str(held.dtype), list(held.shape), raw])
    return digest(canonical_bytes(entries))
