"""What the engine itself does in a worker's workspace: brings artifacts, writes the brief, removes dead endpoints."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from veristate.research.evaluating import materialise, read_candidate
from veristate.research.states import Card
from veristate.research.tasks import Artifact
from veristate.research.untrusted import write_text
from veristate.store import Store

BRIEF, LINK, IMPORTS = "AGENTS.md", "CLAUDE.md", "imports"


def bring(store: Store, cards: Sequence[Card], imports: Sequence[str], workspace: Path) -> None:
    """Returns when the artifacts `place:path` of archived states lie under `imports/`, in a folder for each state.

    What isn't there, is a link, leads outside or was released is left out: a decision is made of words.
    """
    for card in (card for card in cards if store.has(card.tree)):
        names = [path for place, _, path in (name.partition(":") for name in imports) if place == card.place]
        target = workspace / IMPORTS / card.place.replace("/", "-")
        kept = []
        for path in dict.fromkeys(names):
            if not path or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
                continue
            found = read_candidate(store, card.tree, Artifact(files=(path,), bytes_upper=2**40))
            if not found.against:
                kept.append(path)
        if kept and not target.exists() and not (workspace / IMPORTS).is_symlink():
            materialise(store, read_candidate(store, card.tree, Artifact(files=tuple(kept), bytes_upper=2**40)), target)


def write_brief(workspace: Path, text: str) -> None:
    """Returns when AGENTS.md holds the brief and CLAUDE.md leads to it. A link in their place is not followed."""
    path, link = workspace / BRIEF, workspace / LINK
    for old in (path, link):
        if old.is_symlink() or old.is_file():
            old.unlink()
    if not path.exists():
        write_text(path, text)
    if not link.exists():
        link.symlink_to(BRIEF)


def remove_endpoints(workspace: Path) -> None:
    """Returns when no socket and no FIFO is there: dead workers leave them, and they hold nothing to keep."""
    folders = [str(workspace)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                    Path(entry.path).unlink()
