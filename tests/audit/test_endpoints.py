"""Paths, rankings, retrieval metrics, squared errors and hidden faults, against brute force, fractions and peers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.audit.endpoints import (
    ENDPOINTS,
    Citation,
    Comparison,
    Component,
    Divergence,
    Endpoint,
    Exchange,
    Mark,
    Parting,
    Path,
    Ranking,
    argmax_changes,
    clip_to_norm,
    clipped_gradient,
    compared,
    cosine,
    differences,
    error_shift,
    first_divergence,
    first_divergent_step,
    items,
    labels_along,
    list_ndcg,
    list_recall,
    membership_changes,
    ndcg_at,
    normalised_rows,
    order_changes,
    path_diff,
    recall_at,
    rmse,
    softmax,
    total_variation,
)
from veristate.core import InputError

names_of = st.lists(st.sampled_from("abcd"), max_size=6).map(tuple)
finite = st.floats(min_value=-1e6, max_value=1e6, allow_subnormal=False)


def cites(document: str, *sentences: int) -> Citation:
    """A citation in short."""
    return Citation(document=document, sentences=sentences)


class TestPath:
    """What one attempt left behind."""

    @pytest.mark.parametrize(("sentences", "message"), [((), "names no sentence"), ((2, -1), "names sentence -1")])
    def test_a_citation_of_no_sentence_or_a_negative_one_is_refused(self, sentences, message):
        """A citation points at sentences, counted from 0."""
        with pytest.raises(InputError, match=message):
            Citation(document="d", sentences=sentences)

    def test_cited_sentences_are_compared_not_how_they_were_bundled(self):
        """Two citations of one document hold the sentences of one citation of both."""
        once, twice = Path(cited=(cites("d", 1, 2),)), Path(cited=(cites("d", 1), cites("d", 2)))
        assert items(once, Component.CITED) == items(twice, Component.CITED) == ("d/1", "d/2")
        assert not any(differences(once, twice).values())

    def test_a_missing_verdict_differs_from_every_verdict(self):
        """No verdict is no item, so an attempt that gave one differs."""
        verdict = Endpoint(component=Component.VERDICT, comparison=Comparison.MEMBERSHIP)
        assert verdict(Path()) != verdict(Path(verdict="SUPPORT"))
        assert verdict(Path()) == verdict(Path(retrieved=("d",)))

    @pytest.mark.parametrize(
        ("one", "other", "differing"),
        [
            ("ab", "ba", {"order", "sequence"}),
            ("ab", "aab", {"repetition", "sequence"}),
            ("aba", "aab", {"sequence"}),
            ("ab", "abc", {"membership", "order", "repetition", "sequence"}),
            ("aab", "bba", {"order", "repetition", "sequence"}),
            ("", "", set()),
        ],
    )
    def test_each_comparison_sees_its_own_kind_of_difference(self, one, other, differing):
        """Membership, order, repetition and sequence each answer another question."""
        found = {by.value for by in Comparison if compared(tuple(one), by) != compared(tuple(other), by)}
        assert found == differing

    def test_the_same_verdict_on_other_evidence_differs_on_the_evidence_alone(self):
        """The paper's case: the verdict stays while reads and citations change."""
        reference = Path(retrieved=("a", "b"), read=("a",), cited=(cites("a", 3),), verdict="SUPPORT")
        candidate = Path(retrieved=("b", "a"), read=("b",), cited=(cites("b", 1),), verdict="SUPPORT")
        found = differences(reference, candidate)
        assert not found["retrieved membership"]
        assert found["retrieved order"]
        assert found["read membership"]
        assert found["cited membership"]
        assert not any(found[f"verdict {by}"] for by in Comparison)

    @given(one=names_of, other=names_of)
    def test_law_a_coarser_comparison_differs_nowhere_that_a_finer_one_agrees(self, one, other):
        """Membership <= order <= sequence, membership <= repetition <= sequence; and sequence is equality."""
        differ = {by: compared(one, by) != compared(other, by) for by in Comparison}
        assert differ[Comparison.MEMBERSHIP] == (set(one) != set(other))
        assert differ[Comparison.REPETITION] == (sorted(one) != sorted(other))
        assert differ[Comparison.SEQUENCE] == (one != other)
        assert differ[Comparison.MEMBERSHIP] <= differ[Comparison.ORDER] <= differ[Comparison.SEQUENCE]
        assert differ[Comparison.MEMBERSHIP] <= differ[Comparison.REPETITION] <= differ[Comparison.SEQUENCE]

    @given(one=names_of, other=names_of)
    def test_law_differences_are_symmetric_and_empty_for_equal_paths(self, one, other):
        """Which path is called the reference does not matter."""
        a, b = Path(read=one, actions=other), Path(read=other, actions=one)
        assert differences(a, b) == differences(b, a)
        assert not any(differences(a, a).values())
        assert list(differences(a, b)) == [endpoint.name for endpoint in ENDPOINTS]


class TestDivergence:
    """Where two attempts part."""

    @pytest.mark.parametrize(
        ("one", "other", "step"), [("abc", "abd", 2), ("ab", "abc", 2), ("", "a", 0), ("ab", "ab", None)]
    )
    def test_the_first_step_that_differs_is_named(self, one, other, step):
        """A sequence that ends early differs at its end."""
        assert first_divergent_step(one, other) == step == first_divergent_step(other, one)

    def test_another_answer_to_the_same_request_is_told_from_another_request(self):
        """Only a response to an identical history is variation of the model itself."""
        start = Exchange(request="claim", response="search")
        read = Exchange(request="claim, search, a b", response="read a")
        noise = Exchange(request="claim, search, a b", response="read b")
        tool = Exchange(request="claim, search, b a", response="read b")
        assert first_divergence([start, read], [start, noise]) == Divergence(exchange=1, by=Parting.RESPONSE)
        assert first_divergence([start, read], [start, tool]) == Divergence(exchange=1, by=Parting.REQUEST)
        assert first_divergence([start, read], [start]) == Divergence(exchange=1, by=Parting.LENGTH)
        assert first_divergence([start, read], [start, read]) is None


class TestPathDiff:
    """The rows a reader follows."""

    def test_items_are_marked_by_where_the_reference_has_them(self):
        """Same, moved, foreign, absent and empty are told apart, and recovery is per row."""
        rows = path_diff(Path(read=("a", "b")), Path(read=("b", "x", "y")), Path(read=("a",)))
        assert [(row.place, row.reference, row.candidate.item, row.candidate.mark) for row in rows] == [
            (1, "a", "b", Mark.MOVED),
            (2, "b", "x", Mark.FOREIGN),
            (3, None, "y", Mark.FOREIGN),
        ]
        assert [row.restored.mark for row in rows] == [Mark.SAME, Mark.ABSENT, Mark.EMPTY]
        assert [row.recovered for row in rows] == [True, False, True]

    @given(one=names_of, other=names_of)
    def test_law_a_row_differs_exactly_where_the_sequences_do(self, one, other):
        """The diff says neither more nor less than the two paths."""
        reference, candidate = Path(retrieved=one, verdict="NEI"), Path(retrieved=other, verdict="NEI")
        rows = path_diff(reference, candidate, reference)
        assert any(row.differs for row in rows) == (one != other)
        assert all(row.recovered == row.differs for row in rows)
        assert tuple(row.candidate.item for row in rows if row.candidate.item)[:-1] == other
        assert all(row.restored is None and not row.recovered for row in path_diff(reference, candidate))


class TestRanking:
    """Top-K lists."""

    @pytest.mark.parametrize(
        ("names", "message"),
        [((), "at least one"), ("ab", "each a text"), (("a", 1), "each a text"), (("a", "a"), "unique")],
    )
    def test_identifiers_that_can_break_no_tie_are_refused(self, names, message):
        """Ties need unique texts."""
        with pytest.raises(InputError, match=message):
            Ranking(names)

    @pytest.mark.parametrize(
        ("scores", "count", "message"),
        [
            ([1.0, 2.0], 1, "have shape"),
            ([1.0, 2.0, math.nan], 1, "1 scores are not finite"),
            ([1.0, 2.0, math.inf], 1, "not finite"),
            ([1.0, 2.0, 3.0], 0, "ask for 1..3"),
            ([1.0, 2.0, 3.0], 4, "ask for 1..3"),
        ],
    )
    def test_scores_without_a_ranking_are_refused(self, scores, count, message):
        """Another width, NaN, infinity and a count outside 1..n have no list."""
        with pytest.raises(InputError, match=message):
            Ranking(["a", "b", "c"]).top(scores, count)

    def test_lists_of_different_lengths_are_not_compared(self):
        """A top 2 and a top 3 differ for no reason of the scores."""
        with pytest.raises(InputError, match="rank both alike"):
            order_changes(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 3), dtype=np.int64))

    def test_ties_go_to_the_smaller_text_whatever_the_column(self):
        """'10' comes before '9' as text, and -0.0 equals 0.0."""
        ranking = Ranking(["9", "10", "b"])
        assert ranking.names(ranking.top([0.0, -0.0, 0.0], 2)) == ("10", "9")

    @given(data=st.data())
    def test_every_list_is_that_of_a_plain_sort(self, data):
        """Crowded boundaries, clear ones and k = n agree with sorting by (-score, text)."""
        names = data.draw(
            st.lists(st.text(alphabet="aB1\0é", min_size=1, max_size=3), min_size=1, max_size=8, unique=True)
        )
        dtype = data.draw(st.sampled_from([np.float32, np.float64, np.float16]))
        pool = st.sampled_from([-0.0, 0.0, 0.5, 1.0, -2.0, 0.25])
        scores = np.array(
            data.draw(st.lists(st.lists(pool, min_size=len(names), max_size=len(names)), max_size=4)), dtype=dtype
        )
        scores = scores.reshape(-1, len(names))
        count = data.draw(st.integers(1, len(names)))
        top = Ranking(names).top(scores, count)
        expected = [
            sorted(range(len(names)), key=lambda c, row=row: (-row[c], names[c]))[:count] for row in scores.tolist()
        ]
        assert top.tolist() == expected
        assert top.shape == (len(scores), count)

    def test_any_leading_axes_are_kept(self):
        """A stack of arrays gives a stack of lists."""
        scores = np.random.default_rng(0).normal(size=(2, 3, 5))
        ranking = Ranking(list("edcba"))
        assert ranking.top(scores, 2).shape == (2, 3, 2)
        assert ranking.top(scores[1, 2], 2).tolist() == ranking.top(scores, 2)[1, 2].tolist()
        assert np.array_equal(ranking.order(scores)[..., :2], ranking.top(scores, 2))

    @given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 6))
    def test_law_a_changed_membership_is_a_changed_order(self, seed, count):
        """And both are what comparing sets and lists row by row gives."""
        rng = np.random.default_rng(seed)
        ranking = Ranking(list("abcdef"))
        one, other = (ranking.top(rng.integers(4, size=(5, 6)), count) for _ in range(2))
        membership, order = membership_changes(one, other), order_changes(one, other)
        assert membership.tolist() == [set(a) != set(b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
        assert order.tolist() == [a != b for a, b in zip(one.tolist(), other.tolist(), strict=True)]
        assert (membership <= order).all()


class TestRetrieval:
    """Recall@k and nDCG@k."""

    @pytest.mark.parametrize(
        ("gains", "message"),
        [
            ([[0.0, 0.0]], "1 rows have no relevant column, row 0 first"),
            ([[1.0, -1.0]], "not negative"),
            ([[1.0, math.nan]], "finite"),
            ([1.0, 0.0], "must have shape"),
            ([[1.0, 0.0], [0.0, 1.0]], "as many rows"),
        ],
    )
    def test_gains_that_define_no_metric_are_refused(self, gains, message):
        """A query without a relevant document has no recall, and is not counted as 0."""
        for metric in (recall_at, ndcg_at):
            with pytest.raises(InputError, match=message):
                metric(np.array([[0, 1]]), gains)

    def test_a_metric_at_zero_is_refused(self):
        """There is no Recall@0."""
        with pytest.raises(InputError, match="at 0 does not exist"):
            list_recall(["a"], {"a": 1.0}, 0)

    def test_a_document_retrieved_twice_gains_once(self):
        """The list is judged by first accesses, and places past its end gain nothing."""
        gains = {"a": 1.0, "b": 1.0}
        assert list_recall(["a", "a"], gains, 5) == 0.5
        ideal = 1 + 1 / math.log2(3)
        assert list_ndcg(["x", "a", "a"], gains, 5) == pytest.approx(1 / math.log2(3) / ideal, rel=1e-15)
        assert list_ndcg(["a", "b"], gains, 1) == list_ndcg(["b", "a"], gains, 2) == 1.0

    @pytest.mark.parametrize("grades", [2, 4])
    def test_ndcg_is_that_of_scikit_learn_where_no_scores_tie(self, grades):
        """Binary and graded, for several k."""
        metrics = pytest.importorskip("sklearn.metrics")
        rng = np.random.default_rng(7)
        gains = rng.integers(grades, size=(40, 30)).astype(float)
        gains[:, 3] = 1.0
        scores = rng.permuted(np.tile(np.linspace(-1, 1, 30), (40, 1)), axis=1)
        ranking = Ranking([str(column) for column in range(30)])
        for k in (1, 5, 10, 30):
            found = ndcg_at(ranking.top(scores, k), gains)
            expected = [metrics.ndcg_score(g[None], s[None], k=k) for g, s in zip(gains, scores, strict=True)]
            np.testing.assert_allclose(found, expected, rtol=1e-13)

    @given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 8))
    def test_both_forms_are_the_definition_written_as_loops(self, seed, k):
        """Array and list form agree with sums over documents, and lie in [0, 1]."""
        rng = np.random.default_rng(seed)
        ranking = Ranking([f"d{column}" for column in range(8)])
        gains = rng.integers(3, size=(3, 8)).astype(float)
        gains[:, 0] += 1
        top = ranking.top(rng.integers(3, size=(3, 8)), k)
        for row in range(3):
            by_name = dict(zip(ranking.identifiers, gains[row].tolist(), strict=True))
            listed = ranking.names(top[row])
            relevant = {name for name, gain in by_name.items() if gain > 0}
            recall = len(relevant & set(listed)) / len(relevant)
            dcg = sum(by_name[name] / math.log2(place + 2) for place, name in enumerate(listed))
            best = sum(g / math.log2(p + 2) for p, g in enumerate(sorted(by_name.values(), reverse=True)[:k]))
            assert recall_at(top, gains)[row] == recall == list_recall(listed, by_name, k)
            assert ndcg_at(top, gains)[row] == pytest.approx(dcg / best, rel=1e-13)
            assert list_ndcg(listed, by_name, k) == pytest.approx(dcg / best, rel=1e-13)
            assert 0 <= dcg / best <= 1 + 1e-15

    def test_equal_label_sequences_hide_an_exchanged_document(self):
        """The paper's Table C2: membership changes while labels, recall and nDCG keep their bits."""
        ranking, gains = Ranking(list("abcd")), [[1.0, 0.0, 0.0, 1.0]]
        one, other = ranking.top([[4.0, 3.0, 2.0, 1.0]], 2), ranking.top([[4.0, 2.0, 3.0, 1.0]], 2)
        assert membership_changes(one, other).all()
        assert np.array_equal(labels_along(one, gains), labels_along(other, gains))
        assert recall_at(one, gains) == recall_at(other, gains) == 0.5
        assert ndcg_at(one, gains) == ndcg_at(other, gains)


class TestSquaredError:
    """The identity 2 mean(e d) + mean(d^2)."""

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (([], [], []), "at least one"),
            (([1.0], [1.0, 2.0], [1.0]), "the same rows"),
            (([1.0], [math.nan], [1.0]), "finite"),
            (([[1.0]], [[1.0]], [[1.0]]), "one-dimensional"),
            (([1e200], [0.0], [0.0]), "exceed float64"),
        ],
    )
    def test_rows_without_a_squared_error_are_refused(self, rows, message):
        """No rows, other rows, NaN, matrices and overflow."""
        with pytest.raises(InputError, match=message):
            error_shift(*rows)

    @given(rows=st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=20))
    def test_every_number_is_the_nearest_to_its_exact_value(self, rows):
        """Against sums of fractions; the two parts of the reported shift close below 1e-15."""
        h, c, y = ([Fraction(row[i]) for row in rows] for i in range(3))
        found, n = error_shift(*zip(*rows, strict=True)), len(rows)
        e, d = [a - b for a, b in zip(h, y, strict=True)], [a - b for a, b in zip(c, h, strict=True)]
        assert found.mse_reference == float(sum(x * x for x in e) / n)
        assert found.mse_candidate == float(sum((a - b) ** 2 for a, b in zip(c, y, strict=True)) / n)
        assert found.cross_term == float(2 * sum(a * b for a, b in zip(e, d, strict=True)) / n)
        assert found.square_term == float(sum(x * x for x in d) / n)
        exact = sum((a - b) ** 2 for a, b in zip(c, y, strict=True)) / n - sum(x * x for x in e) / n
        assert found.left == found.shift == float(exact)
        assert found.closure < 1e-15

    def test_the_identity_closes_where_the_two_means_cancel_each_other(self):
        """A shift a million times smaller than either part is still exact."""
        rng = np.random.default_rng(3)
        target, reference = rng.normal(size=1017), rng.normal(size=1017)
        error = reference - target
        candidate = reference - (2 - 1e-9) * error
        found = error_shift(reference, candidate, target)
        assert abs(found.shift) < 1e-6 * found.square_term
        assert found.closure < 1e-15

    def test_a_difference_may_lower_the_error(self):
        """Favourable alignment: moving towards the target by chance."""
        found = error_shift([1.0, 3.0], [1.5, 3.0], [2.0, 3.0])
        assert (found.shift, found.cross_term, found.square_term) == (-0.375, -0.5, 0.125)
        assert found.rmse_candidate == math.sqrt(0.125) < found.rmse_reference == rmse([1.0, 3.0], [2.0, 3.0])

    def test_rmse_is_that_of_numpy(self):
        """To the last places, on ordinary numbers; and an equal candidate moves nothing."""
        rng = np.random.default_rng(1)
        one, other = rng.normal(size=(2, 500))
        assert rmse(one, other) == pytest.approx(float(np.sqrt(np.mean((one - other) ** 2))), rel=1e-14)
        assert error_shift(one, one, other).closure == error_shift(one, one, other).shift == 0.0


class TestHiding:
    """Normalised outputs and clipped gradients."""

    def test_a_reference_that_is_no_probability_is_refused(self):
        """Normalised rows are compared with normalised rows."""
        with pytest.raises(InputError, match="1 reference rows are no probabilities"):
            normalised_rows([[0.5, 0.6]], [[0.5, 0.5]])

    @pytest.mark.parametrize(
        ("one", "other", "message"),
        [
            ([0.0, 0.0], [1.0, 0.0], "no direction"),
            ([1.0], [1.0, 0.0], "enclose no angle"),
            ([1.0], [math.inf], "not finite"),
        ],
    )
    def test_vectors_without_an_angle_are_refused(self, one, other, message):
        """Zeros, other sizes and infinities."""
        with pytest.raises(InputError, match=message):
            cosine(one, other)

    @pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
    def test_a_limit_that_clips_nothing_sensible_is_refused(self, limit):
        """A norm is clipped to something above 0."""
        with pytest.raises(InputError, match="must be above 0"):
            clip_to_norm([1.0], limit)

    def test_rows_of_other_shapes_are_refused(self):
        """The same rows, or nothing."""
        with pytest.raises(InputError, match="give the same rows"):
            total_variation([[0.5, 0.5]], [[1.0]])

    @given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12))
    def test_total_variation_is_the_largest_difference_of_any_event(self, seed, n):
        """Brute force over the events: the positive part of the difference. It is symmetric and lies in [0, 1]."""
        p, q = softmax(np.random.default_rng(seed).normal(scale=4, size=(2, n)))
        event = sum(max(0.0, a - b) for a, b in zip(p.tolist(), q.tolist(), strict=True))
        found = float(total_variation(p, q))
        assert found == pytest.approx(event, abs=1e-15)
        assert found == float(total_variation(q, p))
        assert 0 <= found <= 1 + 1e-15

    def test_softmax_is_that_of_scipy_even_for_faulty_logits(self):
        """Logits of 1e30 normalise without a warning: that is how they hide."""
        special = pytest.importorskip("scipy.special")
        logits = np.random.default_rng(2).normal(size=(5, 7))
        logits[0, 0] = 1e30
        np.testing.assert_allclose(softmax(logits), special.softmax(logits, axis=-1), rtol=1e-14)

    def test_normalised_rows_pass_the_monitor_and_are_counted_all_the_same(self):
        """Of four rows one is not finite, three look healthy, two of these moved, and one changed its argmax."""
        reference = np.array([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
        candidate = np.array([[0.6, 0.4], [0.65, 0.35], [0.1, 0.9], [math.nan, 0.5]])
        found = normalised_rows(reference, candidate)
        assert (found.rows, found.healthy_looking, found.shifted, found.argmax_changed) == (4, 3, 2, 1)
        assert found.largest_variation == pytest.approx(0.5)
        assert argmax_changes(reference[:3], candidate[:3]).tolist() == [False, False, True]

    @given(seed=st.integers(0, 2**32 - 1), power=st.integers(-200, 200))
    @settings(max_examples=50)
    def test_law_clipping_changes_the_norm_and_never_the_direction(self, seed, power):
        """The clipped norm is the limit, whatever the size before; the cosine is that of the unclipped gradient."""
        rng = np.random.default_rng(seed)
        healthy, gradient = rng.normal(size=(2, 3, 4))
        clipped = clip_to_norm(gradient * 10.0**power, 1.0)
        assert np.linalg.norm(clipped) <= 1 + 1e-14
        expected = float((healthy * gradient).sum() / np.linalg.norm(healthy) / np.linalg.norm(gradient))
        assert cosine(healthy, clipped) == pytest.approx(expected, abs=1e-14)
        if power <= -3:
            assert np.array_equal(clipped, gradient * 10.0**power)

    def test_a_clipped_gradient_looks_ordinary_and_points_elsewhere(self):
        """One entry of 1.94e16 leaves norm 1 and next to nothing of the healthy direction."""
        healthy = np.random.default_rng(4).normal(size=4096)
        faulty = healthy.copy()
        faulty[17] = -1.94e16
        found = clipped_gradient(healthy, faulty, 1.0)
        assert found.norm == pytest.approx(1.94e16)
        assert found.clipped_norm == pytest.approx(1.0, rel=1e-14)
        assert found.cosine == pytest.approx(-healthy[17] / np.linalg.norm(healthy), abs=1e-12)
