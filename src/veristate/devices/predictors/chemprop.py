"""Chemprop v2 message-passing ensembles: checkpoints verified before they are opened, rows mapped to molecules."""

import warnings
from contextlib import nullcontext
from importlib.metadata import version
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from chemprop.data import BatchMolGraph
from chemprop.featurizers import SimpleMoleculeMolGraphFeaturizer
from chemprop.models import MPNN
from chemprop.models.utils import load_model
from numpy.typing import NDArray
from rdkit import Chem, RDLogger

from veristate.core import InputError, digest
from veristate.devices.predictors.spec import Candidates, PredictorSpec

# RDKit writes a line per salt ("not removing hydrogen atom without neighbors") that says nothing a user can act on.
RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]


def unparsable(inputs: tuple[str, ...]) -> list[int]:
    """The positions whose SMILES RDKit can't read or that hold no atom."""
    molecules = (Chem.MolFromSmiles(smiles) for smiles in inputs)
    return [i for i, molecule in enumerate(molecules) if molecule is None or not molecule.GetNumAtoms()]


class ChempropPredictor:
    """A Chemprop ensemble over a table of molecules, one output column as the score.

    By batch, `graphs` holds what a model reads, `atoms` and `bonds` the table position of each row of either kind.
    """

    def __init__(self, spec: PredictorSpec, candidates: Candidates) -> None:
        self.spec = spec
        contents = [_verified(Path(path), spec, i) for i, path in enumerate(spec.members)]
        self._digests = tuple(digest(content) for content in contents)
        self.models = tuple(_open(Path(p), c, spec) for p, c in zip(spec.members, contents, strict=True))
        self.output = spec.output or 0
        self.batches = spec.batches(len(candidates.ids))
        featurize = SimpleMoleculeMolGraphFeaturizer()
        graphs = [featurize(_molecule(i, smiles)) for i, smiles in enumerate(candidates.inputs)]
        self.graphs = [BatchMolGraph(graphs[b.start : b.stop]) for b in self.batches]
        for graph in self.graphs:
            graph.to(spec.device)
        # The same graphs say which molecule a row is: kept as small integer arrays.
        self.atoms = [g.batch.cpu().numpy() + b.start for g, b in zip(self.graphs, self.batches, strict=True)]
        self.bonds = [
            (g.batch[g.edge_index[0]].cpu().numpy() + b.start) for g, b in zip(self.graphs, self.batches, strict=True)
        ]

    def run(self, member: int, batch: int) -> NDArray[np.float32]:
        """The probabilities of one batch by one member."""
        bf16 = torch.autocast(torch.device(self.spec.device).type, dtype=torch.bfloat16)
        with torch.inference_mode(), bf16 if self.spec.dtype == "bf16" else nullcontext():
            scores: torch.Tensor = self.models[member](self.graphs[batch])[:, self.output]
        return scores.float().cpu().numpy()

    def rows(self, batch: int, rows: int) -> NDArray[np.intp] | None:
        """Molecules of a layer call's rows: directed bonds, atoms or molecules, told apart by their number.

        None where two of the three have the same number of rows but not the same owners.
        """
        molecules = np.arange(self.batches[batch].start, self.batches[batch].stop)
        fitting = [m for m in (self.bonds[batch], self.atoms[batch], molecules) if len(m) == rows]
        if not fitting or any(not np.array_equal(fitting[0], other) for other in fitting[1:]):
            return None
        return fitting[0].astype(np.intp)

    def libraries(self) -> dict[str, str]:
        """RDKit reads the molecules, Chemprop makes features and model of them."""
        return {"chemprop": version("chemprop"), "rdkit": version("rdkit")}

    def weight_digests(self) -> tuple[str, ...]:
        """The SHA-256 of each checkpoint file."""
        return self._digests


def _verified(path: Path, spec: PredictorSpec, member: int) -> bytes:
    """The file's bytes, their digest compared with the pinned one before anything opens them: a checkpoint is a pickle.

    The bytes are handed on, so that what was verified is what is opened, whatever happens to the file meanwhile.
    """
    try:
        content = path.read_bytes()
        found = digest(content)
    except OSError as error:
        raise InputError(f"checkpoint {path} can't be read: {error.strerror}") from error
    if member < len(spec.digests) and spec.digests[member]:
        if found != spec.digests[member]:
            raise InputError(
                f"checkpoint {path} has sha256 {found}, expected {spec.digests[member]}; it was not opened"
            )
    elif not spec.unsafe_pickle:
        raise InputError(
            f"checkpoint {path} is a pickle, which can run code: give its digest (--sha256 {found} if that is the file "
            "you mean) or allow it with --unsafe-pickle"
        )
    return content


def _open(path: Path, content: bytes, spec: PredictorSpec) -> MPNN:
    """The model of a verified checkpoint, in evaluation mode on its device."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = load_model(BytesIO(content), multicomponent=False)
        features = model.message_passing.W_i.in_features
    except Exception as error:
        raise InputError(f"checkpoint {path} is not a Chemprop v2 model: {error}") from error
    width = int(getattr(model.predictor, "n_tasks", 1))
    if spec.output is None and width > 1:
        raise InputError(f"checkpoint {path} has {width} outputs: name the one that is the score with --output")
    if not 0 <= (spec.output or 0) < width:
        raise InputError(f"checkpoint {path} has {width} outputs; --output {spec.output} is not one of them")
    expected = SimpleMoleculeMolGraphFeaturizer().shape
    if features != sum(expected):
        raise InputError(
            f"checkpoint {path} was trained on {features} atom and bond features; the default featurizer makes "
            f"{sum(expected)}. Load it with --predictor module:factory instead"
        )
    return model.eval().to(spec.device)


def _molecule(position: int, smiles: str) -> Chem.Mol:
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None or not molecule.GetNumAtoms():
        raise InputError(f"candidate {position + 1}: RDKit reads no molecule from the SMILES {smiles!r}")
    return molecule
