"""A study's results as tables: the same rows as CSV for a spreadsheet and in one JSON object."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veristate.audit.design import Condition, Replacement, key_of, parting
from veristate.audit.endpoints import Component, Endpoint
from veristate.audit.endpoints.path import items
from veristate.audit.statistics import Group, Interval, Standing
from veristate.audit.study.benches import StudyCapture
from veristate.audit.study.figures.results import Series, StudyResults
from veristate.audit.study.figures.sides import name_of
from veristate.audit.study.spec import StudySpec

Value = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns with their names, and rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def csv(self) -> str:
        """The table as CSV; None is an empty field."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def records(self) -> list[dict[str, Value]]:
        """The rows as objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def tables_of(
    captures: Sequence[StudyCapture], results: StudyResults, endpoints: Sequence[Endpoint]
) -> dict[str, Table]:
    """Every table by name; those that the study has no rows for are there without rows."""
    return {
        "captures": _captures(captures),
        "attempts": _attempts(results.series),
        "tallies": _tallies(results.series),
        "discordance": _discordance(results.series),
        "recovery": _recovery(results.series),
        "replacements": _replacements(results.series, captures),
        "partings": _partings(results.series),
        "groups": _groups(results.series, endpoints),
        "same_requests": _same_requests(results.series),
        "strict": _strict(results.series),
        "factorial": _factorial(results.series),
        "across": _across(results),
        "metrics": _metrics(results.series),
    }


def as_json(spec: StudySpec, results: StudyResults, tables: Mapping[str, Table], *, complete: bool) -> dict[str, Any]:
    """One object: what the study is, whether it is complete and failed, and all tables but that of single attempts."""
    return {
        "study": spec.name,
        "task": spec.task,
        "agent": spec.agent.kind,
        "complete": complete,
        "failed": complete and bool(results.failures),
        "failures": list(results.failures),
        "unplanned_executions": results.unplanned,
        "least_groups": spec.least_groups,
        "tables": {name: table.records() for name, table in tables.items() if name not in ("attempts", "groups")},
    }


def _table(columns: str, rows: Iterable[Sequence[Value]]) -> Table:
    return Table(columns=tuple(columns.split()), rows=tuple(tuple(row) for row in rows))


def _captures(captures: Sequence[StudyCapture]) -> Table:
    return _table(
        "capture role environment origin simulated coordinates differing classes unrebuilt_by_residual digest",
        (
            (
                one.name,
                one.role,
                one.environment,
                one.origin,
                one.simulated,
                one.capture.h.size,
                one.differing,
                "; ".join(f"{kind.name.lower()} {count}" for kind, count in one.classes),
                one.unrebuilt,
                one.capture.digest,
            )
            for one in captures
        ),
    )


def _attempts(series: Sequence[Series]) -> Table:
    def rows() -> Iterable[Sequence[Value]]:
        for one in series:
            for attempt in one.attempts:
                key = ((attempt.capture, attempt.task, attempt.repeat), attempt.condition)
                done = one.executed[key]
                replaced = done.replacement
                path = attempt.path
                parts = [" ".join(items(path, part)) if path else "" for part in _SPOKEN]
                yield (
                    *(one.name, one.role, attempt.capture, attempt.task, attempt.repeat, attempt.condition),
                    *(attempt.standing, attempt.reason),
                    *((replaced.selected, replaced.effective, replaced.differing) if replaced else (None,) * 3),
                    *parts,
                    *(done.rejected, done.reply_tokens, done.seconds, done.transcript, done.key),
                )

    return _table(
        "series role capture task repeat condition standing reason selected effective differing "
        "retrieved read cited verdict rejected reply_tokens seconds transcript key",
        rows(),
    )


_SPOKEN = (Component.RETRIEVED, Component.READ, Component.CITED, Component.VERDICT)


def _tallies(series: Sequence[Series]) -> Table:
    return _table(
        "series role condition attempts counted incomplete invalid unexposed",
        (
            (one.name, one.role, t.condition, t.attempts, t.counted, t.incomplete, t.invalid, t.unexposed)
            for one in series
            for t in one.summaries[0].tallies
        ),
    )


def _discordance(series: Sequence[Series]) -> Table:
    def rows() -> Iterable[Sequence[Value]]:
        for one in series:
            for summary in one.summaries:
                found, repeats = summary.discordance, summary.by_combination
                groups = found.groups
                yield (
                    *(one.name, one.role, summary.endpoint.name, summary.joint.scheduled, groups),
                    *(found.candidate, *found.candidate_interval, found.repeat, *found.repeat_interval),
                    *(summary.restored, found.excess, summary.balanced),
                    *(summary.captures, summary.tasks, summary.combinations),
                    *_ends(summary.capture_interval),
                    *_ends(summary.crossed_interval),
                    *(repeats.eligible, repeats.d_ch, repeats.d_hh, repeats.d_cc, repeats.delta),
                )

    return _table(
        "series role endpoint groups_scheduled groups candidate_differs candidate_lower candidate_upper "
        "repeat_differs repeat_lower repeat_upper restored_differs excess balanced captures tasks combinations "
        "capture_bootstrap_lower capture_bootstrap_upper crossed_bootstrap_lower crossed_bootstrap_upper "
        "combinations_with_repeats d_CH d_HH d_CC delta",
        rows(),
    )


def _recovery(series: Sequence[Series]) -> Table:
    return _table(
        "series role condition target endpoint groups_changed groups_compared reached reached_lower reached_upper "
        "ineffective partial reached_by_partial",
        (
            (
                *(one.name, one.role, found.condition, found.target, found.endpoint.name, found.changed),
                *(found.compared, found.reached, *found.interval, found.ineffective, found.partial),
                found.reached_partial,
            )
            for one in series
            for found in one.reached
        ),
    )


def _replacements(series: Sequence[Series], captures: Sequence[StudyCapture]) -> Table:
    """What each intervention cost and left, over the visited values of a capture; repeats replace the same and are
    counted once. b_global is over all coordinates of the array.
    """
    sizes = {one.name: one.capture.h.size for one in captures}

    def rows() -> Iterable[Sequence[Value]]:
        for one in series:
            found: dict[tuple[str, str], dict[str, Replacement]] = {}
            for ((capture, _, repeat), condition), done in one.executed.items():
                if done.replacement is not None and repeat == one.groups[0].repeat:
                    found.setdefault((capture, condition), {})[done.key] = done.replacement
            for (capture, condition), made in found.items():
                selected, effective, differing, remaining = (
                    sum(getattr(each, name) for each in made.values())
                    for name in ("selected", "effective", "differing", "remaining")
                )
                yield (
                    *(one.name, one.role, capture, condition, len(made), selected, effective, differing, remaining),
                    *(effective / differing if differing else None, selected / sizes[capture]),
                    sum(not each.effective for each in made.values()),
                )

    return _table(
        "series role capture condition replacements selected effective differing remaining f_exposed b_global "
        "without_effect",
        rows(),
    )


def _partings(series: Sequence[Series]) -> Table:
    return _table(
        "series role condition against groups same first_divergence count",
        (
            (one.name, one.role, found.of, found.against, found.groups, found.same, kind, count)
            for one in series
            for found in one.partings
            for kind, count in found.by
        ),
    )


def _groups(series: Sequence[Series], endpoints: Sequence[Endpoint]) -> Table:
    def differs(group: Group, condition: Condition, endpoint: Endpoint) -> Value:
        if any(group.standing(name) is not Standing.COUNTED for name in (Condition.H1, condition)):
            return None
        return int(endpoint(group.path(condition)) != endpoint(group.path(Condition.H1)))

    def rows() -> Iterable[Sequence[Value]]:
        for one in series:
            exchanges = {key: done.exchanges for key, done in one.executed.items()}
            for group in one.groups:
                key = key_of(group)
                has = (key, Condition.C.value) in exchanges and (key, Condition.H1.value) in exchanges
                found = parting(exchanges, key, Condition.C) if has else None
                yield (
                    *(group_name(one, group), one.role),
                    *(group.standing(name) for name in (Condition.H1, Condition.H2, Condition.C, Condition.FULL)),
                    *((found.exchange, found.by) if found else (None, None)),
                    *(differs(group, name, endpoint) for name in (Condition.C, Condition.H2) for endpoint in endpoints),
                )

    names = [
        f"{condition}_{endpoint.component}_{endpoint.comparison}"
        for condition in (Condition.C, Condition.H2)
        for endpoint in endpoints
    ]
    return _table("group role H1 H2 C full parts_at parts_by " + " ".join(names), rows())


def group_name(series: Series, group: Group) -> str:
    """What a group is called outside its series: arm, capture, task and repeat, joined by slashes."""
    return name_of(series.arm, group.capture, group.task, group.repeat)


def _same_requests(series: Sequence[Series]) -> Table:
    return _table(
        "series role endpoint pairs_with_the_same_row complete differing",
        (
            (one.name, one.role, found.endpoint.name, found.pairs, found.complete, found.differing)
            for one in series
            for found in one.same_requests
        ),
    )


def _strict(series: Sequence[Series]) -> Table:
    return _table(
        "series role endpoint capture task batches scheduled strict reasons",
        (
            (
                *(one.name, one.role, endpoint.name, capture, task, found.batches, found.scheduled),
                *(int(found.holds), "; ".join(found.reasons)),
            )
            for one in series
            for endpoint, combinations in one.strict
            for capture, task, found in combinations
        ),
    )


def _factorial(series: Sequence[Series]) -> Table:
    return _table(
        "series role endpoint groups left_out list_H_values_H list_H_values_C list_C_values_H list_C_values_C "
        "list_effect values_effect interaction",
        (
            (
                *(one.name, one.role, found.endpoint.name, found.effects.groups, found.left_out),
                *(share for row in found.effects.cells for share in row),
                *(found.effects.list_effect, found.effects.values_effect, found.effects.interaction),
            )
            for one in series
            for found in one.factorial
        ),
    )


def _across(results: StudyResults) -> Table:
    return _table(
        "arm other_arm condition endpoint counted other_counted compared differing",
        (
            (
                *(arm, other, found.condition, found.endpoint.name, found.one, found.other),
                *(found.compared, found.differing),
            )
            for arm, other, found in results.across
        ),
    )


def _metrics(series: Sequence[Series]) -> Table:
    return _table(
        "series role metric condition executions mean",
        (
            (one.name, one.role, metric.name, metric.condition, metric.executions, float(metric.mean))
            for one in series
            for metric in one.metrics
        ),
    )


def _ends(interval: Interval | None) -> tuple[Value, Value]:
    return (None, None) if interval is None else (interval.lower, interval.upper)
