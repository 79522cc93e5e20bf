"""Tiny predictors for the tests: three rows (tokens) a candidate in the first layers, one in the last."""

import os
from pathlib import Path

import numpy as np
import torch

TOKENS, FEATURES = 3, 8


def mood() -> str:
    """How the predictor was told to misbehave, or nothing."""
    path = Path(os.environ.get("VERISTATE_TEST_MOOD", "/nonexistent"))
    return path.read_text() if path.exists() else ""


class Net(torch.nn.Module):
    """Two layers on the tokens, a mean, one layer on the candidate."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(FEATURES, hidden, bias=False)
        self.second = torch.nn.Linear(hidden, 40)
        self.last = torch.nn.Linear(40, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of [n, TOKENS, FEATURES]."""
        hidden = torch.relu(self.second(torch.relu(self.first(tokens))))
        return torch.sigmoid(self.last(hidden.mean(dim=1)))[:, 0]


class Plain:
    """An ensemble that tells its rows."""

    def __init__(self, inputs: tuple[str, ...], nets: list[torch.nn.Module]) -> None:
        self.models = nets
        draws = [np.random.default_rng(int(text)).standard_normal((TOKENS, FEATURES)) for text in inputs]
        self.tokens = torch.from_numpy(np.stack(draws)).float()

    def score(self, member: int, positions: range) -> torch.Tensor:
        """Probabilities."""
        net = self.models[member]
        scores = net(self.tokens[positions.start : positions.stop].to(net.last.weight.dtype))
        return scores + 2.0**-20 if mood() == "drift" else scores

    def rows(self, positions: range, rows: int) -> np.ndarray | None:
        """Tokens or candidates."""
        if mood() == "lie":
            return np.arange(rows + 1)
        owners = np.arange(positions.start, positions.stop)
        return {len(owners) * TOKENS: np.repeat(owners, TOKENS), len(owners): owners}.get(rows)


class Blind:
    """The same without a map of its rows."""

    def __init__(self, made: Plain) -> None:
        self.models, self.score = made.models, made.score


def nets(count: int, hidden: int = 12, seed: int = 5) -> list[torch.nn.Module]:
    """Nets with weights from a seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [Net(hidden) for _ in range(count)]


def plain(inputs: tuple[str, ...]) -> Plain:
    """Two members."""
    return Plain(inputs, nets(2))


def blind(inputs: tuple[str, ...]) -> Blind:
    """Two members that can't tell their rows."""
    return Blind(plain(inputs))


def formats(inputs: tuple[str, ...]) -> Plain:
    """Members kept in float32, bfloat16, float64 and float16, and one whose outputs take megabytes."""
    kinds = (torch.float32, torch.bfloat16, torch.float64, torch.float16)
    kept = [net.to(kind) for net, kind in zip(nets(4), kinds, strict=True)]
    return Plain(inputs, kept + nets(1, hidden=12_000, seed=6))


def moody_weights(inputs: tuple[str, ...]) -> Plain:
    """Other weights in every process."""
    return Plain(inputs, nets(1, seed=os.getpid()))


def long_scores(inputs: tuple[str, ...]) -> Plain:
    """Scores of the wrong shape."""
    made = plain(inputs)
    made.score = lambda member, positions: torch.zeros(len(positions) + 1)
    return made


def list_scores(inputs: tuple[str, ...]) -> Plain:
    """Scores that are no tensor."""
    made = plain(inputs)
    made.score = lambda member, positions: [0.5 for _ in positions]
    return made


def no_models(inputs: tuple[str, ...]) -> object:
    """An object without models."""
    return object()


def wrong_models(inputs: tuple[str, ...]) -> Plain:
    """Members that are no torch modules."""
    return Plain(inputs, [str])


NOT_CALLABLE = 3
