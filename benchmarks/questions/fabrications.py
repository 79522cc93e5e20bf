"""What a recorder hands in who did not run the stage, for the same input: by four ways to come by a text."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.questions.bank import Place
from benchmarks.questions.pipeline import LONGEST, SAMPLED, Question
from benchmarks.questions.sources import made_up, one_word_changed
from veristate.agents.models import Sampled

KINDS = ("words of the passages", "another question's output", "the other stage's output", "one word changed")
EACH = 8  # fabrications of a kind for one question and stage
# The numbers of a text's tokens, each with what it stands for: as the model's own tokenizer splits it.
Tokenizer = Callable[[str], Sequence[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The outputs of a question and stage, the honest ones first, and what each of the others is.

    A fabrication made from an honest output is no fabrication beside it: `made_from` is that output's place, -1 for
    none.
    """

    question: str
    stage: str
    outputs: tuple[Sampled, ...]
    honest: int
    kinds: tuple[str, ...]
    made_from: tuple[int, ...]


def drawn(
    bank: Mapping[Place, Sampled], questions: Sequence[Question], tokenizer: Tokenizer, *, seed: int
) -> Iterator[Drawn]:
    """The outputs of these questions for which both stages have some; fabrications follow from the seed."""
    honest: dict[tuple[str, str], list[Sampled]] = {}
    for (name, stage, _), output in sorted(bank.items(), key=lambda item: item[0]):
        honest.setdefault((name, stage), []).append(output)
    chance = random.Random(seed)
    for question in questions:
        for stage, other in zip(SAMPLED, reversed(SAMPLED), strict=True):
            own = honest.get((question.id, stage), [])
            elsewhere = [key for key in sorted(honest) if key[1] == stage and key[0] != question.id]
            if not own or not elsewhere or (question.id, other) not in honest:
                continue
            made: list[tuple[str, int, Sampled]] = []
            for _ in range(EACH):
                place = chance.randrange(len(own))
                words = chance.choice(question.paragraphs)[1].split()
                moved = chance.choice(honest[question.id, other]).text
                texts = made_up(question, chance), moved, one_word_changed(own[place].text, words, chance)
                copied, moved_in, changed = (as_output(text, stage, tokenizer) for text in texts)
                made += [
                    (KINDS[0], -1, copied),
                    (KINDS[1], -1, chance.choice(honest[chance.choice(elsewhere)])),
                    (KINDS[2], -1, moved_in),
                    (KINDS[3], place, changed),
                ]
            yield Drawn(
                question=question.id,
                stage=stage,
                outputs=(*own, *(output for _, _, output in made)),
                honest=len(own),
                kinds=tuple(kind for kind, _, _ in made),
                made_from=tuple(place for _, place, _ in made),
            )


def as_output(text: str, stage: str, tokenizer: Tokenizer) -> Sampled:
    """The text as the stage would hand it in: cut where the stage cuts, and said to have ended where it is shorter."""
    tokens = tokenizer(text)
    kept = tokens[: LONGEST[stage]]
    return Sampled(
        tokens=tuple(number for number, _ in kept),
        pieces=tuple(piece for _, piece in kept),
        ended=len(tokens) < LONGEST[stage],
    )
