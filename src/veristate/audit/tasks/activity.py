"""Compound activity: 1,017 compounds of one ChEMBL assay ranked by a network over their fingerprints."""

import numpy as np

from veristate.audit.tasks.catalogue import ACTIVITIES, COMPOUNDS
from veristate.audit.tasks.judges import TopK, text_order
from veristate.audit.tasks.learned import learned
from veristate.audit.tasks.molecules import canonical, morgan_bits
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.splits import grouped_split
from veristate.audit.tasks.task import Description, LayeredTask, layers_of
from veristate.core import InputError
from veristate.devices import Training

SPLIT = (719, 140, 158)
TOP = 20


def load(data: Data) -> LayeredTask:
    """The task: X fingerprints [1017, 2048] in text order of the compounds' names, layers 2048 -> 512 -> 256 -> 1.

    Raises: EnvironmentUnusableError when a file is absent.
    """
    names, smiles, activity = _table(data)
    X = morgan_bits(smiles)
    split = grouped_split([canonical(text) or text for text in smiles], SPLIT, "activity")
    return LayeredTask(
        about=Description(
            name="activity",
            data="RDKit's FreeWilson example, ChEMBL document CHEMBL2321810",
            size=(len(names),),
            split=split.sizes(),
            computation="2,048-bit Morgan fingerprints through a network 2048 -> 512 -> 256 -> 1",
            endpoint=f"the {TOP} compounds with the highest predicted activity, of all {len(names):,}",
            aggregate="RMSE and Spearman on the test rows",
            differs="which rows are training rows, and the training, are ours",
        ),
        X=X,
        layers=layers_of(learned("activity", X, activity, split, Training(hidden=(512, 256), epochs=30))),
        judge=TopK(k=TOP, measured=activity, test=split.test),
    )


def _table(data: Data) -> tuple[list[str], list[str], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Names in text order, with SMILES and activity aligned by name."""
    compounds = dict(line.split()[::-1] for line in data.read(COMPOUNDS, "activity").decode().splitlines() if line)
    rows = data.table(ACTIVITIES, "activity", ("Name", "Act"))
    activities = {row["Name"]: float(row["Act"]) for row in rows}
    if compounds.keys() != activities.keys():
        raise InputError("the compounds and the activities of CHEMBL2321810 do not name the same molecules")
    names = list(compounds)
    names = [names[i] for i in text_order(names)]
    return names, [compounds[n] for n in names], np.array([activities[n] for n in names])
