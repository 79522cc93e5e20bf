"""Predictors: from a spec of strings and digests to an ensemble in memory."""

from veristate.core import EnvironmentUnusableError
from veristate.devices.predictors.factory import FactoryPredictor
from veristate.devices.predictors.spec import Candidates, Predictor, PredictorSpec


def load_predictor(spec: PredictorSpec, candidates: Candidates) -> Predictor:
    """The ensemble that `spec` names, over `candidates`.

    Raises: InputError for a wrong checkpoint or factory, EnvironmentUnusableError when the extra is not installed.
    """
    if spec.kind == "factory":
        return FactoryPredictor(spec, candidates)
    try:
        from veristate.devices.predictors.chemprop import ChempropPredictor
    except ImportError as error:
        raise EnvironmentUnusableError(
            f"Chemprop models need the extra: pip install 'veristate[chem]' ({error})"
        ) from error
    return ChempropPredictor(spec, candidates)


def unreadable_inputs(spec: PredictorSpec, inputs: tuple[str, ...]) -> list[int]:
    """The positions of inputs that the predictor can't read: unparsable SMILES for Chemprop, none for a factory."""
    if spec.kind == "factory":
        return []
    from veristate.devices.predictors.chemprop import unparsable

    return unparsable(inputs)


__all__ = ["Candidates", "FactoryPredictor", "Predictor", "PredictorSpec", "load_predictor", "unreadable_inputs"]
