"""Where a run keeps what must survive: one folder with a store, a ledger and the agent's workspace."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from veristate.core import Clock, EnvironmentUnusableError
from veristate.ledger import Ledger
from veristate.store import Store, remove_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """An opened folder of `--store`."""

    path: Path
    store: Store
    ledger: Ledger

    @property
    def workspace(self) -> Path:
        """The agent's folder; what matters of it is in the store's snapshots."""
        return self.path / "workspace"


@contextmanager
def open_home(path: Path, clock: Clock) -> Iterator[Home]:
    """The folder, made if there is none, for this process alone.

    Raises: RefusedError when another run is in it; EnvironmentUnusableError when it can't be used or is of a newer
    version.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentUnusableError(f"--store {path}: {error.strerror}; choose another folder") from error
    store = Store.open(path / "objects")
    with store.exclusive(), Ledger.open(path / "ledger.sqlite", clock=clock) as ledger:
        home = Home(path=path, store=store, ledger=ledger)
        try:
            yield home
        finally:
            if home.workspace.is_dir() and not home.workspace.is_symlink():
                remove_folder(home.workspace)
