"""One file with which a stranger verifies a run offline: an archive that is an RO-Crate."""

from veristate.attest.export.archive import read_archive, write_archive
from veristate.attest.export.crate import Contents
from veristate.attest.export.verifying import Export, ExportedStep, ExportFinding, ExportFindingKind, read_export
from veristate.attest.export.writing import export_run

__all__ = [
    "Contents",
    "Export",
    "ExportFinding",
    "ExportFindingKind",
    "ExportedStep",
    "export_run",
    "read_archive",
    "read_export",
    "write_archive",
]
