"""Molecules as numbers: the one place of the tasks where RDKit is imported."""

from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator
from rdkit.Chem.Scaffolds import MurckoScaffold

BITS, RADIUS = 2048, 2


def fingerprint_settings() -> dict[str, str | int]:
    """What decides a fingerprint's bits beside the molecule, for the keys of what is cached."""
    return {"rdkit": version("rdkit"), "bits": BITS, "radius": RADIUS}


def canonical(smiles: str) -> str | None:
    """RDKit's canonical SMILES, or None when it reads no molecule."""
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    return None if molecule is None else str(Chem.MolToSmiles(molecule))


def scaffold(smiles: str) -> str:
    """The SMILES of the Bemis-Murcko scaffold; "" for a molecule without rings."""
    return str(MurckoScaffold.MurckoScaffoldSmiles(smiles=smiles, includeChirality=False))  # type: ignore[no-untyped-call]


def morgan_bits(smiles: list[str]) -> NDArray[np.float32]:
    """[n, 2048] of zeros and ones: Morgan fingerprints of radius 2. Every SMILES must be readable."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    with rdBase.BlockLogs():
        return np.stack([generator.GetFingerprintAsNumPy(Chem.MolFromSmiles(s)) for s in smiles]).astype(np.float32)
