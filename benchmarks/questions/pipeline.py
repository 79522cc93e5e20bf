"""The stages: retrieval by TF-IDF is the same every time, reading and answering are sampled from a small model."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from veristate.agents.models import ChatModel, ChatRequest
from veristate.agents.state import Message

STAGES = ("retrieve", "read", "answer")
SAMPLED = STAGES[1:]
KEPT, WORDS, TEMPERATURE = 2, 60, 0.8
READ = (
    "Write one short sentence with the facts from these passages that help to answer the question.\n\n"
    "{passages}\n\nQuestion: {question}"
)
ANSWER = "Notes: {note}\n\nQuestion: {question}\nAnswer in a few words."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the paragraphs it comes with, each a title and a text."""

    id: str
    text: str
    paragraphs: tuple[tuple[str, str], ...]


def own_questions() -> list[Question]:
    """The small set written for this repository."""
    path = Path(__file__).with_name("questions.jsonl")
    return list(_read(path.read_text(encoding="utf-8").splitlines()))


def public_questions() -> list[Question]:
    """The questions in VERISTATE_DATA; none where the folder is not there."""
    path = Path(os.environ.get("VERISTATE_DATA", "")) / "qa" / "hotpotqa_distractor_100.jsonl.gz"
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(_read(lines))


def _read(lines: Iterable[str]) -> Iterator[Question]:
    for line in lines:
        row = json.loads(line)
        paragraphs = tuple((title, "".join(sentences).strip()) for title, sentences in row["context"])
        yield Question(id=row["id"], text=row["question"], paragraphs=paragraphs)


def retrieve(question: Question) -> list[str]:
    """The titles of the paragraphs nearest to the question by TF-IDF, nearest first; ties by place."""
    texts = [f"{title} {text}" for title, text in question.paragraphs]
    vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit(texts)
    scores = (vectors.transform(texts) @ vectors.transform([question.text]).T).toarray().ravel()
    return [question.paragraphs[place][0] for place in np.argsort(-scores, kind="stable")[:KEPT]]


def read(model: ChatModel, question: Question, titles: list[str], seed: int) -> str:
    """A note on what the passages say, sampled."""
    texts = dict(question.paragraphs)
    passages = "\n".join(f"{title}: {' '.join(texts[title].split()[:WORDS])}" for title in titles)
    return _ask(model, READ.format(passages=passages, question=question.text), "note", 160, seed)


def answer(model: ChatModel, question: Question, note: str, seed: int) -> str:
    """An answer from a note, sampled."""
    return _ask(model, ANSWER.format(note=note, question=question.text), "answer", 60, seed)


def _ask(model: ChatModel, prompt: str, field: str, longest: int, seed: int) -> str:
    """What the model gives in that field; where it broke off, the reply as it stands."""
    schema = {
        "type": "object",
        "properties": {field: {"type": "string", "maxLength": longest}},
        "required": [field],
        "additionalProperties": False,
    }
    message = Message(role="user", content=prompt)
    reply = model.reply(
        ChatRequest(messages=(message,), schema=schema, temperature=TEMPERATURE, seed=seed, max_tokens=64)
    )
    try:
        return str(json.loads(reply.text)[field])
    except (ValueError, KeyError, TypeError):
        return reply.text
