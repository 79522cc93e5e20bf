"""An agent's execution state while it runs, which can be kept and gone back to.

The state is the visible history, the namespace, the workspace files and the pending action. A value that a tool holds
back is not part of it: it is discarded when the session goes back.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from veristate.agents.namespace import CellResult, Namespace, NamespaceReport
from veristate.agents.state import Checkpoint, Message, Payload, Pending, Role
from veristate.core import EnvironmentUnusableError, InputError, RefusedError, digest
from veristate.store import Store


class Session:
    """One agent at work on one request, in `workspace`.

    `tool` is called by `read` and answers with `deliver`, or raises RefusedError while the value is held. `new_salt`
    gives a text never given before: whoever serves the agent's model mixes it into what it derives from the history
    (key-value caches), so that nothing derived from a discarded history is used again.
    """

    def __init__(
        self, workspace: Path, store: Store, *, request_id: str, new_salt: Callable[[], str], cell_timeout: float = 60.0
    ) -> None:
        if not workspace.is_dir():
            raise InputError(f"no folder to work in: {workspace}; make it first")
        self.workspace = workspace.resolve()
        self.request_id = request_id
        self.tool: Callable[[Session], None] | None = None
        self._store = store
        self._namespace = Namespace(self.workspace, store, cell_timeout=cell_timeout)
        self._new_salt = new_salt
        self._salts: set[str] = set()
        self._salt = self._unused_salt()
        self._history: list[Message] = []
        self._pending: Pending | None = None
        self._held: dict[str, str] = {}
        self._view = ""

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def history(self) -> tuple[Message, ...]:
        """The visible history, oldest first."""
        return tuple(self._history)

    @property
    def salt(self) -> str:
        """What must go into every key of a cache that is derived from the history; another one after each restore."""
        return self._salt

    @property
    def view(self) -> str:
        """The digest of the view that was last delivered; empty before the first."""
        return self._view

    @property
    def pending(self) -> Pending | None:
        """The action that is prepared, if any."""
        return self._pending

    @property
    def held(self) -> Mapping[str, str]:
        """The values a tool holds back, by name, with the reason."""
        return MappingProxyType(self._held)

    def say(self, role: Role, content: str) -> None:
        """Returns when the message is in the history."""
        self._history.append(Message(role=role, content=content))

    def run(self, code: str) -> CellResult:
        """What the cell did; the code and what was observed are in the history."""
        self.say("assistant", code)
        result = self._namespace.run(code)
        self.say("tool", result.observation)
        return result

    def read(self) -> None:
        """Returns when the attached tool has delivered.

        Raises: RefusedError when no tool is attached; whatever the tool raises, RefusedError while it holds the value.
        """
        if self.tool is None:
            raise RefusedError("there is nothing to read: no tool is attached to this session")
        self.tool(self)

    def hold(self, name: str, reason: str) -> None:
        """Returns when the value of this name counts as held back, until it is delivered or the session goes back."""
        self._held[name] = reason

    def deliver(self, name: str, data: bytes, view: str) -> None:
        """Returns when the workspace holds `data` as the file `name` and the history says so: the tool's answer.

        Raises: InputError when `name` is no plain file name, or a folder is in its place.
        """
        self._write(_plain_name(name), data)
        self._held.pop(name, None)
        self._view = view
        self.say("tool", f"{name}: {len(data)} bytes, SHA-256 {digest(data)}, view {view}")

    def replace_file(self, name: str, data: bytes) -> None:
        """Returns when the workspace holds `data` as the file `name`, and nothing else has changed: the history says
        nothing of it and the view last delivered stays.

        Raises: as `deliver`.
        """
        self._write(_plain_name(name), data)

    def propose(self, payload: Payload) -> None:
        """Returns when this is the pending action, in place of an earlier one, on the view last delivered.

        Raises: RefusedError when nothing was delivered; InputError when it maps no rule names to identifiers.
        """
        if not self._view:
            raise RefusedError("an action needs a view it was prepared on; read first")
        self._pending = Pending(view=self._view, payload=payload)

    def report(self) -> NamespaceReport:
        """What a checkpoint taken now would keep of the namespace; `text()` of it is for people."""
        return self._namespace.report()

    def checkpoint(self) -> Checkpoint:
        """The state as it is now, in the store with everything it names.

        Raises: RefusedError naming the variables, files, threads or processes that can't be kept, each with its
        reason. The session is unchanged, so a tool can ask before it releases what it holds.
        """
        namespace = self._namespace.checkpoint()
        try:
            files = self._store.snapshot(self.workspace)
        except InputError as error:
            raise RefusedError(f"the workspace can't be kept: {error}") from error
        checkpoint = Checkpoint(
            request_id=self.request_id,
            history=self.history,
            namespace=namespace.digest,
            files=files,
            pending=(self._pending,) if self._pending else (),
            view=self._view,
            salt=self._salt,
        )
        self._store.put(checkpoint.to_bytes())
        return checkpoint

    def restore(self, checkpoint: Checkpoint) -> None:
        """Returns when history, namespace, files, view and pending action are those of the checkpoint, exactly; what
        came after, and every held value, is discarded, and the salt is a new one.

        Raises: TamperError or InputError when the store can't give what was kept, EnvironmentUnusableError when this
        Python can't read it, RefusedError when it is of another request. The session is as before then; only a worker
        in which a cell left threads or processes running has ended, and starts from its last checkpoint.
        """
        if checkpoint.request_id != self.request_id:
            raise RefusedError(f"a checkpoint of request {checkpoint.request_id}, but this is {self.request_id}")
        stored = self._namespace.fetch(checkpoint.namespace)
        salt = self._unused_salt()
        # What a cell left running could write into the files and the namespace after they are restored.
        self._namespace.settle()
        _drop_special_files(self.workspace)
        replaced = self._store.restore(checkpoint.files, self.workspace)
        try:
            self._namespace.restore(stored)
        except BaseException:
            self._store.restore(replaced, self.workspace)
            self._namespace.enter()
            raise
        self._history[:] = checkpoint.history
        self._pending = checkpoint.pending[0] if checkpoint.pending else None
        self._held.clear()
        self._view = checkpoint.view
        self._salt = salt

    def close(self) -> None:
        """Returns when the agent's processes have ended; history and files stay."""
        self._namespace.close()

    def _unused_salt(self) -> str:
        salt = self._new_salt()
        if salt in self._salts:
            raise InputError("new_salt gave a salt a second time; what was derived under it could be used again")
        self._salts.add(salt)
        return salt

    def _write(self, name: str, data: bytes) -> None:
        """Returns when the file is there, whole. A link that the agent put in its place is replaced, not followed."""
        if (self.workspace / name).is_dir() and not (self.workspace / name).is_symlink():
            raise InputError(f"{name} is a folder in the workspace; it can't be delivered as a file")
        draft = ""
        try:
            descriptor, draft = tempfile.mkstemp(dir=self.workspace, prefix=f".{name}.")
            with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.write(data)
                os.fchmod(file.fileno(), 0o644)
            Path(draft).replace(self.workspace / name)
        except BaseException as error:
            if draft:
                Path(draft).unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise EnvironmentUnusableError(f"{self.workspace / name} can't be written: {error.strerror}") from error
            raise


def _plain_name(name: str) -> str:
    if name != Path(name).name or name in ("", ".", ".."):
        raise InputError(f"a delivered file needs a plain name, not {name!r}")
    return name


def _drop_special_files(folder: Path) -> None:
    """Removes pipes, sockets and devices: no snapshot could hold them, and they would stop a restoration."""
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            path.unlink()
