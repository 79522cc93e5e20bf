"""The default case: five hERG members and 2,845 approved drugs that lie inside the admet-ai wheel.

Nothing of the wheel is copied: its files are read where pip put them, after their SHA-256 was compared with the pins.
"""

import csv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from veristate.core import EnvironmentUnusableError, InputError, digest

PACKAGE = "admet-ai==2.0.1"
MEMBER_DIGESTS = (
    "9a5fb298a6564e8ef739890c90b02e831521073f49eefd2310fb56cdb61a2378",
    "2bf047553eef397060af376e78dd4e990114df8428e05f734c4e4aca284280ca",
    "0e9d7eb3ff0b53bd2f20e43a75e0872c682b0ee27059dd50735c416d97a3fd24",
    "4b35cb5686f23c6e3e5a4c587a5c4dd79b7f1f46be26684260c0b78366145d58",
    "9fdac559e3058b5f7b03780f9c696223d27adb94c78f9eb9aba6154e2dbff492",
)
TABLE_DIGEST = "85ebf5960916a2410ca979e4c5a8c8c5d29d4d71bac5d70b9c336f9b847de40b"
OUTPUT = 30
ID_COLUMN, SMILES_COLUMN, SCORE_COLUMN = "id", "smiles", "hERG"
THRESHOLD = "0.5"
TOP_SHARE_PERCENT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HergFiles:
    """Where the wheel's files are on this machine."""

    members: tuple[Path, ...]
    table: Path


def herg_files() -> HergFiles:
    """The installed wheel's files. Raises: EnvironmentUnusableError when the package is not installed."""
    spec = find_spec("admet_ai")
    if spec is None or spec.origin is None:
        raise EnvironmentUnusableError(f"the hERG case reads {PACKAGE}: pip install 'veristate[chem]'")
    resources = Path(spec.origin).parent / "resources"
    models = resources / "models" / "admet_classification"
    return HergFiles(
        members=tuple(models / f"model_{i}.pt" for i in range(len(MEMBER_DIGESTS))),
        table=resources / "data" / "drugbank_approved.csv",
    )


def herg_table() -> Path:
    """The table of approved drugs, verified. Raises: InputError when it is another file than the one pinned."""
    path = herg_files().table
    found = digest(path.read_bytes())
    if found != TABLE_DIGEST:
        raise InputError(f"{path} has sha256 {found}, expected {TABLE_DIGEST}: install {PACKAGE}")
    return path


def published_scores() -> dict[str, float]:
    """The wheel's own hERG column by identifier: the ensemble means its authors computed."""
    with herg_table().open(encoding="utf-8", newline="") as file:
        return {row[ID_COLUMN]: float(row[SCORE_COLUMN]) for row in csv.DictReader(file)}
