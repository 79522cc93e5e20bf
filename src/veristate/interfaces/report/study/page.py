"""The page of a study: one file, nothing loaded, no script."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

from veristate.audit.statistics import Standing
from veristate.audit.study import Plan, StudyCapture, StudyResults, StudySpec
from veristate.interfaces.report.markup import Markup, el, join, void
from veristate.interfaces.report.study.groups import groups_section
from veristate.interfaces.report.study.sections import (
    attempts_section,
    captures_section,
    difference_section,
    recovery_section,
)
from veristate.interfaces.report.study.wording import headline, question, restored_words
from veristate.interfaces.report.words import clip, count, share

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PARTS = (
    ("difference", "What differed"),
    ("recovery", "What undoes it"),
    ("groups", "Paths"),
    ("captures", "Captures"),
    ("attempts", "Attempts"),
)
_WORDS = (
    ("capture", "saved values at one place of the computation: of a reference run, and of a candidate run"),
    ("group", "one capture, task and repeat, run under every condition"),
    ("H1, H2", "the reference, and the same again: how they differ is the agent\u2019s own variation"),
    ("C", "the candidate: the values under suspicion in place of the reference\u2019s"),
    ("full, selected", "the candidate with all, or some, of the reference\u2019s values put back"),
    ("transplant", "the reference with some of the candidate\u2019s values"),
    ("zero", "the reference plus a difference of zero: it must change nothing"),
    ("exposed", "the attempt looked at the values that were replaced"),
)
_SIGNS = {True: "M7 13l4 4 8-9", False: "M8 8l10 10M18 8L8 18"}


def render_study(
    spec: StudySpec,
    captures: Sequence[StudyCapture],
    results: StudyResults,
    plan: Plan,
    *,
    titles: Mapping[str, str],
    complete: bool,
) -> str:
    """The whole page as HTML text, to be written as UTF-8. The same results give the same page."""
    package = files("veristate.interfaces.report")
    style = package.joinpath("style.css").read_text(encoding="utf-8")
    more = files("veristate.interfaces.report.study").joinpath("study.css").read_text(encoding="utf-8")
    head = el(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        el("title", f"veristate audit: {clip(spec.name, 60)}"),
        el("style", Markup(style + more)),
    )
    body = el(
        "body",
        _banner(spec, captures, results, complete=complete),
        el("nav", [el("a", name, href=f"#{anchor}") for anchor, name in _PARTS], aria_label="Parts of this page"),
        el(
            "main",
            el("section", el("h2", "Key figures"), _tiles(spec, results, plan), id="figures"),
            difference_section(results.series),
            recovery_section(results.series),
            groups_section(results.series, titles),
            captures_section(captures),
            attempts_section(results.series),
        ),
        _footer(),
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def _banner(spec: StudySpec, captures: Sequence[StudyCapture], results: StudyResults, *, complete: bool) -> Markup:
    good = complete and not results.failures
    sign = el(
        "svg",
        el("circle", cx=13, cy=13, r=12, class_="disc"),
        el("path", d=_SIGNS[good], class_="sign"),
        viewBox="0 0 26 26",
        aria_hidden="true",
    )
    restored = restored_words(results)
    groups = sum(len(one.groups) for one in results.series)
    texts = el(
        "div",
        el(
            "p",
            "Paired audit" if good else "Failed study" if results.failures and complete else "Unfinished",
            class_="outcome",
        ),
        el("h1", headline(results, complete=complete)),
        el("p", restored, class_="findings") if restored else None,
        el("p", question(spec, groups), class_="subject"),
    )
    failed = [el("p", f"{reason}.", class_="failed") for reason in results.failures if complete]
    kind = "committed" if good else "refused"
    return el("header", _simulated(captures), failed, el("div", sign, texts, class_="says"), class_=f"banner {kind}")


def _simulated(captures: Sequence[StudyCapture]) -> Markup:
    made = [one.name for one in captures if one.simulated]
    if not made:
        return el("p", "No fault was simulated in this study.", class_="plainly")
    said = " software put the faults into these captures. Nothing on this page accuses a device."
    return el(
        "p",
        el("strong", "Simulated faults"),
        ": ",
        el("code", clip(", ".join(made), 120)),
        ":",
        said,
        class_="simulated",
    )


def _tiles(spec: StudySpec, results: StudyResults, plan: Plan) -> Markup:
    attempts = [attempt for one in results.series for attempt in one.attempts]
    counted = sum(attempt.standing is Standing.COUNTED for attempt in attempts)
    joint, groups = sum(one.joint for one in results.series), sum(len(one.groups) for one in results.series)
    confirmed = sum(one.role == "confirmation" for one in spec.captures)
    figures = (
        ("Complete, exposed groups", f"{count(joint)} of {count(groups)}", share(joint, groups)),
        ("Attempts counted", f"{count(counted)} of {count(len(attempts))}", share(counted, len(attempts))),
        ("Executions planned", count(len(plan.executions)), f"{count(plan.finished)} finished before this run"),
        ("Captures", count(confirmed), f"{count(len(spec.captures) - confirmed)} more for development"),
        ("Arms", count(len(spec.arms)), ", ".join(clip(arm.name, 20) for arm in spec.arms[:4])),
        ("Task", spec.task, clip(spec.site, 30) or "at its last product"),
    )
    tiles = [
        el("div", el("dt", name), el("dd", clip(value, 40), class_="value"), el("dd", note, class_="note"))
        for name, value, note in figures
    ]
    return el("dl", tiles, class_="tiles")


def _footer() -> Markup:
    words = el("dl", [[el("dt", word), el("dd", meaning)] for word, meaning in _WORDS], class_="facts")
    closing = "This page loads and runs nothing: it can be kept and printed."
    return el("footer", join(el("h2", "Words on this page"), words), el("p", closing))
