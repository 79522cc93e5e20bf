"""From a capture at a hidden layer to recovery: the run continues from the site, and rows stand for their scores."""

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from veristate.audit import (
    Blocks,
    Capture,
    Pair,
    Provenance,
    Saved,
    TopK,
    decision_cost,
    replays,
    restore,
    restore_by_residual,
    state_cost,
    transplant,
)
from veristate.core import Site
from veristate.devices import continue_from, save_sites

SITE = Site(layer="0")


class Scored:
    """A small network that scores twelve rows, its capture at the first layer, and its continuation from there."""

    def __init__(self, dtype: torch.dtype) -> None:
        torch.manual_seed(4)
        self.model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
        self.model.to(dtype).eval()
        X = torch.randn(12, 6).to(dtype)
        self.run = lambda: self.model(X)[:, 0]
        with torch.inference_mode():
            scores, saved = save_sites(self.model, [SITE], self.run)
        self.scores = scores.float().numpy()
        found = saved[SITE]
        wrong = found.values.copy()
        rng = np.random.default_rng(1)
        for row in (0, 1, 5, 7, 10):
            wrong[row, rng.integers(0, 16, 3)] = rng.integers(-8, 8, 3)
        sides = (Provenance(), Provenance(constructed=True))
        self.capture = Capture.of(
            *(
                Saved.of(values, site=SITE, representation=found.representation, provenance=side)
                for values, side in zip((found.values, wrong), sides, strict=True)
            )
        )

    def continued(self, state: NDArray[np.float32]) -> NDArray[np.float32]:
        """F: the scores that follow from a state of the first layer's output."""
        with torch.inference_mode():
            return continue_from(self.model, {SITE: state}, self.run).float().numpy()


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def scored(request: pytest.FixtureRequest) -> Scored:
    """The network in both formats."""
    return Scored(request.param)


def test_full_restoration_gives_the_reference_run_bit_for_bit(scored: Scored) -> None:
    """F(R_all) is the reference's run and F(T_all) the candidate's, by values and, where it is exact, by residual."""
    capture = scored.capture
    full, none = (Blocks.rows(capture.shape, 12).selection(x) for x in ([0], []))
    assert scored.continued(restore(capture, full).state).tobytes() == scored.scores.tobytes()
    candidate = scored.continued(capture.c)
    assert candidate.tobytes() != scored.scores.tobytes()
    assert scored.continued(transplant(capture, full).state).tobytes() == candidate.tobytes()
    assert scored.continued(restore(capture, none).state).tobytes() == candidate.tobytes()
    again = restore_by_residual(capture, full)
    if again.exact:
        assert scored.continued(again.state).tobytes() == scored.scores.tobytes()
    else:
        assert len(again.missed) > 0


def test_a_row_of_the_hidden_state_stands_for_its_score(scored: Scored) -> None:
    """For every set of row blocks, continuing from the hidden state and exchanging final scores give one endpoint."""
    capture, top = scored.capture, TopK(k=3)
    hidden = Pair(h=capture.h, c=capture.c, name=capture.digest)
    final = Pair(h=scored.scores, c=scored.continued(capture.c), name=capture.digest)
    sets = [s for size in range(5) for s in itertools.combinations(range(4), size)]
    by_state = replays(hidden, Blocks.rows(hidden.h.shape, 3), lambda state: top(scored.continued(state)))
    by_score = replays(final, Blocks.rows((12,), 3), top)
    for one, other in (
        (by_state.restored(sets), by_score.restored(sets)),
        (by_state.transplanted(sets), by_score.transplanted(sets)),
    ):
        assert one.tolist() == (other > 0).tolist()


def test_the_decision_never_costs_more_than_the_state(scored: Scored) -> None:
    """rho_D <= rho_state on a hidden layer, in blocks and in coordinates."""
    capture = scored.capture
    hidden = Pair(h=capture.h, c=capture.c, name=capture.digest)
    blocks = Blocks.rows(hidden.h.shape, 2)
    replay = replays(hidden, blocks, lambda state: TopK(k=3)(scored.continued(state)))
    for costs in (None, blocks.sizes):
        decision, state = decision_cost(replay, hidden, costs=costs), state_cost(hidden, blocks, costs=costs)
        assert decision.exact
        assert decision.upper <= state.upper
    assert state_cost(hidden, blocks).blocks == (0, 2, 3, 5)
