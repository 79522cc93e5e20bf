"""What one attempt retrieved, read, cited, did and concluded, and how two attempts are compared on it."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from veristate.core import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A document and the indices of its sentences that an attempt cites, as it gave them.

    Raises: InputError for a citation without sentences and for a negative sentence index.
    """

    document: str
    sentences: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sentences:
            raise InputError(f"a citation of document {self.document!r} names no sentence; leave it out")
        if min(self.sentences) < 0:
            raise InputError(
                f"a citation of document {self.document!r} names sentence {min(self.sentences)}; count from 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The record of one attempt: documents retrieved and read in order, citations, structured actions, verdict.

    A document that was retrieved or read twice stands here twice. An action is a text in one spelling; the verdict is
    None where the attempt gave none.

    Source: BioAgent-DF 2.3.
    """

    retrieved: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    cited: tuple[Citation, ...] = ()
    actions: tuple[str, ...] = ()
    verdict: str | None = None


class Component(StrEnum):
    """One part of a path. The first three are the evidence path P."""

    RETRIEVED = "retrieved"
    READ = "read"
    CITED = "cited"
    ACTIONS = "actions"
    VERDICT = "verdict"


EVIDENCE = (Component.RETRIEVED, Component.READ, Component.CITED)


class Comparison(StrEnum):
    """How two lists of items are compared.

    MEMBERSHIP: which items there are. ORDER: the items in the order of their first access. REPETITION: how often each
    item is accessed. SEQUENCE: every access in order, so that it differs wherever another comparison does, and also
    where two lists repeat the same items equally often at other places.
    """

    MEMBERSHIP = "membership"
    ORDER = "order"
    REPETITION = "repetition"
    SEQUENCE = "sequence"


def items(path: Path, component: Component) -> tuple[str, ...]:
    """The items of a component in order; a cited sentence is the text `document/sentence`, no verdict is no item."""
    if component is Component.CITED:
        return tuple(f"{citation.document}/{index}" for citation in path.cited for index in citation.sentences)
    if component is Component.VERDICT:
        return () if path.verdict is None else (path.verdict,)
    found: tuple[str, ...] = getattr(path, component.value)
    return found


def compared(sequence: tuple[str, ...], comparison: Comparison) -> Hashable:
    """What a comparison keeps of a list: two lists agree when these values are equal."""
    if comparison is Comparison.MEMBERSHIP:
        return frozenset(sequence)
    if comparison is Comparison.ORDER:
        return tuple(dict.fromkeys(sequence))
    if comparison is Comparison.REPETITION:
        return frozenset(Counter(sequence).items())
    return sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint map D: one component of a path under one comparison.

    Source: BioAgent-DF 2.3.
    """

    component: Component
    comparison: Comparison

    @property
    def name(self) -> str:
        """`component comparison`, as tables name it."""
        return f"{self.component} {self.comparison}"

    def __call__(self, path: Path) -> Hashable:
        """D(path): equal for two paths exactly when they agree on this endpoint."""
        return compared(items(path, self.component), self.comparison)


ENDPOINTS = tuple(Endpoint(component=part, comparison=by) for part in Component for by in Comparison)


def differences(reference: Path, candidate: Path) -> dict[str, bool]:
    """For every endpoint, by name, whether the two paths differ on it."""
    return {endpoint.name: endpoint(reference) != endpoint(candidate) for endpoint in ENDPOINTS}
