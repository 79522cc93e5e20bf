"""The parts that tasks are made of: lists, metrics, splits, the cache and the training, each against plain code."""

import numpy as np
import pytest
import torch
from hypothesis import given, reject
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from veristate.audit.tasks.cache import default_cache, prepared
from veristate.audit.tasks.judges import Classes, TopK, area_under_curve, best_columns, rank_correlation, text_order
from veristate.audit.tasks.splits import grouped_split
from veristate.core import InputError
from veristate.devices import Training, train_network

SMALL = st.lists(st.lists(st.integers(-3, 3), min_size=6, max_size=6), min_size=1, max_size=5)


@given(SMALL, st.integers(1, 6))
def test_lists_are_sorted_rows(rows, k):
    """The best columns are the first k of a full sort by value, then position, with many ties and -inf among them."""
    scores = np.array(rows, dtype=np.float32)
    scores[scores == -3] = -np.inf
    expected = [sorted(range(6), key=lambda c, row=row: (-row[c], c))[:k] for row in scores.tolist()]
    assert best_columns(scores, k).tolist() == expected


def test_signed_zeros_tie():
    """-0.0 and 0.0 are equal scores: the smaller position comes first."""
    assert best_columns(np.array([[-0.0, 0.0, -0.0]], dtype=np.float32), 2).tolist() == [[0, 1]]


@pytest.mark.parametrize("seed", range(20))
def test_metrics_agree_with_libraries(seed):
    """The area under the curve is scikit-learn's, the rank correlation scipy's, ties included."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-4, 5, 5 + seed).astype(np.float32)
    positive = rng.random(len(scores)) < 0.5
    scores[:2], positive[:2] = (0, 1), (True, False)
    assert area_under_curve(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    other = rng.random(len(scores))
    assert rank_correlation(scores, other) == pytest.approx(spearmanr(scores, other).statistic, abs=1e-12)


def test_judges():
    """A list of the largest with errors of test rows alone; classes with ties to the smaller one."""
    scores = np.array([[1], [3], [2]], dtype=np.float32)
    outcome = TopK(k=2, measured=np.array([0.0, 3.0, 4.0]), test=np.array([1, 2]))(scores)
    assert outcome.lists.tolist() == [[1, 2]]
    assert outcome.metric("RMSE") == pytest.approx(2**0.5)
    assert outcome.metric("Spearman") == pytest.approx(-1)
    classes = Classes(known=np.array([0, 1, 1]), test=np.array([0, 2]))
    outcome = classes(np.array([[1, 1], [0, 1], [5, 2]], dtype=np.float32))
    assert outcome.labels.tolist() == [0, 1, 0]
    assert outcome.metrics == (("accuracy", 0.5),)


def test_text_order_is_not_numeric():
    """Identifiers are ordered as text: 10 before 9."""
    assert text_order(["9", "10", "1"]).tolist() == [2, 1, 0]


GROUPED = st.lists(st.sampled_from("abcdefgh"), max_size=12).map(
    lambda groups: [*groups, *(f"single {i}" for i in range(24))]
)


@given(GROUPED)
def test_splits_keep_groups_together(groups):
    """Parts have the sizes asked for, hold every row once, share no group, and are the same again."""
    sizes = (len(groups) - 18, 9, 9)
    try:
        split = grouped_split(groups, sizes, "salt")
    except InputError:  # a group that came late found no room, which is rare
        reject()
    parts = [part.tolist() for part in (split.train, split.validation, split.test)]
    assert split.sizes() == sizes
    assert sorted(row for part in parts for row in part) == list(range(len(groups)))
    held = [{groups[row] for row in part} for part in parts]
    assert not held[0] & held[1]
    assert not held[1] & held[2]
    assert not held[0] & held[2]
    again = grouped_split(groups, sizes, "salt")
    assert parts == [part.tolist() for part in (again.train, again.validation, again.test)]


def test_another_salt_is_another_split():
    """The salt decides which rows fall where."""
    names = [str(i) for i in range(60)]
    assert (
        grouped_split(names, (40, 10, 10), "a").test.tolist() != grouped_split(names, (40, 10, 10), "b").test.tolist()
    )


def test_splits_that_cannot_be_are_refused():
    """Sizes of another table, and a group that is larger than each part, are errors."""
    with pytest.raises(InputError, match="5 rows can't be split"):
        grouped_split(list("abcde"), (3, 1, 2), "salt")
    with pytest.raises(InputError, match="the 4 rows of group 'a' fit into no part"):
        grouped_split(list("aaaabb"), (2, 2, 2), "salt")


def test_what_was_prepared_is_kept(tmp_path, monkeypatch):
    """Made once for the same settings and inputs, again for others, and again when the kept file is spoilt."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "veristate" / "tasks"
    made = []

    def make():
        made.append(1)
        return {"x": np.arange(3.0)}

    def kept(width, content="d"):
        return prepared("task", {"width": width}, (content,), make)["x"]

    assert kept(1).tolist() == kept(1).tolist() == [0, 1, 2]
    assert len(made) == 1
    assert not kept(1).flags.writeable
    kept(2)
    kept(1, "e")
    assert len(made) == 3
    for path in default_cache().iterdir():
        path.write_bytes(path.read_bytes()[:-40])
    assert kept(1).tolist() == [0, 1, 2]
    assert len(made) == 4
    assert {path.suffix for path in default_cache().iterdir()} == {".npz"}


def test_a_cache_that_cannot_be_is_done_without(tmp_path, monkeypatch):
    """Where no folder can be made, the arrays are made each time."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert prepared("task", {}, (), lambda: {"x": np.ones(1)})["x"].tolist() == [1]


def network(classes=0, **settings):
    """A small network for y = sign or value of the first column."""
    X = np.random.default_rng(0).standard_normal((80, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(np.float64) if classes else 100 + 5 * X[:, 0].astype(np.float64)
    rows = np.arange(80)
    layers = train_network(X, y, rows[:60], rows[60:], Training(hidden=(16,), classes=classes, **settings))
    return X, y, layers


def outputs(X, layers):
    """What the layers give, in plain numpy."""
    for W, b in layers[:-1]:
        X = np.maximum(X @ W.T + b, 0)
    W, b = layers[-1]
    return X @ W.T + b


def test_networks_learn_on_the_targets_own_scale():
    """Numbers are given as they were measured, classes as the largest of several scores."""
    X, y, layers = network(epochs=200, inverse_rate=100)
    assert [(W.shape, b.shape) for W, b in layers] == [((16, 4), (16,)), ((1, 16), (1,))]
    assert all(a.dtype == np.float32 for layer in layers for a in layer)
    assert np.abs(outputs(X, layers)[60:, 0] - y[60:]).mean() < 2
    X, y, layers = network(classes=2, epochs=100, inverse_rate=100)
    assert (outputs(X, layers)[60:].argmax(axis=1) == y[60:]).mean() > 0.9


def test_training_is_its_seed():
    """The same seed gives the same bits, another others; torch's own random state and threads stay as they were."""
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first, again, other = (network(epochs=3, seed=seed)[2] for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert all(
        np.array_equal(a, b) for one, two in zip(first, again, strict=True) for a, b in zip(one, two, strict=True)
    )
    assert not np.array_equal(first[0][0], other[0][0])


def test_training_without_rows_is_refused():
    """Nothing to learn from, or to choose the epoch by, is an error."""
    X, y, none = np.zeros((4, 2), np.float32), np.zeros(4), np.array([], dtype=np.intp)
    with pytest.raises(InputError, match="training and validation rows"):
        train_network(X, y, none, np.arange(4), Training(hidden=(2,)))
    with pytest.raises(InputError, match="training and validation rows"):
        train_network(X, y, np.arange(4), none, Training(hidden=(2,)))
