"""The hERG ensemble over its table, fp32, batches of 64: the predictor, its trusted side, and the exact decisions."""

import csv
import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from rdkit import Chem

from veristate.core import Rule
from veristate.decisions import Box, Question, decide, ensemble_mean, equal_inputs
from veristate.devices import Candidates, PredictorSpec, load_predictor
from veristate.devices.certified import TrustedSide, Wanted, certify_pass, exported_run
from veristate.numerics.probes import Export
from veristate.screening.cases import herg

TOP = 402
Data = dict[str, Any]


class Case:
    """The predictor, its trusted side, the question, and the exact enclosures and decisions."""

    def __init__(self, candidates: Candidates, members: int | None = None) -> None:
        paths = tuple(map(str, herg.herg_files().members))[:members]
        digests = herg.MEMBER_DIGESTS[:members]
        spec = PredictorSpec(
            kind="chemprop", dtype="fp32", device="cpu", batch=64, members=paths, digests=digests, output=herg.OUTPUT
        )
        self.predictor = load_predictor(spec, candidates)
        self.side = TrustedSide.of(self.predictor)
        top = max(TOP * len(candidates.ids) // 2845, 1)
        rules = (Rule(kind="top_k", count=top), Rule(kind="threshold", threshold="0.5"))
        self.question = Question(rules=rules, ids=candidates.ids, classes=equal_inputs(candidates.inputs))
        self.exact: Box
        self.truth: tuple = ()

    @classmethod
    def of(cls, candidates: Candidates) -> "Case":
        """The case with its exact enclosures."""
        case = cls(candidates)
        case.exact = case.side.everything()
        scores = ensemble_mean((case.exact.lower + case.exact.upper) / 2, 1.0)
        case.truth = tuple(decide(rule, scores, candidates.ids) for rule in case.question.rules)
        return case

    def suspect(self, trusted: int, fault: Any = None, change: Callable[[Export, int], Export] | None = None) -> Any:
        """The suspect's run; `change` stands for what a device may do to its exports."""

        def run(member: int, batches: range, env: Any) -> tuple[np.ndarray, Export]:
            weights = self.side.members[member].weights
            scores, export = exported_run(
                self.predictor, member, batches, env, trusted=trusted, weights=weights, fault=fault
            )
            return scores, export if change is None else change(export, member)

        return run

    def certify(self, wanted: Wanted, suspect: Any, **limits: float) -> Any:
        """One certified pass, from nothing. `limits`: the trusted side's `wide` and `wrong`, where others are asked."""
        self.side._kept.clear()
        side = replace(self.side, **limits)
        return certify_pass(self.question, side, suspect, wanted, entropy=os.urandom, clock=time.process_time)

    def forward(self) -> np.ndarray:
        """A plain pass."""
        batches = range(len(self.predictor.batches))
        return np.stack(
            [np.concatenate([self.predictor.run(m, b) for b in batches]) for m in range(len(self.predictor.models))]
        )

    def violations(self, box: Box) -> int:
        """Enclosures that miss the exact value: those that don't meet what FP64 proves."""
        return int(((box.upper < self.exact.lower) | (box.lower > self.exact.upper)).sum())


def table() -> Candidates:
    """The built-in table."""
    with herg.herg_table().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return Candidates(ids=tuple(row["id"] for row in rows), inputs=tuple(row["smiles"] for row in rows))


def perturbed(size: int) -> Candidates:
    """So many molecules, no two alike: the table again and again, one drawn atom of each made an isotope.

    The mass is a feature, so each has a score of its own. The first round too, so that tables differ in size alone.
    """
    given, rng, taken = table().inputs, np.random.default_rng(0), set()
    inputs = [_isotope(Chem.MolFromSmiles(given[i % len(given)]), rng, taken) for i in range(size)]
    return Candidates(ids=tuple(f"m{i:06}" for i in range(size)), inputs=tuple(inputs))


def _isotope(molecule: Chem.Mol, rng: np.random.Generator, taken: set[str]) -> str:
    """The molecule with an atom some units heavier, as no other one is. What has few atoms runs out of small units."""
    for most in count(40):
        labelled = Chem.Mol(molecule)
        atom = labelled.GetAtomWithIdx(int(rng.integers(labelled.GetNumAtoms())))
        atom.SetIsotope(round(atom.GetMass()) + int(rng.integers(1, most)))
        smiles = Chem.MolToSmiles(labelled)
        if smiles not in taken:
            break
    taken.add(smiles)
    return smiles
