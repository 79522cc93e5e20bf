"""hERG assay allocation with labels: which compounds to measure, and which to test before they advance."""

from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from veristate.audit.tasks.cache import Arrays, prepared
from veristate.audit.tasks.catalogue import BLOCKERS, MEMBERS
from veristate.audit.tasks.judges import area_under_curve, best_columns, text_order
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.task import (
    Array,
    Change,
    Description,
    Indices,
    Product,
    TaskOutcome,
    arrays_digest,
    multiply,
    unchanged,
)
from veristate.core import EnvironmentUnusableError, digest
from veristate.devices import Candidates, PredictorSpec, load_predictor, read_outs

COHORT, TOP, THRESHOLD = 2009, 402, 0.5
OUTPUT, BATCH = 30, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class HergTask:
    """Each member's learned fingerprints [n, 300] and its read-out layers, for `ids` in text order with `labels`."""

    ids: tuple[str, ...]
    labels: Indices
    rows: int
    fingerprints: tuple[Array, ...]
    layers: tuple[tuple[Product, ...], ...]

    def describe(self) -> Description:
        """The task in words."""
        return Description(
            name="herg",
            data="CardioTox labels (blocker: IC50 below 10 uM), the five hERG members of admet-ai",
            size=(self.rows, len(self.ids)),
            split=(),
            computation="read-out 300 -> 300 -> 31 of each member over its learned fingerprints; mean probability",
            endpoint=f"the {TOP} compounds with the highest probability, and triage at {THRESHOLD}",
            aggregate=f"labelled blockers among the {TOP}, AUROC, accuracy of triage",
            differs="other members, and a cohort of 2,009 drawn by digest: the paper's is not published, and this one "
            "was not held out from the members' training; message passing is not a site",
        )

    def sites(self) -> tuple[str, ...]:
        """The read-out products of every member."""
        return tuple(layer.site for layers in self.layers for layer in layers)

    def products(self) -> tuple[str, ...]:
        """All of them."""
        return self.sites()

    def scores(self, change: Change = unchanged) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Mean probabilities [n]: a sigmoid of each member's hERG column in float64."""
        members = [self._logits(member, change) for member in range(len(self.layers))]
        with np.errstate(over="ignore"):
            return np.asarray(np.mean([1 / (1 + np.exp(-logits)) for logits in members], axis=0))

    def run(self, change: Change = unchanged) -> TaskOutcome:
        """The selection, the triage and their aggregates."""
        scores, blocker = self.scores(change), self.labels.astype(np.bool_)
        lists = best_columns(scores[None, :], TOP)
        triage = scores >= THRESHOLD
        metrics = (
            ("blockers selected", float(blocker[lists[0]].sum())),
            ("AUROC", area_under_curve(scores, blocker)),
            ("accuracy", float((triage == blocker).mean())),
        )
        return TaskOutcome(lists=lists, labels=triage.astype(np.intp), metrics=metrics)

    def digest(self) -> str:
        """Of fingerprints, layers and labels."""
        weights = [a for layers in self.layers for layer in layers for a in (layer.W, layer.b) if a is not None]
        return arrays_digest(self.labels, *self.fingerprints, *weights)

    def _logits(self, member: int, change: Change) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        X = self.fingerprints[member]
        for layer in self.layers[member]:
            Y = change(layer.site, multiply(X, layer.W, layer.b))
            X = np.maximum(Y, np.float32(0)) if layer.relu else Y
        return X[:, OUTPUT].astype(np.float64)


def load(data: Data) -> HergTask:
    """The task: the 2,009 compounds with the smallest SHA-256 of their identifier. Raises: EnvironmentUnusableError."""
    rows = data.table(BLOCKERS, "herg", ("id", "smiles", "label"))
    drawn = sorted(rows, key=lambda row: digest(row["id"].encode()))[:COHORT]
    cohort = [drawn[i] for i in text_order([row["id"] for row in drawn])]
    candidates = Candidates(ids=tuple(r["id"] for r in cohort), inputs=tuple(r["smiles"] for r in cohort))
    inputs = (candidates.digest, *(member.content for member in MEMBERS))
    settings = {"batch": BATCH, **{name: version(name) for name in ("torch", "chemprop", "rdkit")}}
    held = prepared("herg", settings, inputs, lambda: _read_outs(data, candidates))
    return HergTask(
        ids=candidates.ids,
        labels=np.array([int(row["label"]) for row in cohort], dtype=np.intp),
        rows=len(rows),
        fingerprints=tuple(held[f"X{member}"] for member in range(len(MEMBERS))),
        layers=tuple(_layers(held, member) for member in range(len(MEMBERS))),
    )


def _read_outs(data: Data, candidates: Candidates) -> Arrays:
    found = [data.find(member) for member in MEMBERS]
    paths = tuple(str(file.path) for file in found if file)
    if len(paths) < len(MEMBERS):
        raise EnvironmentUnusableError(f"the task herg lacks {data.missing(MEMBERS[found.index(None)])}")
    spec = PredictorSpec(
        kind="chemprop",
        dtype="fp32",
        device="cpu",
        batch=BATCH,
        members=paths,
        digests=tuple(member.content for member in MEMBERS),
        output=OUTPUT,
    )
    arrays: Arrays = {}
    for member, read in enumerate(read_outs(load_predictor(spec, candidates), "predictor.ffn")):
        arrays[f"X{member}"] = read.inputs
        for number, (W, b) in enumerate(read.layers):
            arrays[f"W{member}_{number}"], arrays[f"b{member}_{number}"] = W, b
    return arrays


def _layers(held: Arrays, member: int) -> tuple[Product, ...]:
    count = sum(name.startswith(f"W{member}_") for name in held)
    return tuple(
        Product(
            site=f"member_{member}.layer_{number}",
            W=held[f"W{member}_{number}"],
            b=held[f"b{member}_{number}"],
            relu=number < count - 1,
        )
        for number in range(count)
    )
