"""ESOL assay loop: fit, predict, measure the compounds nearest the threshold, fit again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristate.audit.tasks.cache import Arrays, prepared
from veristate.audit.tasks.catalogue import SOLUBILITY
from veristate.audit.tasks.judges import rmse, text_order
from veristate.audit.tasks.molecules import fingerprint_settings, morgan_bits, scaffold
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.splits import Split, grouped_split
from veristate.audit.tasks.task import Array, Change, Description, TaskOutcome, arrays_digest, multiply, unchanged
from veristate.core import digest

# Labelled at the start, query pool, test.
SPLIT = (128, 700, 300)
THRESHOLD = -2.0
SEEDS, ROUNDS, BATCH = 24, 5, 4
LANDMARKS, MEMBERS, RIDGE = 128, 4, 1.0
TARGET = "measured log solubility in mols per litre"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class EsolTask:
    """Similarities [n, 128] of all compounds to the landmarks (the compounds labelled at the start), in text order of
    the compounds' names, with the measured solubilities that a query reveals.
    """

    ids: tuple[str, ...]
    similarities: Array
    solubility: Floats
    split: Split

    def describe(self) -> Description:
        """The task in words."""
        return Description(
            name="esol",
            data="ESOL (Delaney 2004) as MoleculeNet processed it",
            size=(len(self.ids),),
            split=self.split.sizes(),
            computation="cosine similarities to landmarks through four ridge predictors, fitted again after each round",
            endpoint=f"the {ROUNDS * BATCH} compounds measured in {ROUNDS} rounds, for each of {SEEDS} seeds: those "
            f"whose mean prediction is nearest logS {THRESHOLD}",
            aggregate="mean test RMSE; measured compounds at or above the threshold",
            differs="ridge predictors (J.1) in place of a random forest (G.1); sizes of the scaffold split are ours",
        )

    def sites(self) -> tuple[str, ...]:
        """The predictions of every round."""
        return ("predictions",)

    def products(self) -> tuple[str, ...]:
        """The same."""
        return self.sites()

    def run(self, change: Change = unchanged) -> TaskOutcome:
        """Per seed the compounds measured, in their order."""
        rows = [self._loop(seed, change) for seed in range(SEEDS)]
        lists = np.array([measured for measured, _ in rows], dtype=np.intp)
        metrics = (
            ("RMSE", float(np.mean([error for _, error in rows]))),
            ("at or above the threshold", float((self.solubility[lists] >= THRESHOLD).sum())),
        )
        return TaskOutcome(lists=lists, labels=None, metrics=metrics)

    def digest(self) -> str:
        """Of similarities, measurements and split."""
        return arrays_digest(
            self.similarities, self.solubility, self.split.train, self.split.validation, self.split.test
        )

    def _loop(self, seed: int, change: Change) -> tuple[list[int], float]:
        """The positions measured, and the last fit's RMSE on the test rows."""
        labelled, pool = list(self.split.train), set(self.split.validation.tolist())
        measured: list[int] = []
        for round_number in range(ROUNDS):
            mean = self._predicted(labelled, [seed, round_number], change)
            # Position follows the identifier's text order: it breaks ties.
            nearest = sorted(pool, key=lambda row: (abs(mean[row] - THRESHOLD), row))[:BATCH]
            measured += nearest
            labelled += nearest
            pool -= set(nearest)
        mean = self._predicted(labelled, [seed, ROUNDS], change)
        return measured, rmse(mean[self.split.test], self.solubility[self.split.test])

    def _predicted(self, labelled: list[int], stream: list[int], change: Change) -> Floats:
        """Mean predictions [n] of ridges fitted on resamples of the labelled rows, in FP64 on a healthy machine."""
        rng = np.random.default_rng(stream)
        W, b = zip(*(self._ridge(rng.choice(labelled, len(labelled))) for _ in range(MEMBERS)), strict=True)
        Y = multiply(self.similarities, np.array(W, dtype=np.float32), np.array(b, dtype=np.float32))
        return np.asarray(change("predictions", Y).astype(np.float64).mean(axis=1))

    def _ridge(self, rows: NDArray[np.int64]) -> tuple[Floats, float]:
        """Coefficients [128] and offset: (F^T F + I) w = F^T (y - mean y), F the rows' centred similarities."""
        F, y = self.similarities[rows].astype(np.float64), self.solubility[rows]
        centre = F.mean(axis=0)
        F -= centre
        w = np.linalg.solve(F.T @ F + RIDGE * np.eye(F.shape[1]), F.T @ (y - y.mean()))
        return w, float(y.mean() - centre @ w)


def load(data: Data) -> EsolTask:
    """The task. Raises: EnvironmentUnusableError when the file is absent."""
    rows = data.table(SOLUBILITY, "esol", ("Compound ID", "smiles", TARGET))
    rows = [rows[i] for i in text_order([row["Compound ID"] for row in rows])]
    smiles = [row["smiles"].strip() for row in rows]
    inputs = (digest("\n".join(smiles).encode()),)
    held = prepared("esol", fingerprint_settings(), inputs, lambda: _molecules(smiles))
    split = grouped_split([str(text) for text in held["scaffolds"]], SPLIT, "esol")
    bits = np.unpackbits(held["bits"], axis=1).astype(np.float64)
    bits /= np.linalg.norm(bits, axis=1, keepdims=True)
    return EsolTask(
        ids=tuple(row["Compound ID"] for row in rows),
        similarities=(bits @ bits[split.train].T).astype(np.float32),
        solubility=np.array([float(row[TARGET]) for row in rows]),
        split=split,
    )


def _molecules(smiles: list[str]) -> Arrays:
    """Packed fingerprint "bits" and "scaffolds"; a molecule without rings is a group of its own."""
    bits = np.packbits(morgan_bits(smiles).astype(np.uint8), axis=1)
    return {"bits": bits, "scaffolds": np.array([scaffold(text) or text for text in smiles])}
