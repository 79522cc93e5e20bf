"""Outputs of the sampled stages without a model: words of the passages drawn by chance, and made up ones."""

import random
import re
from dataclasses import dataclass

from benchmarks.questions.pipeline import Question, retrieve

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """No model: the sentence that shares most words with the question, each of its words left out by chance.

    `left_out` is the share of words that are, as a temperature would be: the spread of honest outputs grows with it.
    """

    left_out: float = 0.1

    def read(self, question: Question, titles: list[str], seed: int) -> str:
        """What is left of the nearest of the passages' sentences."""
        texts = dict(question.paragraphs)
        sentences = [part for title in titles for part in re.split(r"(?<=[.!?]) +", texts[title])]
        asked = _words(question.text)
        nearest = max(sentences, key=lambda sentence: len(asked & _words(sentence)))
        return self._thinned(nearest.split(), f"read/{question.id}/{seed}")

    def answer(self, question: Question, note: str, seed: int) -> str:
        """What is left of the note, without the words that were asked with."""
        asked = _words(question.text)
        told = [word for word in note.split() if not _words(word) <= asked] or note.split()
        return self._thinned(told, f"answer/{question.id}/{seed}")

    def _thinned(self, words: list[str], seed: str) -> str:
        chance = random.Random(seed)
        return " ".join([word for word in words if chance.random() >= self.left_out] or words[:1])


def made_up(question: Question, chance: random.Random) -> str:
    """What a recorder writes who runs nothing: 3 to 12 words that follow each other in a retrieved passage."""
    words = dict(question.paragraphs)[chance.choice(retrieve(question))].split()
    start = chance.randrange(max(1, len(words) - 12))
    return " ".join(words[start : start + chance.randint(3, 12)])


def one_word_changed(text: str, words: list[str], chance: random.Random) -> str:
    """The text with one of its words replaced by one of `words`: what a recorder does who knows the threshold."""
    told = text.split() or [""]
    told[chance.randrange(len(told))] = chance.choice(words)
    return " ".join(told)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
