"""Superconductors: compositions ranked by predicted critical temperature."""

import re

import numpy as np

from veristate.audit.tasks.catalogue import SUPERCONDUCTORS
from veristate.audit.tasks.judges import TopK, text_order
from veristate.audit.tasks.learned import learned
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.splits import grouped_split
from veristate.audit.tasks.task import Array, Description, LayeredTask, layers_of
from veristate.devices import Training

TOP = 50
# The paper's shares of 14628 : 3293 : 3342 in permille, for a table of another size.
TRAIN_PERMILLE, VALIDATION_PERMILLE = 688, 155
_PART = re.compile(r"([A-Z][a-z]?)([0-9.]+)")


def load(data: Data) -> LayeredTask:
    """The task: X atomic fractions [n, elements] of the compositions with a reported temperature, layers to one number.

    Left out: temperature 0, which means not reported, and formulas that leave an amount open ("OY") or carry a charge.
    Raises: EnvironmentUnusableError when the file is absent.
    """
    rows = data.table(SUPERCONDUCTORS, "superconductors", ("name", "Tc"))
    reported = [row for row in rows if float(row["Tc"]) > 0 and parts_of(row["name"])]
    reported = [reported[i] for i in text_order([row["name"] for row in reported])]
    names = [row["name"] for row in reported]
    kelvin = np.array([float(row["Tc"]) for row in reported])
    train, validation = len(names) * TRAIN_PERMILLE // 1000, len(names) * VALIDATION_PERMILLE // 1000
    split = grouped_split(names, (train, validation, len(names) - train - validation), "superconductors")
    X = fractions(names)
    return LayeredTask(
        about=Description(
            name="superconductors",
            data="the SuperCon compositions of Stanev et al. 2018",
            size=(len(rows), len(names)),
            split=split.sizes(),
            computation=f"atomic fractions of {X.shape[1]} elements through a network with layers of 256 and 128",
            endpoint=f"the {TOP} compositions with the highest predicted temperature",
            aggregate="RMSE (K) and Spearman on the test rows",
            differs="16,414 formulas in place of UCI's 21,263 x 81 features; which rows are training rows, the layers "
            "and the training are ours",
        ),
        X=X,
        layers=layers_of(learned("superconductors", X, kelvin, split, Training(hidden=(256, 128), epochs=30))),
        judge=TopK(k=TOP, measured=kelvin, test=split.test),
    )


def parts_of(formula: str) -> list[tuple[str, str]]:
    """Elements with their amounts, or nothing when the formula is anything more or less than such a list."""
    found = _PART.findall(formula)
    return found if "".join(symbol + amount for symbol, amount in found) == formula else []


def fractions(formulas: list[str]) -> Array:
    """[n, elements]: each composition's atomic fractions, elements in text order."""
    parts = [parts_of(formula) for formula in formulas]
    elements = sorted({symbol for found in parts for symbol, _ in found})
    place = {symbol: column for column, symbol in enumerate(elements)}
    amounts = np.zeros((len(formulas), len(elements)))
    for row, found in enumerate(parts):
        for symbol, amount in found:
            amounts[row, place[symbol]] += float(amount)
    return np.asarray(amounts / amounts.sum(axis=1, keepdims=True), dtype=np.float32)
