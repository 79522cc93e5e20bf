"""The further adjoint: no score moves by more than it says, however the rows move within their radii."""

import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_certified import random_graphs, suspect_of

from veristate.devices.certified import environments, export_rows, member_bounds
from veristate.devices.certified.adjoint import Rows, bond_reach
from veristate.numerics.probes import Dense, Export, ProbeAccount, ProbePlan, Pull

WIDTH = 5


def norms(rows):
    """Euclidean norms, a hair from above."""
    return np.linalg.norm(rows, axis=1) * (1 + 1e-12)


def towards(directions, lengths):
    """Rows of these lengths along the directions; zero where there is none."""
    size = np.linalg.norm(directions, axis=1)
    return directions * np.where(size > 0, lengths / np.where(size > 0, size, 1.0), 0.0)[:, None]


class Scene:
    """Bonds and atoms of random graphs, as exported: atoms are the map of the bonds, off by errors of known length."""

    def __init__(self, seed, size):
        self.rng = rng = np.random.default_rng(seed)
        self.env = environments(random_graphs(seed), 2)
        self.message = Dense(W=rng.integers(-8, 9, (WIDTH, WIDTH)) / 8.0, b=np.zeros(WIDTH), slope=0.0)
        self.known = rng.standard_normal((len(self.env.atoms.place), WIDTH))
        self.a = rng.standard_normal((len(self.env.bonds[-1].place), WIDTH)).astype(np.float32)
        self.moves = rng.random(len(self.a)) * size
        self.errors = rng.random(len(self.known)) * size / 2
        self.J = rng.standard_normal((len(self.env.graphs), WIDTH))
        self.off = rng.standard_normal(self.J.shape) * rng.choice([0.0, 0.3])

    def mapped(self, a):
        """The exact atoms of these bonds."""
        sums = [sum((np.maximum(a[q], 0.0) for q in row if q >= 0), np.zeros(WIDTH)) for row in self.env.atoms.index]
        return self.known + np.array(sums) @ self.message.W.T

    def pulls(self, kind):
        """Which way bonds and atoms raise what: a candidate's output, as a plain gradient, or one element of all atoms,
        active or not, which is then the whole output of every candidate.
        """
        if kind == "random":
            return self.rng.standard_normal(self.known.shape), self.rng.standard_normal(self.a.shape)
        if kind == "element":
            self.J = np.tile(np.eye(WIDTH)[self.rng.integers(WIDTH)], (len(self.J), 1))
            at_atoms = np.tile(self.J[0], (len(self.known), 1))
        else:
            at_atoms = self.J[self.rng.integers(len(self.J))] * (self.mapped(self.a.astype(float)) > 0)
        at_bonds = np.zeros(self.a.shape)
        for row, q in zip(self.env.atoms.index, at_atoms @ self.message.W, strict=True):
            for b in row[row >= 0]:
                at_bonds[b] += q * (self.a[b] > 0)
        return at_atoms, at_bonds

    def played(self, kind):
        """(exported atoms, exact atoms); all moves have their full length, at random or the worst way."""
        at_atoms, at_bonds = self.pulls(kind)
        sign = 1.0 if kind == "element" else float(self.rng.choice([-1.0, 1.0]))
        given_atoms = self.mapped(self.a.astype(float)) - sign * towards(at_atoms, self.errors)
        return given_atoms, self.mapped(self.a + sign * towards(at_bonds, self.moves))

    def moved(self, given_atoms, exact_atoms, exactly=False):
        """By how much J (sum over atoms of relu(o)) really differs, of every candidate, where J is off by `off`."""
        of, starts = self.env.atoms.of, self.env.graphs.atom_starts
        number = Fraction if exactly else float
        found = []
        for J, first, last in zip(self.J + self.off, starts[:-1], starts[1:], strict=True):
            total = number(0)
            for row in of[first:last]:
                pairs = zip(J.tolist(), exact_atoms[row].tolist(), given_atoms[row].tolist(), strict=True)
                total += sum(number(j) * (max(number(x), 0) - max(number(y), 0)) for j, x, y in pairs)
            found.append(abs(total))
        return np.array([float(f) for f in found])

    def bound(self, given_atoms, understated=1.0):
        """What the further adjoint says of all candidates, told only a part of the bonds' radii."""
        radius = self.moves * (1 + 1e-12) * understated
        own = self.errors * (1 + 1e-9)
        sums = np.array([radius[row[row >= 0]].sum() for row in self.env.atoms.index])
        bonds = Rows(values=self.a, own=radius, radius=radius)
        atoms = Rows(values=given_atoms, own=own, radius=own + self.message.norm * sums)
        count = len(self.J)
        pull = Pull(J=self.J, excess=norms(self.off), rest=np.zeros(count))
        lengths = norms(self.J) + norms(self.off)
        return bond_reach(self.message, self.env, bonds, atoms, pull, np.arange(count)), lengths, atoms.radius


@given(st.integers(0, 10**6), st.sampled_from(["random", "gradient", "element"]), st.sampled_from([1e-6, 0.3, 4.0]))
@settings(max_examples=120, deadline=None)
def test_no_rows_within_their_radii_move_a_sum_by_more_than_is_said(seed, kind, size):
    """Random moves and the worst ones, of full length; and no more is said than by norms alone."""
    scene = Scene(seed, size)
    given_atoms, exact_atoms = scene.played(kind)
    found, lengths, radius = scene.bound(given_atoms)
    assert (scene.moved(given_atoms, exact_atoms) <= found + 1e-13).all()
    starts = scene.env.graphs.atom_starts
    owners = np.repeat(np.arange(len(found)), np.diff(starts))
    by_norms = lengths * np.bincount(owners, weights=radius[scene.env.atoms.of], minlength=len(found))
    assert (found <= by_norms * (1 + 1e-9) + 1e-13).all()


def lone(seed):
    """Ethane's shape, all rows far from zero: what moves along the gradient then moves by the whole bound."""
    scene = Scene(seed, 1e-3)
    scene.a = (np.abs(scene.a) + 1.0).astype(np.float32)
    scene.known, scene.off = scene.known + 20.0, 0.0 * scene.off
    return scene


def test_understated_radii_are_caught_where_the_rows_move_the_worst_way():
    """The test above has teeth: a tenth less is told of the bonds, and some sum moves by more than is said."""
    caught = kept = 0
    for seed in range(60):
        scene = lone(seed)
        given_atoms, exact_atoms = scene.played("gradient")
        moved = scene.moved(given_atoms, exact_atoms, exactly=True)
        kept += int((moved > scene.bound(given_atoms)[0]).any())
        caught += int((moved > scene.bound(given_atoms, understated=0.9)[0]).any())
    assert kept == 0
    assert caught >= 10


@pytest.mark.parametrize(("trusted", "spoiled"), [(1, False), (2, True), (3, True)])
def test_bounds_with_the_adjoint_hold_the_exact_scores_and_are_never_wider(herg_hundred, side, exact, trusted, spoiled):
    """All candidates take it here; the same probes without it; healthy rows and rows that err in cancelling pairs."""
    env, member = side.environments(side.stretches[0]), side.members[0]
    _, export = suspect_of(herg_hundred, side, trusted)(0, side.stretches[0], env)
    if spoiled:
        values = {name: rows.copy() for name, rows in export.values.items()}
        for rows in values.values():
            rows[::7, 3] += 0.01
            rows[::7, 9] -= 0.01
        values["o"][3, 0] = np.nan
        export = Export.fix({name: [rows] for name, rows in values.items()}, export.weights)
    seed = os.urandom(32)
    found = {}
    for wide in (0.0, np.inf):
        account = ProbeAccount(ProbePlan(delta="1e-9", rows=export_rows(env, trusted)), lambda n: seed[:n])
        found[wide] = member_bounds(member, env, account.draw(export), trusted=trusted, wide=wide, wrong=np.inf)
    further, plain = found[0.0], found[np.inf]
    assert (further.lower <= exact.lower[0]).all()
    assert (exact.upper[0] <= further.upper).all()
    assert (further.reach <= plain.reach).all()
    assert further.output.tobytes() == plain.output.tobytes()
    assert np.isfinite(plain.reach).sum() >= (90 if spoiled else 100)
    if trusted < 3 and not spoiled:  # else the bonds are known, or errors are the atoms' own
        assert np.median(further.reach / plain.reach) < 0.5
