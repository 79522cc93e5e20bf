"""The check of linear layers on a CUDA device: a guard that says which calls provably pass, in Triton."""

from veristate.devices.cuda.coefficients import CellCoefficients, Coefficients
from veristate.devices.cuda.guard import CudaGuard
from veristate.devices.cuda.verdicts import Undecided
from veristate.devices.cuda.weights import CudaWeights

__all__ = ["CellCoefficients", "Coefficients", "CudaGuard", "CudaWeights", "Undecided"]
