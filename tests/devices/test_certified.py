"""Certified passes of message-passing members: distinct environments, bounds, memoised bits, decisions under faults."""

import os
import time
from collections import Counter
from fractions import Fraction
from operator import mul

import mpmath
import numpy as np
import pytest
import torch
from device_cases import herg, herg_candidates, herg_spec, one_herg_member
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError, RefusedError, Rule
from veristate.decisions import Box, Question, decide, ensemble_mean, equal_inputs
from veristate.decisions.enclosures import Declined
from veristate.devices import fault_named, load_predictor
from veristate.devices.certified import (
    Graphs,
    TrustedSide,
    Wanted,
    certify_pass,
    environments,
    export_rows,
    exported_run,
    graphs_of,
    member_bounds,
    member_of,
    memoised_pass,
    memoised_scores,
    ordered_environments,
    rounded_scores,
)
from veristate.devices.certified import graphs as graphs_module
from veristate.numerics import BF16
from veristate.numerics.probes import Export, ProbeAccount, ProbePlan, nearest, rounded, rounded_sigmoid

COUNT = 100


@pytest.fixture(scope="module")
def question():
    """Top twenty, and the threshold."""
    rules = (Rule(kind="top_k", count=20), Rule(kind="threshold", threshold="0.5"))
    return Question(rules=rules, ids=herg_candidates(COUNT).ids)


@pytest.fixture(scope="module")
def truth(question, exact):
    """The decisions of the exact values, which here lie far from every boundary."""
    scores = ensemble_mean((exact.lower + exact.upper) / 2, 1.0)
    return tuple(decide(rule, scores, question.ids) for rule in question.rules)


def suspect_of(predictor, side, trusted=2, fault=None):
    """The suspect's run, exporting what is not evaluated on the trusted side."""

    def run(member, batches, env):
        weights = side.members[member].weights
        return exported_run(predictor, member, batches, env, trusted=trusted, weights=weights, fault=fault)

    return run


def random_graphs(seed):
    """A few random graphs with few kinds of atoms and bonds, so that environments repeat."""
    rng = np.random.default_rng(seed)
    atoms, bonds, ends, reverse, atom_starts, bond_starts = [], [], [], [], [0], [0]
    for _ in range(3):
        n = int(rng.integers(1, 6))
        first = len(atoms)
        atoms += rng.integers(0, 2, (n, 2)).tolist()
        for a in range(n):
            for b in range(a):
                if rng.random() < 0.5:
                    kind = [int(rng.integers(0, 2))]
                    reverse += [len(bonds) + 1, len(bonds)]
                    bonds += [kind, kind]
                    ends += [(first + a, first + b), (first + b, first + a)]
        atom_starts.append(len(atoms))
        bond_starts.append(len(bonds))
    pairs = np.array(ends, dtype=np.intp).reshape(-1, 2)
    return Graphs(
        atoms=np.array(atoms, np.float32),
        bonds=np.array(bonds, np.float32).reshape(-1, 1),
        source=pairs[:, 0],
        target=pairs[:, 1],
        reverse=np.array(reverse, dtype=np.intp),
        atom_starts=np.array(atom_starts),
        bond_starts=np.array(bond_starts),
    )


def unfolded(graphs, depth, ordered):
    """By recursion: each bond's environment at the last depth, and each atom's, as nested tuples."""

    def together(items):
        return tuple(items) if ordered else tuple(sorted(Counter(items).items(), key=repr))

    start = [(tuple(graphs.atoms[s]), tuple(b)) for s, b in zip(graphs.source, graphs.bonds, strict=True)]
    now = start
    for _ in range(1, depth):
        following = []
        for e in range(len(start)):
            arriving = [f for f in range(len(start)) if graphs.target[f] == graphs.source[e]]
            if ordered:
                following.append((start[e], tuple(now[f] for f in arriving), now[graphs.reverse[e]]))
            else:
                following.append((start[e], together(now[f] for f in arriving if f != graphs.reverse[e])))
        now = following
    atoms = [
        (tuple(graphs.atoms[v]), together(now[f] for f in range(len(start)) if graphs.target[f] == v))
        for v in range(len(graphs.atoms))
    ]
    return now, atoms


def same_partition(of, things):
    """Whether two rows have one class exactly when they are equal."""
    classes = {}
    return all(classes.setdefault(thing, c) == c for thing, c in zip(things, of, strict=True)) and len(
        set(of.tolist())
    ) == len(set(things))


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_two_environments_are_one_exactly_when_they_are_equal(seed, depth, collide):
    """Against unfolding by recursion, in any order and in order; also when every hash collides."""
    graphs = random_graphs(seed)
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            patch.setattr(graphs_module, "row_hashes", lambda keys: np.zeros(len(keys), np.uint64))
        env, ordered = environments(graphs, depth), ordered_environments(graphs, depth)
    bonds, atoms = unfolded(graphs, depth, ordered=False)
    assert same_partition(env.bonds[-1].of, bonds)
    assert same_partition(env.atoms.of, atoms)
    assert (np.diff(env.atoms.place) > 0).all()
    assert same_partition(ordered.of, unfolded(graphs, depth, ordered=True)[1])


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_some_of_the_graphs_are_those_graphs(seed):
    """Taking candidates out keeps their atoms, bonds and ends."""
    graphs = random_graphs(seed)
    some = graphs.only([2, 0])
    again = some.only([1, 0]).only([0, 1])
    kept = graphs.only([0, 2])
    for name in ("atoms", "bonds", "source", "target", "reverse", "atom_starts", "bond_starts"):
        assert np.array_equal(getattr(again, name), getattr(kept, name))


def test_the_exact_score_of_a_molecule_lies_in_its_interval():
    """One member over ethanol, every product in mpmath with 40 digits."""
    predictor = one_herg_member(("CCO",))
    member = member_of(predictor.models[0], herg.OUTPUT)
    graphs = graphs_of(predictor, range(1))
    with mpmath.workdps(40):
        score = mpmath_score(predictor.models[0], graphs, herg.OUTPUT)
        found = member_bounds(member, environments(graphs, member.depth))
        assert mpmath.mpf(found.lower[0]) <= score <= mpmath.mpf(found.upper[0])
    assert found.upper[0] - found.lower[0] < 1e-7
    assert abs(predictor.run(0, 0)[0] - float(score)) < 1e-6


def mpmath_score(model, graphs, output):
    """The score of one molecule, without a rounding that matters."""

    def linear(layer, x):
        b = [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist()
        return [
            mpmath.fdot([(w, v) for w, v in zip(row, x, strict=True) if v]) + c
            for row, c in zip(layer.weight.tolist(), b, strict=True)
        ]

    def relu(x):
        return [max(v, mpmath.mpf(0)) for v in x]

    def total(rows, width):
        return [mpmath.fsum(column) for column in zip(*rows, strict=True)] if rows else [mpmath.mpf(0)] * width

    passing, E = model.message_passing, range(len(graphs.bonds))
    start = [linear(passing.W_i, [*graphs.atoms[graphs.source[e]].tolist(), *graphs.bonds[e].tolist()]) for e in E]
    h = [relu(row) for row in start]
    for _ in range(1, passing.depth):
        m = [
            total([h[f] for f in E if graphs.target[f] == graphs.source[e] and f != graphs.reverse[e]], 300) for e in E
        ]
        h = [
            relu([a + b for a, b in zip(s, linear(passing.W_h, x), strict=True)]) for s, x in zip(start, m, strict=True)
        ]
    atoms = [
        relu(linear(passing.W_o, [*x.tolist(), *total([h[f] for f in E if graphs.target[f] == v], 300)]))
        for v, x in enumerate(graphs.atoms)
    ]
    z = [v / mpmath.mpf(model.agg.norm) for v in total(atoms, 300)]
    first, last = model.predictor.ffn[0][0], model.predictor.ffn[1][2]
    hidden = relu(linear(first, z))
    logit = mpmath.fdot(zip(last.weight[output].tolist(), hidden, strict=True)) + last.bias[output].item()
    return 1 / (1 + mpmath.exp(-logit))


@pytest.mark.parametrize(("trusted", "draws"), [(1, 16), (2, 8), (3, 16)])
def test_bounds_from_probes_hold_the_exact_values(herg_hundred, side, exact, trusted, draws):
    """Every interval meets the one that FP64 proves, at every depth of trust."""
    env = side.environments(side.stretches[0])
    account = ProbeAccount(ProbePlan(delta="1e-9", rows=5 * export_rows(env, trusted), draws=draws), os.urandom)
    for number, member in enumerate(side.members):
        scores, export = suspect_of(herg_hundred, side, trusted)(number, side.stretches[0], env)
        found = member_bounds(member, env, account.draw(export), trusted=trusted)
        assert (found.lower <= exact.lower[number]).all()
        assert (exact.upper[number] <= found.upper).all()
        assert np.isfinite(found.reach).all()
        plain = np.concatenate([herg_hundred.run(number, b) for b in range(len(herg_hundred.batches))])
        assert scores.tobytes() == plain.tobytes()
    assert account.rows_left == 0


def test_a_pass_with_cancelling_and_large_errors_has_valid_bounds(herg_hundred, side, exact):
    """Pairs that cancel in every plain sum, single large errors and NaN: no interval misses the exact value."""
    env = side.environments(side.stretches[0])
    account = ProbeAccount(ProbePlan(delta="1e-9", rows=export_rows(env, 2)), os.urandom)
    _, export = suspect_of(herg_hundred, side)(0, side.stretches[0], env)
    values = {name: rows.copy() for name, rows in export.values.items()}
    values["a2"][::7, 3] += 0.5
    values["a2"][::7, 9] -= 0.5
    values["o"][5::11, 100] = 40.0
    values["o"][3, 0] = np.nan
    found = member_bounds(
        side.members[0], env, account.draw(Export.fix({n: [v] for n, v in values.items()}, export.weights)), trusted=2
    )
    assert (found.lower <= exact.lower[0]).all()
    assert (exact.upper[0] <= found.upper).all()
    wrong = [len(values["a2"][::7]), len({*range(5, len(values["o"]), 11), 3})]
    assert found.evaluated >= 300 * sum(wrong)
    assert (found.upper - found.lower).max() < 0.1


@pytest.mark.parametrize("size", [0.01, 4.0, np.inf])
def test_wrong_rows_are_evaluated_and_others_are_not(herg_hundred, side, exact, size):
    """Rows with errors that cancel in their sum are found, and intervals end as narrow as without; of a device whose
    rows are mostly wrong nothing is repaired, and nothing false is said.
    """
    env, member = side.environments(side.stretches[0]), side.members[0]
    _, export = suspect_of(herg_hundred, side)(0, side.stretches[0], env)

    def bounded(rows):
        values = {name: given.copy() for name, given in export.values.items()}
        for changed in values.values():
            changed[rows, 17] += np.float32(size)
            changed[rows, 201] -= np.float32(size)
        account = ProbeAccount(ProbePlan(delta="1e-9", rows=export_rows(env, 2)), os.urandom)
        fixed = Export.fix({name: [given] for name, given in values.items()}, export.weights)
        found = member_bounds(member, env, account.draw(fixed), trusted=2)
        assert (found.lower <= exact.lower[0]).all()
        assert (exact.upper[0] <= found.upper).all()
        return found

    healthy, spoiled, everywhere = bounded([]), bounded(slice(5, 40)), bounded(slice(None))
    assert healthy.evaluated == 0
    assert spoiled.evaluated == 2 * 35 * 300
    assert spoiled.widest_eps > 100 * healthy.widest_eps
    assert (spoiled.upper - spoiled.lower).max() < 3 * (healthy.upper - healthy.lower).max()
    assert np.median(everywhere.upper - everywhere.lower) > (healthy.upper - healthy.lower).max()


@pytest.mark.parametrize("strategy", ["probes", "memo", "full", None])
def test_every_strategy_certifies_the_exact_decisions(herg_hundred, side, question, truth, strategy):
    """C1: whichever way it went, the decisions are those of the exact values."""
    wanted = Wanted(strategy=strategy)
    suspect = suspect_of(herg_hundred, side)
    found = certify_pass(question, side, suspect, wanted, entropy=os.urandom, clock=time.perf_counter)
    assert found.narrowed.decisions == truth
    assert found.terms.kind == "C1"
    assert (found.terms.delta, found.terms.certifies) == (
        ("1e-9", "decisions") if found.plan.strategy == "probes" else ("0", "values")
    )
    assert len(found.records) == (5 if found.plan.strategy == "probes" else 0)
    assert found.spent > 0 < found.predicted
    assert found.evidence["strategy"] == found.plan.strategy
    assert found.evidence["terms"] == found.terms.in_words()


@pytest.mark.parametrize("fault", ["case1", "case2"])
def test_a_faulty_pass_is_certified_to_the_exact_decisions(herg_hundred, side, question, truth, fault):
    """Both classes of faults, many seeds' worth of wrong rows: what was wrong is recomputed."""
    suspect = suspect_of(herg_hundred, side, fault=fault_named(fault, 7))
    found = certify_pass(
        question, side, suspect, Wanted(strategy="probes"), entropy=os.urandom, clock=time.perf_counter
    )
    assert found.narrowed.decisions == truth


@pytest.mark.parametrize("told", [True, False])
def test_a_table_that_repeats_its_molecules_is_certified_when_equal_inputs_are_equal(told):
    """Each of a list twice, and a boundary between two that are equal: their identifiers decide, or nothing does."""
    smiles = ("CCO", "CCN", "c1ccncc1", "CC(=O)OC") * 2
    predictor = one_herg_member(smiles)
    side, ids = TrustedSide.of(predictor), tuple("hgfedcba")
    rules = (Rule(kind="top_k", count=3), Rule(kind="nearest", count=5, threshold="0.1"))
    ask = Question(rules=rules, ids=ids, classes=equal_inputs(smiles) if told else None)
    wanted = Wanted(strategy="probes")
    found = certify_pass(ask, side, suspect_of(predictor, side), wanted, entropy=os.urandom, clock=time.perf_counter)
    if not told:
        assert found.narrowed.ended == "nothing narrower"
        return
    once = side.everything()
    scores = ((once.lower + once.upper) / 2)[0, :4]
    assert found.narrowed.decisions == tuple(decide(rule, np.tile(scores, 2), ids) for rule in rules)
    assert not found.narrowed.done[:, 4:].any()


def test_a_pass_in_stretches_is_certified_alike(herg_hundred, question, truth):
    """Memory for one batch at a time: T counts every bond and atom, and the decisions are the same."""
    side = TrustedSide.of(herg_hundred, stretch=64, exported=64)
    assert len(side.stretches) == len(side.exported) == 2
    suspect = suspect_of(herg_hundred, side)
    found = certify_pass(
        question, side, suspect, Wanted(strategy="probes"), entropy=os.urandom, clock=time.perf_counter
    )
    assert found.narrowed.decisions == truth
    assert found.scores.shape == (5, COUNT)


def test_a_budget_of_nothing_leaves_open_what_is_open(herg_hundred, side, question):
    """Two probes bound nothing: with no unit to spend, nothing is decided."""
    wanted = Wanted(strategy="probes", draws=2, budget=0)
    suspect = suspect_of(herg_hundred, side)
    found = certify_pass(question, side, suspect, wanted, entropy=os.urandom, clock=time.perf_counter)
    assert found.narrowed.ended == "budget"
    assert found.narrowed.decisions == ()
    with pytest.raises(RefusedError, match="budget"):
        certify_pass(
            question, side, suspect, Wanted(strategy="memo", budget=5), entropy=os.urandom, clock=time.perf_counter
        )


@pytest.mark.parametrize("wanted", [Wanted(kind="C2"), Wanted(kind="C2", strategy="full")])
def test_the_bits_of_a_healthy_run_are_recomputed_and_not_bounded(herg_hundred, side, question, wanted):
    """C2: probes are declined with their reason, and the values have the bits of a run in its own geometry."""
    suspect = suspect_of(herg_hundred, side)
    found = certify_pass(question, side, suspect, wanted, entropy=os.urandom, clock=time.perf_counter)
    runs = [[herg_hundred.run(m, b) for b in range(len(herg_hundred.batches))] for m in range(5)]
    assert found.values.tobytes() == np.stack([np.concatenate(r) for r in runs]).tobytes()
    assert (found.terms.kind, found.terms.delta, found.terms.certifies) == ("C2", "0", "values")
    if wanted.strategy != "full":
        assert "C2 in fp32" in found.plan.reason


def test_bf16_under_exact_arithmetic_is_evaluated_and_not_bounded():
    """C1 with a bf16 suspect: probes decline with their reason, and every value is evaluated instead."""
    predictor = one_herg_member(("CCO", "CCN"), dtype="bf16")
    side = TrustedSide.of(predictor)
    ask = Question(rules=(Rule(kind="top_k", count=1),), ids=("m0", "m1"))
    wanted = Wanted(strategy="probes")
    found = certify_pass(ask, side, suspect_of(predictor, side), wanted, entropy=os.urandom, clock=time.perf_counter)
    assert "C1 in bf16" in found.plan.reason
    assert (found.plan.strategy, found.terms.certifies, found.terms.delta) == ("memo", "values", "0")
    assert found.narrowed.certified


def test_whole_numbers_of_models_in_real_ones_are_refused(herg_hundred, side, question):
    """C4: nothing is certified under a contract that these models don't compute under."""
    suspect = suspect_of(herg_hundred, side)
    with pytest.raises(RefusedError, match="real numbers"):
        certify_pass(question, side, suspect, Wanted(kind="C4"), entropy=os.urandom, clock=time.perf_counter)


def test_layers_rounded_correctly_have_one_value_however_they_are_evaluated():
    """C3 in bf16: each candidate alone, all at once, and, for ethanol, whole sums give the same."""
    predictor = one_herg_member(("CCO", "CC(=O)OC", "c1ccncc1"), dtype="bf16")
    side = TrustedSide.of(predictor)
    ask = Question(rules=(Rule(kind="top_k", count=1),), ids=("m0", "m1", "m2"))
    found = certify_pass(ask, side, None, Wanted(kind="C3"), entropy=os.urandom, clock=time.perf_counter)
    assert (found.terms.kind, found.terms.delta, found.terms.certifies) == ("C3", "0", "values")
    assert found.values.tobytes() == side.values("C3", "full").tobytes()
    graphs = graphs_of(predictor, range(1))
    for i in range(3):
        alone = rounded_scores(side.members[0], environments(graphs.only([i]), 3), BF16).scores
        assert alone[0] == found.values[0, i]
    assert (np.abs(found.values[0] - predictor.run(0, 0)) < 0.02).all()
    assert found.values[0, 0] == rounded_ethanol(predictor.models[0], graphs.only([0]), herg.OUTPUT)


def rounded_ethanol(model, graphs, output):
    """The score of one molecule, every layer a sum of Python's integers, in units of 2^-160, rounded once to bf16."""
    one = 2**160

    def whole(values):
        return [int(Fraction(v) * one) for v in values]

    def operands(tensor):
        return [whole(row) for row in rounded(tensor.detach().numpy(), BF16).tolist()]

    def near(total, unit=one):
        return int(Fraction(nearest(Fraction(total, unit), BF16)) * one)

    def layer(linear):
        W = operands(linear.weight)
        b = [0] * len(W) if linear.bias is None else operands(linear.bias[None])[0]

        def given(x, add=None):
            products = (sum(map(mul, row, x)) for row in W)
            return [
                near(p + (c + a) * one, one * one) for p, c, a in zip(products, b, add or [0] * len(W), strict=True)
            ]

        return given

    def total(rows, by=1):
        columns = zip(*rows, strict=True) if rows else [()] * 300
        return [near(sum(max(v, 0) for v in column), one * by) for column in columns]

    passing, E = model.message_passing, range(len(graphs.bonds))
    start_of, step, read_out = layer(passing.W_i), layer(passing.W_h), layer(passing.W_o)
    atoms, bonds = operands(torch.from_numpy(graphs.atoms)), operands(torch.from_numpy(graphs.bonds))
    start = [start_of([*atoms[graphs.source[e]], *bonds[e]]) for e in E]
    a = start
    for _ in range(1, passing.depth):
        arriving = [[a[f] for f in E if graphs.target[f] == graphs.source[e] and f != graphs.reverse[e]] for e in E]
        a = [step(total(rows), s) for s, rows in zip(start, arriving, strict=True)]
    o = [read_out([*x, *total([a[f] for f in E if graphs.target[f] == v])]) for v, x in enumerate(atoms)]
    hidden = [max(v, 0) for v in layer(model.predictor.ffn[0][0])(total(o, int(model.agg.norm)))]
    logit = layer(model.predictor.ffn[1][2])(hidden)[output]
    return rounded_sigmoid(np.array([logit / one]))[0]


def test_an_export_of_stale_weights_is_refused(herg_hundred, side, question):
    """The suspect says which weights it used; others than the trusted side's are no evidence."""

    def stale(member, batches, env):
        return exported_run(herg_hundred, member, batches, env, trusted=2, weights="0" * 64)

    with pytest.raises(InputError, match="stale"):
        certify_pass(question, side, stale, Wanted(strategy="probes"), entropy=os.urandom, clock=time.perf_counter)


def test_memoised_scores_have_the_bits_of_the_run(herg_hundred, side):
    """Every member, both batches together, in the order of additions of the run itself."""
    env = ordered_environments(graphs_of(herg_hundred, range(2)), 3)
    for m in range(5):
        run = np.concatenate([herg_hundred.run(m, b) for b in range(2)])
        assert memoised_scores(herg_hundred, m, range(2), env).tobytes() == run.tobytes()


def test_memoised_bits_that_differ_decline(herg_hundred, side, monkeypatch):
    """A run that gives other bits than the memoised pass is found on the sample, and the reason says where."""
    run = type(herg_hundred).run
    monkeypatch.setattr(
        type(herg_hundred),
        "run",
        lambda self, m, b: np.nextafter(run(self, m, b), np.float32(2)) if m == 3 else run(self, m, b),
    )
    found = memoised_pass(herg_hundred, side.stretches)
    assert isinstance(found, Declined)
    assert "member 3" in found.reason
    assert found.next_strategy == "full"


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("message_passing.tau", torch.nn.Tanh()),
        ("bn", torch.nn.BatchNorm1d(300)),
        ("message_passing.V_d_transform", torch.nn.Linear(3, 3)),
        ("predictor.output_transform", torch.nn.Linear(3, 3)),
        ("message_passing.graph_transform.V_transform", torch.nn.ReLU()),
    ],
)
def test_a_model_with_an_unknown_part_declines_naming_it(place, part):
    """What bounds don't know is not passed through."""
    model = one_herg_member(("CCO",)).models[0]
    parent, _, name = place.rpartition(".")
    setattr(model.get_submodule(parent), name, part)
    found = member_of(model, herg.OUTPUT)
    assert isinstance(found, Declined)
    assert name in found.reason
    assert type(part).__name__ in found.reason


def test_a_tail_with_an_unknown_part_declines():
    """A GELU in the tail is neither Linear nor ReLU."""
    model = one_herg_member(("CCO",)).models[0]
    model.predictor.ffn[1][0] = torch.nn.GELU()
    found = member_of(model, herg.OUTPUT)
    assert "GELU" in found.reason
    assert member_of(one_herg_member(("CCO",)).models[0].train(), herg.OUTPUT).reason.endswith("call eval()")


def test_a_molecule_without_bonds_is_bounded_too():
    """A single atom receives nothing; its score is that of its features."""
    predictor = load_predictor(herg_spec(), type(herg_candidates(1))(ids=("a", "b"), inputs=("C", "CC")))
    side = TrustedSide.of(predictor)
    box = side.everything()
    run = np.stack([predictor.run(m, 0) for m in range(5)])
    assert (np.abs(run - box.lower) < 1e-6).all()
    alone = side.enclose(np.array([[True, False]] * 5))
    assert isinstance(alone, Box)
    assert (alone.lower[:, 0] <= box.upper[:, 0]).all()
    assert np.isinf(alone.lower[:, 1]).all()
