"""Propagation through users' own models: exact scores inside their intervals, unknown parts declined by name."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.decisions.enclosures import Declined
from veristate.devices.certified.chains import chain_bounds, chain_rows
from veristate.devices.certified.models import layer_outputs, propagation_of
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan


class Tokens(torch.nn.Module):
    """Layers on tokens, a pool, layers on the candidate."""

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 40, bias=False), torch.nn.Linear(40, 48)
        self.last, self.mean = torch.nn.Linear(48, 2), mean

    def forward(self, tokens):
        """Scores of [n, T, 8]."""
        hidden = torch.relu(self.second(torch.relu(self.first(tokens))))
        pooled = hidden.mean(dim=1) if self.mean else hidden.sum(dim=1) / 16.0
        return torch.sigmoid(self.last(pooled))[:, 1]


def dense(link):
    """A plain network with a leaky layer."""
    parts = [torch.nn.Linear(8, 40), torch.nn.LeakyReLU(0.125), torch.nn.Dropout(0.5), torch.nn.Linear(40, 33)]
    return torch.nn.Sequential(*parts, torch.nn.ReLU(), torch.nn.Linear(33, 3), *link)


MODELS = {
    "mean of tokens": lambda: Tokens(True),
    "sum of tokens over 16": lambda: Tokens(False),
    "softmax": lambda: dense([torch.nn.Softmax(dim=-1)]),
    "sigmoid": lambda: dense([torch.nn.Sigmoid()]),
    "no link": lambda: dense([]),
}


def made(name, seed=0):
    """The model of that name and its inputs."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = MODELS[name]().eval()
    shape = (20, 3, 8) if "tokens" in name else (20, 8)
    return model, np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def wide_scores(model, inputs, output=0):
    """The same model in FP64: exact to 1e-14 here."""
    with torch.inference_mode():
        scores = model.double()(torch.from_numpy(inputs).double()).numpy()
    model.float()
    return scores if scores.ndim == 1 else scores[:, output]


@given(st.sampled_from(sorted(MODELS)), st.integers(0, 10**6), st.sampled_from(["clean", "faulty"]))
@settings(max_examples=30, deadline=None)
def test_the_exact_scores_of_a_users_model_lie_in_their_intervals(name, seed, kind):
    """Exports of a healthy run and of one with wrong elements, against the model in FP64."""
    model, inputs = made(name, seed)
    propagation = propagation_of(model)
    outputs = layer_outputs(model, propagation, lambda: model(torch.from_numpy(inputs)))
    if kind == "faulty":
        for parts in outputs.values():
            parts[0] = parts[0].copy()
            parts[0][seed % len(parts[0]), 3] += 1.0
            parts[0][seed % len(parts[0]), 4] -= 1.0
    account = ProbeAccount(ProbePlan(delta="1e-9", rows=chain_rows(propagation, inputs.shape)), os.urandom)
    found = chain_bounds(propagation, inputs, account.draw(Export.fix(outputs, propagation.weights)))
    scores = wide_scores(model, inputs)
    assert account.rows_left == 0
    assert (found.lower <= scores + 1e-14).all()
    assert (scores - 1e-14 <= found.upper).all()
    if kind == "clean":
        assert (found.upper - found.lower < 1e-2).all()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_without_probes_the_score_is_evaluated(name):
    """FP64 alone: intervals of its rounding."""
    model, inputs = made(name)
    found = chain_bounds(propagation_of(model), inputs)
    assert (found.upper - found.lower < 1e-10).all()
    assert np.abs(found.lower - wide_scores(model, inputs)).max() < 1e-10


def linear(*more):
    """A linear layer and more."""
    return torch.nn.Sequential(torch.nn.Linear(4, 40), *more)


class Skip(torch.nn.Module):
    """A value that flows two ways."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        """X plus its layer."""
        return x + self.layer(x)


class Twice(Skip):
    """One layer called twice."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(40, 40)

    def forward(self, x):
        """Twice through it."""
        return self.layer(torch.relu(self.layer(x)))


class Branching(Skip):
    """Control flow on values."""

    def forward(self, x):
        """Depends on the sign."""
        return self.layer(x) if x.sum() > 0 else x


class SoftTokens(Skip):
    """A softmax over tokens, which is another one."""

    def forward(self, x):
        """Over the middle dimension of [n, T, 4]."""
        return torch.softmax(self.layer(x), dim=0)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (linear(torch.nn.GELU(), torch.nn.Linear(40, 1)), "1, a GELU"),
        (linear(torch.nn.LayerNorm(40), torch.nn.Linear(40, 1)), "1, a LayerNorm"),
        (linear(torch.nn.ReLU()), "does not end in a Linear"),
        (linear(torch.nn.Sigmoid(), torch.nn.Linear(40, 1)), "calls 2"),
        (linear(torch.nn.LeakyReLU(1.5), torch.nn.Linear(40, 1)), "slope 1.5"),
        (torch.nn.Sequential(torch.nn.ReLU()), "does not end"),
        (Skip(), "no chain"),
        (Twice(), "twice"),
        (Branching(), "can't be traced"),
        (SoftTokens(), "softmax over dimension 0"),
    ],
)
def test_what_can_not_be_followed_declines_by_name(model, said):
    """The reason names the module or the operation."""
    found = propagation_of(model.eval())
    assert isinstance(found, Declined)
    assert said in found.reason
    assert found.next_strategy == "full"


def test_a_model_in_training_and_a_column_it_lacks_decline():
    """Dropout would be random; column 7 of 3 is none."""
    assert "eval()" in propagation_of(dense([])).reason
    assert "no column 7" in propagation_of(dense([]).eval(), output=7).reason


def test_inputs_of_another_shape_are_refused():
    """The first layer's width, and a dimension to pool over."""
    model, _ = made("mean of tokens")
    propagation = propagation_of(model)
    for shape in ((5, 8), (5, 3, 7), (0, 3, 8)):
        with pytest.raises(InputError, match="don't fit"):
            chain_bounds(propagation, np.zeros(shape, np.float32))
