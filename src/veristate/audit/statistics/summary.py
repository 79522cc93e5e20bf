"""One endpoint over a table of attempts: every statistic beside what it was counted over."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from veristate.audit.endpoints import Endpoint
from veristate.audit.statistics.attempts import (
    CORE,
    RESTORED,
    Attempt,
    Joint,
    Standing,
    grouped,
    jointly_completed,
)
from veristate.audit.statistics.balance import balanced, combinations
from veristate.audit.statistics.bootstrap import RESAMPLES, Interval, capture_bootstrap, crossed_bootstrap
from veristate.audit.statistics.discordance import Discordance, discordances, paired_excess, paired_values
from veristate.audit.statistics.proportions import wilson
from veristate.audit.statistics.repeats import MeanContrast, contrasts, mean_contrast


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """All attempts under one condition, by standing; the standings add up to the attempts."""

    condition: str
    attempts: int
    counted: int
    incomplete: int
    invalid: int
    unexposed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything that is said of one endpoint, with its denominators; see `describe`.

    `restored` counts the groups whose full restoration differs from H1, None where it was not asked for.
    """

    endpoint: Endpoint
    tallies: tuple[Tally, ...]
    joint: Joint
    discordance: Discordance
    restored: int | None
    captures: int
    tasks: int
    combinations: int
    balanced: float | None
    capture_interval: Interval | None
    crossed_interval: Interval | None
    by_combination: MeanContrast
    by_task: MeanContrast

    def describe(self) -> str:
        """The summary as text, one statement a line, no rate without its counts."""
        return "\n".join([*_attempt_lines(self.tallies), *_joint_lines(self.joint), *_endpoint_lines(self)])


def summarise(
    attempts: Iterable[Attempt],
    endpoint: Endpoint,
    *,
    seed: int,
    conditions: Sequence[str] = CORE,
    resamples: int = RESAMPLES,
) -> Summary:
    """The summary of an endpoint over all attempts, compared where every named condition is counted.

    `conditions` holds H1, H2 and C; both bootstraps start from `seed`.

    Raises: InputError for two attempts of one group and condition.
    Source: BioAgent-DF 2.3, F.2, H.12.
    """
    table = tuple(attempts)
    joint = jointly_completed(grouped(table), conditions)
    balance = combinations(joint.groups, paired_values(joint.groups, endpoint))
    repeated = contrasts(joint.groups, endpoint)
    restored = RESTORED in conditions
    return Summary(
        endpoint=endpoint,
        tallies=tallies(table),
        joint=joint,
        discordance=paired_excess(joint.groups, endpoint),
        restored=int(discordances(joint.groups, endpoint, of=RESTORED).sum(dtype=int)) if restored else None,
        captures=len(balance.captures),
        tasks=len(balance.tasks),
        combinations=balance.count,
        balanced=balanced(balance),
        capture_interval=capture_bootstrap(balance, seed=seed, resamples=resamples),
        crossed_interval=crossed_bootstrap(balance, seed=seed, resamples=resamples),
        by_combination=mean_contrast(repeated),
        by_task=mean_contrast(repeated, by=lambda key: key[1]),
    )


def tallies(attempts: Sequence[Attempt]) -> tuple[Tally, ...]:
    """The tally of every condition in the order in which it first appears."""
    found: dict[str, Counter[Standing]] = {}
    for attempt in attempts:
        found.setdefault(attempt.condition, Counter())[attempt.standing] += 1
    return tuple(
        Tally(
            condition=condition,
            attempts=counts.total(),
            counted=counts[Standing.COUNTED],
            incomplete=counts[Standing.INCOMPLETE],
            invalid=counts[Standing.INVALID],
            unexposed=counts[Standing.UNEXPOSED],
        )
        for condition, counts in found.items()
    )


def _attempt_lines(counted: tuple[Tally, ...]) -> list[str]:
    return [
        f"{tally.condition}: {tally.counted} of {tally.attempts} attempts counted, {tally.incomplete} incomplete, "
        f"{tally.invalid} invalid, {tally.unexposed} unexposed"
        for tally in counted
    ]


def _joint_lines(joint: Joint) -> list[str]:
    kept = len(joint.groups)
    named = ", ".join(joint.conditions)
    lines = [f"groups: {kept} of {joint.scheduled} complete and exposed in {named}; {joint.scheduled - kept} left out"]
    return (
        lines
        + [f"left out, {condition} {why}: {count} groups" for condition, why, count in joint.left_out]
        + (["a group that several conditions keep out is counted under each"] if joint.left_out else [])
    )


def _endpoint_lines(summary: Summary) -> list[str]:
    found, name = summary.discordance, summary.endpoint.name
    if not found.groups:
        return [f"{name}: undecided, no group to compare"]
    lines = [
        f"{name}, C against H1: {_rate(found.candidate, found.groups)}",
        f"{name}, H2 against H1: {_rate(found.repeat, found.groups)}",
    ]
    if summary.restored is not None:
        lines.append(f"{name}, full restoration against H1: {_rate(summary.restored, found.groups)}")
    lines += [
        f"excess discordance: {found.excess:+.4f} over {found.groups} groups weighted equally",
        f"capture-balanced: {summary.balanced:+.4f} over {summary.combinations} combinations of {summary.captures} "
        f"captures and {summary.tasks} tasks",
        f"capture bootstrap: {_interval(summary.capture_interval)}, {summary.captures} captures",
        f"crossed bootstrap: {_interval(summary.crossed_interval)}, {summary.captures} captures by {summary.tasks} "
        "tasks",
        _contrast_line("combinations", summary.by_combination),
        _contrast_line("tasks", summary.by_task),
    ]
    return lines


def _rate(differing: int, groups: int) -> str:
    lower, upper = wilson(differing, groups)
    return f"{differing} of {groups} groups differ ({differing / groups:.2%}, Wilson 95 % {lower:.2%} to {upper:.2%})"


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return "no interval"
    return (
        f"{interval.level:.0%} [{interval.lower:+.4f}, {interval.upper:+.4f}] from {interval.resamples} resamples, "
        f"{interval.undefined} undefined"
    )


def _contrast_line(what: str, mean: MeanContrast) -> str:
    counted = f"{mean.eligible} of {mean.combinations} combinations with two or more common batches"
    if mean.delta is None:
        return f"repeats, {what} weighted equally: undecided, {counted}"
    return (
        f"repeats, {what} weighted equally: d_CH {mean.d_ch:.4f}, d_HH {mean.d_hh:.4f}, d_CC {mean.d_cc:.4f}, "
        f"delta {mean.delta:+.4f}; {counted}, {mean.classes} {what}"
    )
