"""SciFact's abstracts, claims and relevance judgements, as published by its authors or by BEIR."""

import json
from dataclasses import dataclass
from typing import Any

from veristate.audit.tasks.catalogue import CLAIMS, CORPUS, JUDGEMENTS
from veristate.audit.tasks.sources import Data
from veristate.core import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstract:
    """A document: its sentences as the release splits them, or one text where BEIR's corpus is read."""

    id: str
    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """Title and sentences joined by blanks: what is indexed."""
        return " ".join((self.title, *self.sentences))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Sentences of one document that together support or contradict a claim; for evaluation alone."""

    document: str
    sentences: tuple[int, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim, its annotated evidence, and the documents judged relevant to it."""

    id: str
    text: str
    evidence: tuple[Evidence, ...]
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SciFactText:
    """Abstracts in text order of their ids; claims in the file's order."""

    abstracts: tuple[Abstract, ...]
    claims: tuple[Claim, ...]


def read_scifact(data: Data) -> SciFactText:
    """The corpus and its 300 development claims. Raises: EnvironmentUnusableError, and InputError for a broken file."""
    relevant: dict[str, set[str]] = {}
    for line in data.read(JUDGEMENTS, "scifact").decode().splitlines()[1:]:
        query, document, score = line.split("\t")
        if int(score) > 0:
            relevant.setdefault(query, set()).add(document)
    abstracts = [_abstract(entry) for entry in _lines(data.read(CORPUS, "scifact"))]
    claims = [_claim(entry, relevant) for entry in _lines(data.read(CLAIMS, "scifact"))]
    known = {abstract.id for abstract in abstracts}
    for claim in claims:
        if not claim.relevant or not claim.relevant <= known:
            raise InputError(f"SciFact's claim {claim.id} is judged against documents that are not in the corpus")
    return SciFactText(abstracts=tuple(sorted(abstracts, key=lambda a: a.id)), claims=tuple(claims))


def _lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def _abstract(entry: dict[str, Any]) -> Abstract:
    identifier = entry["doc_id"] if "doc_id" in entry else entry["_id"]
    sentences = entry["abstract"] if "abstract" in entry else [entry["text"]]
    return Abstract(id=str(identifier), title=entry["title"], sentences=tuple(s.strip() for s in sentences))


def _claim(entry: dict[str, Any], relevant: dict[str, set[str]]) -> Claim:
    identifier = str(entry["id"])
    evidence = tuple(
        Evidence(document=str(document), sentences=tuple(part["sentences"]), label=part["label"])
        for document, parts in entry.get("evidence", {}).items()
        for part in parts
    )
    judged = frozenset(relevant.get(identifier, ()))
    return Claim(id=identifier, text=entry["claim"], evidence=evidence, relevant=judged)
