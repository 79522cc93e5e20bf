"""Captures, estimates, recovery and attempts: the study's tables on its page."""

from collections.abc import Iterable, Sequence

from veristate.audit.design import Condition, Reached
from veristate.audit.study import Series, StudyCapture
from veristate.interfaces.report.markup import Child, Markup, el, join
from veristate.interfaces.report.study.figures import discordance_figure
from veristate.interfaces.report.study.wording import endpoint_words, series_title
from veristate.interfaces.report.words import clip, count, plural, signed

_HEADS = {
    Condition.H2: "H again",
    Condition.FULL: "Full restoration",
    Condition.SELECTED: "Selected restoration",
    Condition.ZERO: "Zero treatment",
    Condition.TRANSPLANT: "Transplantation",
}
_CLASSES = {
    "PROVEN": "above the rounding bound: wrong arithmetic is proven",
    "UNRESOLVED": "neither above the bound nor known to be ordinary",
    "ORDINARY": "no larger than benign settings vary",
    "CONSTRUCTED": "made by software; it says nothing of a device",
}


def captures_section(captures: Sequence[StudyCapture]) -> Markup:
    """Where each capture comes from, of which class its differences are, and whether a fault was simulated."""
    rows = [
        el(
            "tr",
            el("th", clip(one.name, 40), scope="row"),
            el("td", _origin(one)),
            el("td", f"{count(one.differing)} of {count(one.capture.h.size)}", class_="number"),
            el("td", [_tag(kind.name, n) for kind, n in one.classes] or "none differ"),
            el("td", one.role),
            el("td", count(one.unrebuilt), class_="number"),
        )
        for one in captures
    ]
    names = ("Capture", "Where it comes from", "Values that differ", "Class", "Role", "Missed by residual")
    note = (
        "Treatments put values in place, bit for bit. The last column counts coordinates that adding and subtracting "
        "the residual instead would not rebuild exactly."
    )
    return el(
        "section",
        el("h2", "What was captured"),
        _scrolled(names, rows, "captures"),
        el("p", note, class_="note"),
        id="captures",
    )


def difference_section(series: Sequence[Series]) -> Markup:
    """The discordance of each series with its intervals, and the estimates under it."""
    lead = (
        "In how many complete groups the candidate\u2019s path differs from the reference\u2019s, beside how often the "
        "same reference, run again, differs from itself. Lines are 95 % Wilson intervals."
    )
    parts: list[Child] = [el("h2", "What differed"), el("p", lead, class_="lead")]
    for one in series:
        parts += [el("h3", series_title(one, series)), _denominators(one), discordance_figure(one), _estimates(one)]
    return el("section", parts, id="difference")


def recovery_section(series: Sequence[Series]) -> Markup:
    """Where the candidate differs: what each intervention brought back."""
    lead = (
        "Of the groups in which the candidate differs: in how many an attempt gives the reference\u2019s endpoint, or "
        "for a transplantation the candidate\u2019s. A replacement without effect changed no value that was visited; "
        "a part left other differences there."
    )
    parts: list[Child] = [el("h2", "What undoes it"), el("p", lead, class_="lead")]
    for one in series:
        parts += [el("h3", series_title(one, series)), _recovery(one)]
    return el("section", parts, id="recovery")


def _recovery(one: Series) -> Markup:
    changed = {(found.endpoint, found.condition): found for found in one.reached if found.changed}
    if not changed:
        return el("p", "The candidate changes nothing that could be undone.")
    conditions = list(dict.fromkeys(condition for _, condition in changed))
    rows = [
        el(
            "tr",
            el("th", endpoint_words(endpoint), scope="row"),
            el("td", count(changed[endpoint, conditions[0]].changed), class_="number"),
            [_reached(changed[endpoint, condition]) for condition in conditions],
        )
        for endpoint in dict.fromkeys(endpoint for endpoint, _ in changed)
    ]
    return _scrolled(("Endpoint", "Groups changed", *(_HEADS[name] for name in conditions)), rows, "counts recovery")


def _reached(found: Reached) -> Markup:
    """Successes of comparisons, and what the replacement amounted to."""
    told = []
    if found.condition in (Condition.SELECTED, Condition.TRANSPLANT):
        if found.ineffective:
            told.append(f"{count(found.ineffective)} without effect")
        if found.partial:
            told.append(f"{count(found.reached_partial)} of {count(found.partial)} by a part")
    if found.changed > found.compared:
        told.append(f"{count(found.changed - found.compared)} not complete")
    more = [el("small", said) for said in told]
    return el("td", f"{count(found.reached)} of {count(found.compared)}", more, class_="number")


def attempts_section(series: Sequence[Series]) -> Markup:
    """Every attempt by how it ended, and where attempts first part."""
    rows = [
        el(
            "tr",
            el("th", series_title(one, series), scope="row"),
            el("td", tally.condition),
            [
                el("td", count(n), class_="number")
                for n in (tally.attempts, tally.counted, tally.incomplete, tally.invalid, tally.unexposed)
            ],
        )
        for one in series
        for tally in one.summaries[0].tallies
    ]
    names = ("Series", "Condition", "Attempts", "Counted", "Incomplete", "Invalid", "Unexposed")
    parting = [
        el(
            "tr",
            el("th", series_title(one, series), scope="row"),
            el("td", f"{found.of} against {found.against}"),
            el("td", count(found.groups), class_="number"),
            el("td", count(found.same), class_="number"),
            [el("td", count(n), class_="number") for _, n in found.by],
        )
        for one in series
        for found in one.partings
    ]
    heads = ("Series", "Pair", "Groups", "Never part", "By what was shown", "By the reply", "By length")
    more = join(el("h3", "Where attempts first part"), _scrolled(heads, parting, "counts")) if parting else None
    return el(
        "section",
        el("h2", "Every attempt"),
        el("p", "None is dropped: what did not complete, or never saw the values, stands here.", class_="lead"),
        _scrolled(names, rows, "counts"),
        more,
        id="attempts",
    )


def _origin(one: StudyCapture) -> Markup:
    more = f"{one.simulated} (simulated)" if one.simulated else ""
    return join(clip(one.origin, 120), el("small", f" {more}") if more else None)


def _tag(kind: str, n: int) -> Markup:
    return el("span", f"{kind.lower()} {count(n)}", class_=f"tag {kind.lower()}", title=_CLASSES.get(kind))


def _denominators(one: Series) -> Markup:
    joint = one.summaries[0].joint
    named = ", ".join(joint.conditions)
    said = f"{plural(one.joint, 'group')} of {count(joint.scheduled)} complete and exposed in {named}."
    left = [f"{condition} {why} in {count(n)}" for condition, why, n in joint.left_out]
    return el("p", said + (f" Left out: {'; '.join(left)}." if left else ""))


def _estimates(one: Series) -> Markup | None:
    if not one.joint:
        return None
    rows = []
    for summary in one.summaries:
        found, repeats = summary.discordance, summary.by_combination
        intervals = [
            "none" if i is None else f"{_points(i.lower)} to {_points(i.upper)}"
            for i in (summary.capture_interval, summary.crossed_interval)
        ]
        cells = [
            _points(found.excess),
            _points(summary.balanced),
            *intervals,
            "n/a" if summary.restored is None else f"{count(summary.restored)} of {count(found.groups)}",
            "n/a" if repeats.delta is None else f"{signed(repeats.delta)} ({count(repeats.eligible)})",
        ]
        named = el("th", endpoint_words(summary.endpoint), scope="row")
        rows.append(el("tr", named, [el("td", cell, class_="number") for cell in cells]))
    names = (
        "Endpoint",
        "Excess, points",
        "Capture-balanced",
        "Captures resampled, 95 %",
        "Captures and tasks, 95 %",
        "Restored differs",
        "\u03b4 over repeats",
    )
    first = one.summaries[0]
    said = (
        f"Over {plural(first.combinations, 'combination')} of {plural(first.captures, 'capture')} and "
        f"{plural(first.tasks, 'task')}; excess is candidate minus repeat in percentage points."
    )
    return el("details", el("summary", "Estimates and intervals"), el("p", said), _scrolled(names, rows, "estimates"))


def _points(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{100 * value:+.2f}".replace("-", "\u2212")


def _scrolled(names: Iterable[str], rows: Sequence[Markup], class_: str) -> Markup:
    head = el("thead", el("tr", [el("th", name, scope="col") for name in names]))
    return el("div", el("table", head, el("tbody", rows), class_=class_), class_="scroll")
