"""Users' models through `certify_pass`: under each contract what fractions and FP64 say, or declined."""

import os
import time
from copy import deepcopy
from fractions import Fraction

import numpy as np
import pytest
import torch

from veristate.core import InputError, RefusedError, Rule
from veristate.decisions import Question, decide, ensemble_mean
from veristate.decisions.enclosures import Declined
from veristate.devices.certified import ChainSide, IntegerSide, Wanted, certify_pass
from veristate.numerics import BF16
from veristate.numerics.probes import Export, nearest, rounded_sigmoid

COUNT, WIDE = 60, 40


def network(seed, link=True):
    """Linear, ReLU, Linear, ReLU, Linear and a sigmoid, as a user writes it."""
    torch.manual_seed(seed)
    parts = [torch.nn.Linear(12, WIDE), torch.nn.ReLU(), torch.nn.Linear(WIDE, WIDE), torch.nn.ReLU()]
    last = torch.nn.Linear(WIDE, 1)
    last.weight.data *= 4
    return torch.nn.Sequential(*parts, last, *([torch.nn.Sigmoid()] if link else [])).eval()


@pytest.fixture(scope="module")
def models():
    """Two members."""
    return [network(1), network(2)]


@pytest.fixture(scope="module")
def inputs():
    """A table of arrays."""
    return np.random.default_rng(3).standard_normal((COUNT, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def question():
    """The best ten, and the threshold."""
    rules = (Rule(kind="top_k", count=10), Rule(kind="threshold", threshold="0.5"))
    return Question(rules=rules, ids=tuple(f"c{i:02}" for i in range(COUNT)))


def certified(question, side, suspect, **wanted):
    """One pass."""
    return certify_pass(question, side, suspect, Wanted(**wanted), entropy=os.urandom, clock=time.perf_counter)


def in_double(model, inputs):
    """The model's own scores in double precision."""
    return deepcopy(model).double()(torch.from_numpy(inputs).double())[:, 0].detach().numpy()


def decisions(question, values):
    """What the rules say of these member values."""
    scores = ensemble_mean(np.asarray(values, dtype=np.float64), 1.0)
    return tuple(decide(rule, scores, question.ids) for rule in question.rules)


@pytest.mark.parametrize("strategy", ["probes", "full", None])
@pytest.mark.parametrize("spoiled", [False, True])
def test_a_users_models_are_certified_to_their_exact_decisions(models, inputs, question, strategy, spoiled):
    """C1 with a healthy and a faulty device, against the models in double precision."""
    side = ChainSide.of(models, inputs)
    suspect = faulty(side.device(models)) if spoiled else side.device(models)
    found = certified(question, side, suspect, strategy=strategy)
    double = [in_double(model, inputs) for model in models]
    assert found.narrowed.decisions == decisions(question, double)
    assert (found.narrowed.box.lower <= double).all()
    assert (found.narrowed.box.upper >= double).all()
    if found.plan.strategy == "probes":
        assert found.rows_checked == 2 * 2 * COUNT
        assert (found.narrowed.units_spent > 0) == spoiled


def faulty(run):
    """A device whose second layer is wrong in some rows, in pairs that cancel."""

    def wrong(member, batches, asked):
        scores, export = run(member, batches, asked)
        values = {name: rows.copy() for name, rows in export.values.items()}
        values["2"][::5, 3] += 3
        values["2"][::5, 4] -= 3
        return scores, Export.fix({name: [rows] for name, rows in values.items()}, export.weights)

    return wrong


def test_the_bits_of_a_users_run_are_those_of_its_batches(models, inputs, question):
    """C2: memoising is declined with its reason, and the run itself is repeated."""
    side = ChainSide.of(models, inputs, batch=16)
    found = certified(question, side, side.device(models), kind="C2", strategy="memo")
    assert "repeat" in found.plan.reason
    with torch.inference_mode():
        runs = [[m(torch.from_numpy(inputs[at : at + 16]))[:, 0].numpy() for at in range(0, COUNT, 16)] for m in models]
    assert found.values.tobytes() == np.stack([np.concatenate(r) for r in runs]).tobytes()


@pytest.mark.parametrize("spoiled", [False, True])
def test_a_users_models_in_bf16_are_certified_value_by_value(models, inputs, question, spoiled):
    """C3: the values of a chain rounded from fractions, whatever the device's own sums were."""
    side = ChainSide.of(models, inputs, dtype="bf16")
    suspect = side.device(models, "C3")
    found = certified(question, side, faulty(suspect) if spoiled else suspect, kind="C3", strategy="probes")
    assert (found.terms.kind, found.terms.delta, found.terms.certifies) == ("C3", "1e-9", "values")
    assert found.plan.strategy == "probes"
    assert found.values.tobytes() == certified(question, side, None, kind="C3", strategy="full").values.tobytes()
    for i in (0, 5, 7):
        assert found.values[0, i] == by_fractions(models[0], inputs[i])
    cells = 2 * 2 * COUNT * WIDE
    assert found.evaluated < (0.3 if spoiled else 0.05) * cells


def by_fractions(model, x):
    """One candidate's score, every layer an exact sum that is rounded once."""

    def near(v):
        return Fraction(nearest(v, BF16))

    x = [near(Fraction(float(v))) for v in x]
    for layer in model:
        if isinstance(layer, torch.nn.ReLU):
            x = [max(v, Fraction(0)) for v in x]
        elif isinstance(layer, torch.nn.Linear):
            rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
            x = [
                near(sum(near(Fraction(w)) * v for w, v in zip(row, x, strict=True)) + near(Fraction(b)))
                for row, b in rows
            ]
    return rounded_sigmoid(np.array([float(x[0])]))[0]


@pytest.mark.parametrize("spoiled", [False, True])
def test_a_users_models_in_whole_numbers_are_certified_value_by_value(models, inputs, question, spoiled):
    """C4: no false alarm; a device that is off by one is corrected; Python's integers say the same."""
    side = IntegerSide.of(models, inputs)
    run = side.device()

    def off(member, batches, asked):
        scores, export = run(member, batches, asked)
        values = {name: acc.copy() for name, acc in export.values.items()}
        values["2"][7, 3] += 1
        values["4"][9, 0] += 2**40
        return scores, Export.fix({name: [acc] for name, acc in values.items()}, export.weights)

    found = certified(question, side, off if spoiled else run, kind="C4", strategy="probes")
    assert (found.terms.kind, found.terms.certifies, found.plan.strategy) == ("C4", "values", "probes")
    assert found.evaluated == (4 if spoiled else 0)
    exact = np.array([[python_integers(chain, x) for x in inputs] for chain in side.members], dtype=np.float32)
    assert found.values.tobytes() == exact.tobytes()
    real = [m(torch.from_numpy(inputs))[:, 0].detach().numpy() for m in models]
    assert np.abs(found.values - real).max() < 1e-3


def python_integers(chain, x):
    """One candidate's score in Python's integers."""
    most = 2 ** (chain.bits - 1)
    q = [min(max(round(float(v) * 2**chain.scale), -most), most - 1) for v in x]
    for layer in chain.layers:
        rows = zip(layer.W.tolist(), layer.b.tolist(), strict=True)
        acc = [sum(w * v for w, v in zip(row, q, strict=True)) + b for row, b in rows]
        q = [max(v, 0) if layer.rectified else v for v in acc]
        q = [min(max((v + (1 << layer.shift >> 1)) >> layer.shift, -most), most - 1) for v in q]
    return rounded_sigmoid(np.array([acc[chain.output] / 2**chain.exponent]))[0]


def test_what_a_side_has_no_strategy_for_is_refused(models, inputs, question):
    """Real numbers under C4, whole ones under C1, a softmax or a leaky slope under C3: each with its reason."""
    side = ChainSide.of(models, inputs)
    with pytest.raises(RefusedError, match="real numbers"):
        certified(question, side, side.device(models), kind="C4")
    whole = IntegerSide.of(models, inputs)
    with pytest.raises(RefusedError, match="under C4"):
        certified(question, whole, whole.device())
    with pytest.raises(InputError, match="not enclosures"):
        whole.everything()
    leaky = torch.nn.Sequential(
        torch.nn.Linear(12, WIDE), torch.nn.LeakyReLU(), torch.nn.Linear(WIDE, 3), torch.nn.Softmax(1)
    )
    with pytest.raises(RefusedError, match="ReLU"):
        certified(question, ChainSide.of([leaky.eval()], inputs, dtype="bf16"), None, kind="C3")
    assert "ReLU" in IntegerSide.of([leaky], inputs).reason
    assert isinstance(ChainSide.of([torch.nn.Sequential(torch.nn.GELU()).eval()], inputs), Declined)


def test_a_model_that_pools_goes_through_under_exact_and_rounded(question):
    """Rows of a middle dimension, their mean and a link: exact decisions, and correctly rounded values."""

    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(4)
            self.first, self.last = torch.nn.Linear(6, WIDE), torch.nn.Linear(WIDE, 1)

        def forward(self, x):
            return torch.sigmoid(self.last(torch.relu(self.first(x)).mean(dim=1)))

    inputs = np.random.default_rng(6).standard_normal((COUNT, 5, 6)).astype(np.float32)
    model = Pooled().eval()
    side = ChainSide.of([model], inputs, dtype="bf16")
    exact = ChainSide.of([model], inputs)
    found = certified(question, exact, exact.device([model]), strategy="probes")
    double = [in_double(model, inputs)]
    assert found.narrowed.decisions == decisions(question, double)
    rounded = certified(question, side, side.device([model], "C3"), kind="C3", strategy="probes")
    assert rounded.values.tobytes() == side.values("C3", "full").tobytes()
    assert np.abs(rounded.values - double).max() < 0.02


def test_what_whole_numbers_or_correct_rounding_do_not_hold_is_declined(models, inputs, question):
    """C4: a ReLU on the inputs, a module called twice, a bias beyond 64 bits. C3: a format with inexact products."""

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.only = torch.nn.Linear(12, 12)

        def forward(self, x):
            return self.only(torch.relu(self.only(x)))

    huge = torch.nn.Sequential(torch.nn.Linear(12, 1))
    huge[0].weight.data *= 1e-8
    huge[0].bias.data[:] = -1e6
    first = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(12, 1))
    for model, why in ((first, "ReLU before 1"), (Twice(), "twice: only"), (huge, "beyond")):
        found = IntegerSide.of([model.eval()], inputs)
        assert isinstance(found, Declined)
        assert why in found.reason
    with pytest.raises(InputError, match="row 2"):
        IntegerSide.of(models, inputs).members[0].operands(np.where(np.arange(60)[:, None] == 2, np.nan, inputs))
    side = ChainSide.of(models, inputs, dtype="fp64")
    with pytest.raises(RefusedError, match="not exact"):
        certified(question, side, None, kind="C3")
