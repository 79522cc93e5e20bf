"""The command `veristate probe`: its table, its records and histories, and its exit codes."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch

from veristate.interfaces.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "devices"))

from probe_faults import Kernels, add, long_call, refuse

# Small products, multiplied in software on a processor.
QUICK = ("--format", "fp8-e5m2")


@pytest.fixture
def veristate(monkeypatch, capsys, tmp_path):
    """A function that runs the command here: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["veristate", "probe", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


def test_a_healthy_device_passes_with_exit_0(veristate, tmp_path):
    """A row for each format and size, the device's name, no record; the run is in the history."""
    code, out, err = veristate(*QUICK, "--seed", "3")
    assert code == 0
    assert err == ""
    assert re.search(r"^Device: cpu, .+ host .+; seed 3;", out)
    assert re.search(r"^fp8-e5m2 integers short  32 x 128 x 32 +24 +0 +0 of 24,576 +PASS$", out, re.MULTILINE)
    assert "Stored significand bits set and cleared: fp8-e5m2 2 of 2 in A, 3 of 3 in B" in out
    assert out.splitlines()[-1].startswith("PASS: 48 calls")
    assert not list(tmp_path.rglob("*.json"))
    code, out, _ = veristate("--show-history")
    assert code == 0
    assert re.search(r"PASS +0 of 48 calls failed, seed 3", out)


def test_a_fault_is_exit_3_and_told_element_by_element(veristate, tmp_path):
    """Which calls, which coordinates, expected and observed, the pattern; the record is beside the history."""
    with Kernels(add((3, 5), amount=0.25, when=long_call)):
        code, out, _ = veristate(*QUICK)
    assert code == 3
    assert "fp8-e5m2 integers signed long column-major, iteration 0: 8 of 8 calls wrong, 8 elements" in out
    wanted, seen = re.search(r"\[3, 5\]: expected (\S+), observed (\S+)", out).groups()
    assert float(seen) - int(wanted) == 0.25
    assert "Pattern: size-dependent (Case 1): 0 of 24 short calls and 24 of 24 long calls fail" in out
    assert re.search(r"^FAULT: ", out, re.MULTILINE)
    (record,) = (tmp_path / "state" / "veristate" / "probes" / "records").iterdir()
    assert out.splitlines()[-1] == f"Wrote {record}"
    assert json.loads(record.read_text())["verdict"] == "FAULT"


@pytest.mark.parametrize("nothing", [("--iterations", "0"), ("--seconds", "0")])
def test_nothing_ran_is_exit_6(veristate, nothing):
    """INCOMPLETE, in words: never an OK."""
    code, out, _ = veristate(*QUICK, *nothing)
    assert code == 6
    assert "INCOMPLETE: nothing ran." in out


def test_a_probe_without_memory_is_exit_6_and_named(veristate):
    """With the reason and the names of what did not run; a fault beside it is exit 3."""
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with Kernels(refuse(error, when=long_call)):
        code, out, _ = veristate(*QUICK)
        assert code == 6
        assert (
            "Did not run (OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB): fp8-e5m2 integers" in out
        )
        with Kernels(add((0, 0))):
            code, out, _ = veristate(*QUICK)
    assert code == 3
    assert "Did not run (OutOfMemoryError" in out


def test_json_is_one_object(veristate):
    """The record itself, and nothing else on stdout."""
    code, out, err = veristate(*QUICK, "--json", "--seed", "4", "--record", "r.json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["verdict"], found["seed"], found["replayed"]) == ("PASS", 4, [])
    written = json.loads(Path(found["record"]).read_text())
    assert {name: found[name] for name in written} == written


def test_a_replay_says_whether_it_fails_again(veristate):
    """The same elements with the fault: exit 3; without: exit 0; a record without failures has nothing to repeat: 6."""
    with Kernels(add((3, 5), when=long_call)):
        assert veristate(*QUICK, "--record", "r.json")[0] == 3
        code, out, _ = veristate("--replay", "r.json", "--record", "again.json")
    assert code == 3
    assert out.count("fails again in the same elements") == 4  # three probes and the sum
    assert "FAULT: of 3 failing probes 3 fails again in the same elements." in out
    code, out, _ = veristate("--replay", "r.json", "--json")
    assert code == 0
    assert {item["repetition"] for item in json.loads(out)["replayed"]} == {"passes now"}
    assert veristate(*QUICK, "--record", "healthy.json")[0] == 0
    code, out, _ = veristate("--replay", "healthy.json")
    assert code == 6
    assert "nothing to repeat" in out
    assert veristate("--show-history")[1].count("replay of") == 3


def test_a_broken_line_of_a_history_is_reported_not_fatal(veristate, tmp_path):
    """The runs around it are shown, and the line is named."""
    veristate(*QUICK, "--history", "h")
    (path,) = Path("h").glob("*.jsonl")
    with path.open("a") as file:
        file.write('{"format": "veris')
    veristate(*QUICK, "--history", "h")
    code, out, _ = veristate("--history", "h", "--show-history")
    assert code == 0
    assert out.count("PASS") == 2
    assert "line 2: not a whole line" in out
    found = json.loads(veristate("--history", "h", "--show-history", "--json")[1])
    assert (len(found["runs"]), len(found["broken"])) == (2, 1)


def test_no_history_is_said(veristate):
    """Not an error: no device has been probed yet."""
    code, out, _ = veristate("--show-history")
    assert code == 0
    assert out.startswith("No run of probes is recorded in ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--iterations", "1", "--seconds", "1"), 2, "--iterations and --seconds"),
        (("--iterations", "-1"), 2, "--iterations -1"),
        (("--format", "fp12"), 2, "--format fp12: known are fp32"),
        (("--seed", "-1"), 2, "--seed -1"),
        (("--device", "abacus"), 2, "abacus"),
        (("--device", "cuda:99"), 6, "cuda:99"),
        (("--history", "/proc/none"), 6, "--history /proc/none"),
        (("--replay", "none.json"), 2, "none.json"),
        (("--replay", "none.json", "--seed", "1"), 2, "leave out"),
    ],
)
def test_bad_input_names_the_option_and_runs_nothing(veristate, arguments, code, message):
    """One line on stderr, the exit code of its kind, nothing on stdout."""
    found, out, err = veristate(*arguments)
    assert found == code
    assert message in err
    assert out == ""


def test_a_history_that_can_not_be_written_hides_no_fault(veristate, tmp_path):
    """The folder is lost while the probes run: the fault is told and exit 3; without one the lost line is exit 6."""
    history = tmp_path / "h"

    def lose(_name, result):
        if history.is_dir():
            history.rmdir()
            history.write_text("a file now")
        result[0, 0] += 1

    with Kernels(lose):
        code, out, err = veristate(*QUICK, "--history", history)
    assert code == 3
    assert "FAULT: " in out
    assert "--history" in err or str(history) in err
    history.unlink()
    with Kernels(lambda name, result: lose(name, torch.zeros(1, 1))):
        code, out, err = veristate(*QUICK, "--history", history)
    assert code == 6
    assert "PASS: " in out
    assert str(history) in err
