"""What the agent did, what the certificate says, what the journal holds, and how anyone can check it."""

import re
import shlex
from collections.abc import Iterator

from veristate.interfaces.report.assurance import CERTIFIES, CONTRACTS
from veristate.interfaces.report.markup import Child, Markup, el, join
from veristate.interfaces.report.verdict import explained
from veristate.interfaces.report.words import clip, count, plural
from veristate.screening import JournalLine, ScreeningResult

ENTRIES = 120  # of the journal, its last ones
_RECOVERIES = {
    "hold": "hold: it sees nothing before it is certified",
    "replace": "replace: it reads at once, and the file alone is corrected",
    "restore": "restore: it reads at once, and goes back to before that read when a value is replaced",
}


def story_section(result: ScreeningResult) -> Markup:
    """The agent's steps and what they came to."""
    story = result.story
    refused = [el("li", el("code", clip(reason, 60)), f": {explained(reason)}") for reason in story.refused]
    gateway: Child = "committed" if result.committed else "nothing committed"
    if refused:
        gateway = join("committed, after a refusal:" if result.committed else "refused:", el("ul", refused))
    facts = (
        ("Agent", clip(story.agent, 60)),
        ("Recovery", _RECOVERIES.get(story.recovery, clip(story.recovery, 60))),
        (
            "What it read first",
            "scores that were not verified yet" if story.read_unverified else "certified scores, or none",
        ),
        ("Taken back", "yes, to the state before that read" if story.restored else "no"),
        ("Gateway", gateway),
    )
    steps = (
        el("ol", [el("li", step) for step in story.steps], class_="story")
        if story.steps
        else el("p", "It took no step.")
    )
    return el("section", el("h2", "The agent\u2019s story"), el("div", steps, _facts(facts), class_="pair"), id="story")


def evidence_section(result: ScreeningResult) -> Markup:
    """The certificate, the journal, and how to check them."""
    title = el("h2", "Certificate, journal, and how to check")
    return el("section", title, _certificate(result), _check(result), _journal(result), id="evidence")


def _facts(facts: tuple[tuple[str, Child], ...]) -> Markup:
    return el("dl", [[el("dt", name), el("dd", value)] for name, value in facts], class_="facts")


def copyable(digest: str) -> Markup:
    """A digest that shows its beginning and is selected, and copied, whole."""
    return el("code", digest, title=digest, class_="digest")


def _certificate(result: ScreeningResult) -> Markup:
    certificate = result.certificate
    if certificate is None:
        return join(el("h3", "Certificate"), el("p", "There is no certificate: nothing on this page is vouched for."))
    evidence = [
        [el("dt", clip(name, 60)), el("dd", _evidence(value))] for name, value in sorted(certificate.evidence.items())
    ]
    delta = "0: it rests on no chance" if certificate.delta == "0" else clip(certificate.delta, 40)
    facts = (
        ("Digest", copyable(certificate.digest)),
        ("Contract", copyable(certificate.contract)),
        ("Kind", f"{certificate.contract_kind}: {CONTRACTS.get(certificate.contract_kind, 'unknown')}"),
        ("Certifies", CERTIFIES.get(certificate.certifies, clip(certificate.certifies, 60))),
        ("Chance of failure (delta)", delta),
        ("Certified table", copyable(certificate.table)),
        ("Evidence", el("dl", evidence, class_="facts inner") if evidence else "none named"),
    )
    return join(el("h3", "Certificate"), _facts(facts))


def _evidence(value: str) -> Markup:
    return copyable(value) if re.fullmatch("[0-9a-f]{64}", value) else el("span", clip(value, 80))


def _check(result: ScreeningResult) -> Markup:
    # Intervals depend on the probes that were drawn: their table is another one in every run.
    exact = result.assurance.contract_kind == "C1"
    table = result.certificate.table if result.certificate and not exact else None
    same: Child = "" if table is None else (" and the certified table the digest ", copyable(table))
    return join(
        el("h3", "How to check it"),
        el(
            "ol",
            el(
                "li",
                "Run it again with the same options in a store of its own, on the same kind of machine. The line holds "
                "what the result tells of them; where you gave your own, add the table, the checkpoints, the batch "
                "size, the temperature and the budget.",
                el("pre", el("code", command(result))),
                "The decisions must be the same",
                same,
                ".",
            ),
            el(
                "li",
                "Have every byte of the run's own store read again; the journal's head must be this one, for it binds "
                "every entry before it. ",
                copyable(result.journal_head),
                el("pre", el("code", "veristate fsck --store FOLDER")),
            ),
        ),
    )


def command(result: ScreeningResult) -> str:
    """The command that asks for the same, as far as the result tells; a shell can read it whatever the names hold."""
    words = list(_options(result))
    return "veristate screen " + " ".join(shlex.quote(word) for word in words)


def _options(result: ScreeningResult) -> Iterator[str]:
    if re.fullmatch(r"[\w.]+:[\w.]+", result.predictor):
        yield from ("--predictor", result.predictor)
    for rule in result.rules:
        names = {"top_k": "--top", "nearest": "--nearest"}
        if rule.kind in names:
            yield from (names[rule.kind], str(rule.count))
        elif rule.threshold is not None:
            yield from ("--threshold", rule.threshold)
    yield from ("--dtype", result.dtype, "--device", result.device, "--trusted-device", result.trusted_device)
    contracts = {"C1": "exact", "C3": "rounded", "C4": "integer"}
    if result.assurance.contract_kind in contracts:
        yield from ("--contract", contracts[result.assurance.contract_kind])
        if result.assurance.probe_draws:
            yield from ("--delta", result.assurance.delta)
    yield from ("--strategy", result.assurance.strategy)
    yield from ("--policy", result.policy, "--block", str(result.granularity.block or 0))
    yield from ("--draws", str(result.granularity.draws))
    if result.epsilon is not None:
        yield from ("--epsilon", repr(result.epsilon))
    yield from ("--agent", result.agent, "--recovery", result.story.recovery)
    if result.injected is not None:
        found = re.fullmatch(r"(.+) \(seed (\d+), simulated\)", result.injected, re.DOTALL)
        yield from ("--inject", found[1], "--seed", found[2]) if found else ("--inject", result.injected)
    if result.reference_match is not None:
        yield "--compare"
    yield from ("--store", "check/store", "--out", "check/out")


def _journal(result: ScreeningResult) -> Markup:
    shown = result.journal[-ENTRIES:]
    left_out = len(result.journal) - len(shown)
    said = f"{plural(len(result.journal), 'entry', 'entries')}"
    note = (
        f"{said}; the last {count(len(shown))} are shown."
        if left_out
        else f"{said}. A click on a digest selects all of it."
    )
    head = el("tr", [el("th", name, scope="col") for name in ("No.", "Time", "What", "Digest")])
    rows = [_line(entry) for entry in shown]
    table = el("div", el("table", el("thead", head), el("tbody", rows), class_="journal"), class_="scroll")
    return join(el("h3", "Journal"), el("p", note), table if rows else None)


def _line(entry: JournalLine) -> Markup:
    return el(
        "tr",
        el("td", str(entry.seq), class_="number"),
        el("td", clip(entry.time, 40)),
        el("td", el("code", clip(entry.kind, 60))),
        el("td", copyable(entry.digest)),
    )
