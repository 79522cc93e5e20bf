"""The command: its output, its files and its exit codes."""

import csv
import json
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from veristate.interfaces.cli import main
from veristate.ledger import Ledger
from veristate.screening import ScreeningOptions, run_screening

TINY = Path(__file__).parents[1] / "screening"
sys.path.insert(0, str(TINY))

from forked import forked_processes  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def small_processes():
    """The trusted process finds the test's predictor by the environment, and is forked."""
    with forked_processes():
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """70 candidates for the small predictor of the screening tests."""
    rng = random.Random(11)
    lines = [f"c{i:02},compound {i}," + " ".join(f"{rng.gauss(0, 1):.3f}" for _ in range(3)) for i in range(70)]
    path = tmp_path_factory.mktemp("table") / "candidates.csv"
    path.write_text("id,name,smiles\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def veristate(monkeypatch, capsys, tmp_path):
    """A function that runs the command here: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["veristate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


@pytest.fixture(scope="module")
def screened(table, tmp_path_factory):
    """The store of a run under a simulated fault."""
    home = tmp_path_factory.mktemp("screened") / "home"
    options = ScreeningOptions(table=table, predictor=("tiny:make",), inject="case2", store=home)
    assert run_screening(options).committed
    return home


@pytest.fixture
def store(screened, tmp_path):
    """That store, as this test's own."""
    return shutil.copytree(screened, tmp_path / ".veristate")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--top", "0"], 2, "--top 0"),
        (["--top", "71"], 2, "--top 71"),
        (["--threshold", "2"], 2, "--threshold 2"),
        (["--inject", "gamma-rays"], 2, "--inject gamma-rays: known are case1"),
        (["--inject", "replay:none.jsonl"], 2, "none.jsonl"),
        (["--agent", "nobody"], 2, "nobody"),
        (["--predictor", "tiny:absent"], 2, "tiny:absent"),
        (["--dtype", "fp8"], 2, "fp8"),
        (["--no-such-option"], 2, "--no-such-option"),
        (["--device", "cuda"], 6, "cuda"),
        (["--store", "/proc/none"], 6, "/proc/none"),
        (["--out", "/proc/none"], 6, "/proc/none"),
    ],
)
def test_bad_input_names_the_option_and_writes_nothing(veristate, table, tmp_path, arguments, code, message):
    """One line on stderr, the exit code of its kind, no result on stdout."""
    if "--predictor" not in arguments:
        arguments = ["--predictor", "tiny:make", *arguments]
    before = sorted(tmp_path.iterdir())
    found, out, err = veristate("screen", table, *arguments)
    assert found == code
    assert message in err
    assert "COMMITTED" not in out
    # A device or a factory is tried when the store is open already; nothing is journaled then.
    made = [path for path in sorted(tmp_path.iterdir()) if path not in before]
    assert made in ([], [tmp_path / ".veristate"])
    if made:
        with Ledger.open(tmp_path / ".veristate" / "ledger.sqlite") as ledger:
            assert not list(ledger.entries())


def test_json_is_one_object_with_the_committed_decision(veristate, table):
    """Nothing else is on stdout, and the lists are those of a plain sort over the written scores."""
    code, out, _ = veristate("screen", table, "--predictor", "tiny:make", "--json", "--out", "o", "--inject", "case2")
    found = json.loads(out)
    assert code == 0
    assert found["committed"] is True
    with Path("o/triage.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    ranked = sorted(rows, key=lambda row: (-float(row["score"]), row["id"]))
    assert found["selected"] == sorted(row["id"] for row in ranked[:14])
    assert found["tested"] == sorted(row["id"] for row in rows if float(row["score"]) >= 0.5)
    assert {row["id"] for row in rows if row["decision"] == "test"} == set(found["tested"])
    with Path("o/selected.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [row["id"] for row in ranked[:14]]
    assert json.loads(Path("o/certificate.json").read_text())["digest"] == found["certificate"]


def test_a_simulated_fault_is_said_first_and_the_story_is_told(veristate, table):
    """The first line says that the fault is simulated; the rest what it would have changed and what was committed."""
    options = ["--inject", "case2", "--seed", "1", "--compare", "--recovery", "restore", "--report", "r/report.html"]
    code, out, _ = veristate("screen", table, "--predictor", "tiny:make", *options)
    assert code == 0
    assert out.startswith("SIMULATED FAULT case2, seed 1")
    assert "values were wrong" in out
    assert "COMMITTED for request-" in out
    assert "Wrote r/report.html" in out
    assert Path("r/report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(("fault", "code"), [(["--inject", "case2"], 3), ([], 5)])
def test_nothing_certified_is_exit_3_with_a_proven_fault_and_5_without(veristate, table, fault, code):
    """A budget below the work commits nothing; no output file is written."""
    options = ["--budget", "1", "--out", "o", *fault]
    found, out, _ = veristate("screen", table, "--predictor", "tiny:make", *options)
    assert found == code
    assert "NOTHING COMMITTED" in out
    assert list(Path("o").iterdir()) == []


def test_a_refused_action_is_exit_4_and_asking_again_is_exit_0(veristate, table):
    """The gateway's reasons are shown; a request that was committed before is not an error."""
    code, out, _ = veristate("screen", table, "--predictor", "tiny:make", "--agent", "tiny:greedy")
    assert code == 4
    assert "NOT COMMITTED: the gateway refused the agent's action (decision deviates)" in out
    assert veristate("screen", table, "--predictor", "tiny:make")[0] == 0
    code, out, _ = veristate("screen", table, "--predictor", "tiny:make")
    assert code == 0
    assert "ALREADY COMMITTED" in out


@pytest.mark.usefixtures("store")
def test_fsck_tells_a_whole_store_from_a_changed_one(veristate):
    """Exit 0, then, with one byte of the journal changed, exit 3 and where."""
    assert veristate("fsck")[0] == 0
    with sqlite3.connect(".veristate/ledger.sqlite") as database:
        change = "update journal set body = cast(replace(cast(body as text), 'full', 'fuli') as blob) where seq = 2"
        assert database.execute(change).rowcount == 1
    code, out, _ = veristate("fsck")
    assert code == 3
    assert "entry 2" in out


def test_fsck_misses_blobs_that_the_journal_names(veristate, store):
    """Exit 3 for each lost blob of a finished run, and for a lost store."""
    blobs = [path for path in (store / "objects" / "blobs").rglob("*") if path.is_file()]
    unnoticed = []
    for path in blobs:
        path.rename("aside")
        code, out, _ = veristate("fsck")
        if code != 3:
            unnoticed.append((path, out))
        Path("aside").rename(path)
    assert not unnoticed
    assert veristate("fsck")[0] == 0
    (store / "objects").rename("elsewhere")
    assert veristate("fsck")[0] == 3


def test_fsck_does_not_mend_an_emptied_ledger(veristate, store):
    """A ledger cut to nothing beside a store with blobs is a finding, not an empty store."""
    for path in store.glob("ledger.sqlite*"):
        path.write_bytes(b"") if path.name == "ledger.sqlite" else path.unlink()
    code, out, _ = veristate("fsck")
    assert code == 3
    assert "entries were lost" in out


def test_a_full_disk_is_said_and_the_same_command_goes_on(veristate, table, tmp_path):
    """Exit 6 naming the place, nothing committed, nothing damaged; with room made the same command commits once."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(small)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        command = ["screen", table, "--predictor", "tiny:make", "--inject", "case2", "--store", small / "home"]
        code, out, err = veristate(*command)
        assert code == 6
        assert str(small) in err
        assert "COMMITTED" not in out
        subprocess.run(["mount", "-o", "remount,size=50m", str(small)], check=True)
        assert veristate(*command)[0] == 0
        assert veristate("fsck", "--store", small / "home")[0] == 0
        with Ledger.open(small / "home" / "ledger.sqlite") as ledger:
            assert sum(entry.kind == "action.committed" for entry in ledger.entries()) == 1
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_recorded_fault_is_replayed(veristate, table):
    """What a simulated fault did is written beside the decision, and gives the same wrong values again."""
    one = ["screen", table, "--predictor", "tiny:make", "--json", "--compare", "--inject"]
    first = json.loads(veristate(*one, "case2", "--seed", "2", "--out", "o", "--store", "s1")[1])
    again = json.loads(veristate(*one, "replay:o/simulated-fault.jsonl", "--store", "s2")[1])
    assert first["wrong_values"] == again["wrong_values"] > 0
    assert first["injected_calls"] == again["injected_calls"]


def test_a_store_that_is_none_is_a_usage_error(veristate):
    """By the option's name."""
    assert veristate("fsck", "--store", "elsewhere")[0] == 2


BARE = """
import sys
for name in ("numpy", "torch", "cloudpickle", "chemprop", "rdkit", "pandas"):
    sys.modules[name] = None
from veristate.interfaces.cli import main
main()
"""


def test_the_base_install_reads_records_and_says_what_screening_needs(screened):
    """Without numpy and torch: help and fsck work, and screen names the extra to install."""
    bare = [sys.executable, "-c", BARE]
    found = subprocess.run([*bare, "fsck", "--store", str(screened)], check=False, capture_output=True)
    assert found.returncode == 0
    assert subprocess.run([*bare, "screen", "--help"], check=False, capture_output=True).returncode == 0
    done = subprocess.run([*bare, "screen"], check=False, capture_output=True, text=True)
    assert done.returncode == 6
    assert "pip install 'veristate[compute]'" in done.stderr


def test_calibrate_sets_the_epsilon_that_r1m_uses(veristate, table):
    """It is kept in the store for this very contract; another contract has none."""
    code, out, err = veristate("calibrate", table, "--predictor", "tiny:make", "--sources", "2", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["epsilon"] == 2 * max(source["residual"] for source in found["sources"])
    assert len(found["sources"]) == 4
    code, out, err = veristate("screen", table, "--predictor", "tiny:make", "--policy", "r1m", "--json")
    assert code == 0, err
    code, _, err = veristate("screen", table, "--predictor", "tiny:make", "--policy", "r1m", "--batch", "32")
    assert code == 2
    assert "veristate calibrate" in err
