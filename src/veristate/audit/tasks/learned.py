"""Networks that tasks learn once and keep: trained by `devices`, cached by inputs and settings."""

from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from veristate.audit.tasks.cache import Arrays, prepared
from veristate.audit.tasks.splits import Split
from veristate.audit.tasks.task import Array, arrays_digest
from veristate.devices import Training, torch_version, train_network


def learned(
    name: str, X: Array, y: NDArray[np.float64], split: Split, training: Training
) -> tuple[tuple[Array, Array], ...]:
    """The layers (W, b) of the network for that task. Cached."""

    def train() -> Arrays:
        layers = train_network(X, y, split.train, split.validation, training)
        return {f"{kind}{i}": a for i, layer in enumerate(layers) for kind, a in zip("Wb", layer, strict=True)}

    inputs = (arrays_digest(X, y, split.train, split.validation),)
    settings = {**asdict(training), "torch": torch_version()}
    held = prepared(name, settings, inputs, train)
    return tuple((held[f"W{i}"], held[f"b{i}"]) for i in range(len(training.hidden) + 1))


def standardised(X: NDArray[np.floating], train: NDArray[np.intp]) -> Array:
    """X less the training rows' means, over their standard deviations (1 where a column does not vary), float32."""
    values = X.astype(np.float64)
    spread = values[train].std(axis=0)
    return np.asarray((values - values[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0), dtype=np.float32)
