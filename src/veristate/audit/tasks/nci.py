"""NCI molecular neighbours: the ten most similar molecules by Tanimoto similarity, the molecule itself left out."""

from dataclasses import dataclass

import numpy as np

from veristate.audit.tasks.cache import Arrays, prepared
from veristate.audit.tasks.catalogue import NCI
from veristate.audit.tasks.judges import best_columns, text_order
from veristate.audit.tasks.molecules import BITS, RADIUS, canonical, fingerprint_settings, morgan_bits
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.task import Array, Change, Description, Indices, TaskOutcome, arrays_digest, unchanged
from veristate.core import digest

QUERIES, NEIGHBOURS = 1536, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NciTask:
    """Fingerprints [n, 2048] in text order of the molecules' numbers; `queries` are the positions that are asked for.

    `ids` are the numbers; `raw` counts the lines of the file, readable or not.
    """

    ids: tuple[str, ...]
    fingerprints: Array
    queries: Indices
    raw: int

    def describe(self) -> Description:
        """The task in words."""
        return Description(
            name="nci",
            data="the first 5,000 molecules of the NCI set that RDKit ships",
            size=(self.raw, len(self.ids), len(self.queries)),
            split=(),
            computation=f"Tanimoto similarity of {BITS}-bit Morgan fingerprints of radius {RADIUS}",
            endpoint=f"the {NEIGHBOURS} nearest molecules of each query, itself left out",
            aggregate="mean true similarity of the lists",
            differs="the queries are the first 1,536 readable molecules; the paper does not name its own",
        )

    def sites(self) -> tuple[str, ...]:
        """The product that counts common bits, and the similarities."""
        return "common_bits", "scores"

    def products(self) -> tuple[str, ...]:
        """The product."""
        return ("common_bits",)

    def scores(self, change: Change = unchanged) -> Array:
        """Similarities [queries, n]; 0 where a changed count leaves no bits in the union.

        Maths: c / (a + b - c) with c bits common to two molecules of a and b bits.
        """
        asked = self.fingerprints[self.queries]
        common = change("common_bits", asked @ self.fingerprints.T)
        bits = self.fingerprints.sum(axis=1)
        union = bits[self.queries][:, None] + bits[None, :] - common
        return change("scores", np.divide(common, union, out=np.zeros_like(common), where=union > 0))

    def run(self, change: Change = unchanged) -> TaskOutcome:
        """The neighbours of each query."""
        scores = self.scores(change).copy()
        scores[np.arange(len(self.queries)), self.queries] = -np.inf
        lists = best_columns(scores, NEIGHBOURS)
        return TaskOutcome(lists=lists, labels=None, metrics=(("mean similarity", self._similarity(lists)),))

    def digest(self) -> str:
        """Of fingerprints and queries."""
        return arrays_digest(self.fingerprints, self.queries)

    def _similarity(self, lists: Indices) -> float:
        """The lists' true mean similarity: a property of who is in them, whatever they were scored."""
        asked, found = self.fingerprints[self.queries][:, None, :], self.fingerprints[lists]
        common = np.einsum("qok,qnk->qn", asked, found, optimize=True)
        bits = self.fingerprints.sum(axis=1)
        return float(np.mean(common / (bits[self.queries][:, None] + bits[lists] - common), dtype=np.float64))


def load(data: Data) -> NciTask:
    """The task. Raises: EnvironmentUnusableError when the file is absent."""
    content = data.read(NCI, "nci")
    lines = [line.split() for line in content.decode().splitlines() if line.strip()]
    held = prepared("nci", fingerprint_settings(), (digest(content),), lambda: _fingerprints(lines))
    rows = held["rows"]
    ids = [lines[row][1] for row in rows]
    order = text_order(ids)
    asked = np.flatnonzero(np.isin(order, np.arange(QUERIES)))
    return NciTask(
        ids=tuple(ids[i] for i in order),
        fingerprints=np.unpackbits(held["bits"], axis=1)[order].astype(np.float32),
        queries=asked,
        raw=len(lines),
    )


def _fingerprints(lines: list[list[str]]) -> Arrays:
    """Packed "bits" of the readable molecules, and their "rows" in the file."""
    rows = [row for row, line in enumerate(lines) if canonical(line[0]) is not None]
    bits = morgan_bits([lines[row][0] for row in rows])
    return {"rows": np.array(rows), "bits": np.packbits(bits.astype(np.uint8), axis=1)}
