"""Modes that see operations neither load torch's compiler nor are compiled by it."""

import subprocess
import sys
from typing import Any

import pytest
import torch

from veristate.devices.dispatching import DispatchMode, multiply_adds

SCRIPT = """
import sys, torch, veristate
from veristate.devices import measure_coverage
from types import SimpleNamespace
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
with veristate.checked(net) as checks:
    net(torch.ones(8, 4))
run = lambda member, batch: net(torch.ones(8, 4)).detach().numpy()
found = measure_coverage(SimpleNamespace(models=(net,), run=run))
print(checks.verdict().value, found.share, "torch._dynamo" in sys.modules)
"""


class Counting(DispatchMode):
    """Counts operations and multiply-adds."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = 0
        self.cost = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.seen += 1
        self.cost += multiply_adds(func, args, kwargs or {}, out)
        return out


def test_checking_and_measuring_do_not_load_the_compiler() -> None:
    """It costs more than a second of processor time, in every process that checks."""
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["PASS", "1.0", "False"]


@pytest.mark.filterwarnings("ignore")
def test_compiled_code_runs_uncompiled_under_a_mode() -> None:
    """The compiler, once loaded, takes neither the function nor the mode's own code."""
    taken: list[Any] = []

    def backend(graph: Any, _example: Any) -> Any:
        taken.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: torch.relu(x @ x) + 1, backend=backend)
    with Counting() as mode:
        assert compiled(torch.ones(3, 3)).tolist() == [[4.0] * 3] * 3
    assert (mode.seen, mode.cost, taken) == (4, 27, [])
