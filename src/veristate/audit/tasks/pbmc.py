"""PBMC neighbours: the ten most similar cells by normalised inner product, and a vote of the first five."""

from dataclasses import dataclass

import numpy as np

from veristate.audit.tasks.catalogue import CELLS
from veristate.audit.tasks.judges import best_columns, text_order
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.task import Array, Description, Indices, LayeredTask, Product, TaskOutcome

NEIGHBOURS, VOTERS = 10, 5


def load(data: Data) -> LayeredTask:
    """The task: X cells [700, 765], rows of length one in text order of their barcodes, one product with themselves.

    Raises: EnvironmentUnusableError when the file is absent.
    """
    held = data.arrays(CELLS, "pbmc", ("X", "barcodes", "louvain"))
    order = text_order([str(code) for code in held["barcodes"]])
    cells, labels = held["X"][order].astype(np.float64), held["louvain"][order].astype(np.intp)
    X = (cells / np.linalg.norm(cells, axis=1, keepdims=True)).astype(np.float32)
    return LayeredTask(
        about=Description(
            name="pbmc",
            data="scanpy's reduced 10x PBMC 68k: scaled genes and Louvain clusters",
            size=X.shape,
            split=(),
            computation="normalised inner products of cells",
            endpoint=f"the {NEIGHBOURS} nearest cells, the cell itself left out; {VOTERS} of them vote on its cluster",
            aggregate="share of votes that agree with the annotation",
            differs="700 cells x 765 genes of PBMC 68k in place of 2,638 x 1,838",
        ),
        X=X,
        layers=(Product(site="scores", W=X),),
        judge=NeighbourVote(labels=labels),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourVote:
    """Lists of each row's best columns without itself; the first five vote with their `labels`."""

    labels: Indices

    def __call__(self, scores: Array) -> TaskOutcome:
        """The lists, the votes (the smaller label on a tie), and how many agree with the rows' own labels."""
        others = scores.copy()
        np.fill_diagonal(others, -np.inf)
        lists = best_columns(others, NEIGHBOURS)
        voted = self.labels[lists[:, :VOTERS]]
        counts = (voted[:, :, None] == np.arange(self.labels.max() + 1)).sum(axis=1)
        votes = counts.argmax(axis=1)
        agreeing = float((votes == self.labels).mean())
        return TaskOutcome(lists=lists, labels=votes, metrics=(("agreement", agreeing),))
