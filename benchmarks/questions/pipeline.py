"""The stages: retrieval by TF-IDF is the same every time, reading and answering are sampled from a small model."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from veristate.agents.models import ChatRequest, LocalModel, Sampled
from veristate.agents.state import Message

STAGES = ("retrieve", "read", "answer")
SAMPLED = STAGES[1:]
KEPT, WORDS, TEMPERATURE = 2, 60, 0.8
LONGEST = {"read": 48, "answer": 24}  # tokens
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


def read(model: LocalModel, question: Question, titles: list[str], seed: int) -> Sampled:
    """A note on what the passages say, sampled."""
    return model.sample(replace(read_request(question, titles), seed=seed))


def answer(model: LocalModel, question: Question, note: str, seed: int) -> Sampled:
    """An answer from a note, sampled."""
    return model.sample(replace(answer_request(question, note), seed=seed))


def read_request(question: Question, titles: list[str]) -> ChatRequest:
    """What the model is asked for a note."""
    texts = dict(question.paragraphs)
    passages = "\n".join(f"{title}: {' '.join(texts[title].split()[:WORDS])}" for title in titles)
    return _request(READ.format(passages=passages, question=question.text), "read")


def answer_request(question: Question, note: str) -> ChatRequest:
    """What the model is asked for an answer."""
    return _request(ANSWER.format(note=note, question=question.text), "answer")


def _request(prompt: str, stage: str) -> ChatRequest:
    message = Message(role="user", content=prompt)
    return ChatRequest(messages=(message,), schema=None, temperature=TEMPERATURE, max_tokens=LONGEST[stage])
