"""Variation within a state against the difference between states, over repeated batches of the same requests."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from veristate.audit.statistics.attempts import CANDIDATE, CORE, REFERENCE, REPEAT, RESTORED, Group, Standing
from veristate.audit.statistics.discordance import EndpointMap
from veristate.core import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """How many of the m(m-1) ordered pairs of distinct batches differ: candidate and reference, and within each.

    Maths: d = differing / pairs; delta = d_ch - (d_hh + d_cc) / 2. All are None where fewer than two batches
    leave no pair.
    Source: BioAgent-DF H.12. Pairs share records, so these describe and carry no interval.
    """

    batches: int
    differing_ch: int
    differing_hh: int
    differing_cc: int

    @property
    def pairs(self) -> int:
        """The number of ordered pairs of distinct batches: the denominator of all three."""
        return self.batches * (self.batches - 1)

    @property
    def d_ch(self) -> float | None:
        """Candidate against reference."""
        return self._share(self.differing_ch)

    @property
    def d_hh(self) -> float | None:
        """Reference against reference."""
        return self._share(self.differing_hh)

    @property
    def d_cc(self) -> float | None:
        """Candidate against candidate."""
        return self._share(self.differing_cc)

    @property
    def delta(self) -> float | None:
        """The difference between the states beyond the mean variation within them."""
        twice = 2 * self.differing_ch - self.differing_hh - self.differing_cc
        return twice / (2 * self.pairs) if self.pairs else None

    def _share(self, differing: int) -> float | None:
        return differing / self.pairs if self.pairs else None


def contrast(candidate: Sequence[Hashable], reference: Sequence[Hashable]) -> Contrast:
    """The contrast of the endpoints D(C_i) and D(H1_i), one of each for every common batch i.

    Raises: InputError when there are not as many of one as of the other.
    """
    if len(candidate) != len(reference):
        raise InputError(
            f"{len(candidate)} candidate and {len(reference)} reference batches; give their common batches"
        )
    return Contrast(
        batches=len(candidate),
        differing_ch=_differing(candidate, reference),
        differing_hh=_differing(reference, reference),
        differing_cc=_differing(candidate, candidate),
    )


def contrasts(groups: Sequence[Group], endpoint: EndpointMap) -> dict[tuple[str, str], Contrast]:
    """The contrast of every capture and task, over the batches that its groups stand for.

    Raises: InputError for a group in which H1 or C did not complete; take the jointly completed subset.
    """
    together: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        together.setdefault((group.capture, group.task), []).append(group)
    return {
        key: contrast(
            [endpoint(group.path(CANDIDATE)) for group in members],
            [endpoint(group.path(REFERENCE)) for group in members],
        )
        for key, members in together.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanContrast:
    """The means of d_ch, d_hh, d_cc and delta over classes of combinations, None without an eligible combination.

    `eligible` combinations have at least two common batches; `classes` of them weigh the same, and within a class its
    combinations do.
    """

    combinations: int
    eligible: int
    classes: int
    d_ch: float | None
    d_hh: float | None
    d_cc: float | None
    delta: float | None


def mean_contrast(
    found: Mapping[tuple[str, str], Contrast], *, by: Callable[[tuple[str, str]], Hashable] = lambda key: key
) -> MeanContrast:
    """The contrasts averaged within the classes that `by` gives, then over classes; by default each is its own class.

    Source: BioAgent-DF H.12, Table H7: combinations weighted equally, and claims weighted equally (`by` the task).
    """
    classes: dict[Hashable, list[Contrast]] = {}
    for key, value in found.items():
        if value.pairs:
            classes.setdefault(by(key), []).append(value)

    def mean(name: str) -> float | None:
        within = [sum(getattr(one, name) for one in members) / len(members) for members in classes.values()]
        return sum(within) / len(within) if within else None

    return MeanContrast(
        combinations=len(found),
        eligible=sum(len(members) for members in classes.values()),
        classes=len(classes),
        d_ch=mean("d_ch"),
        d_hh=mean("d_hh"),
        d_cc=mean("d_cc"),
        delta=mean("delta"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    """Whether a change recurs strictly, and if not, every reason against it."""

    batches: int
    scheduled: int
    reasons: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether there is no reason against it."""
        return not self.reasons


def strict_repeatability(groups: Sequence[Group], endpoint: EndpointMap, *, batches: int) -> Strict:
    """Whether one combination's change is strictly repeatable over its scheduled batches.

    Maths: all core conditions counted in every batch; H1, H2 and full restoration on one stable endpoint; C on another,
    stable one.
    Raises: InputError for groups of several combinations, and for more of them than batches.
    Source: BioAgent-DF H.13.
    """
    if len({(group.capture, group.task) for group in groups}) > 1 or len(groups) > batches:
        raise InputError(f"{len(groups)} groups are not the {batches} batches of one capture and task")
    joint = [group for group in groups if all(group.standing(name) is Standing.COUNTED for name in CORE)]
    healthy = {endpoint(group.path(name)) for group in joint for name in (REFERENCE, REPEAT, RESTORED)}
    suspect = {endpoint(group.path(CANDIDATE)) for group in joint}
    reasons = []
    if len(joint) < batches:
        reasons.append(f"{batches - len(joint)} of {batches} batches lack a core condition")
    if len(healthy) > 1:
        reasons.append(f"H1, H2 and full restoration give {len(healthy)} endpoints")
    if len(suspect) > 1:
        reasons.append(f"C gives {len(suspect)} endpoints")
    if healthy & suspect:
        reasons.append("C gives an endpoint of the reference")
    if not joint:
        reasons.append("no batch to judge")
    return Strict(batches=len(joint), scheduled=batches, reasons=tuple(reasons))


def _differing(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The ordered pairs i != j with one_i != other_j."""
    return sum(a != b for i, a in enumerate(one) for j, b in enumerate(other) if i != j)
