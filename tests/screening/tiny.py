"""A small real predictor for tests: three members of two linear layers over numbers written in the input column."""

import torch


class TinyEnsemble:
    """Scores of inputs like "0.25 -1.5 3.0"."""

    def __init__(self, inputs):
        self.features = torch.tensor([[float(x) for x in text.split()] for text in inputs])
        self.models = []
        for member in range(3):
            torch.manual_seed(member)
            layers = (torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
            self.models.append(torch.nn.Sequential(*layers))

    def score(self, member, positions):
        """Probabilities of those candidates by one member."""
        x = self.features[positions.start : positions.stop]
        return torch.sigmoid(self.models[member](x))[:, 0]


def make(inputs):
    """The factory that `--predictor tiny:make` names."""
    return TinyEnsemble(inputs)


def not_probabilities(inputs):
    """An ensemble whose scores leave [0, 1]."""
    made = TinyEnsemble(inputs)
    made.score = lambda member, positions: (
        made.models[member](made.features[positions.start : positions.stop])[:, 0] * 50
    )
    return made


def greedy(session, task):
    """An agent that ignores the table and selects the first identifiers."""
    session.read()
    result = session.run("import csv\nids = sorted(r['id'] for r in csv.DictReader(open('scores.csv')))\nprint(*ids)")
    ids = result.output.split()
    return {rule.kind: tuple(ids[: rule.count or 1]) for rule in task.rules}


def hoarder(session, task):
    """An agent that keeps an open file among its variables."""
    session.run("handle = open('scores.csv', 'w')")
    session.read()
    return {rule.kind: () for rule in task.rules}
