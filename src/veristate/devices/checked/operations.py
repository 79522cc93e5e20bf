"""Torch's operations as what they compute: products Y = X W^T + b, look-ups and sums by destination.

What reaches this is below autograd and autocast, so operands have the format they are multiplied in, whichever module
or function asked for the product.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Y = X W^T + b. Shapes: X [M, K], W [N, K], b [N] or None, Y [M, N]; or all with one leading batch dimension."""

    X: torch.Tensor
    W: torch.Tensor
    b: torch.Tensor | None
    Y: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """found = table[indices], bit for bit."""

    table: torch.Tensor
    indices: torch.Tensor
    found: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterSum:
    """sums[d] = initial[d] + the sum of rows[i] over index[i] = d. Shapes: rows [n, F], index [n], sums [D, F].

    `initial` is None where the sums began at zero. The index may differ by column, [n, F].
    """

    rows: torch.Tensor
    index: torch.Tensor
    initial: torch.Tensor | None
    sums: torch.Tensor


class NotCoveredError(Exception):
    """This form of an operation is not checked; the message says why."""


Watched = Product | Lookup | ScatterSum


def watched(name: str, args: tuple[Any, ...], named: dict[str, Any], out: torch.Tensor) -> Iterator[Watched]:
    """What one finished call computed. Raises: NotCoveredError; KeyError for an operation that is not known here."""
    yield from _READERS[name](args, named, out)


def is_watched(name: str) -> bool:
    """Whether an operation of that name is known here."""
    return name in _READERS


def sums_by_destination(name: str) -> bool:
    """Whether the operation adds into its first operand, or into a copy of it. Then `args[0]` is what it begins with,
    None for zeros.
    """
    return name.startswith(("index_add", "scatter_"))


def _linear(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    b = args[2] if len(args) > 2 else named.get("bias")
    X, W = args[:2]
    yield Product(X=_matrix(X), W=W, b=b, Y=_matrix(out))


def _addmm(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    bias, A, B = args
    if named.get("beta", 1) != 1 or named.get("alpha", 1) != 1:
        raise NotCoveredError("a product or bias with a factor")
    if bias.dim() != 1 and not (bias.dim() == 2 and bias.shape[0] == 1):
        raise NotCoveredError("a bias that differs from row to row")
    yield Product(X=A, W=B.t(), b=bias.reshape(-1).expand(B.shape[1]), Y=out)


def _mm(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    A, B = args
    yield Product(X=A, W=B.t(), b=None, Y=out)


def _mv(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    A, v = args
    yield Product(X=A, W=v[None, :], b=None, Y=out[:, None])


def _bmm(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    A, B = args
    yield Product(X=A, W=B.transpose(1, 2), b=None, Y=out)


def _baddbmm(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    if named.get("beta", 1) != 0 or named.get("alpha", 1) != 1:
        raise NotCoveredError("a batched product with a factor or an addend")
    yield from _bmm(args[1:], named, out)


def _convolution(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    """Every image and group as the product of its patches with the kernels."""
    X, W, b, stride, padding, dilation, transposed, _, groups = args
    spatial = W.dim() - 2
    if transposed or spatial not in (1, 2):
        raise NotCoveredError("a transposed or three-dimensional convolution")
    if X.device.type != "cpu":
        raise NotCoveredError("a convolution whose library may choose an algorithm that adds no products")
    if X.dim() == W.dim() - 1:
        X, out = X[None], out[None]
    if spatial == 1:  # as images of height 1
        X, W, out = X.unsqueeze(2), W.unsqueeze(2), out.unsqueeze(2)
        stride, padding, dilation = ([neutral, *given] for neutral, given in ((1, stride), (0, padding), (1, dilation)))
    kernels = W.reshape(groups, W.shape[0] // groups, -1)
    for image, result in zip(X, out, strict=True):
        patches = torch.nn.functional.unfold(
            image[None], tuple(W.shape[2:]), dilation=dilation, padding=padding, stride=stride
        )[0].reshape(groups, kernels.shape[2], -1)
        for g in range(groups):
            Y = result.reshape(groups, kernels.shape[1], -1)[g].t()
            own = None if b is None else b.reshape(groups, -1)[g]
            yield Product(X=patches[g].t(), W=kernels[g], b=own, Y=Y)


def _embedding(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    table, indices = args[:2]
    yield Lookup(table=table, indices=indices.reshape(-1), found=out.reshape(-1, table.shape[1]))


def _index_add(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    initial, dim, index, rows = args
    if named.get("alpha", 1) != 1:
        raise NotCoveredError("a sum by destination with a factor")
    yield _scatter(initial, dim, index, rows, out)


def _scatter_add(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    initial, dim, index, rows = args
    yield _scatter(initial, dim, index, rows, out)


def _scatter_reduce(args: Any, named: Any, out: torch.Tensor) -> Iterator[Watched]:
    initial, dim, index, rows, reduce = args
    if reduce != "sum":
        raise NotCoveredError(f"a {reduce} by destination")
    if initial is not None and not named.get("include_self", True):
        # Only places that nothing is added to keep what they had.
        touched = torch.zeros_like(initial, dtype=torch.bool).scatter_(dim, index, True)
        initial = initial.masked_fill(touched, 0)
    yield _scatter(initial, dim, index, rows, out)


def _scatter(
    initial: torch.Tensor | None, dim: int, index: torch.Tensor, rows: torch.Tensor, out: torch.Tensor
) -> ScatterSum:
    """The sum with its destinations first; trailing dimensions become columns."""
    if rows.dim() > 2 and index.dim() > 1:
        raise NotCoveredError("a sum by destination in more than two dimensions")
    if index.dim() > 1 and index.shape != rows.shape:
        raise NotCoveredError("a sum by destination of a part of its rows")
    rows, out = (_columns(a.movedim(dim, 0)) for a in (rows, out))
    initial = None if initial is None else _columns(initial.movedim(dim, 0))
    if index.dim() > 1:
        index = _columns(index.movedim(dim, 0))
        if out.shape[1] != rows.shape[1]:
            raise NotCoveredError("a sum by destination of a part of its columns")
    return ScatterSum(rows=rows, index=index, initial=initial, sums=out)


def _matrix(a: torch.Tensor) -> torch.Tensor:
    """Leading dimensions flattened into rows; not -1, since there may be none."""
    return a.reshape(a.shape[:-1].numel(), a.shape[-1])


def _columns(a: torch.Tensor) -> torch.Tensor:
    return a.reshape(a.shape[0], a.shape[1:].numel())


_READERS: dict[str, Callable[[Any, Any, torch.Tensor], Iterator[Watched]]] = {
    "linear": _linear,
    "addmm": _addmm,
    "mm": _mm,
    "mv": _mv,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "convolution": _convolution,
    "embedding": _embedding,
    "index_add": _index_add,
    "index_add_": _index_add,
    "scatter_add": _scatter_add,
    "scatter_add_": _scatter_add,
    "scatter_reduce": _scatter_reduce,
    "scatter_reduce_": _scatter_reduce,
}
