"""Splice junctions: donor, acceptor or neither, from 60 bases."""

import numpy as np

from veristate.audit.tasks.catalogue import SPLICE
from veristate.audit.tasks.judges import Classes
from veristate.audit.tasks.learned import learned
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.splits import grouped_split
from veristate.audit.tasks.task import Array, Description, LayeredTask, layers_of
from veristate.core import InputError
from veristate.devices import Training

SPLIT = (2232, 496, 462)
CLASSES = ("EI", "IE", "N")
BASES, LENGTH = "ACGT", 60


def load(data: Data) -> LayeredTask:
    """The task: X sequences [3190, 240] encoded one base in four, layers 240 -> 128 -> 64 -> 3.

    Raises: EnvironmentUnusableError when the file is absent, InputError for a sequence of another length.
    """
    lines = data.read(SPLICE, "splice").decode().split("\n")
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    rows = [row for row in rows if row[0] in CLASSES]
    sequences = [row[2] for row in rows]
    known = np.array([CLASSES.index(row[0]) for row in rows], dtype=np.float64)
    split = grouped_split(sequences, SPLIT, "splice")
    X = encoded(sequences)
    return LayeredTask(
        about=Description(
            name="splice",
            data="UCI Molecular Biology (Splice-junction Gene Sequences)",
            size=(len(rows), LENGTH),
            split=split.sizes(),
            computation="240-dimensional encoding through a network 240 -> 128 -> 64 -> 3",
            endpoint="the class of every sequence",
            aggregate="accuracy on the test rows",
            differs="which rows are training rows, the widths and the training, are ours",
        ),
        X=X,
        layers=layers_of(learned("splice", X, known, split, Training(hidden=(128, 64), classes=3, epochs=20))),
        judge=Classes(known=known.astype(np.intp), test=split.test),
    )


def encoded(sequences: list[str]) -> Array:
    """[n, 240] of zeros and ones, a base being one of four; a letter that is none of A, C, G, T is four zeros."""
    if any(len(sequence) != LENGTH for sequence in sequences):
        raise InputError(f"a splice sequence has not {LENGTH} letters")
    letters = np.array([list(sequence) for sequence in sequences])
    return np.asarray((letters[:, :, None] == np.array(list(BASES))).reshape(len(sequences), -1), dtype=np.float32)
