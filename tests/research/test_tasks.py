"""The task contract: what is refused, by name; and metrics that are never rounded."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.research import Objective, new_task, read_task
from veristate.research.tasks import metric_text


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('direction = "maximise"', 'direction = "up"', "objective.direction"),
        ("wall_s = 60\n", 'wall_s = "sixty"\n', "budget.wall_s"),
        ("wall_s = 60\n", "wall_s = -1\n", "budget.wall_s"),
        ("wall_s = 60\n", "wall_s = nan\n", "budget.wall_s"),
        ("wall_s = 60\n", "wall_s = true\n", "budget.wall_s"),
        ("queries = 1000", "querys = 1000", "budget.querys"),
        ("queries = 1000", "split_queries = true", "budget.split_queries"),
        ('files = ["x.txt"]', 'files = ["../x.txt"]', "artifact.files"),
        ('files = ["x.txt"]', 'files = ["/etc/passwd"]', "artifact.files"),
        ('files = ["x.txt"]', "files = []", "artifact.files"),
        ('target = "1000"', 'target = "nan"', "objective.target"),
        ('name = "quick"', 'name = "a/b"', "name"),
        ('format = "veristate.task/1"', 'format = "veristate.task/9"', "format"),
        ('metric = "height"', "", "objective.metric"),
        ("[segment]", "[segmant]", "segmant"),
        ("{reply}", '"', "task.toml can't be read"),
    ],
)
def test_a_wrong_task_is_refused_by_name(make_task, old, new, names):
    """What is wrong in task.toml is named with its file and key, and nothing is guessed."""
    with pytest.raises(InputError, match=r"task\.toml") as refused:
        read_task(make_task((old, new)))
    assert names in str(refused.value)


def test_a_campaign_without_any_limit_is_refused(make_task):
    """A budget without a single limit would never end."""
    with pytest.raises(InputError, match="would never end"):
        read_task(make_task(("wall_s = 60\n", ""), ("queries = 1000", "")))


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "nan", "Infinity", "", "1,5", "0x10", True, None, "1e999999"]
)
def test_no_metric(value):
    """NaN, infinities, booleans and what is no plain decimal number are no metrics."""
    with pytest.raises(InputError):
        metric_text(value)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=30),
    st.decimals(allow_nan=False, allow_infinity=False, places=30),
)
def test_metrics_compare_as_fractions(a, b):
    """Better is what the exact fractions say, in both directions, at any number of digits."""
    one, other = metric_text(a), metric_text(b)
    up, down = (Objective(metric="m", direction=d) for d in ("maximise", "minimise"))
    assert up.better(one, other) == (Fraction(a) > Fraction(b))
    assert down.better(one, other) == (Fraction(a) < Fraction(b))


def test_a_last_digit_decides():
    """Two metrics that are one double differ in their 25th digit, and are told apart."""
    low, high = "2.6359830849176076000000001", "2.6359830849176076000000002"
    assert float(low) == float(high)
    assert Objective(metric="m", direction="maximise").better(high, low)
    assert Decimal(metric_text(high)) - Decimal(low) == Decimal("1e-25")


def test_the_starter_can_be_read(tmp_path):
    """What `new` writes is a task, under the name of its folder; an existing folder is left alone."""
    folder = new_task(tmp_path / "hill-1")
    assert read_task(folder).name == "hill-1"
    with pytest.raises(InputError, match="exists"):
        new_task(folder)
