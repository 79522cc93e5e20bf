"""A run whose values the contract fixes on every machine: layers that are rounded correctly, or whole numbers."""

from collections.abc import Callable

from veristate.core import InputError
from veristate.devices import Group
from veristate.devices.trusted import PlannedPass, no_export
from veristate.screening.run import Run
from veristate.screening.running.recovery import MemoisedRecomputer, Recomputer


class RoundedRun(Run):
    """The stages that differ: every value comes from the trusted process's evaluation, none from a device's bits."""

    def _plan(self) -> PlannedPass:
        """Raises: InputError for models that can't be followed; RefusedError for those that don't fit the contract."""
        planned = self._executors.trusted.plan(self._options.wanted)
        if not planned.followed:
            contract, why = self._options.contract, planned.reason.removesuffix("; full instead")
            raise InputError(f"--contract {contract}: {why}; use --contract device")
        return planned

    def _recomputer(self, step: Callable[[Group], None]) -> Recomputer:
        """All at once: a single group would have to be evaluated under the contract too."""
        trusted, question, wanted = self._executors.trusted, self._question, self._options.wanted
        return MemoisedRecomputer(lambda: trusted.certify(question, wanted, no_export), self._ids)
