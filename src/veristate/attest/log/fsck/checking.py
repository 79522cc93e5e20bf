"""The whole reading: the head, then everything that it claims."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature

from veristate.attest.log.fsck.findings import LogFinding, LogFindingKind, LogReport
from veristate.attest.log.fsck.head import LOG, Signer, read_head
from veristate.attest.log.fsck.walk import Walk


def check_log(
    folder: Path,
    verifier_key: str,
    *,
    witnesses: Sequence[str] = (),
    each: Callable[[int, bytes], None] = lambda index, entry: None,
) -> LogReport:
    """What the log in `folder` is, read to the last byte; `each` is given every entry with its index.

    `verifier_key` is the log's, `name+hash+base64`; its name is the origin. `witnesses` are the verifier keys of those
    whose lines under the head are judged too; a head that none of them has cosigned yet is whole.
    """
    log = replace(Signer.parse(verifier_key), kind=LOG)
    try:
        head = read_head((folder / "checkpoint").read_bytes(), log, [Signer.parse(key) for key in witnesses])
    except (OSError, ValueError, InvalidSignature) as error:
        kind = LogFindingKind.SIGNATURE if isinstance(error, InvalidSignature) else LogFindingKind.CHECKPOINT
        return LogReport(origin=log.name, size=0, findings=(_at_head(kind, str(error) or _not_signed("the log")),))
    walk = Walk(folder, head.size)
    found = list(walk.findings(each))
    right = walk.root() == head.root
    found = [_blame(finding, right) for finding in found]
    if not right:
        found.append(_at_head(LogFindingKind.ROOT, "the entries give another root"))
    found += [_at_head(LogFindingKind.SIGNATURE, _not_signed(name)) for name in head.broken]
    return LogReport(
        origin=log.name,
        size=head.size,
        findings=(*found, *walk.strays()),
        cosigned=head.cosigned,
        unjudged=head.unjudged,
    )


def _at_head(kind: LogFindingKind, detail: str) -> LogFinding:
    return LogFinding(kind=kind, path="checkpoint", detail=detail)


def _not_signed(name: str) -> str:
    return f"the key of {name} did not sign it"


def _blame(finding: LogFinding, right: bool) -> LogFinding:
    """Where an entry and its leaf differ, the signed root tells which of the two files is the wrong one."""
    if finding.kind is not LogFindingKind.ENTRY or not finding.path.startswith("tile/0/"):
        return finding
    path = finding.path if right else finding.path.replace("tile/0/", "tile/entries/")
    kind = LogFindingKind.TILE if right else LogFindingKind.ENTRY
    return LogFinding(kind=kind, path=path, detail=finding.detail)
