"""The engine's side of a worker's requests: files in a folder beside the workspace, part of no snapshot."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veristate.research.untrusted import regular_file, write_text
from veristate.research.workers import submit

REQUEST_UPPER = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it was read; `content` is empty for one that is no JSON object."""

    name: str
    content: Mapping[str, Any]


class Mailbox:
    """One worker's mailbox. Its folders are opened before the worker runs: what it puts in their place is not used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.submit = folder / "submit"
        self._drafts = self._requests = self._replies = -1

    @contextmanager
    def open_for(self, segment: Mapping[str, Any]) -> Iterator[None]:
        """A block in which requests are served. At its begin the folder is empty but for the segment's description and
        the submit program: what a dead worker asked is not answered to the next.
        """
        if self.folder.exists():
            old = self.folder.with_name(f"{self.folder.name}-{time.time_ns()}")
            self.folder.rename(old)
            # A dead worker may have nested folders deeper than Python's rmtree goes. What can't be removed stays there.
            subprocess.run(["rm", "-rf", "--", str(old)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.folder.mkdir(parents=True)
        (self.folder / "segment.json").write_text(json.dumps(segment), encoding="utf-8")
        self.submit.write_bytes(Path(submit.__file__).read_bytes())
        self.submit.chmod(0o755)
        with ExitStack() as stack:
            self._drafts, self._requests, self._replies = (
                self._made(name, stack) for name in ("drafts", "requests", "replies")
            )
            yield

    def pending(self) -> Iterator[Asked]:
        """The requests that lie there, oldest first, each given once."""
        for name in sorted(os.listdir(self._requests)):  # noqa: PTH208 - by descriptor
            content = self._read(name)
            try:
                os.unlink(name, dir_fd=self._requests)
            except OSError:  # a folder in its place is no request
                continue
            yield Asked(name=name, content=content)

    def answer(self, asked: Asked, reply: Mapping[str, Any]) -> None:
        """Returns when the reply is there, whole; or can't be, since the worker removed or took its place."""
        draft = f"reply-{asked.name}"
        with suppress(OSError):
            write_text(draft, json.dumps(reply), folder=self._drafts)
            os.rename(draft, asked.name, src_dir_fd=self._drafts, dst_dir_fd=self._replies)

    def _made(self, name: str, stack: ExitStack) -> int:
        (self.folder / name).mkdir()
        opened = os.open(self.folder / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, opened)
        return opened

    def _read(self, name: str) -> Mapping[str, Any]:
        try:
            with regular_file(name, folder=self._requests) as source:
                content = json.loads(source.read(REQUEST_UPPER))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}
