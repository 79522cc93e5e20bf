"""Small dense networks trained on the CPU: scientific tools whose arithmetic an audit then changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from veristate.core import InputError

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a network is trained: `hidden` widths, `epochs` over the training rows in batches, AdamW's rate 1/`inverse`.

    `classes` of 0 means a number per row, learned by mean squared error; else labels 0, 1, ..., by cross-entropy.
    """

    hidden: tuple[int, ...]
    classes: int = 0
    epochs: int = 60
    batch: int = 128
    inverse_rate: int = 1000
    seed: int = 20260910


@contextmanager
def one_thread() -> Iterator[None]:
    """While open, torch computes on one thread: how many it has decides the bits it gives."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def train_network(
    X: NDArray[np.float32],
    y: NDArray[np.float64],
    train: NDArray[np.intp],
    validation: NDArray[np.intp],
    training: Training,
) -> tuple[Layer, ...]:
    """The layers (W [N, K], b [N]) of the epoch with the least validation loss, ReLU between them; float32, one thread.

    Numbers are standardised with the training rows while learning; the last layer gives them on their own scale.
    Raises: InputError without training or validation rows.
    """
    if not len(train) or not len(validation):
        raise InputError("a network needs training and validation rows")
    centre, scale = (0.0, 1.0) if training.classes else (float(y[train].mean()), float(y[train].std()))
    inputs = torch.from_numpy(np.ascontiguousarray(X))
    targets = torch.from_numpy(y).long() if training.classes else torch.from_numpy((y - centre) / scale).float()
    generator = torch.Generator().manual_seed(training.seed)
    model = _network(X.shape[1], training, generator)
    loss = torch.nn.CrossEntropyLoss() if training.classes else torch.nn.MSELoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1 / training.inverse_rate, weight_decay=0.01)
    rows, held = torch.from_numpy(train), torch.from_numpy(validation)
    best, kept = float("inf"), _layers(model)
    for _ in range(training.epochs):
        for batch in _batches(rows, training.batch, generator):
            optimizer.zero_grad()
            loss(_outputs(model, inputs[batch], training), targets[batch]).backward()
            optimizer.step()
        with torch.inference_mode():
            found = float(loss(_outputs(model, inputs[held], training), targets[held]))
        if found < best:
            best, kept = found, _layers(model)
    W, b = kept[-1]
    return (*kept[:-1], ((W * scale).astype(np.float32), (b * scale + centre).astype(np.float32)))


def _network(width: int, training: Training, generator: torch.Generator) -> torch.nn.Sequential:
    """Layers drawn from the generator alone: no global random state is read or moved but the one restored here."""
    widths = (width, *training.hidden, training.classes or 1)
    model = torch.nn.Sequential()
    with torch.random.fork_rng(devices=[]):
        for K, N in pairwise(widths):
            model.append(torch.nn.Linear(K, N)).append(torch.nn.ReLU())
    model.pop(-1)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.kaiming_uniform_(parameter, generator=generator)
        else:
            torch.nn.init.zeros_(parameter)
    return model


def _outputs(model: torch.nn.Sequential, X: torch.Tensor, training: Training) -> torch.Tensor:
    Y: torch.Tensor = model(X)
    return Y if training.classes else Y[:, 0]


def _batches(rows: torch.Tensor, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    shuffled = rows[torch.randperm(len(rows), generator=generator)]
    for start in range(0, len(rows), size):
        yield shuffled[start : start + size]


def _layers(model: torch.nn.Sequential) -> tuple[Layer, ...]:
    linear = [module for module in model if isinstance(module, torch.nn.Linear)]
    return tuple((m.weight.detach().numpy().copy(), m.bias.detach().numpy().copy()) for m in linear)


def torch_version() -> str:
    """The version of torch, for the keys of what is cached."""
    return str(torch.__version__)
