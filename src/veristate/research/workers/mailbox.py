"""The engine's side of a worker's requests: files in a folder beside the workspace, part of no snapshot."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veristate.research.workers import submit

REQUEST_UPPER = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it was read; `content` is empty for one that is no JSON object."""

    name: str
    content: Mapping[str, Any]


class Mailbox:
    """One worker's mailbox. `open_for` empties it: what a dead worker asked is not answered to the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.submit = folder / "submit"
        self._requests = str(folder / "requests")

    def open_for(self, segment: Mapping[str, Any]) -> None:
        """Returns when the folder is empty but for the segment's description and the submit program."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        for name in ("drafts", "requests", "replies"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "segment.json").write_text(json.dumps(segment), encoding="utf-8")
        self.submit.write_bytes(Path(submit.__file__).read_bytes())
        self.submit.chmod(0o755)

    def pending(self) -> Iterator[Asked]:
        """The requests that lie there, oldest first, each given once."""
        try:
            names = os.listdir(self._requests)  # noqa: PTH208 - looked at many times a second
        except OSError:
            return  # the worker removed it: it will get no answers
        for name in sorted(names):
            path = self.folder / "requests" / name
            yield Asked(name=name, content=_read(path))
            path.unlink(missing_ok=True)

    def answer(self, asked: Asked, reply: Mapping[str, Any]) -> None:
        """Returns when the reply is there, whole."""
        draft, target = self.folder / "drafts" / f"reply-{asked.name}", self.folder / "replies" / asked.name
        try:
            draft.write_text(json.dumps(reply), encoding="utf-8")
            draft.rename(target)
        except FileNotFoundError:
            return  # as above


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as source:
            content = json.loads(source.read(REQUEST_UPPER))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
