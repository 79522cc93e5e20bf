"""The execution state of an agent as values: messages, the pending action, a checkpoint of all of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from veristate.core import InputError, Record

Role = Literal["system", "user", "assistant", "tool"]
Payload = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Record):
    """One entry of the visible history: all that a model is shown of the past."""

    FORMAT: ClassVar[str] = "veristate.message/1"
    role: Role
    content: str

    def __post_init__(self) -> None:
        """Raises: InputError for an unknown role, or text that is not Unicode."""
        if self.role not in get_args(Role):
            raise InputError(f"a message has the role {self.role!r}; use one of {', '.join(get_args(Role))}")
        try:
            self.content.encode("utf-8")
        except (UnicodeEncodeError, AttributeError) as error:
            raise InputError(f"a message holds what is no text: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending(Record):
    """An action prepared and not handed in: the chosen identifiers by rule name, and the view they were chosen on."""

    FORMAT: ClassVar[str] = "veristate.pending/1"
    view: str
    payload: Payload

    def __post_init__(self) -> None:
        object.__setattr__(self, "payload", frozen_payload(self.payload))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Record):
    """An execution state in the store. `namespace` is the digest of a NamespaceCheckpoint, `files` of a tree manifest;
    `salt` is the one that was in use: a restored session gets a new one.
    """

    FORMAT: ClassVar[str] = "veristate.checkpoint/1"
    request_id: str
    history: tuple[Message, ...]
    namespace: str
    files: str
    pending: tuple[Pending, ...]
    view: str
    salt: str


def frozen_payload(payload: Payload) -> Payload:
    """A read-only copy of `payload`, its identifiers as tuples in the order given.

    Raises: InputError naming what is no mapping from rule names to identifiers.
    """
    if not isinstance(payload, Mapping):
        raise InputError(f"a proposal maps rule names to identifiers, this is a {type(payload).__name__}")
    for rule, chosen in payload.items():
        if not isinstance(rule, str) or not _texts(chosen):
            raise InputError(f"a proposal maps rule names to lists of identifiers; {rule!r} maps to {chosen!r:.200}")
    return MappingProxyType({rule: tuple(chosen) for rule, chosen in payload.items()})


def _texts(chosen: object) -> bool:
    return isinstance(chosen, list | tuple) and all(isinstance(item, str) for item in chosen)
