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


def hooked(inputs):
    """An ensemble whose first layers have a hook that scales what they give, as adapters do."""
    made = TinyEnsemble(inputs)
    for model in made.models:
        model[0].register_forward_hook(lambda module, given, output: output * 1.5)
    return made


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
    """An agent that keeps an open file among its variables when it reads."""
    session.run("handle = open('notes.txt', 'w')")
    session.read()
    return {rule.kind: () for rule in task.rules}


def talkative(session, task):
    """An agent that decides rightly and says something that nobody asked for."""
    from veristate.agents.controllers import decide

    session.read()
    return decide(session, task) | {"also": ("c001",)}


def silent(session, task):
    """An agent that says nothing for the last rule."""
    from veristate.agents.controllers import decide

    session.read()
    chosen = dict(decide(session, task))
    del chosen[task.rules[-1].kind]
    return chosen


def broken(session, task):
    """An agent that fails."""
    session.read()
    raise KeyError("nothing works")


class Stranger:
    """An agent that hands in its action under another request's name."""

    name = "stranger"

    def analyse(self, session, task):
        """Prepares what the built-in controller would."""
        from veristate.agents.controllers import decide

        session.read()
        session.propose(decide(session, task))

    def submit(self, session, task):
        """The prepared action, misaddressed."""
        from veristate.agents import Proposal

        return Proposal(request_id="another", view=session.pending.view, payload=session.pending.payload)


class Memoriser:
    """An agent that remembers in its own object what it decided first."""

    name = "memoriser"

    def __init__(self):
        self.first = None

    def analyse(self, session, task):
        """Decides once and repeats that for ever."""
        from veristate.agents.controllers import decide

        session.read()
        self.first = self.first or decide(session, task)
        session.propose(self.first)

    def submit(self, session, task):
        """The prepared action."""
        from veristate.agents import Proposal

        pending = session.pending
        return Proposal(request_id=task.request_id, view=pending.view, payload=pending.payload)
