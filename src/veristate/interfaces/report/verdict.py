"""The first thing a reader sees: what came of the run, in one sentence, and its key figures."""

from collections.abc import Iterator

from veristate.core import Rule
from veristate.interfaces.report.markup import Markup, el, join
from veristate.interfaces.report.words import clip, count, listed, percent, plural, seconds, share, small
from veristate.screening import ScreeningResult

_OUTCOMES = {"committed": "Committed", "earlier": "Already committed", "refused": "Refused", "nothing": "Not committed"}
_SIGNS = {
    "committed": "M7 13l4 4 8-9",
    "earlier": "M13 6v7l5 3",
    "refused": "M8 8l10 10M18 8L8 18",
    "nothing": "M7 13h12",
}
_REASONS = {
    "request unknown": "the gateway knows no such request",
    "contract differs": "the action was prepared under another contract",
    "view unknown": "the table the agent acted on was never released to it",
    "view superseded": "the agent acted on a table that has been replaced since",
    "view contract differs": "the table was computed under another contract",
    "view not certified": "the table the agent acted on is not certified",
    "certificate missing": "there is no certificate",
    "certificate contract differs": "the certificate is for another contract",
    "certificate incomplete": "the certificate does not cover every rule",
    "decision deviates": "the agent's choice is not the certified one",
    "already committed": "an action was committed for this request before",
}


def outcome(result: ScreeningResult) -> str:
    """One of committed, earlier, refused, nothing."""
    if result.committed_earlier is not None:
        return "earlier"
    if result.committed:
        return "committed"
    return "refused" if result.story.refused else "nothing"


def explained(reason: str) -> str:
    """A reason of the gateway in a reader's words, or as it stands."""
    return _REASONS.get(reason, reason)


def units(result: ScreeningResult) -> int:
    """The number of candidates times members."""
    return result.candidates * result.members


def verdict_text(result: ScreeningResult) -> str:
    """The verdict as one or two plain sentences."""
    return " ".join([_headline(result), *_findings(result)])


def banner(result: ScreeningResult) -> Markup:
    """The verdict, and under it which numbers it speaks of and whether the fault was simulated."""
    kind = outcome(result)
    sign = el(
        "svg",
        el("circle", cx=13, cy=13, r=12, class_="disc"),
        el("path", d=_SIGNS[kind], class_="sign"),
        viewBox="0 0 26 26",
        aria_hidden="true",
    )
    more = " ".join(_findings(result))
    texts = el(
        "div",
        el("p", _OUTCOMES[kind], class_="outcome"),
        el("h1", _headline(result)),
        el("p", more, class_="findings") if more else None,
        el("p", _subject(result), class_="subject"),
    )
    return el("header", simulated(result), el("div", sign, texts, class_="says"), class_=f"banner {kind}")


def simulated(result: ScreeningResult) -> Markup:
    """The band that says whether the fault was simulated."""
    if result.injected is None:
        return el("p", "No fault was simulated in this run.", class_="plainly")
    strong = el("strong", "Simulated fault")
    said = ": software put it into the outputs to show what the checks do. Nothing on this page accuses a device."
    return el("p", strong, " ", el("code", clip(result.injected, 90)), said, class_="simulated")


def tiles(result: ScreeningResult) -> Markup:
    """The key figures."""
    return el("dl", [_tile(*figures) for figures in _figures(result)], class_="tiles")


def _tile(name: str, value: str, note: str) -> Markup:
    said = el("dd", note, class_="note") if note else None
    return el("div", el("dt", name), el("dd", clip(value, 40), class_="value"), said)


def _figures(result: ScreeningResult) -> Iterator[tuple[str, str, str]]:
    whole, checks = units(result), result.checks
    excluded = f", {count(len(result.excluded))} left out" if result.excluded else ""
    yield (
        "Candidates \u00d7 members",
        f"{count(result.candidates)} \u00d7 {result.members}",
        f"{plural(whole, 'unit')}{excluded}",
    )
    yield "Number format", result.dtype, "fixed by the contract"
    yield "Device", result.device, "what the scores came from"
    yield "Trusted device", result.trusted_device, f"checks: {clip(result.checked_on, 100)}"
    flagged, inapplicable = checks.get("flagged", 0), checks.get("inapplicable", 0)
    if result.assurance.rows_checked:
        draws = result.assurance.probe_draws
        yield "Rows probed", count(result.assurance.rows_checked), f"{draws} secret probes each; calls were not checked"
    else:
        yield (
            "Calls checked",
            count(checks.get("calls", 0)),
            f"{count(flagged)} flagged, {count(inapplicable)} inapplicable",
        )
        looked = result.granularity
        yield (
            "Sums under random signs",
            f"blocks of {count(looked.block)}" if looked.block else "whole columns",
            f"errors that cancel in one go unseen with probability 2^-{looked.draws}; "
            "recomputation does not rest on it",
        )
    yield "Watched", percent(result.coverage), "of the multiply-adds"
    yield "Units flagged", count(result.flagged_units), share(result.flagged_units, whole)
    yield (
        "Units recomputed",
        count(result.recomputed_units),
        f"{share(result.recomputed_units, whole)}, policy {result.policy}",
    )
    label = "Wrong values" if result.comparable else "Differing values"
    yield label, "not known" if result.wrong_values is None else count(result.wrong_values), _moved(result)
    if result.reference_match is not None:
        match = "Same" if result.reference_match else "Different" if result.decisions else "None"
        yield "Healthy decisions", match, "what stands committed beside the trusted reference"
    if result.seconds:
        yield "Time", seconds(total_seconds(result)), "all phases"
    if result.peak_memory_mb is not None:
        yield "Peak memory", f"{count(round(result.peak_memory_mb))} MB", "at most; all processes, shared pages once"


def total_seconds(result: ScreeningResult) -> float:
    """The phase named total, or the sum of the phases."""
    return result.seconds.get("total", sum(result.seconds.values()))


def _moved(result: ScreeningResult) -> str:
    means = [] if not result.wrong_means else [f"{plural(result.wrong_means, 'candidate mean')} moved"]
    if result.largest_displacement is not None and result.largest_displacement > 0:
        means.append(f"by up to {small(result.largest_displacement)}")
    return ", ".join(means)


def _headline(result: ScreeningResult) -> str:
    kind = outcome(result)
    if kind == "earlier":
        when = clip(result.committed_earlier or "", 28)
        return f"Already committed earlier ({when}): nothing was committed a second time."
    if kind == "refused":
        return f"Refused by the gateway: {listed(explained(r) for r in result.story.refused)}. Nothing was committed."
    if kind == "nothing":
        return f"Nothing was committed: {_obstacle(result)}."
    parts = [_chosen(d.rule, len(d.chosen), result, first=i == 0) for i, d in enumerate(result.decisions or ())]
    return f"Committed: {', '.join(parts)}." if parts else "Committed."


def _chosen(rule: Rule, chosen: int, result: ScreeningResult, *, first: bool) -> str:
    of = f"{count(chosen)} of {plural(result.candidates, 'compound')}" if first else count(chosen)
    if rule.kind == "top_k":
        return f"{of} selected"
    return f"{of} sent to testing" if rule.kind == "threshold" else f"{of} nearest to {rule.threshold} taken"


def _obstacle(result: ScreeningResult) -> str:
    if result.certificate is not None:
        return "a decision was certified, but no action was handed in"
    if result.recomputed_units < units(result):
        part = f"{count(result.recomputed_units)} of {plural(units(result), 'unit')}"
        return f"only {part} were recomputed, so no decision could be certified"
    return "no decision could be certified"


def _findings(result: ScreeningResult) -> Iterator[str]:
    flagged, calls = result.checks.get("flagged", 0), result.checks.get("calls", 0)
    inapplicable = result.checks.get("inapplicable", 0)
    if not calls and result.assurance.rows_checked:
        rows = plural(result.assurance.rows_checked, "exported row")
        yield f"{rows} were bounded by secret probes; {_left_open(result)}"
    elif not calls:
        yield "No call was checked: that is not a pass."
    elif not flagged and not inapplicable:
        yield f"No fault was found: all {plural(calls, 'checked call')} passed."
    elif not flagged:
        yield f"No fault was found in the calls that could be judged; {plural(inapplicable, 'call')} could not."
    elif not result.wrong_values:
        yield f"{plural(flagged, 'call')} of {count(calls)} {'was' if flagged == 1 else 'were'} proven wrong."
    if result.wrong_values:
        wrong = (
            "had been computed wrongly" if result.comparable else "differ from the trusted executor's own arithmetic"
        )
        yield f"{plural(result.wrong_values, 'score')} {wrong}; {_otherwise(result)}"
    elif result.wrong_values == 0 and result.recomputed_units:
        yield f"None of the {plural(result.recomputed_units, 'recomputed score')} had been wrong."


def _left_open(result: ScreeningResult) -> str:
    if not result.recomputed_units:
        return "their bounds settle every decision."
    return f"what they left open took {plural(result.recomputed_units, 'recomputed unit')}."


def _otherwise(result: ScreeningResult) -> str:
    if result.decisions is None and not result.changes:
        return "what that would have changed is not certified."
    if result.decisions_before is None:
        return "the unchecked scores allowed no decision at all."
    changed = len({change.id for change in result.changes})
    if not changed:
        return "no compound would have been decided otherwise."
    return f"{plural(changed, 'compound')} would have been decided otherwise."


def _subject(result: ScreeningResult) -> Markup:
    device = f"on {clip(result.device, 60)}"
    parts = (
        clip(result.predictor, 60),
        f"{result.dtype} arithmetic {device}",
        f"request {clip(result.request_id, 60)}",
    )
    return join([[" \u00b7 " if i else None, el("span", part)] for i, part in enumerate(parts)])
