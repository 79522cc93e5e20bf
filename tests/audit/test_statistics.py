"""Attempts, discordance, repeats, balance, proportions and factorial effects, against loops, fractions and scipy."""

import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.audit.endpoints import Comparison, Component, Endpoint, Path
from veristate.audit.statistics import (
    CORE,
    PAIRED,
    Attempt,
    Group,
    Outcome,
    Standing,
    balanced,
    capture_means,
    combinations,
    contrast,
    contrasts,
    factorial_effects,
    grouped,
    jointly_completed,
    mean_contrast,
    paired_excess,
    paired_values,
    strict_repeatability,
    summarise,
    wilson,
)
from veristate.core import InputError

READS = Endpoint(component=Component.READ, comparison=Comparison.MEMBERSHIP)


def attempt(condition, read="a", *, capture="c0", task="t0", repeat="r0", outcome=Outcome.COMPLETED, exposed=True):
    """An attempt that read the given documents, one letter each; None is an attempt without a path."""
    path = None if read is None else Path(read=tuple(read))
    return Attempt(
        capture=capture, task=task, repeat=repeat, condition=condition, outcome=outcome, exposed=exposed, path=path
    )


def group(reads, **where):
    """A complete group with one letter read under each of H1, H2, C and, if there is a fourth, full restoration."""
    (found,) = grouped(attempt(name, read, **where) for name, read in zip(CORE, reads, strict=False))
    return found


letters = st.sampled_from("ab")
cells = st.tuples(
    st.sampled_from(["c0", "c1", "c2"]), st.sampled_from(["t0", "t1"]), st.sampled_from(["r0", "r1", "r2"])
)
# Complete groups of up to three captures, two tasks and three repeats, any of them absent.
tables = st.dictionaries(cells, st.tuples(letters, letters, letters, letters), max_size=12).map(
    lambda found: [group("".join(reads), capture=c, task=t, repeat=r) for (c, t, r), reads in found.items()]
)


class TestAttempts:
    """Every attempt has one standing, and none is dropped."""

    def test_a_completed_attempt_without_a_path_is_refused(self):
        """Completed means that there is something to compare."""
        with pytest.raises(InputError, match="completed without a path"):
            attempt("C", None)

    def test_two_attempts_of_one_group_and_condition_are_refused(self):
        """A second attempt must not silently replace the first."""
        with pytest.raises(InputError, match="condition C more than once"):
            grouped([attempt("C"), attempt("C", "b")])

    def test_an_attempt_of_another_group_is_refused(self):
        """A group is one capture, task and repeat."""
        with pytest.raises(InputError, match="another group"):
            Group(capture="c0", task="t0", repeat="r0", attempts=(attempt("C", task="t1"),))

    def test_the_path_of_an_attempt_that_did_not_complete_is_refused(self):
        """Discordance over such a group is an error, not a difference."""
        (found,) = grouped([attempt("H1"), attempt("C", None, outcome=Outcome.INVALID)])
        with pytest.raises(InputError, match="has no completed C"):
            paired_excess([found], READS)

    @pytest.mark.parametrize(
        ("outcome", "exposed", "standing"),
        [
            (Outcome.COMPLETED, True, Standing.COUNTED),
            (Outcome.COMPLETED, False, Standing.UNEXPOSED),
            (Outcome.INCOMPLETE, True, Standing.INCOMPLETE),
            (Outcome.INCOMPLETE, False, Standing.INCOMPLETE),
            (Outcome.INVALID, False, Standing.INVALID),
        ],
    )
    def test_an_attempt_has_exactly_one_standing(self, outcome, exposed, standing):
        """What did not complete is not called unexposed as well."""
        assert attempt("C", outcome=outcome, exposed=exposed).standing is standing

    def test_a_group_leaves_the_subset_for_every_condition_that_is_not_counted(self):
        """Each reason is counted, and scheduled groups minus kept ones are the groups with a reason."""
        table = [
            *(attempt(name, repeat="r0") for name in CORE),
            *(attempt(name, repeat="r1") for name in PAIRED),
            attempt("H1", repeat="r2"),
            attempt("H2", repeat="r2", exposed=False),
            attempt("C", None, repeat="r2", outcome=Outcome.INCOMPLETE),
            attempt("full", None, repeat="r2", outcome=Outcome.INVALID),
        ]
        joint = jointly_completed(grouped(table))
        assert (joint.scheduled, [found.repeat for found in joint.groups]) == (3, ["r0"])
        assert joint.left_out == (
            ("C", Standing.INCOMPLETE, 1),
            ("H2", Standing.UNEXPOSED, 1),
            ("full", Standing.INVALID, 1),
            ("full", Standing.MISSING, 1),
        )
        assert [found.repeat for found in jointly_completed(grouped(table), PAIRED).groups] == ["r0", "r1"]


class TestDiscordance:
    """The paired excess Delta_D."""

    def test_no_group_gives_no_estimate(self):
        """An empty subset is undecided, not zero."""
        assert paired_excess([], READS).excess is None

    @given(groups=tables)
    def test_the_counts_are_those_of_a_plain_loop(self, groups):
        """Both discordances over one and the same set; Delta_D in [-1, 1]."""
        found = paired_excess(groups, READS)
        reads = [{one.condition: set(one.path.read) for one in member.attempts} for member in groups]
        assert found.groups == len(groups)
        assert found.candidate == sum(one["C"] != one["H1"] for one in reads)
        assert found.repeat == sum(one["H2"] != one["H1"] for one in reads)
        if groups:
            exact = sum(Fraction((one["C"] != one["H1"]) - (one["H2"] != one["H1"])) for one in reads) / len(groups)
            assert found.excess == float(exact) == pytest.approx(paired_values(groups, READS).mean())
            assert -1 <= found.excess <= 1
            assert found.candidate_interval == wilson(found.candidate, len(groups))
            assert found.repeat_interval == wilson(found.repeat, len(groups))

    @given(groups=tables)
    def test_law_swapping_candidate_and_repeat_negates_the_excess(self, groups):
        """And with the candidate in the reference's place only the repeat's discordance changes."""
        one, other = paired_excess(groups, READS), paired_excess(groups, READS, candidate="H2", repeat="C")
        swapped = paired_excess(groups, READS, candidate="H1", reference="C")
        assert (one.candidate, one.repeat) == (other.repeat, other.candidate)
        assert one.excess == (None if other.excess is None else -other.excess)
        assert swapped.candidate == one.candidate

    @given(groups=tables)
    def test_law_the_excess_is_at_most_the_share_of_groups_where_candidate_and_repeat_differ(self, groups):
        """Where C and H2 agree, both differ from H1 or neither does."""
        apart = sum(READS(one.path("C")) != READS(one.path("H2")) for one in groups)
        found = paired_excess(groups, READS)
        assert abs(found.candidate - found.repeat) <= apart


class TestProportions:
    """The Wilson interval."""

    @pytest.mark.parametrize(("successes", "trials"), [(-1, 3), (4, 3), (1, 0)])
    def test_counts_that_are_no_share_are_refused(self, successes, trials):
        """Successes lie in 0..trials."""
        with pytest.raises(InputError, match="is no share"):
            wilson(successes, trials)

    @pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
    def test_a_level_outside_zero_and_one_is_refused(self, level):
        """95 is not a level."""
        with pytest.raises(InputError, match="between 0 and 1"):
            wilson(1, 2, level=level)

    @settings(deadline=None)
    @given(
        counts=st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        level=st.sampled_from([0.8, 0.95, 0.99]),
    )
    def test_the_interval_is_that_of_scipy(self, counts, level):
        """Against binomtest's Wilson interval; it holds the share and mirrors under exchange of success and failure."""
        stats = pytest.importorskip("scipy.stats")
        successes, trials = counts
        expected = stats.binomtest(successes, trials).proportion_ci(confidence_level=level, method="wilson")
        lower, upper = wilson(successes, trials, level=level)
        assert (lower, upper) == (pytest.approx(expected.low, abs=1e-14), pytest.approx(expected.high, abs=1e-14))
        assert lower <= successes / trials <= upper
        mirrored = wilson(trials - successes, trials, level=level)
        assert (1 - upper, 1 - lower) == (pytest.approx(mirrored[0], abs=1e-14), pytest.approx(mirrored[1], abs=1e-14))

    @pytest.mark.parametrize(("changed", "interval"), [(7, (7.25, 27.17)), (18, (25.22, 51.64)), (13, (16.57, 41.00))])
    def test_the_paper_s_intervals_are_found(self, changed, interval):
        """BioAgent-DF J.1: changed choices of 48, in percent."""
        assert tuple(round(100 * end, 2) for end in wilson(changed, 48)) == interval

    def test_no_trial_tells_nothing(self):
        """The interval is all of [0, 1]."""
        assert wilson(0, 0) == (0.0, 1.0)


class TestRepeats:
    """Within-state and between-state variation."""

    def test_batches_that_are_not_common_are_refused(self):
        """Three candidates and two references have no common batches."""
        with pytest.raises(InputError, match="their common batches"):
            contrast("aaa", "aa")

    def test_a_single_batch_is_undecided(self):
        """Without a pair of distinct batches nothing is zero."""
        found = contrast("a", "b")
        assert (found.pairs, found.d_ch, found.delta) == (0, None, None)
        mean = mean_contrast({("c", "t"): found})
        assert (mean.combinations, mean.eligible, mean.delta) == (1, 0, None)

    def test_the_paper_s_single_batch_change_has_no_excess(self):
        """Claim 507: one of eight candidate reads differs, d_CH 0.125, d_CC 0.25, d_HH 0, so delta 0."""
        found = contrast("baaaaaaa", "aaaaaaaa")
        assert (found.d_ch, found.d_hh, found.d_cc, found.delta) == (0.125, 0.0, 0.25, 0.0)

    @given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=8))
    def test_the_means_over_ordered_pairs_are_exact(self, rows):
        """Against fractions over permutations of distinct batches."""
        c, h = zip(*rows, strict=True)
        pairs = list(itertools.permutations(range(len(rows)), 2))
        found = contrast(c, h)
        ch, hh, cc = (
            Fraction(sum(one[i] != other[j] for i, j in pairs), len(pairs)) for one, other in ((c, h), (h, h), (c, c))
        )
        assert (found.d_ch, found.d_hh, found.d_cc) == (float(ch), float(hh), float(cc))
        assert found.delta == float(ch - (hh + cc) / 2)

    @given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=8))
    def test_law_swapping_candidate_and_reference_swaps_the_inner_variations_alone(self, rows):
        """d_CH and delta are symmetric; one endpoint everywhere gives zeros, two stable ones give delta 1."""
        c, h = zip(*rows, strict=True)
        one, other = contrast(c, h), contrast(h, c)
        assert (one.d_ch, one.delta) == (other.d_ch, other.delta)
        assert (one.d_hh, one.d_cc) == (other.d_cc, other.d_hh)
        assert -1 <= one.delta <= 1
        assert contrast(c, c).delta <= 0
        assert contrast("x" * len(rows), "y" * len(rows)).delta == 1

    def test_combinations_or_tasks_weigh_the_same(self):
        """Two captures of one task count twice as combinations and once as a task; the ineligible one is counted."""
        table = [
            *(group("aab", capture=c, task="t0", repeat=r) for c in ("c0", "c1") for r in ("r0", "r1")),
            *(group("aaa", capture="c0", task="t1", repeat=r) for r in ("r0", "r1")),
            group("aab", capture="c1", task="t1"),
        ]
        found = contrasts(table, READS)
        one, other = mean_contrast(found), mean_contrast(found, by=lambda key: key[1])
        assert (one.combinations, one.eligible, one.classes, one.delta) == (4, 3, 3, pytest.approx(2 / 3))
        assert (other.classes, other.delta, other.d_ch) == (2, 0.5, 0.5)

    @pytest.mark.parametrize(
        ("reads", "reason"),
        [
            (["aaba"], "1 of 2 batches lack a core condition"),
            (["aaba", "aab"], "1 of 2 batches lack a core condition"),
            (["aaba", "aabb"], "give 2 endpoints"),
            (["aaba", "ccbc"], "give 2 endpoints"),
            (["aaba", "aaca"], "C gives 2 endpoints"),
            (["aaaa", "aaaa"], "C gives an endpoint of the reference"),
            ([], "no batch to judge"),
        ],
    )
    def test_what_is_not_strictly_repeatable_says_why(self, reads, reason):
        """A missing batch, a moving reference, a moving candidate, and no change at all."""
        found = strict_repeatability([group(r, repeat=f"r{i}") for i, r in enumerate(reads)], READS, batches=2)
        assert not found.holds
        assert any(reason in one for one in found.reasons)

    def test_a_change_in_every_batch_is_strictly_repeatable(self):
        """One endpoint for H1, H2 and full restoration, another for C, in all batches."""
        found = strict_repeatability([group("aaba", repeat=f"r{i}") for i in range(8)], READS, batches=8)
        assert (found.holds, found.batches, found.scheduled) == (True, 8, 8)

    def test_batches_of_several_combinations_are_refused(self):
        """Strictness is a property of one capture and task."""
        with pytest.raises(InputError, match="of one capture and task"):
            strict_repeatability([group("aaba"), group("aaba", task="t1")], READS, batches=2)


class TestBalance:
    """Repeats, then tasks, then captures."""

    @pytest.mark.parametrize("values", [[], [1.0, 2.0], [float("nan")]])
    def test_values_that_are_not_one_for_each_group_are_refused(self, values):
        """A missing value is no zero."""
        with pytest.raises(InputError, match="need as many finite values"):
            combinations([group("aaa")], values)

    @given(groups=tables)
    def test_the_estimate_is_the_mean_of_means_by_loops(self, groups):
        """Exactly, over fractions; and None where nothing is left."""
        values = paired_values(groups, READS)
        nested = defaultdict(lambda: defaultdict(list))
        for member, value in zip(groups, values.tolist(), strict=True):
            nested[member.capture][member.task].append(Fraction(value))
        means = [
            sum(sum(repeats) / len(repeats) for repeats in by_task.values()) / len(by_task)
            for by_task in nested.values()
        ]
        table = combinations(groups, values)
        assert table.count == sum(len(by_task) for by_task in nested.values())
        assert sorted(capture_means(table).tolist()) == pytest.approx(sorted(float(mean) for mean in means))
        found = balanced(table)
        assert found is None if not means else found == pytest.approx(float(sum(means) / len(means)), abs=1e-15)

    def test_a_capture_with_many_groups_weighs_no_more_than_one_with_few(self):
        """Equal counts in all, and yet not zero capture-balanced: the paper's sustained verdicts."""
        table = [
            group("aab", repeat="r0"),
            group("aba", capture="c1", repeat="r0"),
            group("aaa", capture="c1", repeat="r1"),
        ]
        assert paired_excess(table, READS).excess == 0
        assert balanced(combinations(table, paired_values(table, READS))) == 0.25


class TestFactorial:
    """List by values."""

    @pytest.mark.parametrize("shape", [(0, 2, 2, 1), (3, 2, 2), (3, 2, 3, 1), (3, 2, 2, 0)])
    def test_outcomes_that_are_no_two_by_two_are_refused(self, shape):
        """No group, no repeat, another design."""
        with pytest.raises(InputError, match="give \\[groups, list 2"):
            factorial_effects(np.zeros(shape))

    def test_a_group_that_lacks_a_trajectory_is_refused(self):
        """It is left out beforehand and counted, not averaged over."""
        outcomes = np.zeros((2, 2, 2, 2))
        outcomes[1, 0, 1, 0] = np.nan
        with pytest.raises(InputError, match="lacks an outcome"):
            factorial_effects(outcomes)

    @given(seed=st.integers(0, 2**32 - 1), groups=st.integers(1, 6), repeats=st.integers(1, 4))
    def test_the_effects_are_the_coefficients_of_a_regression_on_coded_factors(self, seed, groups, repeats):
        """Least squares of every outcome on 1, list, values and their product, coded -1/2 and 1/2."""
        outcomes = np.random.default_rng(seed).integers(2, size=(groups, 2, 2, repeats))
        index = np.array([where for where, _ in np.ndenumerate(outcomes)])
        by_list, by_values = index[:, 1] - 0.5, index[:, 2] - 0.5
        design = np.column_stack([np.ones(len(index)), by_list, by_values, by_list * by_values])
        fitted = np.linalg.lstsq(design, outcomes.ravel().astype(float), rcond=None)[0]
        found = factorial_effects(outcomes)
        assert [found.list_effect, found.values_effect, found.interaction] == pytest.approx(
            fitted[1:].tolist(), abs=1e-12
        )
        swapped = factorial_effects(outcomes.swapaxes(1, 2))
        assert (swapped.list_effect, swapped.values_effect) == pytest.approx((found.values_effect, found.list_effect))
        assert swapped.interaction == pytest.approx(found.interaction)

    def test_the_paper_s_table_gives_its_effects(self):
        """Table J3, matches of the reference: 160, 84, 32 and 8 of 160."""
        outcomes = np.zeros((40, 2, 2, 4))
        for (by_list, by_values), matches in zip(itertools.product((0, 1), repeat=2), (160, 84, 32, 8), strict=True):
            cell = np.zeros(160)
            cell[:matches] = 1
            outcomes[:, by_list, by_values] = cell.reshape(40, 4)
        found = factorial_effects(outcomes)
        assert (found.groups, found.trajectories) == (40, 640)
        assert found.cells == ((1.0, 84 / 160), (32 / 160, 8 / 160))
        assert found.list_effect == pytest.approx((32 + 8 - 160 - 84) / 320)
        assert found.values_effect == pytest.approx((84 + 8 - 160 - 32) / 320)
        assert found.interaction == pytest.approx(((8 - 32) - (84 - 160)) / 160)


class TestSummary:
    """What is said, and over what."""

    def test_every_attempt_stands_in_a_tally_and_every_rate_beside_its_counts(self):
        """Incomplete, invalid, unexposed and missing attempts are all printed."""
        table = [
            *(attempt(name, read, repeat=r) for r in ("r0", "r1") for name, read in zip(CORE, "aaba", strict=True)),
            *(attempt(name, read, capture="c1") for name, read in zip(CORE, "aaaa", strict=True)),
            *(attempt(name, capture="c1", repeat="r1") for name in ("H1", "H2")),
            attempt("C", None, capture="c1", repeat="r1", outcome=Outcome.INCOMPLETE),
            attempt("full", capture="c1", repeat="r1", exposed=False),
            attempt("H1", None, capture="c2", outcome=Outcome.INVALID),
        ]
        found = summarise(table, READS, seed=1, resamples=200)
        assert sum(tally.attempts for tally in found.tallies) == len(table)
        for tally in found.tallies:
            assert tally.attempts == tally.counted + tally.incomplete + tally.invalid + tally.unexposed
        assert (found.joint.scheduled, len(found.joint.groups), found.restored) == (5, 3, 0)
        assert (found.captures, found.tasks, found.combinations, found.balanced) == (2, 1, 2, 0.5)
        text = found.describe()
        for line in (
            "C: 3 of 4 attempts counted, 1 incomplete, 0 invalid, 0 unexposed",
            "full: 3 of 4 attempts counted, 0 incomplete, 0 invalid, 1 unexposed",
            "H1: 4 of 5 attempts counted, 0 incomplete, 1 invalid, 0 unexposed",
            "groups: 3 of 5 complete and exposed in H1, H2, C, full; 2 left out",
            "left out, C incomplete: 1 groups",
            "left out, C missing: 1 groups",
            "read membership, C against H1: 2 of 3 groups differ (66.67%, Wilson 95 % 20.77% to 93.85%)",
            "read membership, H2 against H1: 0 of 3 groups differ",
            "read membership, full restoration against H1: 0 of 3 groups differ",
            "excess discordance: +0.6667 over 3 groups",
            "capture-balanced: +0.5000 over 2 combinations of 2 captures and 1 tasks",
            "from 200 resamples, 0 undefined",
            "delta +1.0000; 1 of 2 combinations with two or more common batches",
        ):
            assert line in text

    def test_without_a_joint_group_the_summary_is_undecided_and_still_counts(self):
        """Nothing compared is no agreement."""
        found = summarise([attempt("H1"), attempt("C", None, outcome=Outcome.INVALID)], READS, seed=1)
        assert (found.discordance.excess, found.balanced, found.capture_interval) == (None, None, None)
        assert "groups: 0 of 1 complete" in found.describe()
        assert "read membership: undecided, no group to compare" in found.describe()

    def test_comparisons_without_a_restoration_need_three_conditions_only(self):
        """The restored count is then absent, not zero."""
        found = summarise([attempt(name) for name in PAIRED], READS, seed=1, conditions=PAIRED, resamples=50)
        assert (len(found.joint.groups), found.restored) == (1, None)
        assert "full restoration" not in found.describe()
        assert "undecided, 0 of 1 combinations" in found.describe()
