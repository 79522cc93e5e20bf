"""The page: one file, nothing loaded, no script."""

from importlib.resources import files

from veristate.interfaces.report.assurance import assurance_section
from veristate.interfaces.report.changes import changes_section
from veristate.interfaces.report.cost import cost_section
from veristate.interfaces.report.flags import flags_section
from veristate.interfaces.report.markup import Markup, el, join, printable, void
from veristate.interfaces.report.records import evidence_section, story_section
from veristate.interfaces.report.scores import scores_section
from veristate.interfaces.report.verdict import banner, tiles, verdict_text
from veristate.interfaces.report.words import SHOWN, clip, plural
from veristate.screening import ScreeningResult

# Should a name get past the escaping, the browser still runs and loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PARTS = (
    ("assurance", "Certified"),
    ("changes", "Who moved"),
    ("scores", "Scores"),
    ("flags", "Flags"),
    ("cost", "Cost"),
    ("story", "Agent"),
    ("evidence", "Evidence"),
)
_WORDS = (
    ("unit", "one candidate\u2019s score from one member of the ensemble: the smallest thing that is recomputed"),
    ("call", "one matrix multiplication of one layer on one batch"),
    ("flag", "a checksum that is off by more than honest rounding can explain: the arithmetic was wrong"),
    ("inapplicable", "a check that could not judge; it counts as no pass"),
    ("certified", "settled by recomputed bits or proven intervals, so that the decision can only come out one way"),
    ("boundary", "the score at which a decision turns"),
)


def render_report(result: ScreeningResult) -> str:
    """The whole page as HTML text, to be written as UTF-8. The same result gives the same page."""
    style = Markup(files("veristate.interfaces.report").joinpath("style.css").read_text(encoding="utf-8"))
    head = el(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        void("meta", name="description", content=verdict_text(result)),
        el("title", _title(result)),
        el("style", style),
    )
    body = el(
        "body",
        banner(result),
        el("nav", [el("a", name, href=f"#{anchor}") for anchor, name in _PARTS], aria_label="Parts of this page"),
        el(
            "main",
            el("section", el("h2", "Key figures"), tiles(result), _excluded(result), id="figures"),
            assurance_section(result),
            changes_section(result),
            scores_section(result),
            flags_section(result),
            cost_section(result),
            story_section(result),
            evidence_section(result),
        ),
        _footer(result),
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def _title(result: ScreeningResult) -> str:
    marked = " (simulated fault)" if result.injected is not None else ""
    return f"veristate: {clip(printable(result.request_id), 60)}{marked}"


def _excluded(result: ScreeningResult) -> Markup | None:
    if not result.excluded:
        return None
    shown = [clip(each, 80) for each in result.excluded[:SHOWN]]
    more = len(result.excluded) - len(shown)
    rest = el("li", f"and {plural(more, 'more')}".removesuffix("s")) if more else None
    title = el("summary", f"{plural(len(result.excluded), 'row')} of the table left out")
    return el("details", title, el("ul", [el("li", each) for each in shown], rest))


def _footer(result: ScreeningResult) -> Markup:
    said = "The fault on this page was simulated. " if result.injected is not None else ""
    words = el("dl", [[el("dt", word), el("dd", meaning)] for word, meaning in _WORDS], class_="facts")
    closing = (
        f"{said}The predictor ran in {result.dtype}. This page loads and runs nothing: it can be kept and printed."
    )
    return el("footer", join(el("h2", "Words on this page"), words), el("p", closing))
