"""Optical digits: 256 learned features of an image, read by a classification head that stays healthy."""

import numpy as np

from veristate.audit.tasks.catalogue import DIGITS
from veristate.audit.tasks.judges import Classes
from veristate.audit.tasks.learned import learned
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.splits import grouped_split
from veristate.audit.tasks.task import Description, LayeredTask, Product
from veristate.devices import Training

SPLIT = (1271, 247, 279)


def load(data: Data) -> LayeredTask:
    """The task: X images [1797, 64] over 16, the site "features" [1797, 256], then the head.

    Raises: EnvironmentUnusableError when the file is absent.
    """
    lines = data.read(DIGITS, "digits").decode().split()
    table = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    known = table[:, -1]
    X = (table[:, :-1] / 16).astype(np.float32)
    split = grouped_split([line.rsplit(",", 1)[0] for line in lines], SPLIT, "digits")
    (W, b), (head, offset) = learned("digits", X, known, split, Training(hidden=(256,), classes=10))
    return LayeredTask(
        about=Description(
            name="digits",
            data="scikit-learn's optical digits, 8 x 8 pixels",
            size=X.shape,
            split=split.sizes(),
            computation="256 features (64 -> 256) and a healthy head 256 -> 10",
            endpoint="the class of every image",
            aggregate="accuracy on the test rows",
            differs="which rows are training rows, the features and the training, are ours",
        ),
        X=X,
        layers=(
            Product(site="features", W=W, b=b, relu=True),
            Product(site="head", W=head, b=offset, healthy=True),
        ),
        judge=Classes(known=known.astype(np.intp), test=split.test),
    )
