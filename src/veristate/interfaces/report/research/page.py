"""The page of a campaign: one file, nothing loaded, no script."""

from importlib.resources import files

from veristate.interfaces.report.markup import Markup, el, printable, void
from veristate.interfaces.report.research.curve import curve
from veristate.interfaces.report.research.facts import worker_class
from veristate.interfaces.report.research.tables import audit_part, results_table, tiles, turns_table
from veristate.interfaces.report.research.tree import tree
from veristate.interfaces.report.svg import cross, dot, triangle
from veristate.interfaces.report.words import clip, plural
from veristate.research import Standing, summary

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
.certified-line { stroke: var(--certified); fill: none; } .competitor-line { stroke: var(--competitor); fill: none; }
.unchecked-line { stroke: var(--before); fill: none; } .branch { stroke-width: 1.6; opacity: .55; }
.competitor { stroke: var(--competitor); stroke-width: 1.6; } .unchecked { fill: var(--before); }
.hollow { fill: var(--card); } circle.hollow { stroke: var(--muted); }
path.out { fill: none; stroke: var(--stop); stroke-width: 1.6; }
.rows { max-height: 560px; overflow: auto; }
@media (max-width: 600px) {
  .stacked thead { display: none; }
  .stacked tr { display: block; padding: 8px 0; border-bottom: 1px solid var(--line); }
  .stacked td { display: block; position: relative; min-height: 1.5em; border: 0; padding: 1px 0 1px 6.6em; }
  .stacked td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
  .stacked td::before { content: attr(data-label); position: absolute; left: 0; color: var(--muted); }
}
@media print { .rows { max-height: none; } }
"""
_PARTS = (
    ("score", "Score"),
    ("states", "States"),
    ("turns", "Re-anchoring"),
    ("results", "Results"),
    ("audit", "Audit"),
)
_WORDS = (
    ("result", "what a worker handed in, judged on a snapshot by an evaluator that it can\u2019t reach"),
    ("state", "the whole workspace as it was when a result was judged; any of them can be restored"),
    ("segment", "a stretch of work that ends when the worker stops, at its limit, or with the budget"),
    ("re-anchoring", "what follows a segment: from which state to go on, and whether to extend or redirect"),
    ("arithmetic", "whether the evaluator\u2019s own products were checked: PASS, FLAG, or UNCHECKED"),
    ("audit", "the best candidates read again from their snapshots and judged by an exact check"),
)


def render_campaign(standing: Standing) -> str:
    """The whole page as HTML text, to be written as UTF-8. The same standing gives the same page."""
    style = Markup(files("veristate.interfaces.report").joinpath("style.css").read_text(encoding="utf-8") + _STYLE)
    name = clip(printable(standing.opened["task"]), 60)
    head = el(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        el("title", f"veristate: {name}"),
        el("style", style),
    )
    body = el(
        "body",
        _banner(standing),
        el("nav", [el("a", text, href=f"#{part}") for part, text in _PARTS], aria_label="Parts of this page"),
        el(
            "main",
            el("section", el("h2", "Key figures"), tiles(standing), id="figures"),
            el("section", el("h2", "Score over time"), _key(standing), curve(standing), id="score"),
            el("section", el("h2", "States"), _states_lead(), tree(standing), id="states"),
            el("section", el("h2", "Re-anchoring"), turns_table(standing), id="turns"),
            el("section", el("h2", "Results"), results_table(standing), id="results"),
            el("section", el("h2", "Audit"), audit_part(standing), _warnings(standing), id="audit"),
        ),
        el("footer", el("h2", "Words on this page"), _words()),
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def _banner(standing: Standing) -> Markup:
    said = summary(standing)
    value = said["audited"] or said["best"]
    checked = "exact" if said["audited"] else "not audited"
    headline = f"{said['metric']} = {value} ({checked})" if value else "No result counts"
    state = f"finished: {clip(said['finished'], 160)}" if said["finished"] else "not finished"
    kind = "committed" if said["audited"] else "earlier"
    many = f"{plural(len(standing.workers), 'worker')}, {plural(said['results'], 'result')}"
    words = el(
        "div",
        el("p", state, class_="outcome"),
        el("h1", headline),
        el("p", f"{said['task']}: {said['direction']} {said['metric']}; {many}.", class_="findings"),
        el("p", f"campaign {said['campaign']}, opened {standing.opened['time']}", class_="subject"),
    )
    return el("div", el("div", words, class_="says"), class_=f"banner {kind}")


def _key(standing: Standing) -> Markup:
    def sign(mark: Markup, text: str) -> Markup:
        return el("li", el("svg", mark, viewBox="0 0 16 16", aria_hidden="true"), f" {text}")

    workers = [
        sign(dot(8, 8, 3.4, worker_class(standing, name)), f"{name}: a result that counts") for name in standing.workers
    ]
    return el(
        "ul",
        workers,
        sign(cross(8, 8, 3.4, "out"), "does not count"),
        sign(triangle(8, 8, 1, "certified hollow"), "goes on from the live state"),
        sign(triangle(8, 8, -1, "certified hollow"), "restores an archived state"),
        sign(triangle(8, 8, -1, "certified"), "filled: redirects"),
        class_="key",
    )


def _states_lead() -> Markup:
    return el(
        "p",
        "Each mark is a state, in the order in which they were archived; a new row begins where an archived state was "
        "restored. The best is named.",
        class_="lead",
    )


def _warnings(standing: Standing) -> Markup | None:
    if not standing.warnings:
        return None
    return el("div", el("h3", "Warnings"), el("ul", [el("li", text) for text in standing.warnings]))


def _words() -> Markup:
    return el("dl", [[el("dt", word), el("dd", meaning)] for word, meaning in _WORDS], class_="facts")
