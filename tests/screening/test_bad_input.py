"""What can't be used is named: the row, the column or the option; nothing is computed and nothing is written."""

import pytest

from veristate.core import EnvironmentUnusableError, InputError
from veristate.screening import ScreeningOptions
from veristate.screening.inputs.prepare import prepare
from veristate.screening.running.home import open_home

GOOD = "id,smiles\na,1 2 3\nb,4 5 6\nc,7 8 9\n"


def prepared(tmp_path, text, **options):
    """The small table as a file, read with the small predictor's spec."""
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    return prepare(ScreeningOptions(table=path, **({"predictor": ("tiny:make",)} | options)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'id'"),
        ("id,smiles\n", "holds no candidates"),
        ("id,SMI\na,b\n", "no column 'smiles'.*'SMI'.*--smiles-column"),
        ("id,smiles\na,x\na,y\nb,z\n", "1 identifiers appear more than once; 'a' in lines 2, 3"),
        ("id,smiles\na,x\n ,y\n", "no 'id' in line 3"),
        ("id,smiles\na,\xff\n", "not a UTF-8"),
        ('id,smiles\na,"x\n', "not a UTF-8 CSV table"),
    ],
)
def test_a_table_that_can_not_be_used_says_where(tmp_path, text, message):
    """The file, and the column or the lines."""
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "--top 0"),
        ({"top": 4}, "--top 4: choose between 1 and the 3 candidates"),
        ({"nearest": 9}, "--nearest 9"),
        ({"threshold": 1.5}, "--threshold 1.5"),
        ({"threshold": float("nan")}, "--threshold nan"),
        ({"batch": 0}, "--batch 0"),
        ({"temperature": 0.0}, "--calibration-temperature"),
        ({"temperature": float("nan")}, "--calibration-temperature"),
        ({"budget": -1}, "--budget"),
        ({"draws": 0}, "--draws"),
        ({"draws": 17}, "--draws"),
        ({"epsilon": -0.1}, "--epsilon"),
        ({"seed": 4}, "--seed belongs to --inject"),
        ({"predictor": ("nowhere.pt",)}, "--predictor nowhere.pt"),
        ({"predictor": ("herg",), "digests": ("x",)}, "--sha256"),
    ],
)
def test_an_option_that_does_not_fit_is_named(tmp_path, options, message):
    """Before a table is scored."""
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, GOOD, **options)


def test_a_missing_file_is_named(tmp_path):
    """With what the system said."""
    with pytest.raises(InputError, match=r"nothere.csv can't be read: No such file"):
        prepare(ScreeningOptions(table=tmp_path / "nothere.csv", predictor=("tiny:make",)))


def test_unreadable_smiles_are_left_out_and_listed_or_an_error(tmp_path):
    """By line and identifier; --strict refuses them, and a table of nothing else is an error."""
    text = "id,smiles\na,CCO\nb,C1CC\nc,\nd,c1ccccc1\n"
    found = prepared(tmp_path, text, predictor=("herg",))
    assert found.candidates.ids == ("a", "d")
    assert found.excluded == ("line 3 (b): SMILES 'C1CC' can't be read", "line 4 (c): no SMILES")
    with pytest.raises(InputError, match=r"line 3 \(b\).*--strict"):
        prepared(tmp_path, text, predictor=("herg",), strict=True)
    with pytest.raises(InputError, match="none of the 1 candidates"):
        prepared(tmp_path, "id,smiles\na,C1CC\n", predictor=("herg",))


def test_k_of_all_candidates_is_allowed_and_k_defaults_to_a_fifth(tmp_path):
    """K = n selects everybody; 20 % is rounded down, but selects at least one."""
    assert prepared(tmp_path, GOOD, top=3).rules[0].count == 3
    assert prepared(tmp_path, GOOD).rules[0].count == 1


def test_a_store_that_can_not_be_written_is_an_environment_error(tmp_path):
    """A file where the folder should be, or a store of a newer version."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnusableError, match="file"), open_home(tmp_path / "file" / "home", lambda: "now"):
        pass
    with open_home(tmp_path / "home", lambda: "now"):
        pass
    (tmp_path / "home" / "objects" / "format").write_text("veristate-store/99\n")
    with pytest.raises(EnvironmentUnusableError, match="veristate-store/99"), open_home(tmp_path / "home", lambda: "n"):
        pass
