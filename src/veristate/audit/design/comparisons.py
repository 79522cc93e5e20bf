"""What became of a design: where attempts part, what each intervention replaced, and what it brought back."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from veristate.audit.design.conditions import Condition
from veristate.audit.endpoints import Divergence, Endpoint, Exchange, first_divergence
from veristate.audit.endpoints.divergence import Parting
from veristate.audit.statistics import CANDIDATE, REFERENCE, Attempt, Group, Standing, wilson

# What an attempt under each condition is to reproduce.
TARGETS: Mapping[Condition, Condition] = {
    Condition.H2: Condition.H1,
    Condition.FULL: Condition.H1,
    Condition.SELECTED: Condition.H1,
    Condition.ZERO: Condition.H1,
    Condition.TRANSPLANT: Condition.C,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What one intervention replaced of the row that an agent visits, in scores. `differing` = |Omega and Delta|,
    `effective` those of them it replaced, `selected` what it selected in the row, changed or not.

    Source: BioAgent-DF 2.4.
    """

    selected: int
    effective: int
    differing: int

    @property
    def remaining(self) -> int:
        """n_remain: the row's differences that were left."""
        return self.differing - self.effective

    @property
    def partial(self) -> bool:
        """Whether it replaced a part of the row's differences and left others."""
        return 0 < self.effective < self.differing


GroupKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How often one condition reached its target's endpoint, over the groups in which H1, C, the target and it itself
    count, and H1 and C differ on the endpoint.

    `ineffective` of those groups had a replacement that changed nothing in the visited row, `partial` one that left
    differences there; `reached_partial` counts the successes among the latter.
    """

    condition: Condition
    target: Condition
    endpoint: Endpoint
    changed: int
    compared: int
    reached: int
    ineffective: int
    partial: int
    reached_partial: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the share that reached it."""
        return wilson(self.reached, self.compared)


def reaching(
    groups: Sequence[Group],
    condition: Condition,
    endpoint: Endpoint,
    replacements: Mapping[tuple[GroupKey, Condition], Replacement],
) -> Reached:
    """What a condition reached where the candidate's endpoint is not the reference's.

    `changed` counts the groups that had something to reach; those of them where the condition or its target does not
    count are not compared, and the difference of the two numbers says how many they are.
    Source: BioAgent-DF 2.2, H.7.
    """
    target = TARGETS[condition]
    changed = [
        group
        for group in groups
        if _counts(group, REFERENCE, CANDIDATE) and endpoint(group.path(REFERENCE)) != endpoint(group.path(CANDIDATE))
    ]
    compared = [group for group in changed if _counts(group, condition, target)]
    hits = [group for group in compared if endpoint(group.path(condition)) == endpoint(group.path(target))]
    found = {key_of(group): replacements.get((key_of(group), condition)) for group in compared}
    partial = {key for key, replaced in found.items() if replaced is not None and replaced.partial}
    return Reached(
        condition=condition,
        target=target,
        endpoint=endpoint,
        changed=len(changed),
        compared=len(compared),
        reached=len(hits),
        ineffective=sum(replaced is not None and not replaced.effective for replaced in found.values()),
        partial=len(partial),
        reached_partial=sum(key_of(group) in partial for group in hits),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Partings:
    """Where attempts of two conditions first part, over the groups in which both count."""

    of: Condition
    against: Condition
    groups: int
    same: int
    by: tuple[tuple[Parting, int], ...]


def partings(
    groups: Sequence[Group],
    exchanges: Mapping[tuple[GroupKey, str], Sequence[Exchange]],
    of: Condition,
    against: Condition = Condition.H1,
) -> Partings:
    """The first divergences between two conditions, counted by what parted them.

    Source: BioAgent-DF Algorithm 1, H.6.
    """
    compared = [group for group in groups if _counts(group, of, against)]
    found = [parting(exchanges, key_of(group), of, against) for group in compared]
    counts = Counter(one.by for one in found if one is not None)
    return Partings(
        of=of,
        against=against,
        groups=len(compared),
        same=sum(one is None for one in found),
        by=tuple((kind, counts[kind]) for kind in Parting),
    )


def parting(
    exchanges: Mapping[tuple[GroupKey, str], Sequence[Exchange]], key: GroupKey, of: str, against: str = REFERENCE
) -> Divergence | None:
    """Where the attempts of two conditions of one group first part, None when they agree to the end."""
    return first_divergence(exchanges[key, against], exchanges[key, of])


@dataclass(frozen=True, slots=True, kw_only=True)
class Across:
    """One condition under two presentations (content shown and masked, two prompts), over the groups where it counts
    under both: `differing` of `compared` differ on the endpoint; `one` and `other` count those that have it at all.
    """

    condition: str
    endpoint: Endpoint
    one: int
    other: int
    compared: int
    differing: int


def across(one: Iterable[Attempt], other: Iterable[Attempt], condition: str, endpoint: Endpoint) -> Across:
    """What a change of presentation did to a condition, paired by capture, task and repeat.

    Source: BioAgent-DF 3.5, H.4 (content masking), H.8 (prompt sensitivity).
    """
    first, second = ({_key(a): a for a in table if a.condition == condition} for table in (one, other))
    counted = [
        {key: attempt.path for key, attempt in table.items() if attempt.standing is Standing.COUNTED}
        for table in (first, second)
    ]
    both = sorted(counted[0].keys() & counted[1].keys())
    pairs = [(counted[0][key], counted[1][key]) for key in both]
    return Across(
        condition=condition,
        endpoint=endpoint,
        one=len(counted[0]),
        other=len(counted[1]),
        compared=len(pairs),
        differing=sum(a is not None and b is not None and endpoint(a) != endpoint(b) for a, b in pairs),
    )


def key_of(group: Group) -> GroupKey:
    """What a group is known by inside its arm."""
    return (group.capture, group.task, group.repeat)


def _key(attempt: Attempt) -> GroupKey:
    return (attempt.capture, attempt.task, attempt.repeat)


def _counts(group: Group, *conditions: str) -> bool:
    return all(group.standing(condition) is Standing.COUNTED for condition in conditions)
