"""Tensors as the arrays that checks read, and weights prepared once for each version of a parameter."""

from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.numerics import Representation, Stored, Weights

_NARROW: dict[torch.dtype, Representation] = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """The tensor's values: its own memory where numpy knows the format, float32 copies of bfloat16 and float16."""
    held = tensor.detach()
    if held.dtype == torch.float32 and held.device.type == "cpu" and not held.is_neg():  # as nearly all are
        return np.asarray(held.numpy())
    held = held.resolve_conj().resolve_neg()
    if held.dtype in _NARROW:
        held = held.float()
    array: NDArray[Any] = held.cpu().numpy()
    return array


def operand_of(tensor: torch.Tensor) -> NDArray[Any] | Stored:
    """An operand's values as `array_of` has them, or the bits they are stored in where a check reads those."""
    if tensor.dtype not in _NARROW or tensor.device.type != "cpu" or tensor.stride(-1) != 1 or tensor.is_neg():
        return array_of(tensor)
    bits: NDArray[Any] = tensor.detach().view(torch.int16).numpy().view(np.uint16)
    return Stored(bits=bits, representation=_NARROW[tensor.dtype])


class PreparedWeights:
    """Weights of a model's parameters and buffers, prepared once for each version of them.

    A tensor counts as a parameter's when it lies at the address of one that lives: what else is multiplied may be gone
    tomorrow and its memory another's. Tied weights are one parameter. Torch counts in-place changes; one it does not
    count (through `.data`) is noticed when a check does not pass: then `fresh` prepares again before anything is said.
    """

    def __init__(self, model: torch.nn.Module | None) -> None:
        self._owners: dict[int, tuple[str, ReferenceType[torch.Tensor]]] = {}
        self._prepared: dict[Any, tuple[int, Weights]] = {}
        self._model = model
        self._find()

    def name(self, W: torch.Tensor) -> str | None:
        """The parameter whose memory W begins at, or None."""
        owner = self._owners.get(W.data_ptr())
        if owner is None:
            return None
        parameter = owner[1]()
        return owner[0] if parameter is not None and parameter.data_ptr() == W.data_ptr() else None

    def of(self, W: torch.Tensor, b: torch.Tensor | None, *, fresh: bool = False) -> tuple[Weights, bool]:
        """The weights, and whether they were prepared before this call."""
        name = self.name(W)
        if name is None:
            return Weights.of(array_of(W), None if b is None else array_of(b)), False
        key = (name, tuple(W.shape), W.stride(), W.dtype, None if b is None else b.data_ptr())
        version = _version(W) + (0 if b is None else _version(b))
        kept = self._prepared.get(key)
        if kept is not None and kept[0] == version and not fresh:
            return kept[1], True
        weights = Weights.of(array_of(W), None if b is None else array_of(b))
        self._prepared[key] = (version, weights)
        return weights, False

    def _find(self) -> None:
        if self._model is None:
            return
        for name, tensor in [*self._model.named_parameters(), *self._model.named_buffers()]:
            if tensor.numel() and tensor.layout == torch.strided:
                self._owners.setdefault(tensor.data_ptr(), (name, ref(tensor)))


def _version(tensor: torch.Tensor) -> int:
    """Torch's count of in-place changes; an inference tensor has none and can't be changed outside inference."""
    return -1 if tensor.is_inference() else int(tensor._version)
