"""What every task is: products at named sites, a judgement of their scores, and words that describe both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from veristate.core import canonical_bytes, digest

Array = NDArray[np.float32]
Indices = NDArray[np.intp]

# Takes a site's name and the values computed there, gives the values the task goes on with: same shape, float32.
Change = Callable[[str, Array], Array]


def unchanged(site: str, Y: Array) -> Array:
    """Y itself: the reference run."""
    return Y


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A task in words. `size` counts its data, `split` its training, validation and test rows where it has such;
    `differs` says where it is not the paper's.
    """

    name: str
    data: str
    size: tuple[int, ...]
    split: tuple[int, ...]
    computation: str
    endpoint: str
    aggregate: str
    differs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What scores decide.

    `lists` [lists, k] are positions, the best first; `labels` [n] are classes; None where the task has no such.
    `metrics` are the aggregates, (name, value).
    """

    lists: Indices | None
    labels: Indices | None
    metrics: tuple[tuple[str, float], ...]

    def metric(self, name: str) -> float:
        """One aggregate."""
        return dict(self.metrics)[name]


class Task(Protocol):
    """A task in memory, read-only.

    Law: `run(change)` depends on nothing but the task and what `change` gives; sites are passed in one fixed order.
    """

    def describe(self) -> Description:
        """The task in words."""
        ...

    def sites(self) -> tuple[str, ...]:
        """The sites whose values may be changed, in the order of the computation."""
        ...

    def products(self) -> tuple[str, ...]:
        """Those sites that hold a matrix product's output: where a faulty device would act."""
        ...

    def run(self, change: Change = unchanged) -> TaskOutcome:
        """The outcome when each site's values are replaced by what `change` makes of them."""
        ...

    def digest(self) -> str:
        """Of the arrays that the reference scores follow from."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One layer: relu(X W^T + b), X [M, K], W [N, K], b [N]; `relu` and `b` only where the layer has them.

    A `healthy` layer's values can't be changed: it belongs to what follows the audited computation.
    """

    site: str
    W: Array
    b: Array | None = None
    relu: bool = False
    healthy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredTask:
    """Products one after another from X [M, K], and the judgement of what the last one gives."""

    about: Description
    X: Array
    layers: tuple[Product, ...]
    judge: Callable[[Array], TaskOutcome]

    def describe(self) -> Description:
        """The task in words."""
        return self.about

    def sites(self) -> tuple[str, ...]:
        """The layers' sites, without the healthy ones."""
        return tuple(layer.site for layer in self.layers if not layer.healthy)

    def products(self) -> tuple[str, ...]:
        """All of them."""
        return self.sites()

    def scores(self, change: Change = unchanged) -> Array:
        """The last layer's values [M, N]."""
        X = self.X
        for layer in self.layers:
            Y = multiply(X, layer.W, layer.b)
            Y = Y if layer.healthy else change(layer.site, Y)
            X = np.maximum(Y, np.float32(0)) if layer.relu else Y
        return X

    def run(self, change: Change = unchanged) -> TaskOutcome:
        """What the judge makes of the scores."""
        return self.judge(self.scores(change))

    def digest(self) -> str:
        """Of X and the layers."""
        biases = [layer.b for layer in self.layers if layer.b is not None]
        return arrays_digest(self.X, *(layer.W for layer in self.layers), *biases)


def multiply(X: Array, W: Array, b: Array | None = None) -> Array:
    """X W^T + b in float32."""
    Y: Array = X @ W.T
    if b is not None:
        Y += b
    return Y


def arrays_digest(*arrays: NDArray[np.generic]) -> str:
    """A digest of dtypes, shapes and bytes."""
    entries = [[str(a.dtype), list(a.shape), digest(np.ascontiguousarray(a).tobytes())] for a in arrays]
    return digest(canonical_bytes(entries))


def layers_of(weights: tuple[tuple[Array, Array], ...]) -> tuple[Product, ...]:
    """Layers "layer_0", "layer_1", ... with a ReLU after each but the last."""
    last = len(weights) - 1
    return tuple(Product(site=f"layer_{i}", W=W, b=b, relu=i < last) for i, (W, b) in enumerate(weights))
