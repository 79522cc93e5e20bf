"""What commands about commitments open: the recorder of a store, and the policy that says whom to believe."""

from pathlib import Path

from veristate.attest import Recorder, Trust, read_trust
from veristate.core import InputError


def open_recorder(store: Path) -> Recorder:
    """The recorder of a store that is there: looking makes nothing. Raises: InputError when there is none."""
    if not (store / "keys").is_dir() or not (store / "ledger.sqlite").is_file():
        raise InputError(f"{store}: nothing was committed to there; see `veristate.stage`")
    return Recorder.open(store)


def read_policy(policy: Path) -> Trust:
    """Whom the policy believes. Raises: InputError when the file is not there or can't be read."""
    if not policy.is_file():
        raise InputError(f"--policy {policy}: no such file; it names the logs and witnesses to believe")
    return read_trust(policy)
