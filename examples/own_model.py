"""Screen with a model of your own: anything that scores through torch, an ensemble of three here.

The factory is called once in each of the two processes; both must come to the same weights (compared by digest).
Run it: python examples/own_model.py
"""

import csv
import sys
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_breast_cancer


class Ensemble:
    """Three small networks trained on the first 300 tumours of the Wisconsin data, scoring the others."""

    def __init__(self, inputs: tuple[str, ...]) -> None:
        data = load_breast_cancer()
        X = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0), dtype=torch.float32)
        y = torch.tensor(1 - data.target, dtype=torch.float32)
        self.features = X[[int(text) for text in inputs]]
        self.models = [train(member, X[:300], y[:300]) for member in range(3)]

    def score(self, member: int, positions: range) -> torch.Tensor:
        """The probability of malignancy of those candidates by one member."""
        return torch.sigmoid(self.models[member](self.features[positions.start : positions.stop]))[:, 0]


def train(seed: int, X: torch.Tensor, y: torch.Tensor) -> torch.nn.Module:
    """A network after 300 steps from that seed.

    Plain gradient steps: an optimiser of torch's would load its compiler, seconds in each of the two processes.
    """
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(30, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    weights = tuple(model.parameters())
    for _ in range(300):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(X)[:, 0], y)
        with torch.no_grad():
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight -= 0.5 * gradient
    return model


def make(inputs: tuple[str, ...]) -> Ensemble:
    """The factory: called with the input column of the table."""
    return Ensemble(inputs)


def main() -> None:
    """Writes a table of the tumours that were not trained on, and screens it."""
    from veristate.interfaces.cli import main as veristate

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "tumours.csv"
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([["id", "row"], *([f"tumour-{i}", i] for i in range(300, 569))])
        sys.argv[1:] = ["screen", str(table), "--smiles-column", "row", "--predictor", "own_model:make"]
        sys.argv += ["--inject", "case2", "--seed", "5", "--compare", "--store", f"{folder}/home"]
        veristate()


if __name__ == "__main__":
    import os

    # The trusted process must find this module too.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    main()
