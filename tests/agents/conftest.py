"""What the tests of this room work with: a store, a workspace, a namespace, a session."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from veristate.agents import NamespaceCheckpoint, Session
from veristate.agents.namespace import Namespace
from veristate.store import Store

GoBack = Callable[[Namespace, NamespaceCheckpoint, str], None]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A new store."""
    return Store.open(tmp_path / "store")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty folder beside the store."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def namespace(workspace: Path, store: Store) -> Iterator[Namespace]:
    """A namespace whose worker has not been started."""
    namespace = Namespace(workspace, store, cell_timeout=20)
    yield namespace
    namespace.close()


@pytest.fixture
def new_session(workspace: Path, store: Store) -> Iterator[Callable[[], Session]]:
    """Makes sessions on the same workspace and store; all are closed at the end."""
    made: list[Session] = []
    numbers = itertools.count()

    def new() -> Session:
        made.append(
            Session(workspace, store, request_id="request", new_salt=lambda: f"salt {next(numbers)}", cell_timeout=20)
        )
        return made[-1]

    yield new
    for session in made:
        session.close()


@pytest.fixture
def session(new_session: Callable[[], Session]) -> Session:
    """A session without a tool."""
    return new_session()


@pytest.fixture
def go_back() -> GoBack:
    """Goes back to a checkpoint after another cell: always in a new worker, while the old one lives."""

    def back(namespace: Namespace, checkpoint: NamespaceCheckpoint, after: str) -> None:
        assert namespace.run(after).observation == ""
        namespace.restore(namespace.fetch(checkpoint.digest))

    return back
