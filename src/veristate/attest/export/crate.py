"""What stands in an export, and its RO-Crate description, which follows from the rest byte by byte.

ro-crate-metadata.json       what this is, for programs that read RO-Crate 1.2
export.json                  recorder, log, what was redacted, what was pending
suggested.policy             whom the exporter believes; nobody else need
entries/PLACE.dsse.json      an entry of the log, byte for byte
entries/PLACE.tlog-proof     that it is in the log
blobs/DIGEST                 manifests, policies, artifacts
timestamps/SIZE.tsr          an authority's reply about the head of that size (RFC 3161), if it was asked
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import StringConstraints

from veristate.attest.commitments import Digest
from veristate.core import Record, canonical_bytes

METADATA, CONTENTS, SUGGESTED = "ro-crate-metadata.json", "export.json", "suggested.policy"
_CONTEXT = "https://w3id.org/ro/crate/1.2/context"
_PROFILE = "https://w3id.org/ro/crate/1.2"
_KINDS = {
    ".dsse.json": "application/vnd.in-toto+json",
    ".tlog-proof": "text/plain",
    ".tsr": "application/timestamp-reply",
    ".json": "application/json",
}
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents(Record):
    """What the export says of itself. `redacted`: digests of artifacts that were left out on purpose. `pending`: how
    many commitments were not under the published head, and so are not here.
    """

    FORMAT: ClassVar[str] = "veristate.export/1"
    origin: Text
    recorder: Digest
    redacted: tuple[Digest, ...]
    pending: int


def entry_paths(place: int) -> tuple[str, str]:
    """Where the entry at that place and its proof stand."""
    return f"entries/{place:09d}.dsse.json", f"entries/{place:09d}.tlog-proof"


def stamp_path(size: int) -> str:
    """Where the timestamp of the head of that size stands."""
    return f"timestamps/{size:09d}.tsr"


def blob_path(name: str) -> str:
    """Where a blob stands."""
    return f"blobs/{name}"


def describe(contents: Contents, paths: Iterable[tuple[str, int]], date: str) -> bytes:
    """The RO-Crate metadata of an export with these files and sizes, published at `date`."""
    files = [{"@id": path, "@type": "File", "contentSize": str(size)} | _format(path) for path, size in sorted(paths)]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Commitments of {contents.recorder[:16]} in {contents.origin}",
        "description": "Steps that were committed to, proofs that they are in a transparency log, and their artifacts. "
        "Verify with: veristate verify FILE --policy POLICY",
        "datePublished": date,
        "license": {"@id": "#license"},
        "hasPart": [{"@id": file["@id"]} for file in files],
    }
    descriptor = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _PROFILE},
        "about": {"@id": "./"},
    }
    terms = {"@id": "#license", "@type": "CreativeWork", "name": "As its owner says; the export itself says nothing"}
    return canonical_bytes({"@context": _CONTEXT, "@graph": [descriptor, root, terms, *files]})


def _format(path: str) -> dict[str, str]:
    return next(({"encodingFormat": kind} for ending, kind in _KINDS.items() if path.endswith(ending)), {})
