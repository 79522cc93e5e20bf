"""A study's plan, its figures and its groups in plain lines."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from veristate.audit.design import Condition
from veristate.audit.endpoints import Component, DiffRow
from veristate.audit.endpoints.difference import Cell, Mark
from veristate.audit.statistics import wilson
from veristate.audit.study import Executed, Plan, Ran, Series, Sides, StudyResults, StudySpec, item_words, name_of
from veristate.core import plain

_WIDTH = 34
_MARKS = {Mark.SAME: "  ", Mark.MOVED: "~ ", Mark.FOREIGN: "+ ", Mark.ABSENT: "- ", Mark.EMPTY: "  "}


def plan_lines(spec: StudySpec, plan: Plan, folder: Path) -> list[str]:
    """What is about to run, simulated faults first, with the limits of each attempt."""
    simulated = [one.name for one in spec.captures if one.kind == "fault"]
    lines = []
    if simulated:
        lines.append(f"SIMULATED FAULTS in {', '.join(simulated)}: no faulty accelerator is used.")
    total = len(plan.executions)
    going = f", {plan.finished:,} of them finished before" if plan.finished else ""
    lines.append(f"{total:,} executions{going}; {plan.left:,} to run, kept one by one in {folder}")
    agent = spec.agent
    if agent.kind != "none":
        most = f"{agent.calls} calls, {agent.reads} reads and {agent.reply_tokens} tokens a reply"
        lines.append(f"Each is one attempt of the {agent.kind} agent with at most {most}.")
    return lines


def result_lines(spec: StudySpec, results: StudyResults, ran: Ran) -> list[str]:
    """The figures that answer the study's question, each with its counts."""
    lines = []
    if not ran.complete:
        left = len(ran.plan.executions) - len(ran.executed)
        lines.append(
            f"NOT COMPLETE: {left:,} of {len(ran.plan.executions):,} executions are left; run it again to go on."
        )
    for one in results.series:
        lines += _series_lines(one)
    if results.unplanned:
        lines.append(f"{results.unplanned} finished executions of the folder are not in this study and in no figure.")
    verdict = "FAILED STUDY" if ran.complete else "So far"
    lines += [f"{verdict}: {reason}." for reason in results.failures]
    return lines


def _series_lines(one: Series) -> Iterator[str]:
    joint = one.summaries[0].joint
    named = ", ".join(joint.conditions)
    yield f"{one.name}, {one.role} groups: {one.joint} of {joint.scheduled} complete and exposed in {named}"
    for condition, standing, count in joint.left_out:
        yield f"  left out, {condition} {standing}: {count}"
    for summary in one.summaries:
        found = summary.discordance
        if not found.groups:
            continue
        restored = "" if summary.restored is None else f", restored {summary.restored}"
        yield (
            f"  {summary.endpoint.name}: candidate differs in {found.candidate} of {found.groups} "
            f"({_interval(found.candidate, found.groups)}), its own repeat in {found.repeat} "
            f"({_interval(found.repeat, found.groups)}){restored}"
        )
    for reached in one.reached:
        if reached.condition in (Condition.SELECTED, Condition.TRANSPLANT) and reached.changed:
            yield (
                f"  {reached.condition} reaches {reached.target} on {reached.endpoint.name} in {reached.reached} of "
                f"{reached.compared} changed groups; {reached.ineffective} replaced nothing, {reached.partial} a part"
            )


def _interval(part: int, whole: int) -> str:
    lower, upper = wilson(part, whole)
    return f"{100 * lower:.1f} to {100 * upper:.1f} %"


def group_names(executed: Mapping[str, Executed]) -> list[str]:
    """The names of all groups with a finished attempt, in the order in which they ran."""
    names = (name_of(done.arm, a.capture, a.task, a.repeat) for done in executed.values() for a in done.attempts)
    return list(dict.fromkeys(names))


def side_lines(sides: Sides, folder: Path) -> Iterator[str]:
    """One group: its attempts, then the three paths beside each other, `~` an item elsewhere, `+` one that the
    reference has nowhere, `-` one that is missing.
    """
    yield sides.name
    for condition, attempt in sides.attempts.items():
        done = sides.executed[condition]
        replaced = done.replacement
        said = ""
        if replaced is not None:
            said = f"; {replaced.effective} of {replaced.differing} differing scores of the row replaced"
            said += ", so nothing changed" if not replaced.effective and condition is not Condition.ZERO else ""
        reason = f" ({attempt.reason})" if attempt.reason else ""
        yield f"  {condition:18} {attempt.standing}{reason}; {done.rejected} rejected calls{said}"
    if sides.divergence is not None:
        yield f"C first parts from H1 in exchange {sides.divergence.exchange}, by {sides.divergence.by}"
    elif any(done.exchanges for done in sides.executed.values()):
        yield "C and H1 agree in every exchange"
    if not sides.rows:
        yield "H1 and C have no two paths to compare"
        return
    yield f"{'':14}{'reference':{_WIDTH + 2}}  {'candidate':{_WIDTH}}  restored"
    for component in Component:
        rows = [row for row in sides.rows if row.component is component]
        for number, row in enumerate(rows):
            yield _row_line(row, component.value if not number else "")
    kept = sorted({done.transcript for done in sides.executed.values() if done.transcript})
    if kept:
        yield f"transcripts in {folder / 'transcripts'}: {', '.join(name[:12] for name in kept)}"


def _row_line(row: DiffRow, title: str) -> str:
    part = row.component
    expected = "" if row.reference is None else item_words(part, row.reference)
    reference, candidate = (_fitted(text, _WIDTH + 2) for text in (expected, _cell(part, row.candidate)))
    restored = "" if row.restored is None else _cell(part, row.restored)
    return f"  {title:12}{reference}{candidate}{restored}"


def _cell(component: Component, cell: Cell) -> str:
    return _MARKS[cell.mark] + ("" if cell.item is None else item_words(component, cell.item))


def _fitted(text: str, width: int) -> str:
    return f"{text:{width}}" if len(text) < width else f"{text[: width - 2]}\u2026 "


def sides_json(sides: Sides) -> dict[str, Any]:
    """One group as one object."""
    return {
        "group": sides.name,
        "attempts": {
            name.value: {
                "standing": attempt.standing.value,
                "reason": attempt.reason,
                "path": plain(attempt.path),
                "rejected": sides.executed[name].rejected,
                "replacement": plain(sides.executed[name].replacement),
                "transcript": sides.executed[name].transcript,
            }
            for name, attempt in sides.attempts.items()
        },
        "first_divergence": plain(sides.divergence),
        "rows": [plain(row) for row in sides.rows],
    }
