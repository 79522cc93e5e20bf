"""The records that several rooms share. Values only: the rooms fill and judge them, the gateway compares digests.

Each is stored as canonical JSON with its format name beside its fields, and is known by the digest of those bytes.
Reading a record back and writing it again gives the same bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, get_args, get_type_hints

from veristate.core.canonical import canonical_bytes, digest, plain
from veristate.core.errors import TamperError

RuleKind = Literal["top_k", "threshold", "nearest"]
ContractKind = Literal["C1", "C2", "C3", "C4"]


class Record:
    """Bytes, digest and reading back, for the frozen dataclasses below."""

    __slots__ = ()
    FORMAT: ClassVar[str]

    def to_bytes(self) -> bytes:
        """The canonical bytes that are stored and hashed."""
        return canonical_bytes({"format": self.FORMAT} | plain(self))

    @property
    def digest(self) -> str:
        """SHA-256 of `to_bytes()`."""
        return digest(self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The record that `data` holds.

        Raises: TamperError when the bytes are not canonical, of another format, or lack or add a field.
        """
        try:
            content = json.loads(data)
            found = content.pop("format")
            hints = get_type_hints(cls)
            values = {f.name: _restore(hints[f.name], content.pop(f.name)) for f in fields(cls)}  # type: ignore[arg-type]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TamperError(f"not a {cls.FORMAT} record: {error!r}") from error
        if found != cls.FORMAT or content:
            raise TamperError(f"not a {cls.FORMAT} record: format {found!r}, unknown fields {sorted(content)}")
        record = cls(**values)
        if record.to_bytes() != data:
            raise TamperError(f"a {cls.FORMAT} record whose bytes are not canonical")
        return record


def _restore(hint: Any, value: Any) -> Any:
    """`value` from JSON as the field type `hint`: tuples, read-only mappings and nested records."""
    arguments = get_args(hint)
    origin = getattr(hint, "__origin__", None)
    if origin is tuple:
        return tuple(_restore(arguments[0], item) for item in value)
    if origin is Mapping:
        return MappingProxyType(dict(value))
    if isinstance(hint, type) and issubclass(hint, Record):
        names = get_type_hints(hint)
        return hint(**{name: _restore(names[name], item) for name, item in value.items()})
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Record):
    """A decision rule g. `top_k`: the `count` highest scores; `threshold`: every score >= `threshold`;
    `nearest`: the `count` scores nearest to `threshold`. Ties go to the smaller identifier as text.
    """

    FORMAT: ClassVar[str] = "veristate.rule/1"
    kind: RuleKind
    count: int | None = None
    threshold: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Record):
    """What a rule says: the identifiers it chooses, sorted as text."""

    FORMAT: ClassVar[str] = "veristate.decision/1"
    rule: Rule
    chosen: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRef(Record):
    """An array kept as a blob of raw little-endian bytes in C order."""

    FORMAT: ClassVar[str] = "veristate.array/1"
    blob: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract(Record):
    """Everything that fixes the reference computation. `settings` holds what an executor must reproduce: versions,
    threads, instruction set, switches; `model` the predictor's own names and digests.
    """

    FORMAT: ClassVar[str] = "veristate.contract/1"
    kind: ContractKind
    candidates: str
    count: int
    batch: int
    dtype: str
    temperature: str
    model: Mapping[str, str] = field(default_factory=dict)
    arithmetic: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Record):
    """One decision that is asked for. The gateway commits at most one action per `request_id`."""

    FORMAT: ClassVar[str] = "veristate.request/1"
    request_id: str
    contract: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Record):
    """The exact bytes an agent was shown: `table` is the digest of the file, `fields` its columns, `dropped` what was
    left out because nothing certifies it. The view is certified while the current certificate is of this table.
    """

    FORMAT: ClassVar[str] = "veristate.view/1"
    request_id: str
    contract: str
    table: str
    fields: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate(Record):
    """Under `contract`, every rule takes one value on the admissible set that the named evidence allows.

    `certifies` says whether the score values themselves are fixed or only the decisions. `evidence` maps what was
    used (journal or blob digests, counts as decimal strings) by name. `delta` is the failure probability: "0" when
    the evidence is recomputed bits.
    """

    FORMAT: ClassVar[str] = "veristate.certificate/1"
    request_id: str
    contract: str
    contract_kind: ContractKind
    delta: str
    certifies: Literal["values", "decisions"]
    decisions: tuple[Decision, ...]
    table: str
    evidence: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Record):
    """What an agent proposes for a request: its decisions, and the view it prepared them on."""

    FORMAT: ClassVar[str] = "veristate.action/1"
    request_id: str
    contract: str
    view: str
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(Record):
    """Where values were saved: the output of call `ordinal` (from 0) of the layer of that name in its model."""

    FORMAT: ClassVar[str] = "veristate.site/1"
    layer: str
    ordinal: int = 0
