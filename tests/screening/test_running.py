"""What a run is carried out with: recomputation in whole groups, score tables, memory, the folder that survives."""

import csv
import io
import subprocess
import sys

import numpy as np
import pytest

from veristate.core import InputError
from veristate.screening.running.recovery import GroupRecomputer
from veristate.screening.scoretable import ScoreTable


class Executor:
    """A trusted executor that counts what it is asked: the score of (member, batch) is constant in the group."""

    def __init__(self, batches, value=0.5):
        self.batches = batches
        self.value = value
        self.asked = []

    def recompute(self, groups, progress):
        """The scores of those groups."""
        self.asked.append(list(groups))
        return {(m, b): np.full(len(self.batches[b]), self.value, dtype=np.float32) for m, b in groups}


BATCHES = (range(4), range(4, 8), range(8, 9))
IDS = tuple("abcdefghi")


def mask(*units):
    """A mask [2, 9] of units."""
    found = np.zeros((2, 9), dtype=bool)
    for unit in units:
        found[unit] = True
    return found


def test_a_healthy_score_that_is_no_probability_names_the_candidate():
    """The short last batch holds candidate i alone."""
    recompute = GroupRecomputer(Executor(BATCHES, value=1.5), BATCHES, IDS)
    with pytest.raises(InputError, match=r"1 candidates .*: i"):
        recompute(mask((0, 8)))


def test_units_are_recomputed_in_whole_groups_and_each_group_once():
    """Asking for one unit computes its batch; asking again computes nothing."""
    executor = Executor(BATCHES)
    recompute = GroupRecomputer(executor, BATCHES, IDS)
    first = recompute(mask((0, 5), (1, 8)))
    assert executor.asked == [[(0, 1), (1, 2)]]
    assert np.array_equal(first.done, mask(*[(0, i) for i in range(4, 8)], (1, 8)))
    recompute(mask((0, 4)))
    assert executor.asked[1] == []
    everything = recompute.everything((2, 9))
    assert sorted(executor.asked[0] + executor.asked[2]) == [(m, b) for m in range(2) for b in range(3)]
    assert (everything == np.float32(0.5)).all()


def test_the_cost_of_asking_is_told_before_it_is_paid():
    """The budget is judged on what will be computed, not on what was asked."""
    recompute = GroupRecomputer(Executor(BATCHES), BATCHES, IDS)
    assert recompute.expand(mask((1, 0))).sum() == 4
    assert recompute.expand(mask((1, 8))).sum() == 1


def test_a_score_table_reads_back_bit_for_bit():
    """Every number of the file is exactly the one that was computed, whatever the identifiers hold."""
    rng = np.random.default_rng(0)
    members = rng.random((3, 4)).astype(np.float32)
    table = ScoreTable.of(("a,b", 'say "c"', "d\ne", "ü"), members, 1.3)
    rows = list(csv.DictReader(io.StringIO(table.to_csv().decode(), newline="")))
    assert [row["id"] for row in rows] == list(table.ids)
    assert [float(row["score"]) for row in rows] == table.scores.tolist()
    for member in range(3):
        assert [np.float32(row[f"member_{member}"]) for row in rows] == members[member].tolist()


MEMORY = """
import numpy as np
from veristate.screening.running.memory import peak_memory

with peak_memory() as peak:
    peak.sample()
    before = peak.mb
    block = np.ones(100_000_000, dtype=np.uint8)
    peak.sample()
    assert block.sum() == 100_000_000
print(before, peak.mb)
"""


def test_the_peak_of_memory_sees_what_was_allocated():
    """100 MB more are seen while they are held, in a process without children that come and go."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    before, peak = map(float, done.stdout.split())
    assert 80 < peak - before < 250
