"""GB1 variants: four sites of protein G's domain, every variant ranked by predicted fitness."""

import numpy as np

from veristate.audit.tasks.catalogue import VARIANTS
from veristate.audit.tasks.judges import TopK
from veristate.audit.tasks.learned import learned
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.splits import Split
from veristate.audit.tasks.task import Description, LayeredTask, layers_of
from veristate.devices import Training

TOP = 96
TRAIN, TEST, VALIDATION = 0, 1, 2


def load(data: Data) -> LayeredTask:
    """The task: X variants [149361, 80] encoded one residue in twenty, in text order; layers 80 -> 128 -> 64 -> 1.

    Raises: EnvironmentUnusableError when the file is absent.
    """
    held = data.arrays(VARIANTS, "gb1", ("variant", "alphabet", "fitness", "split_three_vs_rest"))
    # The alphabet is in text order, so variants sort as their indices do.
    order = np.lexsort(held["variant"].T[::-1])
    variants, fitness, part = (held[name][order] for name in ("variant", "fitness", "split_three_vs_rest"))
    letters = len(str(held["alphabet"]))
    X = (variants[:, :, None] == np.arange(letters)).reshape(len(variants), -1).astype(np.float32)
    train, test, validation = (np.flatnonzero(part == value) for value in (TRAIN, TEST, VALIDATION))
    split = Split(train=train, validation=validation, test=test)
    return LayeredTask(
        about=Description(
            name="gb1",
            data="GB1 variants at sites 39, 40, 41 and 54 (Wu et al. 2016), FLIP's split three_vs_rest",
            size=(len(variants),),
            split=split.sizes(),
            computation="one residue in twenty at four sites through a network 80 -> 128 -> 64 -> 1",
            endpoint=f"the {TOP} variants with the highest predicted fitness (a plate)",
            aggregate="RMSE and Spearman on the test variants",
            differs="not among the paper's tasks",
        ),
        X=X,
        layers=layers_of(learned("gb1", X, fitness, split, Training(hidden=(128, 64), epochs=60))),
        judge=TopK(k=TOP, measured=fitness, test=split.test),
    )
