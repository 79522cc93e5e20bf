"""The study's verdict and names in a reader's words."""

from collections.abc import Sequence

from veristate.audit.design import Role
from veristate.audit.endpoints import Comparison, Component, Endpoint
from veristate.audit.study import Series, StudyResults, StudySpec
from veristate.interfaces.report.words import clip, count, plural

_COMPONENTS = {
    Component.RETRIEVED: "what was retrieved",
    Component.READ: "what was read",
    Component.CITED: "what was cited",
    Component.ACTIONS: "the actions",
    Component.VERDICT: "the verdict",
}
_AGENTS = {
    "controller": "a deterministic controller",
    "local": "the small local model",
    "endpoint": "a model behind an endpoint",
    "none": "the task\u2019s own continuation",
}
# The endpoint a headline speaks of is the first of these that differs, evidence before retrieval.
_FOREMOST = (Component.CITED, Component.READ, Component.VERDICT, Component.ACTIONS, Component.RETRIEVED)


def endpoint_words(endpoint: Endpoint) -> str:
    """An endpoint as a table's rows name it."""
    if endpoint.component is Component.VERDICT:
        return "verdict"
    return f"{endpoint.component.value}{' order' if endpoint.comparison is Comparison.ORDER else ''}"


def agent_words(spec: StudySpec) -> str:
    """Who acted."""
    named = f" ({clip(spec.agent.model, 40)})" if spec.agent.model else ""
    return _AGENTS[spec.agent.kind] + named


def question(spec: StudySpec, groups: int) -> str:
    """What the study asked, as one sentence."""
    confirmed = sum(one.role == "confirmation" for one in spec.captures) * (1 + len(spec.environments))
    return (
        f"Does {agent_words(spec)} take another path through the task {spec.task} when {plural(confirmed, 'capture')} "
        f"replace the reference values, and does putting the reference back undo it? {plural(groups, 'paired group')}."
    )


def headline(results: StudyResults, *, complete: bool) -> str:
    """What came of it, the evidence endpoints first."""
    if not complete:
        return "Not complete: attempts are left, and the figures are of those that are finished."
    if results.failures:
        return "A failed study: too few groups are complete and exposed to compare."
    chosen = [one for one in results.series if one.role is Role.CHOSEN]
    told = [said for one in chosen for said in [_difference(one)] if said]
    if not told:
        groups = sum(one.joint for one in chosen)
        return f"The candidate\u2019s paths are the reference\u2019s in all {count(groups)} complete groups."
    return told[0]


def _difference(one: Series) -> str:
    summaries = sorted(one.summaries, key=lambda summary: _FOREMOST.index(summary.endpoint.component))
    for summary in summaries:
        found = summary.discordance
        if found.candidate:
            own = (
                "the reference\u2019s own repeat never does"
                if not found.repeat
                else f"the reference\u2019s own repeat does in {plural(found.repeat, 'group')}"
            )
            return (
                f"The candidate changes {_COMPONENTS[summary.endpoint.component]} in {count(found.candidate)} of "
                f"{plural(found.groups, 'complete group')}; {own}."
            )
    return ""


def restored_words(results: StudyResults) -> str:
    """What full restoration brought back, over all series and endpoints."""
    compared = [summary for one in results.series for summary in one.summaries if summary.restored is not None]
    off = sum(summary.restored or 0 for summary in compared)
    groups = sum(one.joint for one in results.series)
    if not compared or not groups:
        return ""
    if not off:
        return f"Full restoration returns the reference\u2019s path in all {plural(groups, 'complete group')}."
    return (
        f"Full restoration differs from the reference in {plural(off, 'comparison')}; with an agent that samples, "
        "that is to be read beside its own repeat."
    )


def series_title(one: Series, many: Sequence[Series]) -> str:
    """The heading of a series: its arm and what sets it apart from others."""
    parts = [f"Arm {one.arm}"]
    if one.environment:
        parts.append(f"environment {one.environment}")
    if any(other.role is Role.CONTROL for other in many):
        parts.append("chosen tasks" if one.role is Role.CHOSEN else "control tasks")
    return ", ".join(parts)
