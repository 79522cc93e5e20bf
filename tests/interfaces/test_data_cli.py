"""`veristate data`: what is found is listed, what lacks is said, and neither is a failure."""

import json
import sys

import pytest

from veristate.audit.tasks import FILES, VARIABLE
from veristate.core import digest
from veristate.interfaces.cli import main


@pytest.fixture
def listed(monkeypatch, capsys):
    """A function that runs `veristate data`: (exit code, stdout, stderr)."""

    def run(folder, *arguments):
        monkeypatch.setenv(VARIABLE, folder and str(folder))
        monkeypatch.setattr(sys, "argv", ["veristate", "data", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


@pytest.fixture
def folder(tmp_path):
    """A data folder with a splice table of two rows that nobody published, and nothing else."""
    (file,) = FILES["splice"]
    path = tmp_path / file.name
    path.parent.mkdir()
    path.write_text("class,id,sequence\nEI,a,ACGT\nN,b,ACGT\n")
    return tmp_path


def test_without_a_folder(listed):
    """Packages' data is listed, the rest is said to lack with who has it; exit 0."""
    code, out, err = listed("")
    assert (code, err) == (0, "")
    assert "first_5K.smi: 4,999 rows" in out
    assert "scifact (incomplete)" in out
    assert f"{VARIABLE} names no folder to look in; it is in the SciFact release" in out
    assert "4 of 11 tasks can run; without data: scifact, herg, splice, pbmc, esol, gb1, superconductors" in out


def test_json_is_one_object(listed, folder):
    """Every file of every task is one entry, with rows, licence, place and the SHA-256 of what is stored."""
    code, out, _ = listed(folder, "--json")
    entries = json.loads(out)["files"]
    assert code == 0
    assert [entry["task"] for entry in entries] == [task for task, files in FILES.items() for _ in files]
    (splice,) = [entry for entry in entries if entry["task"] == "splice"]
    assert (splice["rows"], splice["place"], splice["known"]) == (2, str(folder), False)
    assert splice["sha256"] == digest((folder / FILES["splice"][0].name).read_bytes())
    known = [entry for entry in entries if entry["known"]]
    assert {entry["task"] for entry in known} >= {"nci", "activity", "wdbc", "digits"}
    assert all(entry["licence"] for entry in entries)
    assert all(bool(entry["missing"]) != bool(entry["sha256"]) for entry in entries)


def test_other_bytes_and_broken_files_are_said(listed, folder):
    """A file with other bytes than the tested ones is marked; one that can't be read is missing with its reason."""
    (folder / "bio" / "pbmc68k_reduced.npz").write_bytes(b"no npz")
    code, out, _ = listed(folder)
    assert code == 0
    assert "uci_splice.csv: 2 rows" in out
    assert "other bytes than the ones tests and figures were made with" in out
    assert "pbmc68k_reduced.npz is no npz with the arrays X" in out


def test_a_folder_that_is_none(listed, tmp_path):
    """A VERISTATE_DATA that is no folder is an error of the environment."""
    code, _, err = listed(tmp_path / "absent")
    assert code == 6
    assert "there is no such folder" in err
