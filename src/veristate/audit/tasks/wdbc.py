"""WDBC: malignant or benign, from 30 morphology features of a nucleus."""

import numpy as np

from veristate.audit.tasks.catalogue import CYTOLOGY
from veristate.audit.tasks.judges import Classes
from veristate.audit.tasks.learned import learned, standardised
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.splits import grouped_split
from veristate.audit.tasks.task import Description, LayeredTask, layers_of
from veristate.devices import Training

SPLIT = (401, 83, 85)


def load(data: Data) -> LayeredTask:
    """The task: X features [569, 30] standardised by the training rows, layers 30 -> 512 -> 256 -> 2.

    Raises: EnvironmentUnusableError when the file is absent.
    """
    lines = data.read(CYTOLOGY, "wdbc").decode().splitlines()[1:]
    table = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    features, known = table[:, :-1], table[:, -1]
    split = grouped_split([line.rsplit(",", 1)[0] for line in lines], SPLIT, "wdbc")
    X = standardised(features, split.train)
    return LayeredTask(
        about=Description(
            name="wdbc",
            data="Wisconsin diagnostic breast cancer, as scikit-learn ships it",
            size=features.shape,
            split=split.sizes(),
            computation="a network 30 -> 512 -> 256 -> 2 over standardised features",
            endpoint="the class of every row",
            aggregate="accuracy on the test rows",
            differs="which rows are training rows, and the training, are ours",
        ),
        X=X,
        layers=layers_of(learned("wdbc", X, known, split, Training(hidden=(512, 256), classes=2, epochs=30))),
        judge=Classes(known=known.astype(np.intp), test=split.test),
    )
