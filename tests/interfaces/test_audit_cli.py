"""`veristate audit`: a study is run, gone on with and shown; usage errors, exit codes and the page."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import veristate.audit.study.opening as opening
from veristate.audit.study import read_study
from veristate.audit.tasks.judges import best_columns
from veristate.audit.tasks.scifact_text import Abstract, Claim, SciFactText
from veristate.audit.tasks.task import Description, LayeredTask, Product, TaskOutcome
from veristate.interfaces.cli import main

ROOT = Path(__file__).parents[2]
STUDIES = sorted([*ROOT.glob("examples/*.toml"), *ROOT.glob("benchmarks/studies/*.toml")])
HOSTILE = "</td></table><script>alert('x')</script>\u202eevil"
STUDY = """
name = "tiny"
task = "scifact"
least_groups = 2
[agent]
kind = "controller"
[statistics]
resamples = 100
[[captures]]
name = "bf16"
kind = "bf16"
[[captures]]
name = "flips"
kind = "fault"
fault = "case2"
seed = 3
state = 3
rows = 6
"""


def tiny_task():
    """Four claims against fourteen documents, so close that BF16 changes lists."""
    rng = np.random.default_rng(5)
    base = rng.standard_normal(8)
    X = (rng.standard_normal((4, 8)) * 0.2 + base).astype(np.float32)
    W = (rng.standard_normal((14, 8)) * 0.004 + base).astype(np.float32)
    about = Description(name="tiny", data="", size=(), split=(), computation="", endpoint="", aggregate="", differs="")
    return LayeredTask(
        about=about,
        X=X,
        layers=(Product(site="scores", W=W),),
        judge=lambda scores: TaskOutcome(lists=best_columns(scores, 10), labels=None, metrics=()),
    )


def tiny_text():
    """Documents whose titles would break a page that does not escape them."""
    abstracts = tuple(
        Abstract(id=f"d{n:02}", title=f"{HOSTILE} {n}", sentences=(f"Rays of kind {n}.", "Not so.")) for n in range(14)
    )
    claims = tuple(Claim(id=str(n), text="rays", evidence=(), relevant=frozenset({"d00"})) for n in range(4))
    return SciFactText(abstracts=abstracts, claims=claims)


@pytest.fixture
def audit(monkeypatch, capsys, tmp_path):
    """A function that runs `veristate audit` on the tiny task: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(opening, "load_task", lambda name, data: tiny_task())
    monkeypatch.setattr(opening, "read_scifact", lambda data: tiny_text())

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["veristate", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


@pytest.fixture
def study(tmp_path):
    """The file of a study."""
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY)
    return path


def test_a_study_is_run_and_gone_on_with(audit, study):
    """Half of it exits with 5 and says what is left; the rest with 0, beside the study, nothing twice."""
    code, out, err = audit(study, "--limit", 10)
    assert code == 5
    assert "NOT COMPLETE: 46 of 56 executions are left" in out
    assert "SIMULATED FAULTS in flips: no faulty accelerator is used." in err
    assert "56 executions; 56 to run, kept one by one in" in err
    assert "at most 16 calls, 6 reads and 384 tokens a reply" in err
    code, out, err = audit("run", study)
    assert code == 0
    assert "56 executions, 10 of them finished before; 46 to run" in err
    assert "main, chosen groups: 8 of 8 complete and exposed in H1, H2, C, full" in out
    folder = study.with_name("tiny.run")
    assert len((folder / "attempts.lines").read_text().splitlines()) == 56
    assert (folder / "study.toml").read_text() == STUDY
    assert {path.name for path in (folder / "tables").iterdir()} >= {"attempts.csv", "discordance.csv", "captures.csv"}


def test_json_is_one_object(audit, study, tmp_path):
    """Stdout holds the results alone, the same that the folder keeps."""
    code, out, _ = audit(study, "--run", tmp_path / "here", "--json", "--report", tmp_path / "page.html")
    told = json.loads(out)
    assert code == 0
    assert str(tmp_path / "page.html") in told.pop("written")
    assert told == json.loads((tmp_path / "here" / "results.json").read_text())
    assert (told["complete"], told["failed"]) == (True, False)
    row = next(r for r in told["tables"]["discordance"] if r["endpoint"] == "retrieved membership")
    assert (row["groups_scheduled"], row["groups"], row["restored_differs"]) == (8, 8, 0)


def test_a_failed_study_says_so(audit, study):
    """Too few groups: exit 1, on the command line and on the page."""
    study.write_text(STUDY.replace("least_groups = 2", "least_groups = 99"))
    code, out, _ = audit(study)
    assert code == 1
    assert "FAILED STUDY: arm main: 8 jointly complete, exposed groups, fewer than the 99 asked for." in out
    assert "A failed study" in (study.with_name("tiny.run") / "report.html").read_text()


def test_one_group_is_shown(audit, study):
    """The three paths beside each other, with marks; without a name the groups' names; as JSON too."""
    audit(study)
    run = study.with_name("tiny.run")
    code, out, _ = audit("show", run)
    names = out.split()
    assert (code, len(names)) == (0, 8)
    shown = {name: audit("show", run, name)[1] for name in names}
    assert all("reference" in text and "restored" in text for text in shown.values())
    assert any(re.search(r"^  retrieved +d\d\d +\S* *d\d\d", text, re.MULTILINE) for text in shown.values())
    changed = [name for name, text in shown.items() if "+ d" in text or "~ d" in text]
    assert changed
    code, out, _ = audit("show", run, changed[0], "--json")
    told = json.loads(out)
    assert told["group"] == changed[0]
    assert told["attempts"]["full"]["path"] == told["attempts"]["H1"]["path"] != told["attempts"]["C"]["path"]
    assert any(row["candidate"]["item"] != row["reference"] for row in told["rows"])


def test_what_can_not_be_used_is_usage(audit, study, tmp_path):
    """A wrong key, a missing file and an unknown group exit with 2; a folder without a run with 6; tampering with 3."""
    study.write_text(STUDY + "coleur = 1\n")
    code, _, err = audit(study)
    assert (code, "unknown key" in err) == (2, True)
    assert audit(tmp_path / "absent.toml")[0] == 2
    assert audit("show", tmp_path)[0] == 6
    study.write_text(STUDY)
    audit(study, "--limit", 2)
    run = study.with_name("tiny.run")
    code, _, err = audit("show", run, "main/bf16/77/0")
    assert (code, "no group 'main/bf16/77/0'" in err) == (2, True)
    path = run / "attempts.lines"
    path.write_bytes(path.read_bytes().replace(b"completed", b"comPleted"))
    assert audit(study)[0] == 3


class Balanced(HTMLParser):
    """Whether every tag that is opened is closed, in order."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        """Remembers the tag."""
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in ("meta", "wbr", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        """It must be the last that was opened."""
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_escapes(audit, study):
    """Balanced, without script or anything to load; titles are escaped; every link of the page leads somewhere."""
    audit(study)
    text = (study.with_name("tiny.run") / "report.html").read_text(encoding="utf-8")
    page = Balanced()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.tags
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(?:src|href)=\"(?!#)", text)
    assert set(re.findall(r'href="#(\w+)"', text)) <= set(page.ids)
    assert "Simulated faults" in text
    assert "flips" in text
    first = audit(study)
    assert first[0] == 0
    again = (study.with_name("tiny.run") / "report.html").read_text(encoding="utf-8")
    assert again.replace("56 finished before", "0 finished before") == text


def test_help_needs_no_study(audit):
    """The command says what it takes."""
    code, out, _ = audit("--help")
    assert code == 0
    assert "show" in out


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_every_study_in_the_repository_is_read(path):
    """The example and the benchmark's studies have no unknown key and no wrong value."""
    assert read_study(path).captures
